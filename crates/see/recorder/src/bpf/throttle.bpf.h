/* SPDX-License-Identifier: GPL-2.0-only */
/* Part of group sched: tasks that may not run, since the quota of a cgroup is spent. */
#ifndef SPRY_THROTTLE_BPF_H
#define SPRY_THROTTLE_BPF_H

/* How many groups lie above a task at most; deeper ones are not looked at. */
#define GROUPS_MAX 32

/* The group above the task that has its queue on this CPU throttled; NULL if there is none. The queues are
 * found from each entity to its parent, since kernels keep the queues of a group in different ways. */
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

/* Writes that a task which has just lost its CPU is throttled. */
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
	put(s, SPRY_THROTTLE, spry_throttle, .tid = task->pid, .so_far_ns = throttled_so_far(task),
	    .group = id);
}

/* Writes how long the queue of a task that gets a CPU was throttled, if it ever was. */
static __always_inline void put_throttle_over(struct stay *s, struct task_struct *task)
{
	u64 so_far_ns = throttled_so_far(task);

	if (so_far_ns)
		put(s, SPRY_THROTTLE, spry_throttle, .tid = task->pid, .is_over = 1, .so_far_ns = so_far_ns);
}

#endif
