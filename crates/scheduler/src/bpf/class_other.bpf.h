/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * OTHER: weighted fair. A task's virtual time grows with its run time over its weight; the least goes first.
 * Who has slept comes back a slice behind the class at most, and hardly before it in a crowd. Nobody is put
 * further ahead than the class gets in a while, or in the time in which everybody is to have a turn, so that
 * a small weight does not wait longer when the class has little of the CPU or many tasks.
 */
#ifndef SPRY_CLASS_OTHER_BPF_H
#define SPRY_CLASS_OTHER_BPF_H

#include "cgroup.bpf.h"
#include "class.bpf.h"
#include "timer.bpf.h"

#define VTIME_UNIT_SHIFT 6
/* The lag while turns are short: in a crowd, or behind a higher class. */
#define LAG_SHORT 1

/* The class is no further than this before the first task that waits. */
#define CLASS_LEADS (2 * (slice_other_ns >> VTIME_UNIT_SHIFT))

/* A task of a group may be so many times further ahead while the class has the CPU: each task of a group of
 * many has little. */
#define AHEAD_IN_GROUPS 5
/* Where there are groups, the slices of all that wait take so long at most, ns, and one takes this at least.
 */
#define GROUPS_ALL_NS  (200 * MS)
#define GROUPS_EACH_NS (MS / 4)

static __always_inline u64 at_least(u64 vtime, u64 least)
{
	return (s64)(vtime - least) < 0 ? least : vtime;
}

/* Whether a task pays for the turn that it had, however short it was: turns are short in a crowd, and behind
 * a higher class. */
static __always_inline bool pays_for_turn(const struct cpu_ctx *c, const struct llc_ctx *l, enum asked asked)
{
	return asked == ASKED_WHOM_TO_RUN && (l->lag == LAG_SHORT || c->below[BELOW_OTHER].began_ns);
}

/*
 * The class goes on with what its tasks are charged, divided among all that want to run: tasks that each run
 * for a moment and begin or wake the next come no earlier than one that runs on. While all run on, this is
 * the mean of their virtual times, whatever their weights. The class is held near the first task that waits,
 * since a few tasks among many of another weight tell too much.
 */
static __always_inline void class_is_served(const struct where *at, struct llc_ctx *l, u64 charge)
{
	u32 count = waiting(at, SPRY_CLASS_OTHER);
	u64 first = first_waiting(at, SPRY_CLASS_OTHER), most, vtime;

	if (!count || first == ~0ull)
		return;
	most = (first & KEY_LOW) + CLASS_LEADS;
	vtime = l->vtime + charge / (count + cpus_of_llc);
	if ((s64)(vtime - most) > 0)
		vtime = most;
	l->vtime = at_least(l->vtime, vtime);
}

/* Where a task stands as its order is asked for: caches have each their own virtual time. */
static __always_inline u64 stands_at(struct task_struct *p, struct thread_ctx *t, const struct where *at,
				     u64 now)
{
	u64 vtime = p->scx.dsq_vtime & KEY_LOW;

	if (!t)
		return vtime;
	vtime = t->vtime;
	if (nr_llcs > 1 && t->llc != at->llc)
		vtime += now - llc_at(t->llc)->vtime;
	return vtime;
}

/* How far ahead of its class a task may be, units of 64 ns. */
static __always_inline u64 ahead_of_class(const struct llc_ctx *l, const struct thread_ctx *t)
{
	u64 ahead = l->ahead;

	if (t && t->slot >= 2 && !l->waits)
		ahead *= AHEAD_IN_GROUPS;
	return ahead < ahead_most ? ahead : ahead_most;
}

/* Virtual time of a cache in the first cache's. */
static __always_inline u64 in_first_cache(u64 vtime, const struct llc_ctx *l)
{
	return nr_llcs > 1 ? vtime - l->vtime + llc_at(0)->vtime : vtime;
}

/* A thread's group goes on by what the thread ran. */
static __always_inline void group_is_served(const struct thread_ctx *t, const struct llc_ctx *l, u64 ran_ns)
{
	struct cgroup_slot *s = slot_at(t->slot - 1);

	if (t->slot >= 2)
		s->vtime = at_least(s->vtime, in_first_cache(l->vtime, l)) + group_charge(t, ran_ns);
}

/*
 * The least virtual time of a thread that joins the class: it is no earlier than its group, or each of many
 * that sleep now and then would come before all other groups.
 */
static __always_inline u64 joins_at(const struct thread_ctx *t, const struct llc_ctx *l, u64 vtime)
{
	s64 ahead;

	if (!t || t->slot < 2)
		return vtime;
	ahead = slot_at(t->slot - 1)->vtime - in_first_cache(l->vtime, l);
	return ahead > 0 ? at_least(vtime, l->vtime + ahead) : vtime;
}

static __always_inline bool other_by_nature(struct task_struct *p)
{
	return p->policy != SCHED_IDLE;
}

static __always_inline bool other_may(struct cpu_ctx *c)
{
	return true;
}

static __always_inline u64 other_key(const struct asking *a)
{
	struct task_struct *p = a->p;
	struct thread_ctx *t = a->t;
	struct llc_ctx *l = llc_at(a->at->llc);
	u64 now = l->vtime, vtime = now, charge, ahead;
	bool was_other = p->scx.dsq_vtime >> KEY_SHIFT == SPRY_CLASS_OTHER;

	if (was_other)
		vtime = stands_at(p, t, a->at, now);
	charge = t && was_other ? other_charge(p, t, a->ran_ns) : 0;
	/* It had its turn: so far has the class come. What was only put elsewhere had none. */
	if (charge) {
		l->vtime = at_least(l->vtime, vtime);
		class_is_served(a->at, l, charge);
		now = l->vtime;
	}
	/* Such a task pays from where the class is. */
	if (was_other && pays_for_turn(cpu_at(a->at->cpu), l, a->asked))
		vtime = at_least(vtime, now);
	vtime += charge;
	if (charge)
		group_is_served(t, l, a->ran_ns);
	if (a->asked == ASKED_AS_IT_WAKES)
		vtime = joins_at(t, l, vtime);
	/* There was no memory for it: what it ran is not known, and it pays for a whole slice. */
	if (!t)
		vtime = at_least(vtime, now) + (slice_other_ns >> VTIME_UNIT_SHIFT);
	/* A task that wanted to run all the time is where its turns have brought it, unless it waited where
	 * the class did not come to. */
	vtime = at_least(vtime, now - (a->asked == ASKED_AS_IT_WAKES || !was_other ? l->lag : CLASS_LEADS));
	ahead = ahead_of_class(l, t);
	if ((s64)(vtime - (now + ahead)) > 0)
		vtime = now + ahead;
	if (t) {
		t->vtime = vtime;
		t->llc = a->at->llc;
	}
	return KEY(SPRY_CLASS_OTHER, vtime);
}

static __always_inline u64 other_slice(struct thread_ctx *t)
{
	return slice_other_ns;
}

static __always_inline bool other_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

/* Where more than a few tasks wait, slices end by the timer: at a tick, one that begins between two ticks
 * would end up to a tick late. A crowd has shorter slices, so that each task has one in time. */
static __always_inline void in_time(const struct where *at)
{
	u32 count = waiting(at, SPRY_CLASS_OTHER);
	u64 now, slice_ns = slice_other_ns;

	if (count <= exact_tasks)
		return;
	if (count > crowd)
		count = really_waiting(at, SPRY_CLASS_OTHER);
	if (count && slice_ns > age_many_ns / count)
		slice_ns = age_many_ns / count;
	if (cgroups_used && count && slice_ns > GROUPS_ALL_NS / count)
		slice_ns = GROUPS_ALL_NS / count > GROUPS_EACH_NS ? GROUPS_ALL_NS / count : GROUPS_EACH_NS;
	now = scx_bpf_now();
	timer_set(at->cpu, cpu_at(at->cpu), now, now + slice_ns);
}

static __always_inline enum taken other_take(const struct where *at, const struct running *r)
{
	in_time(at);
	return take_next(at, r, SPRY_CLASS_OTHER);
}

#endif
