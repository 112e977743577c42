/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of cgroups (cpu.max), on kernels that pass them on to the scheduler. Tasks of a cgroup that has
 * spent its quota of a period, or of which a parent has, wait in a queue that no CPU serves, until
 * housekeeping begins the cgroup's next period. What a cgroup ran too long is taken from its next periods.
 */
#ifndef SPRY_LIMIT_BPF_H
#define SPRY_LIMIT_BPF_H

#include "cgroup.bpf.h"
#include "queue.bpf.h"

#include "../../../../base/kernel/include/limits.bpf.h"

static __always_inline void limit_set(struct cgroup_slot *s, u64 period_us, u64 quota_us)
{
	bool is_limited = has_timers && quota_us && quota_us < NO_QUOTA_US;
	u64 before_ns = __sync_lock_test_and_set(&s->quota_ns, is_limited ? quota_us * 1000 : 0);

	if (is_limited && !before_ns)
		__sync_fetch_and_add(&cgroups_limited, 1);
	if (!is_limited && before_ns)
		__sync_fetch_and_sub(&cgroups_limited, 1);
	s->period_ns = (period_us ?: 100000) * 1000;
}

/* The verifier checks a global function once, by itself, not again in each state of the function's
 * callers. */

/* Charges a cgroup and all cgroups above it for what a thread ran. */
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

/* The slot of a cgroup, or of one above it, that has spent its quota; 0 if there is none. */
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

/* Charges a thread's cgroup and all cgroups above it for what the thread ran. */
static __always_inline void limit_charge(struct thread_ctx *t, u64 ran_ns)
{
	if (cgroups_limited && t->slot >= 2)
		charge_limits(t->slot - 1, ran_ns);
}

/* The slot of a thread's cgroup, or of one above this cgroup, that has spent its quota, so that the thread
 * must wait; 0 if there is none. */
static __always_inline u32 limited_by(struct thread_ctx *t)
{
	return cgroups_limited && t && t->slot >= 2 ? spent_slot(t->slot - 1) : 0;
}

/* Notes for recorders that a task waits for its cgroup's next period. */
static __always_inline void tell_parked(struct task_struct *p, u32 slot, u64 now)
{
	struct spry_limit_wait *wait;
	struct cgroup_slot *s = slot_at(slot);

	wait = bpf_task_storage_get(&spry_limits, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!wait)
		return;
	wait->until_ns = 0;
	wait->since_ns = now;
	wait->ran_ns = p->se.sum_exec_runtime;
	wait->group = s->owner;
	wait->quota_ns = s->quota_ns;
	wait->period_ns = s->period_ns;
}

/* Notes for recorders that a parked task waits as any other from now on. */
static __always_inline void tell_released(struct task_struct *p, u64 now)
{
	struct spry_limit_wait *wait = bpf_task_storage_get(&spry_limits, p, NULL, 0);

	if (wait && !wait->until_ns)
		wait->until_ns = now;
}

/*
 * Whether a thread that is put into a queue must wait for its cgroup's next period. A thread that has not run
 * since it was parked has waited since then, however often it was put back; after `parked_most_ns` it waits
 * in its class' queue, whatever its cgroup has spent.
 */
static __always_inline bool parks(struct task_struct *p, struct thread_ctx *t)
{
	u32 slot = limited_by(t);
	bool has_waited = t && t->parked_ns && t->parked_ran_ns == p->se.sum_exec_runtime;
	u64 now;

	if (!slot && !has_waited)
		return false;
	now = scx_bpf_now();
	if (!has_waited) {
		t->parked_ns = now;
		t->parked_ran_ns = p->se.sum_exec_runtime;
		tell_parked(p, slot, now);
	}
	if (slot && (s64)(now - t->parked_ns) < (s64)parked_most_ns)
		return true;
	tell_released(p, now);
	return false;
}

/* Begins the next period of each cgroup of which the period is over. */
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

/* Lets parked tasks go on: those of cgroups that may run again, and those that have waited so long that the
 * kernel would call them stuck. */
static __always_inline void release_parked(u32 place, u64 now)
{
	struct task_struct *p;

	if (!*queued_at(place, QUEUE_PARKED))
		return;
	bpf_for_each(scx_dsq, p, dsq_at(place, QUEUE_PARKED), 0)
	{
		struct thread_ctx *t = find_thread(p);
		s32 cpu = scx_bpf_task_cpu(p);
		u32 here = place;
		struct goes_to to;

		/* The verifier forgets bounds that were found before the loop. */
		barrier_var(here);
		if (t && limited_by(t) && now - t->parked_ns < parked_most_ns)
			continue;
		tell_released(p, now);
		/* The task got its order and its slice when it was put here: the order says its class. */
		to.place = here;
		to.queue = key_class(p->scx.dsq_vtime);
		to.key = to.queue == SPRY_CLASS_OTHER ? order_in_other(t, llc_at(llc_of(cpu)))
						      : p->scx.dsq_vtime;
		to.slice_ns = p->scx.slice;
		move_to(BPF_FOR_EACH_ITER, p, here, QUEUE_PARKED, &to);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

#endif
