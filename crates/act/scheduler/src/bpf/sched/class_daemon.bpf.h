/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DAEMON: Spry's own threads.
 *
 * Purpose: the daemon's decisions come in time, whatever the load is.
 *
 * Rule: first come, first served, before all classes but RESERVED.
 *
 * Bound: all threads together have 10 % of a CPU, in periods of 100 ms; beyond it they are of OTHER. Kernel
 * threads and turns of lower classes can reduce this to 4 % (budget.bpf.h). Some threads have 3 % of a CPU
 * each instead, apart from the 10 %: then the other threads of the daemon cannot delay them.
 *
 * Difference from the thesis: the thesis has no such class.
 */
#ifndef SPRY_CLASS_DAEMON_BPF_H
#define SPRY_CLASS_DAEMON_BPF_H

#include "budget.bpf.h"
#include "class.bpf.h"

static __always_inline bool daemon_by_nature(struct task_struct *p)
{
	return p->tgid == daemon_tgid && p->policy != SCHED_IDLE;
}

/*
 * Whether a thread has a budget of its own and takes nothing from the daemon's common budget. Two kinds of
 * threads have one. The first are threads of the daemon that wake only to make their CPU decide; no other
 * thread of the daemon has nice -20. The second are threads of a process that works for the daemon as an
 * ordinary user. This user may control the process, so it is charged from its first run on.
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
