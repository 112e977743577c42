/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of cgroups (cpu.max), on kernels that pass them on to the scheduler.
 *
 * State: a limited cgroup has a quota of run time, its used part, and a period (struct cgroup_slot).
 *
 * Rule: each thread's run time is charged to its cgroup and to all cgroups above it. If one of these has
 * spent its quota, the thread is parked until the next period begins (park.bpf.h). Run time beyond the quota
 * is subtracted from the next periods.
 */
#ifndef SPRY_LIMIT_BPF_H
#define SPRY_LIMIT_BPF_H

#include "cgroup.bpf.h"

/* The numbers of the queues for parked tasks, one for each slot, follow the numbers of all other queues. */
#define PARKED_DSQS (SPRY_PLACES_MAX * QUEUES + 1)

/* For each slot: whether it has a queue for parked tasks, and the number of times that housekeeping still
 * looks into it. `parking_looks` is the latter for all slots together. A queue that is found empty is looked
 * at once more, because a task is announced here before it is in its queue. */
static struct {
	u8 has_queue;
	u8 looks;
} parking[SPRY_CGROUPS_MAX];
static u8 parking_looks __attribute__((unused));
#define PARKING_LOOKS 2

static __always_inline u64 parked_dsq(u32 slot)
{
	return PARKED_DSQS + (slot & (SPRY_CGROUPS_MAX - 1));
}

/* Sets the quota and the period of the cgroup with a slot; a quota of 0 is no limit. */
static __always_inline void limit_set(u32 slot, u64 period_us, u64 quota_us)
{
	struct cgroup_slot *s = slot_at(slot);
	bool is_limited = has_timers && quota_us && quota_us < NO_QUOTA_US &&
			  parking[slot & (SPRY_CGROUPS_MAX - 1)].has_queue;
	u64 before_ns = __sync_lock_test_and_set(&s->quota_ns, is_limited ? quota_us * 1000 : 0);

	if (is_limited && !before_ns)
		__sync_fetch_and_add(&cgroups_limited, 1);
	if (!is_limited && before_ns)
		__sync_fetch_and_sub(&cgroups_limited, 1);
	s->period_ns = (period_us ?: 100000) * 1000;
}

/* The functions that follow are global, since the verifier checks a global function only once and not again
 * in each state of its callers. */

/* Charges run time to the quotas of a cgroup, given by its slot, and of all cgroups above it. */
__noinline int charge_limits(u32 slot, u64 ran_ns)
{
	for (int depth = 0; slot && depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (s->quota_ns)
			__sync_fetch_and_add(&s->used_ns, ran_ns);
		slot = s->parent;
	}
	return 0;
}

/* The slot of a cgroup that has spent its quota: the given slot, or a slot above it; 0 if there is none. */
__noinline int spent_slot(u32 slot)
{
	for (int depth = 0; slot && depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (s->quota_ns && s->used_ns >= s->quota_ns)
			return slot;
		slot = s->parent;
	}
	return 0;
}

/* Charges a thread's run time to the quotas of its cgroup and of all cgroups above it. */
static __always_inline void limit_charge(struct thread_ctx *t, u64 ran_ns)
{
	if (cgroups_limited && t->slot >= 2)
		charge_limits(t->slot - 1, ran_ns);
}

/* The slot of the cgroup for which a thread must wait, because this cgroup has spent its quota. It is the
 * thread's own cgroup or a cgroup above it; 0 if there is none. */
static __always_inline u32 limited_by(struct thread_ctx *t)
{
	return cgroups_limited && t && t->slot >= 2 ? spent_slot(t->slot - 1) : 0;
}

/* Begins the next period of each limited cgroup, if the last one is over. Run time beyond the quota stays as
 * a debt, unless more than 100 periods have passed. */
__noinline int limit_refill(u64 now)
{
	u32 i;

	bpf_for(i, 1, SPRY_CGROUPS_MAX)
	{
		struct cgroup_slot *s = slot_at(i);
		u64 periods, given;

		if (i > highest_slot)
			break;
		if (!s->quota_ns || now - s->began_ns < s->period_ns)
			continue;
		periods = (now - s->began_ns) / (s->period_ns ?: 1);
		s->began_ns += periods * s->period_ns;
		given = periods > 100 ? s->used_ns : periods * s->quota_ns;
		s->used_ns = s->used_ns > given ? s->used_ns - given : 0;
	}
	return 0;
}

#endif
