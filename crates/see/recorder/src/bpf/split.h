/* The data that the programs that split a sampler's latency share with their driver. */
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SPRY_SPLIT_H
#define SPRY_SPLIT_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/* A thread's seat is found by the low bits of its tid, so there are many more seats than sampler threads. */
#define SPRY_SEATS 4096

#define SPRY_SPLIT_FRAMES 48

/* A sampler thread's seat: a cache line that the thread and the BPF programs write alternately. Times are
 * those of CLOCK_MONOTONIC, ns; 0 is a time that was not seen. */
struct spry_seat {
	/* The thread with this seat; 0 if the seat is free. */
	__u32 tid;
	__u32 pad;
	/* The time at which the thread is due to run next; the thread writes it. */
	__u64 due_ns;
	/*
	 * The programs write these: the latest interrupt's entry on the CPU that woke the thread, the
	 * thread's wake-up, the entry of the schedule() that chose the thread, and the switch to the thread.
	 */
	__u64 irq_ns;
	__u64 resched_ns;
	__u64 schedule_ns;
	__u64 switch_ns;
	__u64 more[2];
};

struct spry_split_knobs {
	/* The process that has the threads with seats, by its number outside all PID namespaces. */
	__u32 tgid;
	/* Whether the entry of schedule() can be seen; if not, the time of the switch is taken for it. */
	__u8 has_entry;
	/* Whether that process is in a PID namespace of its own; a seat's tid is then the number there. */
	__u8 in_namespace;
	__u8 pad[2];
	/* The lateness from which a thread leaves a record of its culprits, ns; 0: no thread leaves a
	 * record. */
	__u64 threshold_ns;
};

/* The moments of a late wake-up at which a program records the task that has the CPU. The latest record of
 * each moment is kept. */
enum spry_look {
	/* At the first interrupt after the thread's due time. */
	SPRY_LOOK_DUE = 0,
	/* At each later interrupt while the thread is late by the threshold or more. */
	SPRY_LOOK_LATE = 1,
	/* At the switch to the thread. */
	SPRY_LOOK_SWITCH = 2,
	SPRY_LOOKS = 3,
};

/* The task on a CPU and its call stack, at one moment. */
struct spry_looked {
	/* The time of the look; 0 if there was none. */
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
	/* `function` is the address of the timer's function, for this kind and the two below. */
	SPRY_SPAN_HRTIMER = 3,
	SPRY_SPAN_SOFT_HRTIMER = 4,
	SPRY_SPAN_TIMER = 5,
	SPRY_SPAN_KINDS = 6,
};

/* A time in which an interrupt, a softirq or a timer's function ran, between the due time and the switch. */
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
	/* The longest of these times. */
	struct spry_span spans[SPRY_SPANS];
	struct spry_looked looked[SPRY_LOOKS];
};

#endif
