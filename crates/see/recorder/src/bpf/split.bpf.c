/* SPDX-License-Identifier: GPL-2.0-only */
/* Splits the latency of sampler threads: the events and the culprits between the time at which a thread was
 * due to run and the time at which it got the CPU. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "split.h"

const volatile struct spry_split_knobs knobs SEC(".rodata.knobs");

/* One CPU's notes. */
struct split_cpu {
	/* The entry of the latest interrupt, and of the latest schedule(), on this CPU, ns. */
	u64 irq_ns;
	u64 entry_ns;
	/* The seat of the thread that waits for this CPU, and the due time that the notes below belong to. */
	u64 seat;
	u64 due_ns;
	u64 begun_ns[SPRY_SPAN_KINDS];
	struct spry_span begun[SPRY_SPAN_KINDS];
	struct spry_span spans[SPRY_SPANS];
	struct spry_looked looked[SPRY_LOOKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct split_cpu);
} split_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPRY_SEATS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct spry_seat);
} seats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} late SEC(".maps");

/* The number of records that found no room in the ring `late`. */
u64 lost SEC(".data.lost");

static __always_inline struct split_cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&split_cpus, &zero);
}

static __always_inline struct spry_seat *seat_at(u32 number)
{
	return bpf_map_lookup_elem(&seats, &number);
}

/* The tid of a thread of the sampler's process in its own PID namespace, its innermost namespace. */
static __always_inline u32 own_tid(struct task_struct *task)
{
	struct pid *pid;
	u32 level;

	if (!knobs.in_namespace)
		return task->pid;
	pid = BPF_CORE_READ(task, thread_pid);
	level = BPF_CORE_READ(pid, level);
	return BPF_CORE_READ((struct upid *)((void *)pid + bpf_core_field_offset(struct pid, numbers) +
					     level * bpf_core_type_size(struct upid)),
			     nr);
}

/* The number that a CPU stores for the thread that waits for it: its seat's place plus 1; 0 is no
 * thread. */
static __always_inline u64 seat_number(struct task_struct *task)
{
	return (own_tid(task) & (SPRY_SEATS - 1)) + 1;
}

static __always_inline struct spry_seat *seat_of(struct task_struct *task)
{
	struct spry_seat *seat;
	u32 tid;

	if (task->tgid != knobs.tgid)
		return NULL;
	tid = own_tid(task);
	seat = seat_at(tid & (SPRY_SEATS - 1));
	return seat && seat->tid == tid ? seat : NULL;
}

/* The seat of the thread that waits for this CPU, if the thread is due. */
static __always_inline struct spry_seat *overdue(struct split_cpu *c, u64 now)
{
	struct spry_seat *seat;

	if (!c->seat)
		return NULL;
	seat = seat_at((c->seat - 1) & (SPRY_SEATS - 1));
	if (!seat || !seat->due_ns || now < seat->due_ns)
		return NULL;
	if (c->due_ns != seat->due_ns) {
		c->due_ns = seat->due_ns;
		__builtin_memset(c->spans, 0, sizeof(c->spans));
		for (int i = 0; i < SPRY_LOOKS; i++)
			c->looked[i].time_ns = 0;
	}
	return seat;
}

static __always_inline void look(void *ctx, struct spry_looked *looked, struct task_struct *task, u64 now)
{
	looked->time_ns = now;
	looked->tid = task->pid;
	looked->tgid = task->tgid;
	BPF_CORE_READ_INTO(&looked->comm, task, comm);
	looked->kernel_bytes = bpf_get_stack(ctx, looked->kernel, sizeof(looked->kernel), 0);
	looked->user_bytes = bpf_get_stack(ctx, looked->user, sizeof(looked->user), BPF_F_USER_STACK);
}

static __always_inline void interrupted(void *ctx)
{
	struct split_cpu *c = this_cpu();
	struct spry_seat *seat;
	u64 now;

	if (!c)
		return;
	now = bpf_ktime_get_ns();
	c->irq_ns = now;
	if (!knobs.threshold_ns)
		return;
	seat = overdue(c, now);
	if (!seat)
		return;
	if (!c->looked[SPRY_LOOK_DUE].time_ns)
		look(ctx, &c->looked[SPRY_LOOK_DUE], bpf_get_current_task_btf(), now);
	else if (now - seat->due_ns >= knobs.threshold_ns)
		look(ctx, &c->looked[SPRY_LOOK_LATE], bpf_get_current_task_btf(), now);
}

/* Notes the start of a span and its description: the kernel's object may be freed before the end. */
static __always_inline void span_begins(u32 kind, u32 id, u64 function)
{
	struct split_cpu *c = this_cpu();

	if (!c || !c->seat)
		return;
	c->begun[kind].kind = kind;
	c->begun[kind].id = id;
	c->begun[kind].function = function;
	c->begun_ns[kind] = bpf_ktime_get_ns();
}

static __always_inline void span_ends(u32 kind)
{
	struct split_cpu *c = this_cpu();
	struct spry_span *shortest;
	struct spry_seat *seat;
	u64 now, length_ns;

	if (!c || !c->begun_ns[kind])
		return;
	now = bpf_ktime_get_ns();
	seat = overdue(c, now);
	length_ns = now - c->begun_ns[kind];
	c->begun_ns[kind] = 0;
	if (!seat)
		return;
	if (length_ns > now - seat->due_ns)
		length_ns = now - seat->due_ns;
	shortest = &c->spans[0];
	for (int i = 1; i < SPRY_SPANS; i++) {
		if (c->spans[i].length_ns < shortest->length_ns)
			shortest = &c->spans[i];
	}
	if (length_ns <= shortest->length_ns)
		return;
	*shortest = c->begun[kind];
	shortest->length_ns = length_ns;
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(split_local_timer_entry)
{
	interrupted(ctx);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(split_irq_handler_entry, int irq)
{
	interrupted(ctx);
	if (knobs.threshold_ns)
		span_begins(SPRY_SPAN_IRQ, irq, 0);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(split_irq_handler_exit)
{
	span_ends(SPRY_SPAN_IRQ);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(split_softirq_entry, unsigned int number)
{
	span_begins(SPRY_SPAN_SOFTIRQ, number, 0);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(split_softirq_exit)
{
	span_ends(SPRY_SPAN_SOFTIRQ);
	return 0;
}

/* Timers that expire in hard interrupts may interrupt timers that expire in softirqs: each has its own
 * kind. */
static __always_inline u32 kind_of(struct hrtimer *timer)
{
	return timer->is_soft ? SPRY_SPAN_SOFT_HRTIMER : SPRY_SPAN_HRTIMER;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(split_hrtimer_expire_entry, struct hrtimer *timer)
{
	span_begins(kind_of(timer), 0, (u64)timer->function);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(split_hrtimer_expire_exit, struct hrtimer *timer)
{
	span_ends(kind_of(timer));
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(split_timer_expire_entry, struct timer_list *timer)
{
	span_begins(SPRY_SPAN_TIMER, 0, (u64)timer->function);
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(split_timer_expire_exit)
{
	span_ends(SPRY_SPAN_TIMER);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(split_sched_wakeup, struct task_struct *task)
{
	struct spry_seat *seat = seat_of(task);
	struct split_cpu *c = this_cpu();

	if (!seat || !c)
		return 0;
	seat->irq_ns = c->irq_ns;
	seat->resched_ns = bpf_ktime_get_ns();
	seat->schedule_ns = 0;
	return 0;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(split_sched_entry_tp)
{
	struct split_cpu *c = this_cpu();

	if (c)
		c->entry_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void tell(void *ctx, struct split_cpu *c, struct spry_seat *seat,
				 struct task_struct *prev, u64 now)
{
	struct spry_late *record = bpf_ringbuf_reserve(&late, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	look(ctx, &c->looked[SPRY_LOOK_SWITCH], prev, now);
	record->seat = *seat;
	record->cpu = bpf_get_smp_processor_id();
	record->pad = 0;
	__builtin_memcpy(record->spans, c->spans, sizeof(c->spans));
	bpf_probe_read_kernel(record->looked, sizeof(record->looked), c->looked);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(split_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct spry_seat *seat = seat_of(next);
	struct split_cpu *c;

	if (!seat && prev->tgid != knobs.tgid)
		return 0;
	c = this_cpu();
	if (!c)
		return 0;
	if (seat) {
		u64 now = bpf_ktime_get_ns();

		seat->schedule_ns = knobs.has_entry ? c->entry_ns : now;
		seat->switch_ns = now;
		if (knobs.threshold_ns && c->seat == seat_number(next) && overdue(c, now) &&
		    now - seat->due_ns >= knobs.threshold_ns)
			tell(ctx, c, seat, prev, now);
		c->seat = 0;
	}
	if (seat_of(prev))
		c->seat = seat_number(prev);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
