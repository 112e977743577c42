/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of OTHER that begin and end. A new task begins at the virtual time where its creator is now, so a
 * relay of short tasks gets no more than one task. A task that ends ahead of its class leaves how far ahead
 * it was: a thread leaves it to its process, a process to its parent. Where the parent has ended before, a
 * process leaves it to all tasks that the same user began. Tasks that are begun by these begin no earlier.
 */
#ifndef SPRY_BIRTHS_BPF_H
#define SPRY_BIRTHS_BPF_H

#include "table.bpf.h"

/* A line is all tasks that one user began. Lines of several users may share a place by chance; the first
 * place is root's alone. */
#define LINE_BITS 12
#define LINES	  (1 << LINE_BITS)
/* How far ahead a task was is left up to this much, ns. */
#define LEFT_MOST_NS (100 * MS)

/* How far ahead tasks without a parent were at their end, by their lines. */
static u64 orphans[LINES];

static __always_inline u64 *orphans_of(u32 line)
{
	u32 index = line ? line * 0x9e3779b1u >> (32 - LINE_BITS) : 0;

	return &orphans[(line && !index ? 1 : index) & (LINES - 1)];
}

/* How long the task that runs here has run without being charged for it yet, ns. */
static __always_inline u64 uncharged(struct task_struct *p, struct thread_ctx *t)
{
	s64 ran_ns = ran_until_now(p) - t->charged_ns;

	return ran_ns > 0 ? ran_ns : 0;
}

/* How much the task that runs here has not paid yet for its run time in OTHER, units of 64 ns. */
static __always_inline u64 owes(struct task_struct *p, struct thread_ctx *t)
{
	return t->class == SPRY_CLASS_OTHER ? other_charge(p, t, uncharged(p, t)) : 0;
}

/* The virtual time at which a task may begin where an ended task left `left`: that is in the first cache's
 * virtual time and counts run time at nice 0, while the new task may have another weight. Where nothing was
 * left, the answer is behind all that can be. */
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

/*
 * The virtual time at which a task begins that the creator has just created: where the creator is. If the
 * creator is behind its class, it gives this advantage away by that. So a relay of tasks is behind as long as
 * one task would be, and many children have the advantage only once.
 */
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

/* Records what a new task descends from: its end is charged by this. */
static __always_inline void descends(struct task_struct *p, struct thread_ctx *t, struct task_struct *creator,
				     const struct thread_ctx *from, const struct where *at)
{
	/* The line stays what it was for a user's first task, whatever other users its descendants become. */
	t->line = from && from->line ? from->line : p->cred->uid.val;
	t->creator = creator->tgid;
	t->domain = domain_of(at);
	cgroup_find(p, t);
}

/* A task begins: the current task has created it. */
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
	/* A child in its creator's group stands in the group where its creator does; in another group it
	 * joins. */
	if (!from || from->slot != t->slot)
		vtime = joins_at(t, l, vtime);
	t->class = SPRY_CLASS_OTHER;
	t->vtime = vtime;
	set_key(p, KEY(SPRY_CLASS_OTHER, vtime));
}

/* The task that runs here ends. */
static __always_inline void dies(struct task_struct *p, const struct where *at)
{
	struct thread_ctx *t = find_thread(p), *heir = NULL;
	struct task_struct *parent = p->real_parent;
	u64 now, left, unit, charge, vtime;
	struct llc_ctx *l;
	s64 ahead;

	if (!t)
		return;
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
		/* How far ahead the task is, as run time at nice 0. */
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
		/* What the threads of the process left is passed on, too. */
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
		*orphans_of(t->line) = at_least(*orphans_of(t->line) ?: left, left);
}

#endif
