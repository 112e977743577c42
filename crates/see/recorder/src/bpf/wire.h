/* The records that the BPF programs pass to the recorder, and the memory that both share. */
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SPRY_WIRE_H
#define SPRY_WIRE_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/*
 * Hot records lie in the CPU's own ring. The length of each is a multiple of 8 bytes, at most SPRY_HOT_MAX,
 * and none lies across the end of a chunk. Each starts with its stamp: the low 56 bits of the time
 * (CLOCK_MONOTONIC, ns) above the kind.
 */
#define SPRY_STAMP_SHIFT 8
#define SPRY_HOT_MAX	 32

/* A ring is a number of chunks, each one element of the map, so that an index can be checked with one
 * compare. */
#define SPRY_CHUNK_SHIFT 16
#define SPRY_CHUNK_BYTES (1 << SPRY_CHUNK_SHIFT)

/* Bits of a tid in records in which it shares a word with other fields (the kernel's tids have at most
 * 22). */
#define SPRY_TID_BITS 24

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
	SPRY_THROTTLE = 17,
	SPRY_QUOTA = 18,
	SPRY_IDLE = 19,
	/* Records of the shared ring. */
	SPRY_FORK = 32,
	SPRY_EXEC = 33,
	SPRY_EXIT = 34,
	SPRY_RENAME = 35,
	SPRY_STAT = 36,
	SPRY_MARK = 37,
	SPRY_STACK = 38,
	/* A hot record of a program that interrupted another program in the middle of a record. */
	SPRY_NESTED = 39,
	/* A CPU has gone offline: a spry_meta with that CPU. */
	SPRY_OFFLINE = 40,
};

/* sched_switch. */
struct spry_switch {
	__u64 stamp;
	__u32 prev_tid : SPRY_TID_BITS;
	__u32 prev_policy : 3;
	/* The number of CPUs on which a prev that stays runnable may run; SPRY_ALLOWED_MANY for as many or
	 * more, 0 where that was not looked at. */
	__u32 prev_allowed : 4;
	/* The tracepoint's preempt argument. */
	__u32 is_preempted : 1;
	__u32 next_tid : SPRY_TID_BITS;
	__u32 next_policy : 3;
	__u32 next_pad : 5;
	/* The low bits of the task's state and, for a dead task, its exit state. */
	__u16 state;
	/* The kernel's priorities; 255 for a deadline task's -1. */
	__u8 prev_prio;
	__u8 next_prio;
	/* Wall time since the CPU's last switch less the run time that the kernel counted for prev's stay on
	 * the CPU, ns, saturating; 0 where the last switch is not known. */
	__s32 uncounted_ns;
};

#define SPRY_ALLOWED_MANY 15

/* sched_waking. */
struct spry_waking {
	__u64 stamp;
	__u32 waker : SPRY_TID_BITS;
	/* enum spry_context. */
	__u32 context : 8;
	__u32 wakee;
};

enum spry_context {
	SPRY_CONTEXT_TASK = 0,
	SPRY_CONTEXT_SOFTIRQ = 1,
	SPRY_CONTEXT_HARDIRQ = 2,
	SPRY_CONTEXT_UNKNOWN = 3,
};

/* A record of sched_wakeup, sched_wakeup_new, sched_migrate_task or sched_set_need_resched_tp. `cpu` is the
 * CPU that the woken task is put on, that the task moves to, or that is asked to reschedule. */
struct spry_move {
	__u64 stamp;
	__u32 tid;
	/* sched_wakeup, sched_wakeup_new: the number of CPUs on which the task may run; sched_migrate_task:
	 * the CPU that the task leaves; sched_set_need_resched_tp: the number of the flag that the kernel
	 * sets, which is higher for lazy rescheduling. */
	__u16 extra;
	__u16 cpu;
};

/* A record of a tick (value: its due time, ns), an interrupt or a softirq (value: its number), lost records
 * (value: their number), the entry or exit of schedule(), or an idle state that the CPU enters (value: its
 * number) or leaves (value: SPRY_IDLE_LEFT). */
struct spry_value {
	__u64 stamp;
	__u64 value;
};

/* The kernel's PWR_EVENT_EXIT. */
#define SPRY_IDLE_LEFT 0xffffffffu

/* Interrupts other than a device's line, in the value of SPRY_IRQ_ENTER and SPRY_IRQ_EXIT. */
enum spry_irq {
	SPRY_IRQ_LOCAL_TIMER = 0x10000,
	SPRY_IRQ_RESCHEDULE = 0x10001,
	SPRY_IRQ_CALL_FUNCTION = 0x10002,
	SPRY_IRQ_IRQ_WORK = 0x10003,
};

/* A timer with a time of this at most, ns of CLOCK_MONOTONIC, was to expire at once and has no record. It is
 * TimerExpire::AT_ONCE_NS in Rust. */
#define SPRY_AT_ONCE_NS 1

/* A timer's expiry. */
struct spry_timer_expiry {
	__u64 stamp;
	/* The thread that waits for the timer; 0 where that is not known. */
	__u32 tid;
	/* enum spry_timer. */
	__u32 kind;
	/* The earliest and the latest time at which the timer was to expire, ns of CLOCK_MONOTONIC; for a
	 * timer of the wheel, `deadline` is the number of jiffies by which it is late. */
	__u64 deadline;
	__u64 latest;
};

enum spry_timer {
	SPRY_TIMER_SLEEP = 0,
	SPRY_TIMER_TIMERFD = 1,
	SPRY_TIMER_POSIX = 2,
	SPRY_TIMER_ITIMER = 3,
	SPRY_TIMER_WHEEL = 4,
	SPRY_TIMER_OTHER = 5,
};

/* A task wrote bytes into a channel or read them from it. */
struct spry_ipc {
	__u64 stamp;
	__u64 id;
	__u32 tid;
	__u32 bytes;
	/* enum spry_channel. */
	__u32 kind;
	/* 0: the task wrote into the channel; 1: it read from the channel. */
	__u32 is_read;
};

enum spry_channel {
	SPRY_CHANNEL_PIPE = 0,
	SPRY_CHANNEL_UNIX = 1,
	SPRY_CHANNEL_INET = 2,
	SPRY_CHANNEL_TTY = 3,
	SPRY_CHANNEL_NONE = 4,
};

/* A runnable task is throttled, since the quota of a group is spent; or a task that was throttled gets a
 * CPU. */
struct spry_throttle {
	__u64 stamp;
	__u32 tid;
	/* enum spry_throttle_says. */
	__u32 says;
	__u64 ns;
	/* The id of the cgroup that holds the limit; 0 if it is not known, and for SPRY_QUEUE_ENDS. */
	__u64 group;
};

enum spry_throttle_says {
	/* The CPU's queue of the task's group is throttled. `ns`: its throttled time so far, by the run
	 * queue's clock; 0 where the kernel does not count that. */
	SPRY_QUEUE_BEGINS = 0,
	/* The task gets a CPU, and its group's queue there was throttled before. `ns`: as above. */
	SPRY_QUEUE_ENDS = 1,
	/* A sched_ext scheduler keeps the task waiting. */
	SPRY_SCHEDULER_BEGINS = 2,
	/* The task gets a CPU. `ns`: the time for which the scheduler kept it waiting. */
	SPRY_SCHEDULER_ENDS = 3,
};

/* The limit of a cgroup, before a spry_throttle that names the cgroup. */
struct spry_quota {
	__u64 stamp;
	__u64 group;
	__u64 quota_ns;
	__u64 period_ns;
};

/* Every record of the shared ring starts with these fields. */
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
	/* The child's numbers in the recorder's PID namespace; 0 where there are none. */
	__u32 inner;
	__u32 inner_tgid;
};

/* A record of an exec (value: the thread's tid before it) or of an exit (value is unused). */
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

/* The kernel's account of a task: its state and its run time. The task iterator makes one for each thread;
 * sched_switch makes one for a task that exits, and for the task that leaves at a CPU's first switch. */
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
	/* The numbers in the recorder's PID namespace; 0 where there are none. */
	__u32 inner;
	__u32 inner_tgid;
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
	/* Bytes of the kernel's and of the user's part of the stack; negative where that part could not be
	 * read. */
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
#define SPRY_CLOCK_SEEN	   0x100000000ull

/* The state of one CPU's ring. Positions count bytes since the ring was made and never wrap. */
struct spry_cpu {
	/* The CPU writes the fields from here to `missed`. The position of the next record; all records
	 * before it are complete. */
	__u64 head;
	/* The last head at which a record certainly fits, without a look at the chunk's end and at the
	 * tail. */
	__u64 limit;
	/* The number of programs that are writing on this CPU: one, and the programs that interrupted it. */
	__u64 nest;
	/* The task on the CPU (tid, and SPRY_RUNNING_KNOWN), the time at which it got the CPU, and its run
	 * time at that moment. */
	__u64 running;
	__u64 since_ns;
	__u64 exec_ns;
	/* The address of the CPU's preemption count, once it is known. */
	__u64 count_address;
	/* The number of records that have found no room since the last record that found room. */
	__u64 missed;
	/* The recorder writes this position: it has read everything before it. */
	__u64 tail;
	/* The number of this CPU's records that found no room in the shared ring; the CPU writes it. */
	__u64 meta_lost;
	/* The number of settings of the clocks, and SPRY_CLOCK_SEEN, at the CPU's last timer of another clock
	 * than the monotonic one, and the time at which that number was first seen; 0 if it was the first.
	 * The CPU writes both. */
	__u64 clock_settings;
	__u64 clock_set_ns;
	__u64 pad[4];
};

/* Constants that the recorder sets before it loads the programs. */
struct spry_knobs {
	/* The number of chunks in each CPU's ring, less one; that number is a power of two, and chunks_shift
	 * is its binary logarithm. */
	__u32 chunk_mask;
	__u32 chunks_shift;
	/* The binary logarithm of the number of chunks in a piece, which is one map. */
	__u32 piece_shift;
	__u32 piece_pad;
	__u64 ring_bytes;
	/* Whether the tracepoint sched_switch has prev's state among its arguments. */
	__u8 has_prev_state;
	__u8 has_wheel_clock;
	/* Whether a sched_ext scheduler notes which tasks wait for the limits that it keeps. */
	__u8 has_limit_waits;
	__u8 want_ticks;
	__u8 want_timers;
	__u8 want_stacks;
	__u8 want_marks;
	/* Whether the tick comes as an interrupt of its own, not as a high-resolution timer. */
	__u8 tick_is_irq;
	__u8 want_irqs;
	__u8 bytes_pad[7];
	/* Addresses of the kernel's timer handlers; 0 for a handler that the kernel does not have. */
	__u64 tick_handler;
	__u64 sleep_handler;
	__u64 timerfd_handler;
	__u64 posix_handler;
	__u64 itimer_handler;
	__u64 process_timeout_handler;
	/* The inode of the mark node, which is the file that marks are written to, and its file system's
	 * device. */
	__u64 mark_inode;
	__u64 mark_device;
	/* The distance of the preemption count from the CPU's run queue; 0 if it is elsewhere. */
	__s64 count_from_rq;
	/* The preemption count's bits of hard interrupts. */
	__u32 hardirq_mask;
	/* The inode of the recorder's PID namespace; 0 if it is the outermost namespace. */
	__u32 namespace_inode;
	/* Hides kernel addresses in channel ids. */
	__u64 channel_key;
};

/* The switch that the recorder sets while the programs run. */
struct spry_control {
	__u32 enabled;
	__u32 pad[15];
};

#endif
