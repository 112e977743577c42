/* SPDX-License-Identifier: GPL-2.0-only */
/* The interface between the BPF programs and the daemon: nodes of processes, edges between them, verdicts,
 * terminals, reservations and counters. */
#ifndef SPRY_INTF_H
#define SPRY_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

enum spry_limits {
	/* The most processes that can have a node at once; further processes are left out and counted. */
	SPRY_NODES_MAX = 32768,
	/* Pseudo-terminals with numbers below this have places of their own: as many as the kernel allows by
	 * default. Places for other terminals follow. */
	SPRY_PTYS_MAX = 4096,
	SPRY_TTYS_MAX = SPRY_PTYS_MAX + 512,
	/* The most users with a count of their own for nodes; all further users share one count. */
	SPRY_USERS_MAX = 16384,
	/* The most edges that a node can have between two rounds of the daemon. A further edge replaces the
	 * edge with the least count. */
	SPRY_EDGES_MAX = 12,
	/* The most reservations at once. */
	SPRY_RESERVATIONS_MAX = 256,
	/* The most reservations on one CPU. */
	SPRY_RESERVED_OF_CPU = 32,
	/* The most clients' reservations by which a shared server is ranked. */
	SPRY_CLIENTS_MAX = 8,
};

/* The classes from the highest to the lowest; see table.bpf.h. */
enum spry_class {
	/* No class: the daemon has no verdict on the process, so the task's own nature decides its class. */
	SPRY_CLASS_NONE = 0,
	SPRY_CLASS_RESERVED = 1,
	SPRY_CLASS_DAEMON = 2,
	SPRY_CLASS_KTHREAD = 3,
	SPRY_CLASS_INTERACTIVE = 4,
	SPRY_CLASS_OTHER = 5,
	SPRY_CLASS_IDLE = 6,
	SPRY_CLASSES = 7,
};

/* The name of a process' node. The low half is the node's index, the high half is a count of the index's
 * uses, which is never 0. 0 names no process. */
typedef u32 spry_ref;

/* An edge of a process' node. It counts the waits of the process for the process `on`, since the daemon last
 * took the count away. */
struct spry_edge {
	spry_ref on;
	u32 count;
};

/* The parts of a verdict's word: first bit and length of the class, of the level, and of the quantum in us.
 * Only verdict.bpf.h reads the word, only verdict_word.rs writes it. 0 is no verdict. */
enum spry_verdict_bits {
	SPRY_VERDICT_CLASS_SHIFT = 0,
	SPRY_VERDICT_CLASS_BITS = 8,
	SPRY_VERDICT_LEVEL_SHIFT = 8,
	SPRY_VERDICT_LEVEL_BITS = 8,
	SPRY_VERDICT_QUANTUM_SHIFT = 32,
	SPRY_VERDICT_QUANTUM_BITS = 32,
};

/*
 * The node of a process, two cache lines long, mapped by the daemon.
 *
 * The daemon writes `verdict`, one word as in enum spry_verdict_bits, and takes counts of edges away by
 * exchanging them for 0. BPF programs write all other fields.
 */
struct spry_node {
	/* 0: the index is free. */
	u32 tgid;
	spry_ref ref;
	u64 verdict;
	/* CPU time of all threads of the process since it got the node, while this scheduler ran, ns. */
	u64 ran_ns;
	/* The user that the node is counted for. */
	u32 user;
	u32 pad;
	struct spry_edge edges[SPRY_EDGES_MAX];
};

/* Settings of the collection's programs, which the daemon writes before it loads them. */
struct spry_collect_knobs {
	/* The offset of a CPU's preemption count from its run queue, bytes, where the count is a
	 * per-CPU variable. */
	long long count_from_rq;
	/* The address of flush_to_ldisc, the kernel's function that passes on the contents of a terminal's
	 * buffer; 0: not known. */
	u64 flush_to_ldisc;
	/* The daemon's own process; it gets no node. */
	u32 own_tgid;
	/* The amount that one key read by a terminal's reader adds to the edges between this reader and the
	 * terminal's holder. */
	u32 typed_weight;
	/* Whether a terminal's holder depends on all processes that write to the terminal, or only on the
	 * process that reads there. */
	u32 writers_count;
	/* Whether a process that takes data from a full pipe or socket depends on the process that
	 * waits to write more. */
	u32 blocked_writers_count;
	/* Whether a process also depends on its clients, and on processes that change files that it
	 * watches. */
	u32 served_count;
	/* The bits of the preemption count that are set while an interrupt is handled. */
	u32 interrupt_mask;
	/* The secret, odd factor in the hash that finds the bucket of a process (see bucket_of). */
	u32 bucket_secret;
	/* The most nodes; tests set less than SPRY_NODES_MAX. */
	u32 nodes_most;
	/* The device number of the file system below /dev/pts, in the kernel's own form; 0
	 * where there is none. */
	u32 pts_device;
	u32 pad;
};

/* The counters of the collection. */
struct spry_collected {
	/* The number of node indices that were ever used; may exceed the length of the array a little. */
	u32 used;
	/* The number of nodes that belong to a process now. */
	u32 taken;
	/* The number of times that a process that needed a node found none. */
	u64 lost_nodes;
	/* The number of edges that were replaced by other edges, or found no room. */
	u64 lost_edges;
};

/* A terminal and the characters that pass through it. The daemon takes the counts away by
 * exchanging them for 0. */
struct spry_tty {
	/* The terminal's device number: the major number in bits 20-31, the minor number below; for a
	 * pseudo-terminal 136 and its number. 0: the place is free. */
	u32 device;
	/* The holder: the process that last wrote to the other end of a pseudo-terminal, and
	 * shows the terminal. */
	spry_ref holder;
	/* The reader: the process that was last woken by typed characters. */
	spry_ref reader;
	/* The numbers of characters for the terminal's programs that came from processes (`typed`), and from
	 * interrupts of devices (`keyed`). */
	u32 typed;
	u32 keyed;
	/* The number of characters that the reader wrote. */
	u32 shown;
	/* The time at which characters for the terminal's programs last came, ns. */
	u64 typed_ns;
};

/* The behaviour of a reservation's task when the budget is used up before the period ends. */
enum spry_on_exhaustion {
	/* The task waits for its next period. */
	SPRY_EXHAUSTED_WAITS = 0,
	/* The task goes on in the class that it would have without the reservation. */
	SPRY_EXHAUSTED_IS_DEMOTED = 1,
};

/* A reservation: `budget_ns` of CPU time on one CPU in each period of `period_ns`. The scheduler writes it,
 * the daemon reads it. */
struct spry_reservation {
	u64 budget_ns;
	/* 0: this entry is free. */
	u64 period_ns;
	u32 cpu;
	/* A value of enum spry_on_exhaustion. */
	u32 on_exhaustion;
	/* The begin of the current period, ns. Periods follow each other without gaps. */
	u64 begun_ns;
	/* The rest of the budget in the current period, ns; negative: a debt to the next period. */
	long long left_ns;
	/* Whether a task of the reservation slept in this period. Then the rest of the budget is not
	 * carried to the next. */
	u32 slept;
	/* Whether a task that had spent its budget waited for the current period. */
	u32 awaited;
	/*
	 * Counts since the reservation was opened. `periods`: periods that are over. `got_ns` and `asked_ns`:
	 * run time and budgets of the periods in which the tasks did not sleep, ns. `exhausted`: times at
	 * which the budget was used up. `short_most_ns`: the most by which the run time of a period without
	 * sleep was below the budget, ns. `late_most_ns`: the longest delay from a period's begin until a
	 * task that waited for it was chosen, ns. `misplaced`: look-ups for a task that could not run on the
	 * reservation's CPU.
	 */
	u64 periods;
	u64 got_ns;
	u64 asked_ns;
	u64 exhausted;
	u64 short_most_ns;
	u64 late_most_ns;
	u64 misplaced;
	/* Run time of the tasks in the current period, ns. */
	u64 ran_ns;
	/* The time of interrupts while one of the tasks had the CPU, ns: in all, and in the current period.
	 * In each period a part of it is not charged. */
	u64 stolen_ns;
	u64 forgiven_ns;
	/* For a shared server (ceiling.bpf.h), written by the daemon: the slots of its clients' reservations,
	 * plus 1. A 0 ends the list. */
	u32 clients[SPRY_CLIENTS_MAX];
	/* Counts of a shared server since the daemon last took them away: requests; the longest run time of
	 * one request, and of all requests of one period, ns. */
	u64 requests;
	u64 request_most_ns;
	u64 served_most_ns;
	/* Run time of the requests that ended in the current period, ns. */
	u64 served_ns;
};

enum spry_reserve_what { SPRY_RESERVE_OPENS = 0, SPRY_RESERVE_CHANGES = 1, SPRY_RESERVE_CLOSES = 2 };

/* The daemon's request to open, change or close a reservation. The program puts its result into `error`. */
struct spry_reserve {
	u32 what;
	u32 slot;
	/* The thread, or with `is_group` the process, that has the reservation. */
	u32 tid;
	u32 is_group;
	u32 cpu;
	u32 on_exhaustion;
	u64 budget_ns;
	u64 period_ns;
	int error;
	u32 pad;
};

/* The daemon's request for the node of a process. The program puts the node's name into `ref`. */
struct spry_ensure {
	u32 tgid;
	spry_ref ref;
};

#endif
