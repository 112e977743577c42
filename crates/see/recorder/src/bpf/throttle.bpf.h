/* SPDX-License-Identifier: GPL-2.0-only */
/* Part of group sched: throttled tasks, since the quota of a cgroup is spent. The kernel's fair class
 * enforces limits by queues; a sched_ext scheduler enforces them itself, and may note the tasks that wait. */
#ifndef SPRY_THROTTLE_BPF_H
#define SPRY_THROTTLE_BPF_H

#include "../../../../base/kernel/include/limits.bpf.h"

/* The most groups above a task that are searched. */
#define GROUPS_MAX 64

/* The group above the task with a throttled queue on this CPU; NULL if there is none. The queues are found
 * from each entity to its parent, since kernels keep the queues of a group in different ways. */
static __always_inline struct task_group *throttled_group(struct task_struct *task)
{
	struct sched_entity *entity = &task->se;

	for (int up = 0; up < GROUPS_MAX && entity; up++) {
		struct cfs_rq *queue = BPF_CORE_READ(entity, cfs_rq);

		if (queue && BPF_CORE_READ_BITFIELD_PROBED(queue, throttled))
			return BPF_CORE_READ(queue, tg);
		entity = BPF_CORE_READ(entity, parent);
	}
	return NULL;
}

/* Writes that a task is throttled, which has just lost its CPU. */
static __noinline void put_throttle(struct stay *s, struct task_struct *task)
{
	struct task_group *group;
	u64 id = 0;

	if (!s || !task || !s->c)
		return;
	group = throttled_group(task);
	if (group) {
		id = BPF_CORE_READ(group, css.cgroup, kn, id);
		put(s, SPRY_QUOTA, spry_quota, .group = id,
		    .quota_ns = BPF_CORE_READ(group, cfs_bandwidth.quota),
		    .period_ns = BPF_CORE_READ(group, cfs_bandwidth.period));
	}
	put(s, SPRY_THROTTLE, spry_throttle, .tid = task->pid, .says = SPRY_QUEUE_BEGINS,
	    .ns = throttled_so_far(task), .group = id);
}

/* The sched_ext scheduler's note of a task that has not run since it began to wait; NULL if there is no
 * note. */
static __always_inline struct spry_limit_wait *limit_wait(struct task_struct *task)
{
	struct spry_limit_wait *wait;

	if (!knobs.has_limit_waits || !task->pid)
		return NULL;
	wait = bpf_task_storage_get(&spry_limits, task, NULL, 0);
	return wait && wait->since_ns && wait->ran_ns == task->se.sum_exec_runtime ? wait : NULL;
}

static __always_inline void put_limit_wait(struct stay *s, u32 tid, struct spry_limit_wait *wait, u32 says,
					   u64 ns)
{
	put(s, SPRY_QUOTA, spry_quota, .group = wait->group, .quota_ns = wait->quota_ns,
	    .period_ns = wait->period_ns);
	put(s, SPRY_THROTTLE, spry_throttle, .tid = tid, .says = says, .ns = ns, .group = wait->group);
}

/* Writes that a sched_ext scheduler keeps a task waiting, if it does. */
static __always_inline void put_limit_begins(struct stay *s, struct task_struct *task)
{
	struct spry_limit_wait *wait = limit_wait(task);

	if (wait && !wait->until_ns)
		put_limit_wait(s, task->pid, wait, SPRY_SCHEDULER_BEGINS, 0);
}

/* For a task that gets a CPU: writes how long its scheduler kept it waiting, or its queue was throttled. */
static __always_inline void put_throttle_over(struct stay *s, struct task_struct *task)
{
	struct spry_limit_wait *wait = limit_wait(task);
	u64 so_far_ns;

	if (wait) {
		if (wait->until_ns > wait->since_ns)
			put_limit_wait(s, task->pid, wait, SPRY_SCHEDULER_ENDS,
				       wait->until_ns - wait->since_ns);
		return;
	}
	so_far_ns = throttled_so_far(task);
	if (so_far_ns)
		put(s, SPRY_THROTTLE, spry_throttle, .tid = task->pid, .says = SPRY_QUEUE_ENDS,
		    .ns = so_far_ns);
}

#endif
