/* SPDX-License-Identifier: GPL-2.0-only */
/* DAEMON: Spry's own threads, before all other classes, for a small part of each CPU; beyond this part they
 * are of OTHER. Threads that end turns have a small part each, so they run in time whatever keeps the other
 * threads busy. */
#ifndef SPRY_CLASS_DAEMON_BPF_H
#define SPRY_CLASS_DAEMON_BPF_H

#include "budget.bpf.h"
#include "class.bpf.h"

static __always_inline bool daemon_by_nature(struct task_struct *p)
{
	return p->tgid == daemon_tgid && p->policy != SCHED_IDLE;
}

/*
 * Whether a thread has a small part of its own, and nothing of the daemon's part. Such a thread wakes only to
 * have its CPU decide (the daemon gives such threads, and no others, this nice value), or is of a process
 * that works for the daemon as a user, which this user may have made a liar. What it runs is charged from the
 * first time on.
 */
static __always_inline bool has_own_part(struct task_struct *p, const struct thread_ctx *t)
{
	if (p->tgid == daemon_tgid)
		return p->static_prio == MAX_RT_PRIO;
	return t->spent_since_ns || t->class == SPRY_CLASS_DAEMON;
}

static __always_inline bool daemon_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	if (t && t->spent_since_ns)
		return within_renewed_budget(t);
	return within_budget(c, SPRY_CLASS_DAEMON, daemon_percent) &&
	       c->spent_ns[SPRY_CLASS_DAEMON] <= left_for(c, SPRY_CLASS_DAEMON);
}

static __always_inline u64 daemon_key(const struct asking *a)
{
	return first_come(a, SPRY_CLASS_DAEMON);
}

static __always_inline u64 daemon_slice(struct thread_ctx *t)
{
	return slice_other_ns;
}

static __always_inline bool daemon_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

static __always_inline enum taken daemon_take(const struct where *at, const struct running *r)
{
	return take_next(at, r, SPRY_CLASS_DAEMON);
}

#endif
