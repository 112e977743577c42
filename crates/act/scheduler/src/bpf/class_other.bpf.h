/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * OTHER: weighted fair. A task's virtual time grows with its run time divided by its weight; the task with
 * the least virtual time goes first. A task that has slept comes back at most a slice behind the class'
 * virtual time, or where the first waiting task stands; in a crowd it comes back hardly behind the class. No
 * task is put further ahead than the class gets in a while, or in the time in which each task is to have a
 * turn. So a task of small weight does not wait longer when the class has little of the CPU or many tasks.
 */
#ifndef SPRY_CLASS_OTHER_BPF_H
#define SPRY_CLASS_OTHER_BPF_H

#include "cgroup.bpf.h"
#include "class.bpf.h"
#include "crowd.bpf.h"
#include "park.bpf.h"

/* How far behind the class a task may be while turns are short: in a crowd, or behind a higher class. */
#define LAG_SHORT 1

/* The class' virtual time is at most this far ahead of the first waiting task's. */
#define CLASS_LEADS (2 * (slice_other_ns >> VTIME_UNIT_SHIFT))

/* A task of a group may be put so many times further ahead while the class has the CPU: each task of a large
 * group has little of the CPU. */
#define AHEAD_IN_GROUPS 5

/* Whether a task pays for the turn that it had, however short the turn was: turns are short in a crowd, and
 * behind a higher class. A task that ran and is put into a queue had a turn, too: a thread of the kernel came
 * between, as on real-time kernels before most wake-ups. */
static __always_inline bool pays_for_turn(const struct asking *a, const struct llc_ctx *l)
{
	bool had_turn = a->asked == ASKED_WHICH_TO_RUN || (a->asked == ASKED_AS_IT_IS_PUT && a->ran_ns);

	return had_turn && (l->lag == LAG_SHORT || cpu_at(a->at->cpu)->below[BELOW_OTHER].began_ns);
}

/* Moves the virtual time of a domain on, but not far from its first waiting task, whose order is `first`. */
static __always_inline void moves_on(struct llc_ctx *l, u64 by, u64 first)
{
	u64 most = (first & KEY_LOW) + CLASS_LEADS, vtime = l->vtime + by;

	if (first != ~0ull && (s64)(vtime - most) > 0)
		vtime = most;
	l->vtime = at_least(l->vtime, vtime);
}

/* Moves the virtual time of a CPU or of a set on, of which the CPU serves its part. */
static __always_inline void serves_domain(u32 domain, u32 count, u64 charge)
{
	struct llc_ctx *l = llc_at(domain);

	moves_on(l, charge / (count + at_least(l->cpus, 1)), first_key(domain, SPRY_CLASS_OTHER));
}

/* The same for all sets that a CPU belongs to. */
__noinline int serves_sets(u32 cpu, u32 count, u64 charge)
{
	u32 i;

	bpf_for(i, 0, MASKS_OF_CPU)
	{
		if (i >= cpu_at(cpu)->masks_count)
			break;
		serves_domain(place_of_set(cpu, i), count, charge);
	}
	return 0;
}

/*
 * Moves the class' virtual time on by what a task of the class is charged, divided among all tasks that want
 * to run. So tasks that each run for a moment, and begin or wake the next one, come no earlier than a task
 * that runs on. While all tasks run on, the class' virtual time is the mean of theirs, whatever their weights
 * are. It is held near the first waiting task, since a few tasks among many tasks of another weight count too
 * much in it. The virtual times of the CPU's own tasks, and of the sets of CPUs that it serves, move on as
 * well.
 */
__noinline int class_served(u32 cpu, u64 charge)
{
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};
	u32 count = waiting(&at, SPRY_CLASS_OTHER);
	u64 first = first_waiting(&at, SPRY_CLASS_OTHER);

	if (!count || first == ~0ull)
		return 0;
	moves_on(llc_at(at.llc), charge / (count + cpus_of_llc), first);
	if (nr_cpus == 1)
		return 0;
	serves_domain(place_of_cpu(cpu), count, charge);
	if (has_masks(&at))
		serves_sets(cpu, count, charge);
	return 0;
}

/* The order of the first waiting task of a domain, for a CPU. */
static __always_inline u64 first_of_domain(const struct where *at, u32 domain)
{
	return is_apart(domain) ? first_key(domain, SPRY_CLASS_OTHER) : first_waiting(at, SPRY_CLASS_OTHER);
}

/* The virtual time of a task when its order is asked for, counted by a domain. */
static __always_inline u64 stands_at(struct task_struct *p, struct thread_ctx *t, u32 domain)
{
	return t ? vtime_in(t, domain) : p->scx.dsq_vtime & KEY_LOW;
}

/* How far ahead of its class a task may be put, units of 64 ns. */
static __always_inline u64 ahead_of_class(const struct llc_ctx *l, const struct thread_ctx *t)
{
	u64 ahead = l->ahead;

	if (t && t->slot >= 2 && !l->waits)
		ahead *= AHEAD_IN_GROUPS;
	return ahead < ahead_most ? ahead : ahead_most;
}

/* Converts the virtual time of a domain to that of the first cache. */
static __always_inline u64 in_first_cache(u64 vtime, const struct llc_ctx *l)
{
	return nr_cpus > 1 ? vtime - l->vtime + llc_at(0)->vtime : vtime;
}

/* Moves the virtual time of a thread's group on by what the thread ran. */
static __always_inline void group_is_served(const struct thread_ctx *t, const struct llc_ctx *l, u64 ran_ns)
{
	struct cgroup_slot *s = slot_at(t->slot - 1);

	if (t->slot >= 2)
		s->vtime = at_least(s->vtime, in_first_cache(l->vtime, l)) + group_charge(t, ran_ns);
}

/*
 * The least virtual time of a thread that joins the class: the thread comes no earlier than its group.
 * Otherwise each of many threads that sleep now and then would come before all other groups.
 */
static __always_inline u64 joins_at(const struct thread_ctx *t, const struct llc_ctx *l, u64 vtime)
{
	struct cgroup_slot *s;
	s64 ahead;

	if (!t || t->slot < 2)
		return vtime;
	s = slot_at(t->slot - 1);
	ahead = s->vtime - in_first_cache(l->vtime, l);
	if (ahead <= 0)
		return vtime;
	if (!is_alone(t->slot - 1))
		return at_least(vtime, l->vtime + ahead);
	/* No task outside of the group wants to run: no other group has less by this. */
	s->vtime -= ahead;
	return vtime;
}

static __always_inline bool other_by_nature(struct task_struct *p)
{
	return p->policy != SCHED_IDLE;
}

static __always_inline bool other_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	return true;
}

/* A task goes to sleep on this CPU. */
static __always_inline void other_sleeps(struct task_struct *p, const struct where *at)
{
	struct thread_ctx *t;

	if (!waiting(at, SPRY_CLASS_OTHER))
		return;
	t = find_thread(p);
	if (t)
		t->contended = 1;
}

/* Whether a task ran on, or slept and wakes on an idle CPU, while no task waited that the CPU could have run.
 * Such a task pays nothing, and does not move the class' virtual time on: tasks that are bound to other CPUs
 * go by that time, too. A task pays if other tasks waited for the CPU on which it went to sleep. */
static __always_inline bool ran_alone(const struct asking *a)
{
	struct task_struct *curr;

	if (nr_cpus == 1 || !a->t || a->t->contended || waiting(a->at, SPRY_CLASS_OTHER))
		return false;
	if (a->asked == ASKED_WHICH_TO_RUN)
		return true;
	curr = running_on(a->at->cpu);
	return a->asked == ASKED_AS_IT_WAKES && curr && curr->flags & PF_IDLE;
}

/* Charges a task that stood at `vtime` for what it ran in the class. Returns where the task stands then. */
static __always_inline u64 other_pays(const struct asking *a, u64 vtime)
{
	struct llc_ctx *l = llc_at(a->domain), *of_cache = llc_at(a->at->llc);
	u64 charge = a->t ? other_charge(a->p, a->t, a->ran_ns) : 0;

	/* What a task ran alone, no other task could have had. So much of the task's debt is forgiven, but no
	 * more: the rest is for run time that other tasks wanted. */
	if (ran_alone(a))
		return at_least(vtime - charge, l->vtime);
	if (a->t)
		a->t->contended = 0;
	/* The task had its turn, so the class' virtual time has come as far as the task's. A task that was
	 * only put elsewhere had no turn, and is charged nothing. */
	if (charge) {
		l->vtime = at_least(l->vtime, vtime);
		if (is_apart(a->domain))
			of_cache->vtime =
				at_least(of_cache->vtime, order_in_cache(a->domain, vtime) & KEY_LOW);
		class_served(a->at->cpu, charge);
		group_is_served(a->t, l, a->ran_ns);
	}
	/* A task that pays for a short turn pays from where the class is. */
	if (pays_for_turn(a, l))
		vtime = at_least(vtime, l->vtime);
	return vtime + charge;
}

/* A task goes to another class and pays for what it ran in OTHER. Otherwise a task that is of IDLE for a
 * moment after each run would come back as if it had not run. */
static __always_inline void other_leaves(const struct asking *a)
{
	a->t->vtime = other_pays(a, stands_at(a->p, a->t, a->domain));
	a->t->domain = a->domain;
}

/* A thread of the kernel ran in a class above OTHER and pays for that here: its virtual time moves on, the
 * class' virtual time does not. */
static __always_inline void other_owes(const struct asking *a)
{
	u64 now = llc_at(a->domain)->vtime;

	a->t->vtime = at_least(stands_at(a->p, a->t, a->domain), now) + other_charge(a->p, a->t, a->ran_ns);
	a->t->domain = a->domain;
}

/*
 * How far behind its class a task may be when it is put into a queue. A task that wanted to run all the time
 * stays where its turns have brought it, but at most CLASS_LEADS behind the class. A task that slept comes no
 * later than the first waiting task: if that task's weight is large, the class' virtual time would need long
 * to come from there to where the lag ends.
 */
static __always_inline u64 behind_class(const struct asking *a, const struct llc_ctx *l, u64 vtime,
					bool was_other)
{
	u64 least = l->vtime - l->lag, most = l->vtime - CLASS_LEADS, first;

	if (a->asked != ASKED_AS_IT_WAKES)
		return at_least(vtime, was_other ? most : least);
	if ((s64)(vtime - least) >= 0 || l->lag == LAG_SHORT)
		return at_least(vtime, least);
	first = first_of_domain(a->at, a->domain);
	if (first != ~0ull && (s64)((first & KEY_LOW) - least) < 0)
		least = at_least(first & KEY_LOW, most);
	return at_least(vtime, least);
}

static __always_inline u64 other_key(const struct asking *a)
{
	struct task_struct *p = a->p;
	struct thread_ctx *t = a->t;
	struct llc_ctx *l = llc_at(a->domain);
	u64 now = l->vtime, vtime = now, ahead;
	bool was_other = p->scx.dsq_vtime >> KEY_SHIFT == SPRY_CLASS_OTHER;

	/* A task that comes back from another class stands where it stood when it left OTHER. */
	if (t || was_other)
		vtime = stands_at(p, t, a->domain);
	if (was_other) {
		vtime = other_pays(a, vtime);
		now = l->vtime;
	}
	if (a->asked == ASKED_AS_IT_WAKES)
		vtime = joins_at(t, l, vtime);
	/* There was no memory for the thread's context: what the task ran is not known, and it pays for a
	 * whole slice. */
	if (!t)
		vtime = at_least(vtime, now) + (slice_other_ns >> VTIME_UNIT_SHIFT);
	vtime = behind_class(a, l, vtime, was_other);
	ahead = ahead_of_class(l, t);
	if ((s64)(vtime - (now + ahead)) > 0)
		vtime = now + ahead;
	if (t) {
		t->vtime = vtime;
		t->domain = a->domain;
	}
	return KEY(SPRY_CLASS_OTHER, vtime);
}

static __always_inline u64 other_slice(struct thread_ctx *t)
{
	return at_least(quantum_of_other(), slice_other_ns);
}

static __always_inline bool other_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

/* A task of OTHER is put into a queue while the tick of its CPU stands still, since no other task waited: the
 * running task has a quantum from now on. A CPU can set no other CPU's timer, so another CPU is made to
 * decide: that sets its timer. */
static __always_inline void starts_tick(const struct where *at)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u64 now;

	if (!tuning.tick_ns || c->timer_ns)
		return;
	if (nr_cpus > 1 && at->cpu != bpf_get_smp_processor_id()) {
		if (*(volatile u32 *)&c->has == SPRY_CLASS_OTHER) {
			c->kicks++;
			scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
		}
		return;
	}
	now = scx_bpf_now();
	timer_set(at->cpu, c, now, now + quantum_of_other());
}

/* The place from which a CPU would take its next task of OTHER. */
static __always_inline u32 place_of_first(const struct where *at)
{
	u32 beside;

	if (nr_cpus == 1)
		return at->llc;
	beside = first_beside(at->cpu, SPRY_CLASS_OTHER);
	return first_key_seen(beside, SPRY_CLASS_OTHER) < first_key(at->llc, SPRY_CLASS_OTHER) ? beside
											       : at->llc;
}

/* The longer the slice of a task in a group counts in its group and beside the other groups, the longer the
 * task waits for its next turn. These are the longest waits, ns: for all tasks that wait, or for each of
 * them. */
#define GROUPS_WAIT_NS	    (25 * MS)
#define GROUPS_WAIT_EACH_NS (4 * MS)
/* With this many tasks no task waits longer than that, whatever slices they have. */
#define GROUPS_FEW 2

/*
 * How long the next task may run, ns. A task is put ahead for its slice, but no further than a task may be;
 * it would not pay for the rest, and many threads of a group of little weight would have more than the
 * group's part. So the slice is no longer than the task can pay for, and not so long that the task waits too
 * long for its next turn.
 */
static __always_inline u64 slice_paid(const struct where *at, u32 count)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq_at(place_of_first(at), SPRY_CLASS_OTHER));
	struct thread_ctx *t = p ? find_thread(p) : NULL;
	u64 ahead, wait;

	if (!t)
		return slice_other_ns;
	ahead = ahead_of_class(llc_at(t->domain), t);
	if (t->slot >= 2) {
		wait = at_least(count * GROUPS_WAIT_EACH_NS, GROUPS_WAIT_NS) >> VTIME_UNIT_SHIFT;
		ahead = at_most(ahead, wait * WEIGHT_DEFAULT / at_least(slot_at(0)->sum, WEIGHT_DEFAULT));
	}
	return at_least(ahead * MS / at_least(other_charge(p, t, MS), 1), below_slice_least_ns);
}

/* Sets the timer so that the next task's slice ends in time where more than a few tasks wait. This is a
 * function apart, since a CPU mostly decides where few tasks wait. */
__noinline int slice_among_many(u32 cpu, u32 count)
{
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};
	u64 slice_ns = quantum_of_other();

	if (count > (cgroups_used ? GROUPS_FEW : exact_tasks))
		slice_ns = at_most(slice_paid(&at, count), slice_ns);
	if (count > exact_tasks || tuning.tick_ns || slice_ns < slice_other_ns)
		in_time(&at, SPRY_CLASS_OTHER, slice_ns);
	return 0;
}

static __always_inline enum taken other_take(const struct where *at, const struct running *r)
{
	struct running seen = *r;
	u32 count;

	if (cgroups_limited)
		park_first(place_of_first(at));
	count = waiting(at, SPRY_CLASS_OTHER);
	if (count > GROUPS_FEW || (count && tuning.tick_ns))
		slice_among_many(at->cpu, count);
	if (r->class == SPRY_CLASS_OTHER && r->t && is_apart(r->t->domain))
		seen.key = order_in_cache(r->t->domain, r->key);
	return take_next(at, &seen, SPRY_CLASS_OTHER);
}

#endif
