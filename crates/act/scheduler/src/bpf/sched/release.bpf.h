/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Releasing parked tasks (park.bpf.h): they go back to the queues that CPUs serve, when their
 * cgroup may run again.
 *
 * Rule: housekeeping checks the queues of parked tasks in turn. It releases tasks of cgroups that may run
 * again, and otherwise looks at the first tasks of a queue only.
 *
 * Watchdog: the kernel ends the scheduler if a task that is ready to run has no CPU for 30 s. A task that has
 * been parked for 8 s gets a CPU for no time: the CPU switches to it and at once decides again.
 *
 * Inside: a task that left its CPU inside the kernel may hold a lock (park.bpf.h), or be a reader of RCU. The
 * kernel also ends the scheduler if a grace period of RCU takes 21 s, and it waits for each such reader. So a
 * task inside the kernel gets a CPU for moments when it has been parked for 50 ms, until it is on the way to
 * user mode. Its first two stays take 5 us, or an eighth longer than a task needs to leave the scheduler
 * (pass_ns). Each further stay takes twice as long as the last, up to 50 us if the first is shorter. A task
 * on that way then begins to rest: it stays parked for the rest of the 8 s. If it is not known how a task
 * left its CPU, it gets a CPU for no time, and then this is known.
 *
 * Bound: stays inside the kernel take at most 4 % of a CPU together. Their run time is charged to the quota.
 */
#ifndef SPRY_RELEASE_BPF_H
#define SPRY_RELEASE_BPF_H

#include "park.bpf.h"
#include "place.bpf.h"

/* The most tasks that one round of housekeeping releases, of one cgroup and in all. If more may go on, the
 * next round follows after RELEASE_AGAIN_NS. */
#define RELEASED_OF_ONE	 32
#define RELEASED_AT_ONCE 64
#define RELEASE_AGAIN_NS MS
/* One task is released for each part of this length, ns, of the rest of a cgroup's quota. Tasks that run for
 * less leave some of the quota for the next tasks. */
#define RELEASE_EACH_NS (MS / 4)
/* The most tasks that get a CPU for no time within one limit_tick_ns. A task inside the kernel counts as two
 * from its third stay on. */
#define PASSING_AT_ONCE 16
#define PASSING_INSIDE	2
#define STAYS_SHORT	2
/* From this number on, stays are not counted. They have their greatest length by then. */
#define STAYS_GROW 16
/* One of so many passing tasks is measured, if it is inside the kernel. */
#define MEASURED_EACH 64
/* The most tasks that begin to rest in one round. If more could, the next round follows after
 * RELEASE_AGAIN_NS. */
#define RESTING_AT_ONCE 64
/* Several CPUs: after this time, ns, a run of housekeeping moves no more tasks, and the next run follows
 * after RELEASE_AGAIN_NS. Each move takes the lock of the task's run queue, which that task's CPU holds while
 * it decides. On two CPUs a move took up to 116 us. */
#define ROUND_MOST_NS 50000

/* The slot at which the next round of housekeeping begins; the last time at which tasks passed a CPU, ns. */
static u32 release_from;
static u64 passing_ns;

/* The time from which on the current run of housekeeping moves no more tasks, on the monotonic clock, ns. */
static u64 round_ends_ns;

/* Numbers of tasks in the current round: released in all; released of one cgroup; begun to rest; looked at in
 * the current queue. Then the number of tasks sent to pass a CPU within the current limit_tick_ns. They are
 * in memory, since the verifier would follow each value of a local variable separately. */
static u32 released, of_one, resting, looked_at, passing;

/* Numbers of tasks that passed a CPU so far: for no time, and inside the kernel. */
u64 passed_by;
u64 passed_inside;

/* Moves a parked task to a queue that CPUs serve. The iterator `it` stands at the task. */
static __always_inline void leaves_parking(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					   struct thread_ctx *t, u32 queue, u64 key)
{
	struct where at = where_of(nr_cpus > 1 ? scx_bpf_task_cpu(p) : 0);
	u32 *count;

	if (nr_cpus > 1 && (queue != QUEUE_PASSING || is_bound(p)))
		at.place = place_of(p, &at);
	t->parked_key = 0;
	t->passes = queue == QUEUE_PASSING;
	if (queue == SPRY_CLASS_OTHER)
		key = order_in_other(t, domain_of(&at));
	__COMPAT_scx_bpf_dsq_move_set_vtime(it, key);
	count = queued_at(at.place, queue);
	__sync_fetch_and_add(count, 1);
	*first_at(at.place, queue) = 0;
	/* The move fails if the task was taken out of its queue meanwhile. */
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

/* The number of parked tasks of a cgroup that are released for the rest of its quota. */
static __always_inline u32 released_for(u32 slot)
{
	struct cgroup_slot *s = slot_at(slot);
	s64 left_ns = s->quota_ns - s->used_ns;

	return at_most(s->quota_ns && left_ns > 0 ? left_ns / RELEASE_EACH_NS + nr_cpus : RELEASED_OF_ONE,
		       RELEASED_OF_ONE);
}

/* Whether the current run of housekeeping has taken its time. On kernels without timers no run would go on.
 */
static __always_inline bool is_round_over(void)
{
	return nr_cpus > 1 && has_timers && (s64)(bpf_ktime_get_ns() - round_ends_ns) >= 0;
}

/* Releases parked tasks of a cgroup. If the cgroup may run, its quota limits their number. If another
 * cgroup's quota keeps a task waiting, the task moves to that cgroup's queue. If the cgroup may not run, only
 * tasks that are due to pass a CPU get one. Returns whether more tasks may go on now. */
__noinline u32 release_parked(u32 slot, u64 now)
{
	struct task_struct *p;
	u32 most = released_for(slot), more = 0;

	of_one = looked_at = 0;
	bpf_for_each(scx_dsq, p, parked_dsq(slot), 0)
	{
		struct thread_ctx *t = find_thread(p);
		u32 by = limited_by(t), queue;

		if (!t)
			break;
		/* Each round moves at least one task of a queue. */
		if (looked_at++ && is_round_over()) {
			more = 1;
			break;
		}
		if (by && (s64)(now - t->passes_ns) >= 0) {
			if (!t->rests && is_outside(p, t)) {
				if (resting >= RESTING_AT_ONCE) {
					more = 1;
					break;
				}
				resting++;
				t->rests = 1;
				t->stays = 0;
				t->passes_ns += parked_most_ns - inside_most_ns;
				move_to_parked(BPF_FOR_EACH_ITER, p, slot, t->passes_ns);
				continue;
			}
			if (passing >= PASSING_AT_ONCE)
				break;
			passing += is_inside(p, t) && t->stays >= STAYS_SHORT ? PASSING_INSIDE : 1;
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
			move_to_parked(BPF_FOR_EACH_ITER, p, by, t->passes_ns);
			continue;
		}
		tell_released(p, now);
		queue = key_class(t->parked_key);
		leaves_parking(BPF_FOR_EACH_ITER, p, t, queue, t->parked_key);
	}
	return more;
}

/* Releases tasks from the queue of a slot, if it has any. Returns whether more of them may go on now. */
static __always_inline u32 look_at_parked(u32 slot, u64 now)
{
	if (scx_bpf_dsq_nr_queued(parked_dsq(slot)) <= 0) {
		parking[slot].looks--;
		return 0;
	}
	parking[slot].looks = PARKING_LOOKS;
	return release_parked(slot, now);
}

/* Begins the periods of limits that are due, and releases parked tasks. Returns the time until the next call,
 * ns. */
__noinline u64 limits_keep(u64 now)
{
	u32 i, last = highest_slot, more = 0, any = 0, is_full;
	/* The slot after the cgroup with the last task that may pass; SPRY_CGROUPS_MAX: more may pass. */
	u32 after = SPRY_CGROUPS_MAX;

	if (cgroups_limited)
		limit_refill(now);
	if (!parking_looks)
		return limit_tick_ns;
	released = resting = 0;
	if (now - passing_ns >= limit_tick_ns) {
		passing = 0;
		passing_ns = now;
	}
	is_full = passing >= PASSING_AT_ONCE;
	bpf_for(i, 0, SPRY_CGROUPS_MAX)
	{
		u32 slot;

		if (i > last)
			break;
		if (released >= RELEASED_AT_ONCE)
			return RELEASE_AGAIN_NS;
		/* The next round begins where this one ends, so that each cgroup is sometimes first. */
		slot = release_from & (SPRY_CGROUPS_MAX - 1);
		release_from = slot < last ? slot + 1 : 0;
		if (!parking[slot].looks)
			continue;
		any = 1;
		more |= look_at_parked(slot, now);
		if (is_round_over())
			return RELEASE_AGAIN_NS;
		if (!is_full && passing >= PASSING_AT_ONCE) {
			is_full = 1;
			after = release_from;
		}
	}
	if (!any)
		parking_looks--;
	/* The other cgroups come first when tasks may pass again. Otherwise tasks that stay inside the kernel
	 * would keep tasks of other cgroups from a CPU, until the watchdog ends the scheduler. */
	if (after < SPRY_CGROUPS_MAX)
		release_from = after;
	return more ? RELEASE_AGAIN_NS : limit_tick_ns;
}

/* How long a task inside the kernel has the CPU now, ns. The stay must be longer than the way into the task:
 * on a slow CPU this way alone takes most of pass_ns, and the task would do hardly any work. */
static __always_inline u64 stay_of(struct thread_ctx *t)
{
	u32 grown = t->stays < STAYS_SHORT ? 0 : t->stays + 1 - STAYS_SHORT;
	u64 first_ns = pass_ns + pass_ns / 8, most_ns;

	if (t->stays < STAYS_GROW)
		t->stays++;
	if (first_ns < inside_stay_ns)
		first_ns = inside_stay_ns;
	most_ns = first_ns > inside_stay_most_ns ? first_ns : inside_stay_most_ns;
	return at_most(first_ns << grown, most_ns);
}

/* Whether a task inside the kernel has the CPU for no time, so that the length of this is measured. No task
 * does twice in a row. */
static __always_inline bool is_measured(struct thread_ctx *t)
{
	if (t->stays || (pass_samples >= PASS_SAMPLES && (passed_by + passed_inside) % MEASURED_EACH))
		return false;
	t->stays = 1;
	return true;
}

/* Switches a CPU to a parked task that passes it, if there is one in a place. A kick ends this as soon as the
 * task has the CPU; for a task inside the kernel, the CPU's timer ends it. The first task may change before
 * it is taken, so such a task may be kicked, and then passes again later. Returns whether there was a task.
 */
__noinline u32 pass_from(u32 cpu, u32 place)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq_at(place, QUEUE_PASSING));
	struct cpu_ctx *c = cpu_at(cpu);
	struct thread_ctx *t = p ? find_thread(p) : NULL;
	u64 now;

	if (!take(place, QUEUE_PASSING))
		return false;
	c->has = SPRY_CLASS_IDLE;
	if (t && is_inside(p, t) && !is_measured(t)) {
		now = scx_bpf_now();
		t->passed = PASSED_STAYS;
		timer_set(cpu, c, now, now + stay_of(t));
		__sync_fetch_and_add(&passed_inside, 1);
		return true;
	}
	if (t)
		t->passed = PASSED_KICKED;
	__sync_fetch_and_add(&passed_by, 1);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Puts a task back into QUEUE_PASSING if it was taken out of it, for example because its class changes, and
 * has not run since. Otherwise it would wait again for each time that it is taken out. Returns whether the
 * task was put. */
static __always_inline bool passes_on(struct task_struct *p, struct thread_ctx *t, u64 key, u64 slice_ns,
				      const struct where *at, u64 enq_flags)
{
	u32 place = at->llc;

	if (!t->passes || !is_parked(p, t) || !limited_by(t))
		return false;
	/* The current task leaves its CPU now. If the kernel counts all its time there as the time of
	 * interrupts, its run time does not tell that it had the CPU. */
	if (t->passed == PASSED_KICKED && p == bpf_get_current_task_btf()) {
		t->passes_ns = 0;
		return false;
	}
	if (nr_cpus > 1 && is_bound(p))
		place = place_of_cpu(at->cpu);
	put(p, place, QUEUE_PASSING, slice_ns, key, enq_flags);
	scx_bpf_kick_cpu(at->cpu, SCX_KICK_IDLE);
	return true;
}

/* Switches a CPU to a parked task that passes it. Returns whether it found one. */
static __always_inline bool passes_by(const struct where *at)
{
	u32 own = place_of_cpu(at->cpu);

	if (*queued_at(at->llc, QUEUE_PASSING) && pass_from(at->cpu, at->llc))
		return true;
	return nr_cpus > 1 && *queued_at(own, QUEUE_PASSING) && pass_from(at->cpu, own);
}

#endif
