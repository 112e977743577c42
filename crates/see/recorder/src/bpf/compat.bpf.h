/* SPDX-License-Identifier: GPL-2.0-only */
/* The differences between kernels that only the recorder's programs must bridge. Differences for all of
 * Spry's BPF programs are in the headers included below; which tracepoints exist is probed in Rust. */
#ifndef SPRY_COMPAT_BPF_H
#define SPRY_COMPAT_BPF_H

#include "../../../../base/kernel/include/files.bpf.h"
#include "../../../../base/kernel/include/preempt.bpf.h"
#include "../../../../base/kernel/include/syscalls.bpf.h"

/*
 * The kernel's objects are read directly, not with BPF_CORE_READ: accesses are relocated all the same, and a
 * call to bpf_probe_read_kernel costs as much as all else that a record needs.
 */

/* 5.14 renamed task_struct.state. */
struct task_struct___state {
	volatile long state;
} __attribute__((preserve_access_index));

struct task_struct___new_state {
	unsigned int __state;
} __attribute__((preserve_access_index));

static __always_inline u32 task_state(struct task_struct *task)
{
	struct task_struct___new_state *new_task = (void *)task;
	struct task_struct___state *old_task = (void *)task;

	if (bpf_core_field_exists(new_task->__state))
		return new_task->__state;
	return old_task->state;
}

/* The size and the sign of on_cpu and on_rq differ between kernels; BPF_CORE_READ_BITFIELD adapts to both. */
static __always_inline bool task_has_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_cpu);
}

static __always_inline bool task_is_queued(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_rq);
}

/* 5.16 moved task_struct.cpu to thread_info.cpu. */
struct thread_info___cpu {
	u32 cpu;
} __attribute__((preserve_access_index));

struct task_struct___thread_info {
	struct thread_info___cpu thread_info;
} __attribute__((preserve_access_index));

struct task_struct___cpu {
	unsigned int cpu;
} __attribute__((preserve_access_index));

static __always_inline u32 task_cpu(struct task_struct *task)
{
	struct task_struct___thread_info *new_task = (void *)task;
	struct task_struct___cpu *old_task = (void *)task;

	if (bpf_core_field_exists(new_task->thread_info.cpu))
		return new_task->thread_info.cpu;
	return old_task->cpu;
}

/* The number of CPUs on which a task may run, at most `most`. */
static __always_inline u32 task_cpus_allowed(struct task_struct *task, u32 most)
{
	u32 allowed = task->nr_cpus_allowed;

	return allowed < most ? allowed : most;
}

#define SPRY_SOFTIRQ_SERVING 0x00100

static __always_inline u32 waker_context(struct spry_cpu *c, struct task_struct *waker)
{
	u32 count;

	if (!read_preempt_count(waker, knobs.count_from_rq, &c->count_address, &count))
		return SPRY_CONTEXT_UNKNOWN;
	if (count & knobs.hardirq_mask)
		return SPRY_CONTEXT_HARDIRQ;
	if (count & SPRY_SOFTIRQ_SERVING)
		return SPRY_CONTEXT_SOFTIRQ;
	return SPRY_CONTEXT_TASK;
}

/*
 * A kernel may hide switches (in some virtual machines, switches away from init's threads). The task that a
 * hidden switch brought is first seen when it leaves the CPU. Its run time follows only from the values that
 * the kernel noted when the task got the CPU: the run queue's clock and, for a task of the fair class, its
 * run time.
 */
struct sched_info___arrival {
	u64 last_arrival;
} __attribute__((preserve_access_index));

struct task_struct___arrival {
	struct sched_info___arrival sched_info;
} __attribute__((preserve_access_index));

struct rq___clock {
	u64 clock;
	struct task_struct *curr;
} __attribute__((preserve_access_index));

struct cfs_rq___clock {
	struct rq___clock *rq;
} __attribute__((preserve_access_index));

#define MAX_RT_PRIO 100

/* Whether the kernel counts this task as the current task of its CPU. A task that is leaving its CPU has it
 * until the switch is complete, but is its current task no more. */
static __always_inline bool task_is_current(struct task_struct *task)
{
	struct cfs_rq___clock *queue = (void *)task->se.cfs_rq;

	if (!bpf_core_field_exists(queue->rq) || !bpf_core_field_exists(queue->rq->curr))
		return false;
	return queue->rq->curr == task;
}

/* For a task that leaves its CPU: its run time since it got that CPU, at most `most_ns`. */
static __always_inline u64 unseen_run_time(struct task_struct *task, u64 most_ns)
{
	struct task_struct___arrival *noted = (void *)task;
	struct cfs_rq___clock *queue = (void *)task->se.cfs_rq;
	u64 run_ns = most_ns, counted_ns;

	if (bpf_core_field_exists(noted->sched_info.last_arrival) && bpf_core_field_exists(queue->rq)) {
		u64 stay_ns = queue->rq->clock - noted->sched_info.last_arrival;

		if (stay_ns < run_ns)
			run_ns = stay_ns;
	}
	if (task->prio >= MAX_RT_PRIO) {
		counted_ns = task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
		/* Schedulers other than the fair one do not update prev_sum_exec_runtime. */
		if (counted_ns < run_ns)
			run_ns = counted_ns;
	}
	return run_ns;
}

/* Since 6.18 tasks are throttled one by one, and since 6.6 the queues count the throttled time of their
 * tasks. Before, the tasks of a queue were throttled with it. */
struct task_struct___throttled {
	bool throttled;
} __attribute__((preserve_access_index));

struct cfs_rq___throttle_count {
	int throttle_count;
} __attribute__((preserve_access_index));

struct cfs_rq___throttled_self {
	u64 throttled_clock_self;
	u64 throttled_clock_self_time;
} __attribute__((preserve_access_index));

/* Whether a task that leaves its CPU, still runnable, is throttled. */
static __always_inline bool task_is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *new_task = (void *)task;
	struct cfs_rq___throttle_count *queue = (void *)task->se.cfs_rq;

	if (bpf_core_field_exists(new_task->throttled))
		return new_task->throttled;
	return bpf_core_field_exists(queue->throttle_count) && task->prio >= MAX_RT_PRIO &&
	       queue->throttle_count > 0;
}

/* The throttled time of the queue of the task's group so far, ns of the run queue's clock; 0 if it was never
 * throttled, or if the kernel does not count that. */
static __always_inline u64 throttled_so_far(struct task_struct *task)
{
	struct cfs_rq___throttled_self *queue = (void *)task->se.cfs_rq;
	struct cfs_rq___clock *with_rq = (void *)queue;
	u64 so_far_ns;

	if (!bpf_core_field_exists(queue->throttled_clock_self_time))
		return 0;
	so_far_ns = queue->throttled_clock_self_time;
	if (queue->throttled_clock_self)
		so_far_ns += with_rq->rq->clock - queue->throttled_clock_self;
	return so_far_ns;
}

/* Kernels that have these two functions may run a tracepoint's program preemptibly; on kernels that lack them
 * the tracepoint itself disables preemption. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void stay_on_cpu(void)
{
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
}

static __always_inline void may_leave_cpu(void)
{
	if (bpf_ksym_exists(bpf_preempt_enable))
		bpf_preempt_enable();
}

/*
 * Kernels from 6.7 on let a program walk over all tasks. Before, only the task iterator did, which lists the
 * tasks of its opener's PID namespace. The structure has the kernel's size (24 bytes) and room for more.
 */
struct task_walk {
	u64 opaque[8];
};

#define WALK_ALL_THREADS 1

extern int bpf_iter_task_new(struct task_walk *walk, struct task_struct *task,
			     unsigned int flags) __ksym __weak;
extern struct task_struct *bpf_iter_task_next(struct task_walk *walk) __ksym __weak;
extern void bpf_iter_task_destroy(struct task_walk *walk) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;

/* Stores a value that the recorder reads; the recorder sees the value only after all earlier stores. */
static __always_inline void publish(u64 *place, u64 value)
{
#if defined(__TARGET_ARCH_x86)
	/* On x86 other CPUs see stores in the order in which they were made. */
	barrier();
	*(volatile u64 *)place = value;
#else
	__sync_lock_test_and_set(place, value);
#endif
}

/* The distance of a timer's clock base from the monotonic clock, ns. */
struct hrtimer_clock_base___offset {
	ktime_t offset;
} __attribute__((preserve_access_index));

static __always_inline s64 clock_offset(struct hrtimer *timer)
{
	struct hrtimer_clock_base___offset *base = (void *)timer->base;

	if (bpf_core_field_exists(base->offset))
		return base->offset;
	return 0;
}

/* The kernel's number of settings of its clocks: by hand, by leap seconds, and by time that the machine was
 * suspended. */
struct hrtimer_cpu_base___settings {
	unsigned int clock_was_set_seq;
} __attribute__((preserve_access_index));

struct hrtimer_clock_base___cpu_base {
	struct hrtimer_cpu_base___settings *cpu_base;
} __attribute__((preserve_access_index));

/* How often the clocks were set, up to a timer's expiry; 0 if the kernel does not count it. */
static __always_inline u64 clock_settings(struct hrtimer *timer)
{
	struct hrtimer_clock_base___cpu_base *base = (void *)timer->base;

	if (bpf_core_field_exists(base->cpu_base) && bpf_core_field_exists(base->cpu_base->clock_was_set_seq))
		return base->cpu_base->clock_was_set_seq | SPRY_CLOCK_SEEN;
	return 0;
}

/* The number and the first three arguments of a system call. read_syscall takes them from `regs` and returns
 * false for a call that is not of the kernel's native ABI. */
struct syscall {
	u64 number;
	u64 args[3];
};

struct thread_info___status {
	u32 status;
} __attribute__((preserve_access_index));

struct task_struct___status {
	struct thread_info___status thread_info;
} __attribute__((preserve_access_index));

#define SPRY_TS_COMPAT 0x2

static __always_inline bool read_syscall(struct pt_regs *regs, struct task_struct *task, struct syscall *call)
{
#if defined(__TARGET_ARCH_x86)
	struct task_struct___status *with_status = (void *)task;

	if (bpf_core_field_exists(with_status->thread_info.status) &&
	    (with_status->thread_info.status & SPRY_TS_COMPAT))
		return false;
	call->number = regs->orig_ax;
	call->args[0] = regs->di;
	call->args[1] = regs->si;
	call->args[2] = regs->dx;
	return true;
#elif defined(__TARGET_ARCH_arm64)
	call->number = regs->syscallno;
	call->args[0] = regs->orig_x0;
	call->args[1] = regs->regs[1];
	call->args[2] = regs->regs[2];
	return true;
#else
	return false;
#endif
}

#endif
