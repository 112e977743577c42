/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reservations (Goel et al. 2002, 3.3.1): a thread, or all threads of a process together, have a budget of
 * CPU time in each period.
 *
 * State: budget, period, CPU and counts (struct spry_reservation). All times are times of the monotonic
 * clock.
 *
 * Rule: periods follow each other on a fixed grid. The tasks' run time beyond the budget is subtracted from
 * the next budgets. Budget that runnable tasks could not use is added to the next budget. Budget that was not
 * used because the tasks slept is lost.
 *
 * Bound: debts last for at most 2 s. At most one budget is carried to the next period.
 *
 * Charging: a task is charged from the switch to it until the switch from it. Interrupts meanwhile are not
 * charged, up to a quarter of the budget in each period.
 */
#ifndef SPRY_RESERVE_BPF_H
#define SPRY_RESERVE_BPF_H

#include "timer.bpf.h"

/* The reservations, by slot. The daemon maps them with all of .bss. */
struct spry_reservation reservations[SPRY_RESERVATIONS_MAX];

/*
 * Costs of this machine that the daemon measures, ns. From the switch to a task until its first instruction:
 * if another program ran before (switch_ns), and if none did (switch_back_ns). From a task's last
 * instruction until an interrupt is seen (stop_ns). From the end of an interrupt until the task's next
 * instruction (return_ns).
 */
volatile u64 switch_ns;
volatile u64 switch_back_ns;
volatile u64 stop_ns;
volatile u64 return_ns;

/* The time between two of the kernel's ticks, ns; 0 until the daemon has measured. Ticks fall on its
 * multiples on the monotonic clock (since 13bb06f8dd42 in 6.4). */
volatile u64 kernel_tick_ns;

/* The thread of the daemon that measures these costs. Then the times at which a CPU was last switched to it,
 * and at which an interrupt last began and ended while it ran. */
volatile u32 measures_tid;
volatile u64 measured_switch_ns;
volatile u64 measured_stop_ns;
volatile u64 measured_return_ns;

/* Counted up when a reservation is opened, changed or closed. A thread with another value looks up its
 * reservation again. */
volatile u32 reserve_round;

/* The key of a reservation: the number of a thread, or of a process. */
struct reserved_task {
	u32 number;
	u32 is_group;
};

/* The slot of a reservation, and the start of its thread or process, ns. Another thread or process may get
 * the same number later. */
struct reserved_by {
	u64 began_ns;
	u64 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SPRY_RESERVATIONS_MAX);
	__type(key, struct reserved_task);
	__type(value, struct reserved_by);
} reserved_tasks SEC(".maps");

static __always_inline struct spry_reservation *reservation_at(u32 slot)
{
	return &reservations[slot & (SPRY_RESERVATIONS_MAX - 1)];
}

/* The slot of a task's reservation, plus 1; 0 if it has none. A reservation of the thread goes before a
 * reservation of its process. */
static __always_inline u32 find_reservation(struct task_struct *p)
{
	struct reserved_task thread = {.number = p->pid}, process = {.number = p->tgid, .is_group = 1};
	struct reserved_by *by = bpf_map_lookup_elem(&reserved_tasks, &thread);

	if (by && by->began_ns == p->start_boottime)
		return by->slot + 1;
	by = bpf_map_lookup_elem(&reserved_tasks, &process);
	if (by && by->began_ns == p->group_leader->start_boottime)
		return by->slot + 1;
	return 0;
}

/* Whether a task may run now on the CPU of a reservation. */
static __always_inline bool may_run_there(struct task_struct *p, const struct spry_reservation *r)
{
	if (nr_cpus == 1)
		return true;
	if (cpu_at(r->cpu)->is_offline || !bpf_cpumask_test_cpu(r->cpu, p->cpus_ptr))
		return false;
	return !is_migration_disabled(p) || scx_bpf_task_cpu(p) == (s32)r->cpu;
}

/* The reservation of a task; NULL if it has none, or cannot run on the reservation's CPU now. */
static __always_inline struct spry_reservation *reservation_of(struct task_struct *p, struct thread_ctx *t)
{
	struct spry_reservation *r;

	if (!reserved_all)
		return NULL;
	if (t->reserve_round != reserve_round) {
		u32 found = find_reservation(p);

		t->reserve_round = reserve_round;
		if (t->reserved != found)
			t->ran_before_ns = 0;
		t->reserved = found;
	}
	if (!t->reserved)
		return NULL;
	r = reservation_at(t->reserved - 1);
	if (!r->period_ns)
		return NULL;
	if (!may_run_there(p, r)) {
		r->misplaced++;
		return NULL;
	}
	return r;
}

/* The reservation of a task, for callers without the thread's context; NULL if it has none, or cannot run on
 * the reservation's CPU now. */
static __always_inline struct spry_reservation *reservation_of_task(struct task_struct *p)
{
	struct thread_ctx *t = find_thread(p);

	return t ? reservation_of(p, t) : NULL;
}

/* The place in which tasks with reservations on a CPU wait. Only this CPU looks there. */
static __always_inline u32 reserved_place(u32 cpu)
{
	return nr_cpus == 1 ? 0 : place_of_cpu(cpu);
}

/* Whether a reservation's budget is used up. A rest of 500 ns or less (budget_tail_ns) counts as spent, since
 * the switch to the task would take as long. */
static __always_inline bool is_exhausted(const struct spry_reservation *r)
{
	return r->left_ns <= (s64)budget_tail_ns;
}

/* Updates a reservation's counts for the period that is over. A period in which its task slept does not count
 * as a lack of run time. */
static __always_inline void period_is_over(struct spry_reservation *r)
{
	s64 short_ns = r->budget_ns - r->ran_ns;

	r->periods++;
	if (r->slept)
		return;
	r->asked_ns += r->budget_ns;
	r->got_ns += r->ran_ns;
	if (short_ns > (s64)r->short_most_ns)
		r->short_most_ns = short_ns;
}

/* The time by which the timer must fire before a period's begin, ns, so that the task's first instruction
 * comes in time. */
static __always_inline u64 lead_ns(const struct cpu_ctx *c)
{
	return c->timer_way_ns + c->switch_way_ns + switch_ns;
}

/* Updates a moving average of a latency, ns: a new value counts for an eighth. Values above 50 us are left
 * out, since they do not predict the next value. */
static __always_inline void way_took(u64 *way_ns, u64 took_ns)
{
	if (took_ns < 50000)
		*way_ns = *way_ns ? *way_ns - (*way_ns >> 3) + (took_ns >> 3) : took_ns;
}

/* The time from the kernel's last tick until `at_ns`, ns. */
static __always_inline u64 since_tick_ns(u64 at_ns)
{
	u64 tick_ns = kernel_tick_ns;

	return tick_ns ? at_ns % tick_ns : ~0ull >> 1;
}

/* The time by which a CPU must decide earlier for a period that begins at `begins_ns`, if it decides at `now`
 * or later. A tick that comes between the decision and the switch interrupts the chosen task before its first
 * instruction. If the tick may also come just after that instruction, the lead is so long that it does. */
static __always_inline u64 tick_lead_ns(const struct cpu_ctx *c, u64 begins_ns, u64 now)
{
	u64 since_ns = since_tick_ns(begins_ns), way_ns = at_most(c->tick_way_ns, c->timer_way_ns);

	if ((s64)(begins_ns - since_ns - now) < 0)
		return 0;
	if (since_ns >= way_ns)
		return way_ns;
	return since_ns < way_ns / 2 ? since_ns + switch_ns / 4 : since_ns;
}

/* The longest time for which a debt keeps a reservation's task waiting, ns. The kernel may hold a task on the
 * CPU for long. Without a bound, the task would wait until the kernel's watchdog ends the scheduler. */
#define DEBT_LASTS_NS (2000 * MS)

/* The largest debt of a reservation, ns: its budgets of DEBT_LASTS_NS. */
static __always_inline u64 debt_most_ns(const struct spry_reservation *r)
{
	return r->budget_ns * (DEBT_LASTS_NS / r->period_ns);
}

/* Begins a reservation's next period if the current one is over. It also counts as over if it will end before
 * a task that is chosen now runs. */
__noinline int reservation_goes_on(u32 slot, u64 now)
{
	struct spry_reservation *r = reservation_at(slot);
	s64 since_ns = now + lead_ns(cpu_at(r->cpu)) - r->begun_ns, left_ns = r->left_ns;
	u64 over;

	if (since_ns < (s64)r->period_ns || !r->period_ns)
		return 0;
	over = (u64)since_ns / r->period_ns;
	period_is_over(r);
	/* If more than one period has passed, no task of the reservation wanted the CPU meanwhile: the rest
	 * of the budget is lost. */
	if (left_ns > 0 && (r->slept || over > 1))
		left_ns = 0;
	if (left_ns > (s64)r->budget_ns)
		left_ns = r->budget_ns;
	left_ns += left_ns < 0 ? over * r->budget_ns : r->budget_ns;
	if (left_ns < 0 && left_ns < -(s64)debt_most_ns(r))
		left_ns = -(s64)debt_most_ns(r);
	if (over > 1 && left_ns > (s64)r->budget_ns)
		left_ns = r->budget_ns;
	if (left_ns > (s64)r->period_ns)
		left_ns = r->period_ns;
	/* A task that wants the CPU has waited for this period if it had spent the last budget. */
	r->awaited = !r->slept && r->left_ns <= (s64)budget_tail_ns;
	r->left_ns = left_ns;
	r->begun_ns += over * r->period_ns;
	r->slept = 0;
	r->ran_ns = 0;
	r->served_ns = 0;
	r->forgiven_ns = 0;
	return 0;
}

static __always_inline u64 next_period_ns(const struct spry_reservation *r)
{
	return r->begun_ns + r->period_ns;
}

/* Charges the reservation of the task that runs on a CPU, for the time until `now`. If the timer fired
 * before, only the time until then counts: the kernel's work afterwards is not the task's. The kernel's own
 * count of a task's run time is not used, since it grows only with the run queue's clock. */
static __always_inline void reserved_charge(struct cpu_ctx *c, u64 now)
{
	struct spry_reservation *r;
	u64 stopped_ns = c->stopped_ns;
	s64 ran_ns = now - c->reserved_until_ns;
	bool was_left;

	if (!c->reserved_runs)
		return;
	r = reservation_at(c->reserved_runs - 1);
	if (stopped_ns && (s64)(now - stopped_ns) > 0)
		ran_ns = stopped_ns - c->reserved_until_ns;
	c->stopped_ns = 0;
	c->reserved_until_ns = now;
	if (ran_ns <= 0)
		return;
	was_left = !is_exhausted(r);
	__sync_fetch_and_sub(&r->left_ns, ran_ns);
	__sync_fetch_and_add(&r->ran_ns, ran_ns);
	if (was_left && is_exhausted(r))
		r->exhausted++;
}

/* Charges the ended period for the run time of a running task before that period's end. Otherwise the next
 * period would pay for it, when the CPU switches from the task. */
static __always_inline void charge_old_period(struct cpu_ctx *c, const struct thread_ctx *t,
					      const struct spry_reservation *r, u64 now)
{
	u64 ended_ns = next_period_ns(r);

	if (c->reserved_runs == t->reserved && (s64)(now - ended_ns) > 0 &&
	    (s64)(ended_ns - c->reserved_until_ns) > 0)
		reserved_charge(c, ended_ns);
}

/* At each switch of a CPU, while there are reservations: ends the charging of the previous task, and begins
 * the charging of the next task. The rest of the switch is not charged. */
SEC("tp_btf/sched_switch")
int BPF_PROG(spry_switches, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct cpu_ctx *c = cpu_at(nr_cpus > 1 ? bpf_get_smp_processor_id() : 0);
	struct thread_ctx *t;
	bool is_back;
	u64 now;

	if (!c->reserved_runs && !c->reserved_count)
		return 0;
	now = bpf_ktime_get_ns();
	reserved_charge(c, now);
	c->reserved_runs = 0;
	c->stolen_depth = 0;
	/* Kernel threads do not replace a program's state in the CPU, so the switch back to that
	 * program is short. */
	if (next->flags & (PF_IDLE | PF_KTHREAD))
		return 0;
	is_back = c->ran_last == (u32)next->pid;
	c->ran_last = next->pid;
	if (next->prio < MAX_RT_PRIO || key_class(next->scx.dsq_vtime) != SPRY_CLASS_RESERVED)
		return 0;
	t = find_thread(next);
	if (!t || !reservation_of(next, t))
		return 0;
	c->reserved_runs = t->reserved;
	c->reserved_until_ns = now + (is_back ? switch_back_ns : switch_ns);
	if ((u32)next->pid == measures_tid)
		measured_switch_ns = now;
	if (c->decided_ns)
		way_took(&c->switch_way_ns, now - c->decided_ns);
	c->decided_ns = 0;
	return 0;
}

/* If the kernel does deferred work (softirqs) within this time after an interrupt, ns, the work counts as
 * the interrupt's. Later work counts as the task's: a program can make the kernel send and receive without
 * end. */
#define SOON_NS 5000

/* A timer's interrupt within this time after a tick is due, ns, counts as the tick. */
#define TICK_COMES_NS 2000

/* Whether this CPU runs the daemon's thread that measures costs. */
static __always_inline bool is_measuring(void)
{
	return measures_tid && (u32)bpf_get_current_pid_tgid() == measures_tid;
}

/* The kind of interruption: by the timer, by another interrupt, or by work deferred by an interrupt. */
enum steals { STEALS_TIMER, STEALS_INTERRUPT, STEALS_AFTER };

/* An interrupt begins on this CPU: if a task with a reservation runs, its charging stops. */
static __always_inline int steals(enum steals which)
{
	struct cpu_ctx *c = cpu_at(nr_cpus > 1 ? bpf_get_smp_processor_id() : 0);
	u64 now;

	if (!c->reserved_runs)
		return 0;
	if (c->stolen_depth) {
		c->stolen_depth++;
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (which == STEALS_AFTER && now - c->stolen_until_ns > SOON_NS)
		return 0;
	c->stolen_depth = 1;
	c->stolen_since_ns = now;
	reserved_charge(c, now - stop_ns);
	c->ticked_ns = which == STEALS_TIMER && since_tick_ns(now) < TICK_COMES_NS ? now : 0;
	if (which == STEALS_TIMER && is_measuring())
		measured_stop_ns = now;
	return 0;
}

/* The part of its budget that interrupts may take in each period without being charged. It is bounded because
 * programs can have timers without end. */
#define FORGIVEN(budget_ns) ((budget_ns) / 4)

/* An interrupt ends on this CPU: the charging of the interrupted task goes on. */
static __always_inline int gives_back(void)
{
	struct cpu_ctx *c = cpu_at(nr_cpus > 1 ? bpf_get_smp_processor_id() : 0);
	struct spry_reservation *r;
	u64 now, took_ns;

	if (!c->reserved_runs || !c->stolen_depth || --c->stolen_depth)
		return 0;
	r = reservation_at(c->reserved_runs - 1);
	now = bpf_ktime_get_ns();
	took_ns = now - c->stolen_since_ns;
	if (c->ticked_ns)
		way_took(&c->tick_way_ns, took_ns + stop_ns + return_ns);
	r->stolen_ns += took_ns;
	r->forgiven_ns += took_ns;
	if (r->forgiven_ns > FORGIVEN(r->budget_ns))
		__sync_fetch_and_sub(&r->left_ns, took_ns);
	c->reserved_until_ns = now + return_ns;
	c->stolen_until_ns = now;
	if (is_measuring())
		measured_return_ns = now;
	return 0;
}

/* Programs at the begin and the end of interrupts, attached while there are reservations: the timer's,
 * devices', other CPUs', and work deferred by them. */
#define STEALS(event, which)                                                                                 \
	SEC("tp_btf/" #event "_entry")                                                                       \
	int spry_##event##_steals(void *ctx)                                                                 \
	{                                                                                                    \
		return steals(which);                                                                        \
	}                                                                                                    \
	SEC("tp_btf/" #event "_exit")                                                                        \
	int spry_##event##_ends(void *ctx)                                                                   \
	{                                                                                                    \
		return gives_back();                                                                         \
	}
STEALS(local_timer, STEALS_TIMER)
STEALS(irq_handler, STEALS_INTERRUPT)
STEALS(softirq, STEALS_AFTER)
STEALS(irq_work, STEALS_INTERRUPT)
STEALS(reschedule, STEALS_INTERRUPT)
#undef STEALS

/* Makes this CPU decide at `at_ns` of the monotonic clock, unless its timer is set for an earlier time. */
static __always_inline void timer_set_too(s32 cpu, u64 mono_ns, u64 at_ns)
{
	struct cpu_ctx *c = cpu_at(cpu);
	u64 now = scx_bpf_now();

	at_ns += now - mono_ns;
	if (!c->timer_ns || (s64)(at_ns - c->timer_ns) < 0)
		timer_set(cpu, c, now, at_ns);
}

/* Opens, changes or closes a reservation for the daemon. `task` is the thread for which it is opened. */
static __always_inline int reserve(struct spry_reserve *request, struct task_struct *task)
{
	struct spry_reservation *r = reservation_at(request->slot);
	struct reserved_task key = {.number = request->tid, .is_group = request->is_group};
	struct reserved_by by = {.slot = request->slot};
	struct cpu_ctx *c = cpu_at(request->cpu);
	s64 more_ns;
	int error;

	switch (request->what) {
	case SPRY_RESERVE_OPENS:
		if (r->period_ns || c->reserved_count >= SPRY_RESERVED_OF_CPU)
			return -EBUSY;
		if (!task)
			return -ESRCH;
		by.began_ns = task->start_boottime;
		error = bpf_map_update_elem(&reserved_tasks, &key, &by, BPF_NOEXIST);
		if (error)
			return error;
		__builtin_memset(r, 0, sizeof(*r));
		r->cpu = request->cpu;
		r->begun_ns = bpf_ktime_get_ns();
		/* The first budget comes after one period, so closing and opening again gains nothing. */
		r->budget_ns = request->budget_ns;
		/* The first period has no budget, so it is counted as one in which the task slept. */
		r->slept = 1;
		__sync_fetch_and_add(&c->reserved_count, 1);
		__sync_fetch_and_add(&reserved_all, 1);
		reserved_ever = 1;
		break;
	case SPRY_RESERVE_CHANGES:
		if (!r->period_ns)
			return -ENOENT;
		break;
	case SPRY_RESERVE_CLOSES:
		if (!r->period_ns)
			return -ENOENT;
		bpf_map_delete_elem(&reserved_tasks, &key);
		__sync_fetch_and_sub(&cpu_at(r->cpu)->reserved_count, 1);
		__sync_fetch_and_sub(&reserved_all, 1);
		request->budget_ns = request->period_ns = 0;
		break;
	default:
		return -EINVAL;
	}
	r->on_exhaustion = request->on_exhaustion;
	/* A change does not refill the budget: only the difference is added to the rest, or
	 * subtracted from it. */
	more_ns = request->budget_ns - r->budget_ns;
	if (more_ns < 0 && r->left_ns + more_ns < 0)
		more_ns = r->left_ns > 0 ? -r->left_ns : 0;
	__sync_fetch_and_add(&r->left_ns, more_ns);
	r->budget_ns = request->budget_ns;
	r->period_ns = request->period_ns;
	/* A task that already waits in a lower class is moved up when the first budget comes, as
	 * demoted tasks are. */
	if (request->what == SPRY_RESERVE_OPENS)
		c->demoted_until_ns = r->begun_ns;
	__sync_fetch_and_add(&reserve_round, 1);
	/* CPUs must forget the order that they remember for the task. */
	__sync_fetch_and_add(&verdict_round, 1);
	scx_bpf_kick_cpu(r->cpu, SCX_KICK_PREEMPT);
	return 0;
}

SEC("syscall")
int spry_reserve(struct spry_reserve *request)
{
	struct task_struct *task = NULL;

	request->error = -EINVAL;
	if (request->slot >= SPRY_RESERVATIONS_MAX || request->cpu >= SPRY_CPUS_MAX)
		return 0;
	if (request->what == SPRY_RESERVE_OPENS)
		task = bpf_task_from_pid(request->tid);
	request->error = reserve(request, task);
	if (task)
		bpf_task_release(task);
	return 0;
}

#endif
