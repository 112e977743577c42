/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * OTHER: all tasks of no other class, weighted fair.
 *
 * Purpose: tasks of processes that are not in use share the rest of the time by nice values, by weights of
 * cgroups and by sessions.
 *
 * State: a thread has a virtual time, in units of 64 ns. Each place is a domain with a virtual time of the
 * class (struct llc_ctx). A task behind the class has the smaller virtual time: it has had less of the CPU,
 * and runs earlier. A domain has a limit for the distance of a task behind the class (`lag`), and a limit for
 * the distance ahead of it (`ahead`).
 *
 * Rule: the task with the least virtual time runs first. It grows with the task's run time, divided by its
 * weight in its group. The class' virtual time grows with the run time of all, divided by the number of tasks
 * that want to run. A task that slept comes back at most a slice behind the class, or where the first waiting
 * task stands. With many waiting tasks it comes back hardly behind the class.
 *
 * Bound: a task is put no further ahead of the class than the class advances in about 200 ms. Where each
 * waiting task needs longer for a turn, that time counts. So a task of small weight does not wait longer when
 * the class has little of the CPU or many tasks.
 *
 * Difference from the thesis: its OTHER is Linux 2.4's scheduler, with epochs, for single tasks and one CPU.
 */
#ifndef SPRY_CLASS_OTHER_BPF_H
#define SPRY_CLASS_OTHER_BPF_H

#include "cgroup.bpf.h"
#include "class.bpf.h"
#include "crowd.bpf.h"
#include "park.bpf.h"

/* The limit for a task's distance behind the class while turns are short, units of 64 ns. Turns are short
 * with many waiting tasks, or behind a higher class. */
#define LAG_SHORT 1

/* The class' virtual time is moved to at most this far ahead of the first waiting task's, in units of 64
 * ns. */
#define CLASS_LEADS (2 * (slice_other_ns >> VTIME_UNIT_SHIFT))

/* The factor by which a task of a group may be put further ahead while no higher class keeps OTHER waiting.
 * Each task of a large group has little of the CPU. */
#define AHEAD_IN_GROUPS 5

/*
 * Whether a task that had a turn pays from the class' virtual time on, and so loses the advantage of being
 * behind it. It does while turns are short: with many waiting tasks, and behind a higher class. A task that
 * ran and is put into a queue had a turn, too. A kernel thread interrupted it, as on real-time kernels before
 * most wake-ups.
 */
static __always_inline bool pays_for_turn(const struct asking *a, const struct llc_ctx *l)
{
	bool had_turn = a->asked == ASKED_WHICH_TO_RUN || (a->asked == ASKED_AS_IT_IS_PUT && a->ran_ns);

	return had_turn && (l->lag == LAG_SHORT || cpu_at(a->at->cpu)->below[BELOW_OTHER].began_ns);
}

/* Moves the virtual time of a domain forward by `by`, but not further than CLASS_LEADS beyond the domain's
 * first waiting task. `first` is this task's order; ~0 if no task waits. */
static __always_inline void moves_on(struct llc_ctx *l, u64 by, u64 first)
{
	u64 most = (first & KEY_LOW) + CLASS_LEADS, vtime = l->vtime + by;

	if (first != ~0ull && (s64)(vtime - most) > 0)
		vtime = most;
	l->vtime = at_least(l->vtime, vtime);
}

/* Moves the virtual time of a CPU's or a set's domain forward. A CPU that serves the domain has run a task of
 * OTHER, which was charged `charge`, while `count` tasks waited there. */
static __always_inline void serves_domain(u32 domain, u32 count, u64 charge)
{
	struct llc_ctx *l = llc_at(domain);

	moves_on(l, charge / (count + at_least(l->cpus, 1)), first_key(domain, SPRY_CLASS_OTHER));
}

/* Moves forward the virtual time of each set of CPUs that a CPU belongs to. The CPU has run a task of OTHER,
 * which was charged `charge`, while `count` tasks waited there. */
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
 * A task of OTHER has been charged `charge` on a CPU: moves the class' virtual time forward.
 *
 * The charge is divided by the number of tasks that want to run. So tasks that run for a moment, and start or
 * wake the next one, stand no earlier than a task that runs on. While all tasks run on, the class' virtual
 * time is the mean of theirs, whatever their weights are. It is held near the first waiting task: a few tasks
 * among many of another weight would count too much in it. The virtual times of the CPU's own tasks, and of
 * the sets that it belongs to, move likewise.
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

/* The order of the first waiting task of a domain. For a cache's domain, tasks in all places that the
 * CPU serves count. */
static __always_inline u64 first_of_domain(const struct where *at, u32 domain)
{
	return is_apart(domain) ? first_key(domain, SPRY_CLASS_OTHER) : first_waiting(at, SPRY_CLASS_OTHER);
}

/* The virtual time of a task before it is charged, counted in a domain. For a task without a context it is
 * taken from the task's order. */
static __always_inline u64 stands_at(struct task_struct *p, struct thread_ctx *t, u32 domain)
{
	return t ? vtime_in(t, domain) : p->scx.dsq_vtime & KEY_LOW;
}

/* The limit for the distance ahead of its class at which a task may be put, units of 64 ns. */
static __always_inline u64 ahead_of_class(const struct llc_ctx *l, const struct thread_ctx *t)
{
	u64 ahead = l->ahead;

	if (t && t->slot >= 2 && !l->waits)
		ahead *= AHEAD_IN_GROUPS;
	return ahead < ahead_most ? ahead : ahead_most;
}

/* Converts a virtual time of a domain to the virtual time of the first cache, in which groups are counted. */
static __always_inline u64 in_first_cache(u64 vtime, const struct llc_ctx *l)
{
	return nr_cpus > 1 ? vtime - l->vtime + llc_at(0)->vtime : vtime;
}

/* Moves the virtual time of a thread's group forward by the thread's run time, as if the group were one
 * task. */
static __always_inline void group_is_served(const struct thread_ctx *t, const struct llc_ctx *l, u64 ran_ns)
{
	struct cgroup_slot *s = slot_at(t->slot - 1);

	if (t->slot >= 2)
		s->vtime = at_least(s->vtime, in_first_cache(l->vtime, l)) + group_charge(t, ran_ns);
}

/* The virtual time of a thread that joins the class at `vtime` or later: the thread stands no earlier
 * than its group. Otherwise each of a group's many threads that sleep now and then would come before
 * all other groups. */
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
	/* No task outside the group wants to run, so the group's lead costs no other group
	 * anything: it is forgiven. */
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

/* A task goes to sleep on a CPU. If tasks of OTHER wait there, the task will pay for its run time,
 * wherever it wakes. */
static __always_inline void other_sleeps(struct task_struct *p, const struct where *at)
{
	struct thread_ctx *t;

	if (!waiting(at, SPRY_CLASS_OTHER))
		return;
	t = find_thread(p);
	if (t)
		t->contended = 1;
}

/*
 * Several CPUs: whether a task ran while no other task of OTHER that its CPU could run was waiting. The task
 * still runs, or it slept and wakes on an idle CPU. Such a task pays nothing, and does not move the class'
 * virtual time, which tasks that are bound to other CPUs use, too. If other tasks waited for the CPU on which
 * the task went to sleep, it pays.
 */
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

/* Charges a task of OTHER, which stood at `vtime`, for its run time. Returns its new virtual time. */
static __always_inline u64 other_pays(const struct asking *a, u64 vtime)
{
	struct llc_ctx *l = llc_at(a->domain), *of_cache = llc_at(a->at->llc);
	u64 charge = a->t ? other_charge(a->p, a->t, a->ran_ns) : 0;

	/* No other task could have had the time that this task ran alone. Exactly this time is forgiven of
	 * its lead: the rest of the lead is for run time that other tasks wanted. */
	if (ran_alone(a))
		return at_least(vtime - charge, l->vtime);
	if (a->t)
		a->t->contended = 0;
	/* The task had its turn, so the class' virtual time has come at least as far as the task's. A task
	 * that was only moved to another queue had no turn, and its charge is 0. */
	if (charge) {
		l->vtime = at_least(l->vtime, vtime);
		if (is_apart(a->domain))
			of_cache->vtime =
				at_least(of_cache->vtime, order_in_cache(a->domain, vtime) & KEY_LOW);
		class_served(a->at->cpu, charge);
		group_is_served(a->t, l, a->ran_ns);
	}
	/* A task that had a short turn pays from the class' virtual time on. */
	if (pays_for_turn(a, l))
		vtime = at_least(vtime, l->vtime);
	return vtime + charge;
}

/* A task leaves OTHER for another class, and pays for its run time in OTHER. Otherwise a task that changes to
 * IDLE for a moment after each run would come back as if it had not run. */
static __always_inline void other_leaves(const struct asking *a)
{
	a->t->vtime = other_pays(a, stands_at(a->p, a->t, a->domain));
	a->t->domain = a->domain;
}

/* A kernel thread ran in KTHREAD: the run time moves its virtual time in OTHER forward. If the thread comes
 * to OTHER, it has already been charged for this time. The class' virtual time does not move. */
static __always_inline void other_owes(const struct asking *a)
{
	u64 now = llc_at(a->domain)->vtime;

	a->t->vtime = at_least(stands_at(a->p, a->t, a->domain), now) + other_charge(a->p, a->t, a->ran_ns);
	a->t->domain = a->domain;
}

/*
 * Limits the distance behind its class of a task at `vtime` that is put into a queue. A task that did not
 * sleep keeps its virtual time, but stands at most CLASS_LEADS behind the class. A task that slept stands at
 * most the domain's `lag` behind it, or where the first waiting task stands if that is further behind. If
 * that task's weight is large, its virtual time grows slowly, and the woken task would wait for it too long.
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

/* Charges a task for its run time in OTHER, and returns its order: its virtual time within the limits behind
 * and ahead of the class. */
static __always_inline u64 other_key(const struct asking *a)
{
	struct task_struct *p = a->p;
	struct thread_ctx *t = a->t;
	struct llc_ctx *l = llc_at(a->domain);
	u64 now = l->vtime, vtime = now, ahead;
	bool was_other = p->scx.dsq_vtime >> KEY_SHIFT == SPRY_CLASS_OTHER;

	/* A task that comes back from another class has the virtual time with which it left OTHER. */
	if (t || was_other)
		vtime = stands_at(p, t, a->domain);
	if (was_other) {
		vtime = other_pays(a, vtime);
		now = l->vtime;
	}
	if (a->asked == ASKED_AS_IT_WAKES)
		vtime = joins_at(t, l, vtime);
	/* Without a context the task's run time is not known, so it pays for a whole slice. */
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

/* Starts the tick of a CPU (knob tick_ns). The tick stood still because the running task was alone; now
 * another task is put into its queue. The running task's quantum begins now. A CPU cannot set another CPU's
 * timer, so another CPU is kicked: when it decides, it sets its timer. */
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

/* The place from which a CPU would take its next task of OTHER: its cache's, or a place beside it. */
static __always_inline u32 place_of_first(const struct where *at)
{
	u32 beside;

	if (nr_cpus == 1)
		return at->llc;
	beside = first_beside(at->cpu, SPRY_CLASS_OTHER);
	return first_key_seen(beside, SPRY_CLASS_OTHER) < first_key(at->llc, SPRY_CLASS_OTHER) ? beside
											       : at->llc;
}

/* The longest time for which a task of a group may be put ahead for its slice, ns. The first is for all
 * waiting tasks, the second for each. The longer this time, the longer the wait for the next turn. */
#define GROUPS_WAIT_NS	    (25 * MS)
#define GROUPS_WAIT_EACH_NS (4 * MS)
/* With at most this many waiting tasks, slices of tasks in groups are not shortened: waits are short. */
#define GROUPS_FEW 2

/*
 * The slice of the first waiting task of OTHER on a CPU, ns, where `count` tasks wait. The slice is no longer
 * than the task can pay for: a task is put ahead for its slice only up to a limit. The rest of the slice
 * would be free, and many threads of a group of little weight would exceed the group's part. The slice is
 * also short enough that the task does not wait too long for its next turn.
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

/* Sets the CPU's timer to the end of the next task's slice, where more than a few tasks wait. It is a
 * function of its own because CPUs mostly decide where few tasks wait. */
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

/* Chooses the next task of OTHER for a CPU. Tasks of cgroups that have spent their quota are parked first. */
static __always_inline enum taken other_take(const struct where *at, const struct running *r)
{
	struct running seen = *r;
	u32 count;

	if (cgroups_limited)
		park_first(place_of_first(at));
	count = waiting(at, SPRY_CLASS_OTHER);
	if (count > GROUPS_FEW || (count && tuning.tick_ns))
		slice_among_many(at->cpu, count);
	if (nr_cpus > 1 && r->class == SPRY_CLASS_OTHER && r->t && is_apart(r->t->domain))
		seen.key = order_in_cache(r->t->domain, r->key);
	return take_next(at, &seen, SPRY_CLASS_OTHER);
}

#endif
