/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parked tasks go on. Housekeeping looks at the queues of cgroups that may run again, and at the first tasks
 * of the others, never at all parked tasks.
 *
 * The kernel's watchdog wants each task that is ready to run to have a CPU within 30 s. A task that has been
 * parked for long gets one for no time: it is switched to and sent off at once.
 */
#ifndef SPRY_RELEASE_BPF_H
#define SPRY_RELEASE_BPF_H

#include "park.bpf.h"
#include "place.bpf.h"

/* How many tasks of a cgroup, and how many tasks in all, housekeeping puts back at once; while more of them
 * may go on, housekeeping comes again after RELEASE_AGAIN_NS. */
#define RELEASED_OF_ONE	 32
#define RELEASED_AT_ONCE 64
#define RELEASE_AGAIN_NS MS
/* For each so much of what is left of a quota, ns, one task is put back. Tasks that run for less leave some
 * of the quota for the next ones. */
#define RELEASE_EACH_NS (MS / 4)
/* How many tasks in each tick of limits get a CPU for no time. */
#define PASSING_AT_ONCE 16

/* The slot at which housekeeping begins to look, and when tasks last got a CPU for no time. */
static u32 release_from;
static u64 passing_ns;

/* How many tasks housekeeping has put back, and how many got a CPU for no time, in one look. They are in
 * memory, since the verifier would go through each value of a local variable. */
static u32 released, passing, of_one;

/* Tasks that got a CPU for no time. */
u64 passed_by;

/* Moves the parked task at which an iterator stands to a queue that CPUs serve. */
static __always_inline void leaves_parking(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					   struct thread_ctx *t, u32 queue, u64 key)
{
	struct where at = where_of(nr_cpus > 1 ? scx_bpf_task_cpu(p) : 0);
	u32 *count;

	if (nr_cpus > 1 && (queue != QUEUE_PASSING || is_bound(p)))
		at.place = place_of(p, &at);
	t->parked_key = 0;
	if (queue == SPRY_CLASS_OTHER)
		key = order_in_other(t, domain_of(&at));
	__COMPAT_scx_bpf_dsq_move_set_vtime(it, key);
	count = queued_at(at.place, queue);
	__sync_fetch_and_add(count, 1);
	*first_at(at.place, queue) = 0;
	/* The move fails if the task was taken out meanwhile. */
	if (!__COMPAT_scx_bpf_dsq_move_vtime(it, p, dsq_at(at.place, queue), 0)) {
		__sync_fetch_and_sub(count, 1);
		return;
	}
	if (nr_cpus > 1 && queue != QUEUE_PASSING) {
		count_put(&at, queue);
		find_cpu_for(p, queue, &at);
	}
	scx_bpf_kick_cpu(at.cpu, SCX_KICK_IDLE);
}

/* How many tasks of a cgroup are put back for what is left of its quota. */
static __always_inline u32 released_for(u32 slot)
{
	struct cgroup_slot *s = slot_at(slot);
	s64 left_ns = s->quota_ns - s->used_ns;

	return at_most(s->quota_ns && left_ns > 0 ? left_ns / RELEASE_EACH_NS + nr_cpus : RELEASED_OF_ONE,
		       RELEASED_OF_ONE);
}

/*
 * Lets parked tasks of a cgroup go on. If the cgroup may run, as many tasks go on as its quota is good for;
 * a task that another cgroup keeps waiting is moved to that cgroup's queue. If the cgroup may not run, the
 * tasks go on that have waited so long that the kernel would call them stuck. Returns whether more tasks may
 * go on now.
 */
__noinline u32 release_parked(u32 slot, u64 now)
{
	struct task_struct *p;
	u32 most = released_for(slot), more = 0;

	of_one = 0;
	bpf_for_each(scx_dsq, p, parked_dsq(slot), 0)
	{
		struct thread_ctx *t = find_thread(p);
		u32 by = limited_by(t), queue;

		if (!t)
			break;
		if (by && now - t->parked_ns >= parked_most_ns) {
			if (passing >= PASSING_AT_ONCE)
				break;
			passing++;
			leaves_parking(BPF_FOR_EACH_ITER, p, t, QUEUE_PASSING, t->parked_key);
			continue;
		}
		if (by == slot)
			break;
		if (of_one >= most || released >= RELEASED_AT_ONCE) {
			more = 1;
			break;
		}
		of_one++;
		released++;
		if (by) {
			parking[by & (SPRY_CGROUPS_MAX - 1)].looks = PARKING_LOOKS;
			move_to_parked(BPF_FOR_EACH_ITER, p, by, t->parked_ns);
			continue;
		}
		tell_released(p, now);
		queue = key_class(t->parked_key);
		leaves_parking(BPF_FOR_EACH_ITER, p, t, queue, t->parked_key);
	}
	return more;
}

/* Looks at the queue of a slot. Returns whether more of its tasks may go on now. */
static __always_inline u32 look_at_parked(u32 slot, u64 now)
{
	if (scx_bpf_dsq_nr_queued(parked_dsq(slot)) <= 0) {
		parking[slot].looks--;
		return 0;
	}
	parking[slot].looks = PARKING_LOOKS;
	return release_parked(slot, now);
}

/* Begins periods that are due, and lets parked tasks go on. Returns after how long to look again, ns. */
__noinline u64 limits_keep(u64 now)
{
	u32 i, last = highest_slot, more = 0, any = 0;

	if (cgroups_limited)
		limit_refill(now);
	if (!parking_looks)
		return limit_tick_ns;
	released = 0;
	passing = now - passing_ns >= limit_tick_ns ? 0 : PASSING_AT_ONCE;
	if (!passing)
		passing_ns = now;
	bpf_for(i, 0, SPRY_CGROUPS_MAX)
	{
		u32 slot;

		if (i > last)
			break;
		if (released >= RELEASED_AT_ONCE)
			return RELEASE_AGAIN_NS;
		/* The next look begins where this one ends, so that each cgroup comes first now and then. */
		slot = release_from & (SPRY_CGROUPS_MAX - 1);
		release_from = slot < last ? slot + 1 : 0;
		if (!parking[slot].looks)
			continue;
		any = 1;
		more |= look_at_parked(slot, now);
	}
	if (!any)
		parking_looks--;
	return more ? RELEASE_AGAIN_NS : limit_tick_ns;
}

/* Gives the CPU for no time to a task that has been parked for long, if there is one. The kick takes effect
 * as soon as the task has the CPU. */
__noinline u32 pass_by(u32 cpu)
{
	if (!take(llc_of(cpu), QUEUE_PASSING) && (nr_cpus == 1 || !take(place_of_cpu(cpu), QUEUE_PASSING)))
		return false;
	cpu_at(cpu)->has = SPRY_CLASS_IDLE;
	__sync_fetch_and_add(&passed_by, 1);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

static __always_inline bool passes_by(const struct where *at)
{
	if (!*queued_at(at->llc, QUEUE_PASSING) &&
	    (nr_cpus == 1 || !*queued_at(place_of_cpu(at->cpu), QUEUE_PASSING)))
		return false;
	return pass_by(at->cpu);
}

#endif
