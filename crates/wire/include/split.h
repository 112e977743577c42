/* What the programs that split a sampler's latency share with their driver. */
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SPRY_SPLIT_H
#define SPRY_SPLIT_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/* Seats are found by tid, so there are more of them than samplers. */
#define SPRY_SEATS 4096

#define SPRY_SPLIT_FRAMES 48

/* A sampler thread's seat: a cache line that the thread and the programs write in turns. Times are those of
 * CLOCK_MONOTONIC, ns; 0 is a time that was not seen. */
struct spry_seat {
	/* The thread that sits here; 0 if nobody does. */
	__u32 tid;
	__u32 pad;
	/* By the thread: when it wants to run next. */
	__u64 due_ns;
	/* The latest interrupt's entry on the CPU that woke it, the end of waking it, the scheduler's entry
	 * on the CPU where it runs then, and its switch. */
	__u64 irq_ns;
	__u64 resched_ns;
	__u64 schedule_ns;
	__u64 switch_ns;
	__u64 more[2];
};

struct spry_split_knobs {
	/* The process whose threads have seats. */
	__u32 tgid;
	/* Whether the scheduler's entry can be seen; else its switch stands for it. */
	__u8 has_entry;
	__u8 pad[3];
	/* A thread that runs so late leaves a record of what was in its way, ns; 0 for none. */
	__u64 threshold_ns;
};

/* When a CPU was looked at. */
enum spry_look {
	/* At the first interrupt after the time was due. */
	SPRY_LOOK_DUE = 0,
	/* At the latest interrupt while the thread was late by the threshold. */
	SPRY_LOOK_LATE = 1,
	/* When it got the CPU. */
	SPRY_LOOK_SWITCH = 2,
	SPRY_LOOKS = 3,
};

/* What a CPU was at. */
struct spry_looked {
	/* 0 if it was not looked at. */
	__u64 time_ns;
	__u32 tid;
	__u32 tgid;
	char comm[16];
	/* Bytes of each stack; negative if it could not be taken. */
	__s32 kernel_bytes;
	__s32 user_bytes;
	__u64 kernel[SPRY_SPLIT_FRAMES];
	__u64 user[SPRY_SPLIT_FRAMES];
};

enum spry_span_kind {
	SPRY_SPAN_NONE = 0,
	/* `id` is the interrupt's number. */
	SPRY_SPAN_IRQ = 1,
	/* `id` is the softirq's number. */
	SPRY_SPAN_SOFTIRQ = 2,
	/* `function` is the timer's. */
	SPRY_SPAN_HRTIMER = 3,
	SPRY_SPAN_SOFT_HRTIMER = 4,
	SPRY_SPAN_TIMER = 5,
	SPRY_SPAN_KINDS = 6,
};

/* A stretch of interrupt or softirq between the time that was due and the switch. */
struct spry_span {
	__u32 kind;
	__u32 id;
	__u64 function;
	__u64 length_ns;
};

#define SPRY_SPANS 4

/* A thread that ran late. */
struct spry_late {
	struct spry_seat seat;
	__u32 cpu;
	__u32 pad;
	/* The longest. */
	struct spry_span spans[SPRY_SPANS];
	struct spry_looked looked[SPRY_LOOKS];
};

#endif
