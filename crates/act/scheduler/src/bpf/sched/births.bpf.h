/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The start and the exit of tasks of OTHER: the virtual time of a new task, and the debt of an exiting task.
 *
 * Rule: a new task starts at the virtual time at which its creator is now. An exiting task that is ahead of
 * its class leaves its lead: a thread to its process, a process to its parent. If the parent has exited
 * before, a process leaves its lead to all tasks that its user started. New tasks of the recipients begin no
 * earlier than the lead. So a relay of short tasks has no more of the CPU than one task.
 *
 * Bound: a lead counts for up to 100 ms of run time.
 *
 * Difference from the thesis: Linux 2.4 splits a task's allocation at a fork, and returns the rest when the
 * child exits. That rule covers the rest of a task's allocation, not its debt.
 */
#ifndef SPRY_BIRTHS_BPF_H
#define SPRY_BIRTHS_BPF_H

#include "table.bpf.h"

/* A line is all tasks that descend from one user's first task. Lines have entries in a table, by a hash of
 * the user's number. Two users may share an entry by chance; entry 0 is root's alone. */
#define LINE_BITS 12
#define LINES	  (1 << LINE_BITS)
/* The most of an exited task's lead that counts for new tasks, as run time, ns. */
#define LEFT_MOST_NS (100 * MS)

/* Per line: the largest virtual time at which a task exited after its parent. */
static u64 orphans[LINES];

/* The entry of a line for tasks that exited after their parent. */
static __always_inline u64 *orphans_of(u32 line)
{
	u32 index = line ? line * 0x9e3779b1u >> (32 - LINE_BITS) : 0;

	return &orphans[(line && !index ? 1 : index) & (LINES - 1)];
}

/* The run time for which the task that runs on this CPU has not been charged yet, ns. */
static __always_inline u64 uncharged(struct task_struct *p, struct thread_ctx *t)
{
	s64 ran_ns = ran_until_now(p) - t->charged_ns;

	return ran_ns > 0 ? ran_ns : 0;
}

/* The charge for the run time that the current task has not paid for yet in OTHER, units of 64 ns; 0
 * in another class. */
static __always_inline u64 owes(struct task_struct *p, struct thread_ctx *t)
{
	return t->class == SPRY_CLASS_OTHER ? other_charge(p, t, uncharged(p, t)) : 0;
}

/* The earliest virtual time at which a new task may start, after an exited task left `left`. That value is
 * counted in the first cache's virtual time, for nice 0; the new task may have another domain and weight. If
 * nothing was left, the result is behind every limit, so it changes nothing. */
static __always_inline u64 place_left(struct task_struct *p, struct thread_ctx *t, u64 left,
				      const struct llc_ctx *l)
{
	u64 now = l->vtime;
	s64 ahead = left - in_first_cache(now, l);

	if (!left || ahead <= 0)
		return now - CLASS_LEADS;
	if (ahead > LEFT_MOST_NS >> VTIME_UNIT_SHIFT)
		ahead = LEFT_MOST_NS >> VTIME_UNIT_SHIFT;
	return now + other_charge(p, t, (u64)ahead << VTIME_UNIT_SHIFT);
}

/* The virtual time at which a new task of `creator` starts: the creator's own. A creator that is behind its
 * class moves to the class, so that only the new task keeps this advantage. So a relay of tasks is behind as
 * long as one task would be, and of many children only one has the advantage. */
static __always_inline u64 gives_place(struct task_struct *creator, struct thread_ctx *from,
				       const struct where *at, u32 domain)
{
	u64 now = llc_at(domain)->vtime, place = stands_at(creator, from, domain) + owes(creator, from);
	s64 behind = now - place;

	if (behind <= 0)
		return place;
	from->vtime += behind;
	forget_recent(cpu_at(at->cpu), creator);
	return at_least(place, now - CLASS_LEADS);
}

/* Records the creator, the line, the domain and the group of a new task. When the task exits, its debt goes
 * to them. */
static __always_inline void descends(struct task_struct *p, struct thread_ctx *t, struct task_struct *creator,
				     const struct thread_ctx *from, const struct where *at)
{
	/* A task has the line of its first ancestor, even if descendants change their user. */
	t->line = from && from->line ? from->line : p->cred->uid.val;
	t->creator = creator->tgid;
	t->domain = domain_of(at);
	cgroup_find(p, t);
}

/* The current task has created task `p`: gives `p` its first virtual time in OTHER. */
static __always_inline void is_born(struct task_struct *p, struct thread_ctx *t, const struct where *at)
{
	struct task_struct *creator = bpf_get_current_task_btf();
	struct thread_ctx *from = find_thread(creator), *process = find_thread(creator->group_leader);
	struct llc_ctx *l;
	u64 vtime;

	descends(p, t, creator, from, at);
	l = llc_at(t->domain);
	vtime = l->vtime;
	if (from)
		vtime = gives_place(creator, from, at, t->domain);
	if (process)
		vtime = at_least(vtime, place_left(p, t, process->left, l));
	vtime = at_least(vtime, place_left(p, t, *orphans_of(t->line), l));
	/* A child in its creator's group starts where its creator is. In another group it joins
	 * like a woken task. */
	if (!from || from->slot != t->slot)
		vtime = joins_at(t, l, vtime);
	t->class = SPRY_CLASS_OTHER;
	t->vtime = vtime;
	set_key(p, KEY(SPRY_CLASS_OTHER, vtime));
}

/* The current task exits: charges it, and passes its lead to its process, its parent or its line. */
static __always_inline void dies(struct task_struct *p, const struct where *at)
{
	struct thread_ctx *t = find_thread(p), *heir = NULL;
	struct task_struct *parent = p->real_parent;
	u64 now, left, unit, charge, vtime, *line;
	struct llc_ctx *l;
	s64 ahead;

	if (!t)
		return;
	/* A task that began before the scheduler was loaded has no line yet. */
	line = orphans_of(t->line ?: p->cred->uid.val);
	l = llc_at(t->domain);
	charge = owes(p, t);
	vtime = t->vtime + charge;
	if (charge) {
		class_served(at->cpu, charge);
		group_is_served(t, l, uncharged(p, t));
	}
	now = l->vtime;
	ahead = vtime - now;
	if (ahead > 0) {
		/* The task's lead over the class, converted to run time at nice 0. */
		unit = other_charge(p, t, MS) ?: 1;
		ahead = (u64)ahead * (MS >> VTIME_UNIT_SHIFT) / unit;
	} else {
		ahead = 0;
	}
	now = in_first_cache(now, l);
	left = now + ahead;
	if (p->pid != p->tgid) {
		heir = find_thread(p->group_leader);
	} else {
		/* The process also passes on the leads of its threads. */
		if (t->left)
			left = at_least(left, t->left);
		if (parent && parent->tgid == t->creator)
			heir = find_thread(parent->group_leader);
	}
	if ((s64)(left - now) <= 0)
		return;
	if (heir)
		heir->left = heir->left ? at_least(heir->left, left) : left;
	else
		*line = at_least(*line ?: left, left);
}

#endif
