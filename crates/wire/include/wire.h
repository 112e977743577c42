/* The records that the BPF programs hand to the recorder, and the memory that both share. */
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SPRY_WIRE_H
#define SPRY_WIRE_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/*
 * Hot records lie in the CPU's own ring: multiples of 8 bytes, at most SPRY_HOT_MAX, never across the end of
 * a chunk. Each starts with its stamp: the low 56 bits of the time (CLOCK_MONOTONIC, ns) above the kind.
 */
#define SPRY_STAMP_SHIFT 8
#define SPRY_HOT_MAX	 32

/* A ring is a number of chunks, each one element of the map, so that an index can be checked with one
 * compare. */
#define SPRY_CHUNK_SHIFT 16
#define SPRY_CHUNK_BYTES (1 << SPRY_CHUNK_SHIFT)

/* A task as two fields of one word: its tid (the kernel's limit is 22 bits) and above it what goes with it.
 */
#define SPRY_TID_MASK	  0xffffff
#define SPRY_POLICY_SHIFT 24
#define SPRY_POLICY_MASK  0x7
#define SPRY_PREEMPT_BIT  0x80000000u

enum spry_kind {
	/* The rest of the chunk is empty. */
	SPRY_PAD = 0,
	/* Hot records. */
	SPRY_SWITCH = 1,
	SPRY_WAKING = 2,
	SPRY_WAKEUP = 3,
	SPRY_WAKEUP_NEW = 4,
	SPRY_MIGRATE = 5,
	SPRY_TICK = 6,
	SPRY_TIMER = 7,
	SPRY_IRQ_ENTER = 8,
	SPRY_IRQ_EXIT = 9,
	SPRY_SOFTIRQ_ENTER = 10,
	SPRY_SOFTIRQ_EXIT = 11,
	SPRY_NEED_RESCHED = 12,
	SPRY_SCHED_ENTER = 13,
	SPRY_SCHED_EXIT = 14,
	SPRY_IPC = 15,
	SPRY_LOST = 16,
	/* Records of the shared ring. */
	SPRY_FORK = 32,
	SPRY_EXEC = 33,
	SPRY_EXIT = 34,
	SPRY_RENAME = 35,
	SPRY_STAT = 36,
	SPRY_MARK = 37,
	SPRY_STACK = 38,
	/* A hot record that interrupted another one's writer. */
	SPRY_NESTED = 39,
};

/* sched_switch. */
struct spry_switch {
	__u64 stamp;
	/* Tid, policy and, in SPRY_PREEMPT_BIT, the tracepoint's preempt argument. */
	__u32 prev;
	/* Tid and policy. */
	__u32 next;
	/* The low bits of the task's state and, for a dead one, its exit state. */
	__u16 state;
	/* The kernel's priorities; 255 for a deadline task's -1. */
	__u8 prev_prio;
	__u8 next_prio;
	/*
	 * Wall time since the CPU's last switch less the run time that the kernel counted for prev's stay,
	 * ns, saturating; 0 where the last switch is not known.
	 */
	__s32 uncounted_ns;
};

/* sched_waking; the context (enum spry_context) lies above the waker's tid. */
struct spry_waking {
	__u64 stamp;
	__u32 waker;
	__u32 wakee;
};

enum spry_context {
	SPRY_CONTEXT_TASK = 0,
	SPRY_CONTEXT_SOFTIRQ = 1,
	SPRY_CONTEXT_HARDIRQ = 2,
	SPRY_CONTEXT_UNKNOWN = 3,
};

/* sched_wakeup, sched_wakeup_new, sched_migrate_task (cpu: where to), sched_set_need_resched_tp. */
struct spry_move {
	__u64 stamp;
	__u32 tid;
	/* sched_migrate_task: where from; sched_set_need_resched_tp: 1 if lazy. */
	__u16 extra;
	__u16 cpu;
};

/* Tick (due time), interrupt, softirq, lost (count), entry and exit of schedule(). */
struct spry_value {
	__u64 stamp;
	__u64 value;
};

/* Interrupts other than a device's line, in the value of SPRY_IRQ_ENTER and SPRY_IRQ_EXIT. */
enum spry_irq {
	SPRY_IRQ_LOCAL_TIMER = 0x10000,
	SPRY_IRQ_RESCHEDULE = 0x10001,
	SPRY_IRQ_CALL_FUNCTION = 0x10002,
	SPRY_IRQ_IRQ_WORK = 0x10003,
};

/* A timer's expiry; its kind (enum spry_timer) lies above the tid. */
struct spry_timer_expiry {
	__u64 stamp;
	__u64 tid_kind;
	/* Monotonic ns; on the timer wheel how many jiffies late. */
	__u64 deadline;
	__u64 latest;
};

#define SPRY_TIMER_SHIFT 32

enum spry_timer {
	SPRY_TIMER_SLEEP = 0,
	SPRY_TIMER_TIMERFD = 1,
	SPRY_TIMER_POSIX = 2,
	SPRY_TIMER_ITIMER = 3,
	SPRY_TIMER_WHEEL = 4,
	SPRY_TIMER_OTHER = 5,
};

/* Bytes through a channel. */
struct spry_ipc {
	__u64 stamp;
	__u64 id;
	__u32 tid;
	__u32 bytes;
	__u32 kind;
	/* 0: into the channel; 1: out of it. */
	__u32 is_read;
};

enum spry_channel {
	SPRY_CHANNEL_PIPE = 0,
	SPRY_CHANNEL_UNIX = 1,
	SPRY_CHANNEL_INET = 2,
	SPRY_CHANNEL_TTY = 3,
	SPRY_CHANNEL_NONE = 4,
};

/* Every record of the shared ring starts so. */
struct spry_meta {
	__u64 stamp;
	__u32 cpu;
	__u32 tid;
};

#define SPRY_COMM_BYTES 16

struct spry_fork {
	struct spry_meta meta;
	__u32 child;
	__u32 child_tgid;
	__u8 comm[SPRY_COMM_BYTES];
};

/* exec (value: tid before), exit (value unused). */
struct spry_life {
	struct spry_meta meta;
	__u64 value;
};

struct spry_rename {
	struct spry_meta meta;
	__u32 tgid;
	__u32 pad;
	__u8 comm[SPRY_COMM_BYTES];
};

/* The kernel's account of a task: from the task iterator and at the last switch of one that ends. */
struct spry_stat {
	struct spry_meta meta;
	__u32 tgid;
	/* enum spry_stat_state. */
	__u8 state;
	__u8 policy;
	__u8 prio;
	__u8 pad;
	__u64 exec_ns;
	__u64 utime_ns;
	__u64 stime_ns;
	__u8 comm[SPRY_COMM_BYTES];
};

enum spry_stat_state {
	SPRY_STAT_RUNNING = 0,
	SPRY_STAT_RUNNABLE = 1,
	SPRY_STAT_BLOCKED = 2,
	SPRY_STAT_EXITED = 3,
};

#define SPRY_MARK_BYTES 128

struct spry_mark {
	struct spry_meta meta;
	__u32 len;
	__u32 pad;
	__u8 text[SPRY_MARK_BYTES];
};

#define SPRY_STACK_DEPTH 48

struct spry_stack {
	struct spry_meta meta;
	__u32 tgid;
	/* Bytes of each part, negative where it could not be taken. */
	__s16 kernel_bytes;
	__s16 user_bytes;
	__u64 kernel[SPRY_STACK_DEPTH];
	__u64 user[SPRY_STACK_DEPTH];
};

struct spry_nested {
	struct spry_meta meta;
	__u64 words[SPRY_HOT_MAX / 8];
};

#define SPRY_RUNNING_KNOWN 0x80000000u

/* One CPU's end of its ring. Positions count bytes since the start and never wrap. */
struct spry_cpu {
	/* Written by the CPU. Where the next record goes; everything before is complete. */
	__u64 head;
	/* The last position at which a record fits without looking closer. */
	__u64 limit;
	/* How many writers are at work: one, and those that interrupted it. */
	__u64 nest;
	/* The task on the CPU (tid, and SPRY_RUNNING_KNOWN), when it got it, and its run time then. */
	__u64 running;
	__u64 since_ns;
	__u64 exec_ns;
	/* Where the CPU's preemption count is, once known. */
	__u64 count_address;
	/* Records that have found no room since the last that did. */
	__u64 missed;
	/* Written by the recorder: everything before has been read. */
	__u64 tail;
	/* Records lost on the way to the shared ring; written by the CPU. */
	__u64 meta_lost;
	__u64 pad[6];
};

/* Set before loading. */
struct spry_knobs {
	/* Chunks a CPU, less one; the number is a power of two. */
	__u32 chunk_mask;
	__u32 chunks_shift;
	/* Chunks a piece. */
	__u32 piece_shift;
	__u32 piece_pad;
	__u64 ring_bytes;
	/* Whether sched_switch carries the state itself. */
	__u8 has_prev_state;
	__u8 has_wheel_clock;
	__u8 want_ticks;
	__u8 want_timers;
	__u8 want_stacks;
	__u8 want_marks;
	/* The tick comes as an interrupt, not as a high-resolution timer. */
	__u8 tick_is_irq;
	__u8 want_irqs;
	/* Addresses of handlers, 0 where the kernel has none. */
	__u64 tick_handler;
	__u64 sleep_handler;
	__u64 timerfd_handler;
	__u64 posix_handler;
	__u64 itimer_handler;
	__u64 process_timeout_handler;
	/* The mark node. */
	__u64 mark_inode;
	__u64 mark_device;
	/* How far the preemption count is from the CPU's run queue; 0 if it is not there. */
	__s64 count_from_rq;
	/* The preemption count's bits of hard interrupts. */
	__u32 hardirq_mask;
	__u32 pad_mask;
	/* Hides kernel addresses in channel ids. */
	__u64 channel_key;
};

/* Set at run time. */
struct spry_control {
	__u32 enabled;
	__u32 pad[15];
};

#endif
