/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Terminals: the processes that type into a terminal, read from it and write to it.
 *
 * Characters are put into a terminal by a keyboard's interrupt, or by the process that holds the other end of
 * a pseudo-terminal. They wait in the buffer of the receiving end until a kernel worker carries them on. So a
 * worker makes the wake-ups, not the process that filled the buffer. The kernel's work items identify that
 * process, at no cost to system calls.
 */
#ifndef SPRY_TTY_BPF_H
#define SPRY_TTY_BPF_H

#include "edge.bpf.h"

/* The number of a terminal's buffers that are counted; a line that a person typed is in the first. */
#define SPRY_TTY_BUFFERS 8

/* Places for the work items of pseudo-terminals that are not below /dev/pts. */
#define SPRY_OTHER_PTYS 512

/* The most workers that are recorded at once while they carry characters. */
#define SPRY_ERRANDS_MAX 4096

/* The terminals, by place. The daemon maps them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPRY_TTYS_MAX);
	__type(key, u32);
	__type(value, struct spry_tty);
} ttys SEC(".maps");

/* Messages to the daemon: device numbers of terminals into which characters are typed after a pause
 * (SPRY_QUIET_NS). So the daemon need not wait for the end of its second. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} news SEC(".maps");

#define SPRY_QUIET_NS 2000000000ull

/* Work items that wait for a worker, each with the process that caused it. Each end of each terminal has
 * its own place, so one user's work cannot replace another's. Pseudo-terminals of other file systems
 * share the last places. */
static struct pending {
	u64 work;
	spry_ref by;
	u32 is_device;
} pending[2 * SPRY_TTYS_MAX + SPRY_OTHER_PTYS];

/* The characters that a kernel worker carries at the moment: their source and their destination. */
struct errand {
	/* The process that put the characters into the buffer. */
	spry_ref by;
	/* The terminal's place among `ttys`; SPRY_TTYS_MAX for none. */
	u32 place;
	/* The group of processes that may read the terminal; 0: all may. */
	u64 foreground;
	u64 is_typed;
};

/* The characters that workers carry at the moment, by the worker's number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SPRY_ERRANDS_MAX);
	__type(key, u32);
	__type(value, struct errand);
} errands SEC(".maps");

static __always_inline struct errand *errand_of(u32 tid)
{
	return bpf_map_lookup_elem(&errands, &tid);
}

/* One end of a terminal, to which a buffer belongs. */
struct end {
	/* The terminal's place among `ttys`; SPRY_TTYS_MAX for none. */
	u32 place;
	/* The device number: the major number in bits 20-31, the minor number below. Both ends of a
	 * pseudo-terminal have the same number here. */
	u32 device;
	u32 is_pty;
	/* Whether the buffer's characters were typed. */
	u32 is_typed;
};

/* The place of a terminal, by its device number. Users can make pseudo-terminals, so each of these has a
 * place that no other terminal can have. */
static __always_inline u32 place_of(u32 major, u32 minor)
{
	if (major == PTY_SLAVE_MAJOR)
		return minor % SPRY_PTYS_MAX;
	return SPRY_PTYS_MAX + (minor + major * 37) % (SPRY_TTYS_MAX - SPRY_PTYS_MAX);
}

/* Whether a pseudo-terminal is below /dev/pts. Any user can mount another file system of pseudo-terminals in
 * a namespace, with the same numbers. Characters in these do not count as a person's. */
static __always_inline bool is_below_dev_pts(struct tty_struct *tty)
{
	struct dentry *dentry = (void *)BPF_CORE_READ(tty, driver_data);

	return BPF_CORE_READ(dentry, d_sb, s_dev) == knobs.pts_device;
}

/* The end of a terminal that the kernel's structure `tty` stands for. */
static __always_inline struct end end_of(struct tty_struct *tty)
{
	struct tty_driver *driver = BPF_CORE_READ(tty, driver);
	u32 major = BPF_CORE_READ(driver, major);
	u32 minor = BPF_CORE_READ(driver, minor_start) + (u32)BPF_CORE_READ(tty, index);
	struct end end = {.is_typed = major != PTY_MASTER_MAJOR};

	end.is_pty = major == PTY_MASTER_MAJOR || major == PTY_SLAVE_MAJOR;
	if (end.is_pty)
		major = PTY_SLAVE_MAJOR;
	end.place = end.is_pty && !is_below_dev_pts(tty) ? SPRY_TTYS_MAX : place_of(major, minor);
	end.device = minor | major << 20;
	return end;
}

/* The terminal for which a work item carries characters; NULL if it is closed, and for all other work. */
static __always_inline struct tty_struct *tty_of(struct work_struct *work)
{
	struct tty_port *port;

	if ((u64)work->func != knobs.flush_to_ldisc)
		return NULL;
	port = (void *)work - bpf_core_field_offset(struct tty_port, buf.work);
	return BPF_CORE_READ(port, itty);
}

/* The place in which a terminal's work item waits. */
static __always_inline struct pending *pending_of(const struct end *end, u64 work)
{
	u32 place = end->place * 2 + end->is_typed;

	if (end->place >= SPRY_TTYS_MAX)
		place = 2 * SPRY_TTYS_MAX + (work >> 6 ^ work >> 14) % SPRY_OTHER_PTYS;
	return &pending[place % (2 * SPRY_TTYS_MAX + SPRY_OTHER_PTYS)];
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(spry_queue_work, int cpu, void *queue, struct work_struct *work)
{
	struct tty_struct *tty = tty_of(work);
	struct task_struct *current;
	struct pending *entry;
	struct errand *errand;
	u32 is_device = 0;
	spry_ref by = 0;
	struct end end;

	if (!tty)
		return 0;
	current = bpf_get_current_task_btf();
	if (!is_task_context(current)) {
		is_device = 1;
	} else if (current->flags & PF_KTHREAD) {
		/* A worker that carries characters causes an echo: it comes from the process that typed
		 * them. */
		errand = errand_of(current->pid);
		by = errand ? errand->by : 0;
	} else if (!(current->flags & PF_EXITING)) {
		by = ref_of(current);
	}
	end = end_of(tty);
	entry = pending_of(&end, (u64)work);
	entry->by = by;
	entry->is_device = is_device;
	entry->work = (u64)work;
	return 0;
}

/* The number of characters that wait in the first buffers of a terminal. */
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

/* Counts the characters that a worker is about to carry on in a terminal. `by` is the process
 * from which they come. */
static __always_inline void count_chars(const struct end *end, struct tty_struct *tty, spry_ref by,
					u32 is_device)
{
	u32 chars, place = end->place, device = end->device;
	struct spry_tty *seen;
	u64 now;

	seen = bpf_map_lookup_elem(&ttys, &place);
	if (!seen)
		return;
	if (seen->device != device) {
		__builtin_memset(seen, 0, sizeof(*seen));
		seen->device = device;
	}
	chars = waiting_chars(BPF_CORE_READ(tty, port));
	if (end->is_typed) {
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
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(spry_execute_start, struct work_struct *work)
{
	u32 tid, is_device = 0;
	struct errand errand = {};
	struct tty_struct *tty = tty_of(work);
	struct pending *entry;
	spry_ref by = 0;
	struct end end;

	if (!tty)
		return 0;
	end = end_of(tty);
	entry = pending_of(&end, (u64)work);
	if (entry->work == (u64)work) {
		by = entry->by;
		is_device = !end.is_pty && entry->is_device;
	}
	count_chars(&end, tty, by, is_device);
	tid = bpf_get_current_task_btf()->pid;
	errand.by = by;
	errand.place = end.place;
	errand.foreground = foreground_of(tty);
	errand.is_typed = end.is_typed;
	bpf_map_update_elem(&errands, &tid, &errand, BPF_ANY);
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(spry_execute_end, struct work_struct *work)
{
	u32 tid = bpf_get_current_task_btf()->pid;

	/* The work item may be freed by now, so it is not read. */
	if (errand_of(tid))
		bpf_map_delete_elem(&errands, &tid);
	return 0;
}

/* A kernel worker that carries characters wakes a process, which is the reader of typed characters or the
 * holder of the terminal: counts edges. Typed characters wake all processes that poll the terminal, but only
 * the group in its foreground can read them. */
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
	if (errand->is_typed && errand->foreground &&
	    errand->foreground != (u64)BPF_CORE_READ(waiter, signal, pids[PIDTYPE_PGID]))
		return 0;
	ref = ref_of(waiter);
	if (!ref)
		return 0;
	if (!errand->is_typed) {
		if (by && by != ref && knobs.writers_count)
			count_edge(ref, by, 1);
		return 0;
	}
	if (seen)
		seen->reader = ref;
	if (by && by != ref) {
		count_edge(ref, by, knobs.typed_weight);
		/* The terminal's holder shows the reader's output, and so depends on the reader. */
		count_edge(by, ref, knobs.typed_weight);
	}
	return 0;
}

#endif
