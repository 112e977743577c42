/* SPDX-License-Identifier: GPL-2.0-only */
/* Terminals: who typed, who read it, who wrote, through the kernel's workers that carry it from one to the
 * other. */
#ifndef SPRY_TTY_BPF_H
#define SPRY_TTY_BPF_H

#include "edge.bpf.h"

/*
 * Whatever is put into a terminal, from a keyboard's interrupt or by the holder of a pseudo-terminal's other
 * end, waits in the buffer of the receiving end until a kernel worker carries it on. That worker's wake-ups
 * are the doing of whoever filled the buffer. So work items tell what waking alone hides, at no cost to
 * system calls.
 */

/* Drivers of the two ends of pseudo-terminals. */
#define PTY_MASTER_MAJOR 128
#define PTY_SLAVE_MAJOR	 136

/* Buffers of one terminal that are looked at; a line of a person is in the first. */
#define SPRY_TTY_BUFFERS 8

#define SPRY_SLOTS 256

/* Mapped by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPRY_TTYS_MAX);
	__type(key, u32);
	__type(value, struct spry_tty);
} ttys SEC(".maps");

/* Terminals that somebody types at who did not lately: the daemon need not wait for the second to end. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} news SEC(".maps");

#define SPRY_QUIET_NS 2000000000ull

/* Work that waits, and for whom it is done. Another's that falls on the same slot takes it over. */
static struct pending {
	u64 work;
	spry_ref by;
	u32 is_device;
} pending[SPRY_SLOTS];

/* What a kernel worker does at the moment. */
static struct errand {
	/* 0: nothing that matters. */
	u32 tid;
	/* Who filled the buffer. */
	spry_ref by;
	/* The terminal's place among `ttys`. */
	u32 place;
	u32 is_typed;
} errands[SPRY_SLOTS];

static __always_inline struct pending *pending_of(u64 work)
{
	return &pending[(work >> 6 ^ work >> 14) % SPRY_SLOTS];
}

static __always_inline struct errand *errand_of(u32 tid)
{
	struct errand *errand = &errands[tid % SPRY_SLOTS];

	return *(volatile u32 *)&errand->tid == tid ? errand : NULL;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(spry_queue_work, int cpu, void *queue, struct work_struct *work)
{
	struct task_struct *current;
	struct pending *entry;
	struct errand *errand;
	u32 is_device = 0;
	spry_ref by = 0;

	if ((u64)work->func != knobs.flush_to_ldisc)
		return 0;
	current = bpf_get_current_task_btf();
	if (!is_task_context(current)) {
		is_device = 1;
	} else if (current->flags & PF_KTHREAD) {
		/* An echo is its typist's. */
		errand = errand_of(current->pid);
		by = errand ? errand->by : 0;
	} else if (!(current->flags & PF_EXITING)) {
		by = find_ref(current->tgid);
		if (!by)
			by = new_node(current->tgid);
	}
	entry = pending_of((u64)work);
	entry->by = by;
	entry->is_device = is_device;
	entry->work = (u64)work;
	return 0;
}

/* Characters that wait in a terminal's buffers. */
static __always_inline u32 waiting_chars(struct tty_port *port)
{
	struct tty_buffer *buffer = BPF_CORE_READ(port, buf.head);
	u32 chars = 0;

	for (int i = 0; i < SPRY_TTY_BUFFERS && buffer; i++) {
		s32 more = BPF_CORE_READ(buffer, commit) - BPF_CORE_READ(buffer, read);

		if (more > 0)
			chars += more;
		buffer = BPF_CORE_READ(buffer, next);
	}
	return chars;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(spry_execute_start, struct work_struct *work)
{
	u32 device, place, chars, major, is_typed, tid, is_device = 0;
	struct tty_driver *driver;
	struct tty_struct *tty;
	struct errand *errand;
	struct pending *entry;
	struct spry_tty *seen;
	struct tty_port *port;
	spry_ref by = 0;
	u64 now;

	if ((u64)work->func != knobs.flush_to_ldisc)
		return 0;
	entry = pending_of((u64)work);
	if (entry->work == (u64)work) {
		by = entry->by;
		is_device = entry->is_device;
	}
	port = (void *)work - bpf_core_field_offset(struct tty_port, buf.work);
	tty = BPF_CORE_READ(port, itty);
	if (!tty)
		return 0;
	driver = BPF_CORE_READ(tty, driver);
	major = BPF_CORE_READ(driver, major);
	device = BPF_CORE_READ(driver, minor_start) + (u32)BPF_CORE_READ(tty, index);
	is_typed = 1;
	if (major == PTY_MASTER_MAJOR || major == PTY_SLAVE_MAJOR) {
		/* Both ends are one terminal. */
		is_typed = major == PTY_SLAVE_MAJOR;
		major = PTY_SLAVE_MAJOR;
		is_device = 0;
	}
	place = (device + major * 37) % SPRY_TTYS_MAX;
	device |= major << 20;
	seen = bpf_map_lookup_elem(&ttys, &place);
	if (!seen)
		return 0;
	if (seen->device != device) {
		__builtin_memset(seen, 0, sizeof(*seen));
		seen->device = device;
	}
	chars = waiting_chars(port);
	if (is_typed) {
		__sync_fetch_and_add(is_device ? &seen->keyed : &seen->typed, chars);
		if (by)
			seen->holder = by;
		now = bpf_ktime_get_ns();
		if (now - seen->typed_ns > SPRY_QUIET_NS)
			bpf_ringbuf_output(&news, &device, sizeof(device), BPF_RB_FORCE_WAKEUP);
		seen->typed_ns = now;
	} else if (by && by == seen->reader) {
		__sync_fetch_and_add(&seen->shown, chars);
	}
	tid = bpf_get_current_task_btf()->pid;
	errand = &errands[tid % SPRY_SLOTS];
	errand->by = by;
	errand->place = place;
	errand->is_typed = is_typed;
	*(volatile u32 *)&errand->tid = tid;
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(spry_execute_end, struct work_struct *work)
{
	struct errand *errand = errand_of(bpf_get_current_task_btf()->pid);

	if (errand)
		*(volatile u32 *)&errand->tid = 0;
	return 0;
}

/* A kernel worker wakes somebody: who reads what was typed, or who holds the terminal that was written to. */
static __noinline int carried(struct task_struct *waiter __arg_trusted, u32 worker)
{
	struct errand *errand = errand_of(worker);
	struct spry_tty *seen;
	spry_ref ref, by;
	u32 place;

	if (!errand)
		return 0;
	by = errand->by;
	place = errand->place;
	seen = bpf_map_lookup_elem(&ttys, &place);
	ref = find_ref(waiter->tgid);
	if (!ref)
		ref = new_node(waiter->tgid);
	if (!ref || !seen)
		return 0;
	if (!errand->is_typed) {
		if (by && by != ref && knobs.writers_count)
			count_edge(ref, by, 1);
		return 0;
	}
	seen->reader = ref;
	if (by && by != ref) {
		count_edge(ref, by, knobs.typed_weight);
		/* Who shows a terminal shows what its reader does. */
		count_edge(by, ref, knobs.typed_weight);
	}
	return 0;
}

#endif
