/* SPDX-License-Identifier: GPL-2.0-only */
/* What the BPF programs and the daemon share: nodes of processes, edges between them, verdicts, counters. */
#ifndef SPRY_INTF_H
#define SPRY_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

enum spry_limits {
	/* How many thread groups can be in the graph at once; further ones are left out and counted. */
	SPRY_NODES_MAX = 32768,
	/* The collection tells this many pseudo-terminals apart, by their numbers: as many as the kernel
	 * makes unless it is told otherwise. Places for other terminals follow. */
	SPRY_PTYS_MAX = 4096,
	SPRY_TTYS_MAX = SPRY_PTYS_MAX + 512,
	/* Users with nodes that are counted apart; all further users share one count. */
	SPRY_USERS_MAX = 16384,
	/* A node has at most this many edges between two rounds of the daemon. A new edge takes the place of
	 * the edge with the least count. */
	SPRY_EDGES_MAX = 12,
	/* How many reservations there can be at once. */
	SPRY_RESERVATIONS_MAX = 256,
	/* How many of them there can be on one CPU. */
	SPRY_RESERVED_OF_CPU = 32,
	/* By how many reservations of clients a shared server is ranked at most. */
	SPRY_CLIENTS_MAX = 8,
};

/* The classes in their order; see table.bpf.h. */
enum spry_class {
	/* The policy says nothing of the process: the task's own nature decides its class. */
	SPRY_CLASS_NONE = 0,
	SPRY_CLASS_RESERVED = 1,
	SPRY_CLASS_DAEMON = 2,
	SPRY_CLASS_KTHREAD = 3,
	SPRY_CLASS_INTERACTIVE = 4,
	SPRY_CLASS_OTHER = 5,
	SPRY_CLASS_IDLE = 6,
	SPRY_CLASSES = 7,
};

/* The name of a process' node: the node's index in the low half; in the high half, how often the index was
 * used before. A name of 0 means no process. */
typedef u32 spry_ref;

/* One edge: how often the process waited for the process `on` since the daemon last took the count away. */
struct spry_edge {
	spry_ref on;
	u32 count;
};

/* The bits of a verdict's word: where each part (the class, the level, the quantum in us) begins, and how
 * long it is. Only verdict.bpf.h reads the word, only verdict_word.rs writes it. A word of 0 is no
 * verdict. */
enum spry_verdict_bits {
	SPRY_VERDICT_CLASS_SHIFT = 0,
	SPRY_VERDICT_CLASS_BITS = 8,
	SPRY_VERDICT_LEVEL_SHIFT = 8,
	SPRY_VERDICT_LEVEL_BITS = 8,
	SPRY_VERDICT_QUANTUM_SHIFT = 32,
	SPRY_VERDICT_QUANTUM_BITS = 32,
};

/*
 * A process (thread group). Two cache lines, mapped by the daemon.
 *
 * The daemon writes `verdict`, as one word of enum spry_verdict_bits. BPF writes everything else; only the
 * counts of edges are taken away by the daemon, which exchanges them for 0.
 */
struct spry_node {
	/* 0: the index is free. */
	u32 tgid;
	spry_ref ref;
	u64 verdict;
	/* CPU time of all threads of the process while the scheduler was in charge, ns. */
	u64 ran_ns;
	/* The user that the node is counted for. */
	u32 user;
	u32 pad;
	struct spry_edge edges[SPRY_EDGES_MAX];
};

/* What the daemon tells the collection's programs before it loads them. */
struct spry_collect_knobs {
	/* How many bytes behind a CPU's run queue its preemption count lies, where the count is a per-CPU
	 * variable. */
	long long count_from_rq;
	/* The address of flush_to_ldisc, the kernel's function that passes on what waits in a terminal's
	 * buffer; 0 where the address is not known. */
	u64 flush_to_ldisc;
	/* The daemon's own process, which is given no node. */
	u32 own_tgid;
	/* How much one key that is read in a terminal adds to the edges between the terminal's reader and its
	 * holder. */
	u32 typed_weight;
	/* Whether a terminal's holder depends on all processes that write to the terminal, or only on the
	 * process that reads there. */
	u32 writers_count;
	/* Whether a process that takes from a full pipe or socket depends on one that waits to put more in.
	 */
	u32 blocked_writers_count;
	/* Whether a process depends on the processes that it serves, and on those that change files that it
	 * watches. */
	u32 served_count;
	/* The bits of the preemption count that say that an interrupt is handled. */
	u32 interrupt_mask;
	/* The secret number by which the bucket of a process is found (see bucket_of); odd. */
	u32 bucket_secret;
	/* How many nodes there may be; tests set less than SPRY_NODES_MAX. */
	u32 nodes_most;
	/* The device number of the file system below /dev/pts, in the kernel's own form; 0 where there is
	 * none. */
	u32 pts_device;
	u32 pad;
};

/* What the collection counts. */
struct spry_collected {
	/* How many indices of nodes were ever used; the number may run a little past the end of the array. */
	u32 used;
	/* How many nodes belong to a process now. */
	u32 taken;
	/* How often a process that needed a node found none. */
	u64 lost_nodes;
	/* How often an edge gave way to another edge, or found no place. */
	u64 lost_edges;
};

/* A terminal, and what goes through it. The daemon takes the counts away by exchanging them for 0. */
struct spry_tty {
	/* The terminal's device number: the major number in bits 20-31, the minor number below; for a
	 * pseudo-terminal 136 and its number. 0: the place is free. */
	u32 device;
	/* The process that last wrote to the other end of a pseudo-terminal: the program that shows the
	 * terminal. */
	spry_ref holder;
	/* The process that was last woken by what was typed. */
	spry_ref reader;
	/* How many characters towards the terminal's programs came from processes (`typed`), and from
	 * interrupts of devices (`keyed`). */
	u32 typed;
	u32 keyed;
	/* How many characters the reader wrote. */
	u32 shown;
	/* When the terminal last had something to read, ns. */
	u64 typed_ns;
};

/* What a reservation's task does when its budget is used up before the period ends. */
enum spry_on_exhaustion {
	/* The task waits for its next period. */
	SPRY_EXHAUSTED_WAITS = 0,
	/* The task goes on in the class that it would have without the reservation. */
	SPRY_EXHAUSTED_IS_DEMOTED = 1,
};

/* A reservation: `budget_ns` of its CPU in each period of `period_ns`. The scheduler writes it, the daemon
 * reads it. */
struct spry_reservation {
	u64 budget_ns;
	/* 0: the place is free. */
	u64 period_ns;
	u32 cpu;
	/* A value of enum spry_on_exhaustion. */
	u32 on_exhaustion;
	/* When the current period began. Periods follow each other without gaps. */
	u64 begun_ns;
	/* What is left of the budget in the current period; negative: a debt to the next period. */
	long long left_ns;
	/* Whether a task of the reservation slept in this period: what it left is not carried then. */
	u32 slept;
	/* Whether the current period was awaited by a task that had spent its budget. */
	u32 awaited;
	/* What was counted: periods that are over; what the tasks ran, and might have run, in periods in
	 * which they wanted all of their budget, ns; periods in which the budget was used up; the most that
	 * such a period was short of its budget, ns; the longest time from the begin of a period until a task
	 * that waited for it was chosen, ns; and how often a task could not run on the reservation's CPU. */
	u64 periods;
	u64 got_ns;
	u64 asked_ns;
	u64 exhausted;
	u64 short_most_ns;
	u64 late_most_ns;
	u64 misplaced;
	/* What the tasks ran in the current period, ns. */
	u64 ran_ns;
	/* What interrupts took while one of the tasks had the CPU, ns: in all, and in the current period. A
	 * part of it is not charged. */
	u64 stolen_ns;
	u64 forgiven_ns;
	/* The ceiling of a shared server, see ceiling.bpf.h: the reservations of the clients that can ask the
	 * server, plus 1; a 0 ends them. The daemon writes them. */
	u32 clients[SPRY_CLIENTS_MAX];
	/* What was counted of a shared server since the daemon last took the counts away: requests; the most
	 * that one of them took, and the most that all of one period took, ns. */
	u64 requests;
	u64 request_most_ns;
	u64 served_most_ns;
	/* What the requests took that ended in the current period, ns. */
	u64 served_ns;
};

enum spry_reserve_what { SPRY_RESERVE_OPENS = 0, SPRY_RESERVE_CHANGES = 1, SPRY_RESERVE_CLOSES = 2 };

/* The daemon's request to open, change or close a reservation; the answer is `error`. */
struct spry_reserve {
	u32 what;
	u32 slot;
	/* The thread, or the first thread of the process of which all threads share the reservation. */
	u32 tid;
	u32 is_group;
	u32 cpu;
	u32 on_exhaustion;
	u64 budget_ns;
	u64 period_ns;
	int error;
	u32 pad;
};

/* The daemon's request for the node of a process; the answer is `ref`, the node's name. */
struct spry_ensure {
	u32 tgid;
	spry_ref ref;
};

#endif
