/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait for the next period of their cgroup. Each cgroup with a slot has a queue for the tasks that
 * its limit keeps waiting; no CPU serves it, and the task that has waited longest is first. A task that is
 * first in the queue of its class although its cgroup has spent its quota meanwhile is parked, too.
 */
#ifndef SPRY_PARK_BPF_H
#define SPRY_PARK_BPF_H

#include "limit.bpf.h"
#include "queue.bpf.h"

#include "../../../../base/kernel/include/limits.bpf.h"

/* How many first tasks of a queue a CPU parks before it takes one. */
#define PARKED_AT_ONCE 32
/* How many it has parked. The number is in memory, since the verifier would go through each value of a local
 * variable. */
static u32 parked_now;

/* Notes for recorders that a task waits for its cgroup's next period. A task that has not run since it was
 * parked has waited for this all the time. */
static __always_inline void tell_parked(struct task_struct *p, u32 slot, u64 now)
{
	struct spry_limit_wait *wait;
	struct cgroup_slot *s = slot_at(slot);

	wait = bpf_task_storage_get(&spry_limits, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!wait)
		return;
	if (!wait->since_ns || wait->ran_ns != p->se.sum_exec_runtime)
		wait->since_ns = now;
	wait->until_ns = 0;
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

/* A thread begins to wait for the next period of the cgroup with that slot; its order among the tasks of its
 * class is `key`. A thread that has not run since it was parked has waited since then, however often it was
 * put back. */
static __always_inline void parks(struct task_struct *p, struct thread_ctx *t, u32 slot, u64 key)
{
	u64 now = scx_bpf_now();

	if (!t->parked_ns || t->parked_ran_ns != p->se.sum_exec_runtime) {
		t->parked_ns = now;
		t->parked_ran_ns = p->se.sum_exec_runtime;
	}
	t->parked_key = key;
	/* The order that its CPU remembers would be given to it again without a look at its limits. */
	forget_recent(cpu_at(scx_bpf_task_cpu(p)), p);
	parking[slot & (SPRY_CGROUPS_MAX - 1)].looks = parking_looks = PARKING_LOOKS;
	tell_parked(p, slot, now);
}

/* Parks a thread that is put into a queue, if it must wait for its cgroup's next period. */
static __always_inline bool park(struct task_struct *p, struct thread_ctx *t, u64 key, u64 slice_ns,
				 u64 enq_flags)
{
	u32 slot = limited_by(t);

	if (!slot) {
		if (t && t->parked_ns && t->parked_ran_ns == p->se.sum_exec_runtime)
			tell_released(p, scx_bpf_now());
		return false;
	}
	parks(p, t, slot, key);
	scx_bpf_dsq_insert_vtime(p, parked_dsq(slot), slice_ns, t->parked_ns, enq_flags);
	return true;
}

/* A parked task that is put back has the order of its class again: in the queue of parked tasks, the order
 * was when it was parked. */
static __always_inline void parked_no_more(struct task_struct *p, struct thread_ctx *t)
{
	if (!t || !t->parked_key)
		return;
	set_key(p, t->parked_key);
	t->parked_key = 0;
}

/* Moves the task at which an iterator stands to the queue of parked tasks of a slot. */
static __always_inline bool move_to_parked(struct bpf_iter_scx_dsq *it, struct task_struct *p, u32 slot,
					   u64 parked_ns)
{
	__COMPAT_scx_bpf_dsq_move_set_vtime(it, parked_ns);
	return __COMPAT_scx_bpf_dsq_move_vtime(it, p, parked_dsq(slot), 0);
}

/*
 * Parks the first tasks of OTHER in a place, as long as their cgroups have spent their quotas: they were put
 * into the queue before. Otherwise each of many threads of a cgroup would have a turn more.
 */
__noinline int park_first(u32 place)
{
	struct task_struct *p;

	if (!*queued_at(place, SPRY_CLASS_OTHER))
		return 0;
	parked_now = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_OTHER), 0)
	{
		struct thread_ctx *t = find_thread(p);
		u32 slot = limited_by(t), here = place;

		/* The verifier forgets bounds that were found before the loop. */
		barrier_var(here);
		if (!slot || !t || parked_now >= PARKED_AT_ONCE)
			break;
		parked_now++;
		parks(p, t, slot, p->scx.dsq_vtime);
		if (!move_to_parked(BPF_FOR_EACH_ITER, p, slot, t->parked_ns))
			continue;
		*first_at(here, SPRY_CLASS_OTHER) = 0;
		__sync_fetch_and_sub(queued_at(here, SPRY_CLASS_OTHER), 1);
	}
	return 0;
}

#endif
