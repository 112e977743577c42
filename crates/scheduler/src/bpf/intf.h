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
	/* Thread groups that can be in the graph at once; more than that are left out and counted. */
	SPRY_NODES_MAX = 32768,
	/* Terminals that are told apart. */
	SPRY_TTYS_MAX = 512,
	/* Processes that one process is seen to depend on between two rounds; the rarest gives way. */
	SPRY_EDGES_MAX = 12,
};

/* Classes in their order; see table.bpf.h. A place is left above KTHREAD for reservations. */
enum spry_class {
	/* No word of the policy's: the task's own nature decides. */
	SPRY_CLASS_NONE = 0,
	SPRY_CLASS_RESERVED = 1,
	SPRY_CLASS_DAEMON = 2,
	SPRY_CLASS_KTHREAD = 3,
	SPRY_CLASS_INTERACTIVE = 4,
	SPRY_CLASS_OTHER = 5,
	SPRY_CLASS_IDLE = 6,
	SPRY_CLASSES = 7,
};

/* A node's name: its index in the low half, how often the index was used before in the high half. 0 is
 * nobody. */
typedef u32 spry_ref;

/* How often a process waited for another since the daemon last took the count away. */
struct spry_edge {
	spry_ref on;
	u32 count;
};

/* Where a verdict's parts begin in its word, and how long they are: the class, the level, the quantum in us.
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
 * A process (thread group). Two cache lines, mapped by the daemon.
 *
 * `verdict` is the daemon's, written as one word of enum spry_verdict_bits. Everything else is written by
 * BPF, but that the daemon takes edges' counts away by exchanging them for 0.
 */
struct spry_node {
	/* 0: the index is free. */
	u32 tgid;
	spry_ref ref;
	u64 verdict;
	/* CPU time of all its threads while the scheduler was in charge, ns. */
	u64 ran_ns;
	u64 reserved;
	struct spry_edge edges[SPRY_EDGES_MAX];
};

/* What the collection is told before it is loaded. */
struct spry_collect_knobs {
	/* Bytes from a CPU's run queue to its count of preemption, where that is a variable of the CPU. */
	long long count_from_rq;
	/* The kernel's function that carries on what waits in a terminal's buffer; 0 where it is not known.
	 */
	u64 flush_to_ldisc;
	/* The daemon's own process, which is left out. */
	u32 own_tgid;
	/* What one key read in a terminal adds to the edges between its reader and its holder. */
	u32 typed_weight;
	/* Whether a terminal's holder depends on everybody who writes to it, not on who reads there only. */
	u32 writers_count;
	/* Whether one that takes from a full pipe or socket depends on who waits to put more in. */
	u32 blocked_writers_count;
	/* The preemption count's bits of interrupts. */
	u32 interrupt_mask;
	u32 pad;
};

/* What the collection counts. */
struct spry_collected {
	/* Indices of nodes that were ever used; may run a little past the end. */
	u32 used;
	u32 pad;
	/* Processes that found no node, each time. */
	u64 lost_nodes;
	/* Edges that gave way to others, and such as found no place, each time. */
	u64 lost_edges;
};

/* What goes through a terminal. The daemon takes the counts away by exchanging them for 0. */
struct spry_tty {
	/* Major number in bits 20-31, minor below; of a pseudo-terminal 136 and its number. 0: the place is
	 * free. */
	u32 device;
	/* Who wrote to the other end of a pseudo-terminal last: they show it. */
	spry_ref holder;
	/* Who was woken last by what was typed. */
	spry_ref reader;
	/* Characters towards the programs that came from processes, and from devices' interrupts. */
	u32 typed;
	u32 keyed;
	/* Characters that the reader wrote. */
	u32 shown;
	/* When there was something to read last, ns. */
	u64 typed_ns;
};

/* Asks for the node of a process. */
struct spry_ensure {
	u32 tgid;
	spry_ref ref;
};

#endif
