/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of cgroups (cpu.max), where the kernel passes them on: a cgroup that has spent its quota of a
 * period, or one of whose parents has, waits in a queue that no CPU serves, until housekeeping begins its
 * next period. What ran too long is paid back.
 */
#ifndef SPRY_LIMIT_BPF_H
#define SPRY_LIMIT_BPF_H

#include "cgroup.bpf.h"
#include "queue.bpf.h"

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

/* Functions that are global are verified by themselves, once, not again in each state of their callers. */

/* Charges a cgroup and those above it for what a thread ran. */
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

/* Whether a cgroup, or one above it, has spent its quota: 0 or 1. */
__noinline int has_spent(u32 slot)
{
	for (int depth = 0; slot && depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (s->quota_ns && s->used_ns >= s->quota_ns)
			return 1;
		slot = s->parent;
	}
	return 0;
}

/* Charges the cgroups above a thread for what it ran. */
static __always_inline void limit_charge(struct thread_ctx *t, u64 ran_ns)
{
	if (cgroups_limited && t->slot >= 2)
		charge_limits(t->slot - 1, ran_ns);
}

/* Whether a thread must wait for a period to begin. */
static __always_inline bool is_over_limit(struct thread_ctx *t)
{
	return cgroups_limited && t && t->slot >= 2 && has_spent(t->slot - 1);
}

/* Begins periods that are due. */
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

/* Lets those go on whose cgroups may, and those that have waited so long that the kernel would call them
 * stuck. */
static __always_inline void release_parked(u32 place, u64 now)
{
	struct task_struct *p;

	if (!*queued_at(place, QUEUE_PARKED))
		return;
	bpf_for_each(scx_dsq, p, dsq_at(place, QUEUE_PARKED), 0)
	{
		struct thread_ctx *t = find_thread(p);
		s32 cpu = scx_bpf_task_cpu(p);
		u32 here = place, queue, count;

		/* The verifier forgets bounds that were found before the loop. */
		barrier_var(here);
		if (t && is_over_limit(t) && now - t->parked_ns < parked_most_ns)
			continue;
		/* It was ordered as it was put here: into its class. */
		queue = key_class(p->scx.dsq_vtime);
		if (queue == SPRY_CLASS_OTHER) {
			u64 least = llc_at(llc_of(cpu))->vtime - llc_at(llc_of(cpu))->lag;

			__COMPAT_scx_bpf_dsq_move_set_vtime(
				BPF_FOR_EACH_ITER,
				KEY(SPRY_CLASS_OTHER, t ? at_least(t->vtime, least) : least));
		}
		__sync_fetch_and_add(queued_at(here, queue), 1);
		*first_at(here, queue) = 0;
		count = QUEUE_PARKED;
		/* Another program may have taken it out. */
		if (!__COMPAT_scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_at(here, queue), 0))
			count = queue;
		__sync_fetch_and_sub(queued_at(here, count), 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

#endif
