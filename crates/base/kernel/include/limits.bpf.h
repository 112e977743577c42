/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits for the limits of cgroups that a sched_ext scheduler enforces itself. The kernel has no data on these
 * waits. The scheduler writes them here, and a recorder that finds the map by its name reads them.
 */
#ifndef SPRY_LIMITS_BPF_H
#define SPRY_LIMITS_BPF_H

/* The last wait of a task for a cgroup's next period. */
struct spry_limit_wait {
	/* The start and the end of the wait, ns of the scheduler's clock; the end is 0 during the wait. */
	u64 since_ns;
	u64 until_ns;
	/* The run time of the task at the start of the wait, ns: a task that has run longer has had a CPU
	 * since then. */
	u64 ran_ns;
	/* The cgroup that holds the limit, its run time for each period, and the period, ns. */
	u64 group;
	u64 quota_ns;
	u64 period_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct spry_limit_wait);
} spry_limits SEC(".maps");

#endif
