/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KTHREAD: kernel threads of nice 0 or less.
 *
 * Purpose: work that the kernel does for all processes is done at once.
 *
 * Rule: first come, first served, before INTERACTIVE.
 *
 * Bound: each thread has 3 % of a CPU, and all together have 20 %, in periods of 100 ms. Beyond its bound a
 * thread is of OTHER. Its run time in KTHREAD has moved its virtual time in OTHER forward, too. Any user
 * can make kernel threads work without end, for example by a flood of lines into a terminal. By this rule
 * such a thread has no more than its fair share. Workers on which a process in use depends have up to 30 %
 * together (workers.bpf.h).
 *
 * Difference from the thesis: its KTHREAD class has no bound, and orders its tasks by Linux 2.4's epochs.
 */
#ifndef SPRY_CLASS_KTHREAD_BPF_H
#define SPRY_CLASS_KTHREAD_BPF_H

#include "budget.bpf.h"
#include "class.bpf.h"

static __always_inline bool kthread_by_nature(struct task_struct *p)
{
	return p->flags & PF_KTHREAD && p->static_prio <= NICE_0_PRIO && p->policy != SCHED_IDLE;
}

static __always_inline bool kthread_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	if (!t)
		return false;
	if (is_wanted(t))
		return within_budget(c, SPRY_CLASS_KTHREAD, wanted_percent);
	return within_own_budget(t) && within_budget(c, SPRY_CLASS_KTHREAD, kthread_percent) &&
	       c->spent_ns[SPRY_CLASS_KTHREAD] <= left_for(c, SPRY_CLASS_KTHREAD);
}

static __always_inline u64 kthread_key(const struct asking *a)
{
	return first_come(a, SPRY_CLASS_KTHREAD);
}

static __always_inline u64 kthread_slice(struct thread_ctx *t)
{
	return slice_other_ns;
}

static __always_inline bool kthread_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

static __always_inline enum taken kthread_take(const struct where *at, const struct running *r)
{
	return take_next(at, r, SPRY_CLASS_KTHREAD);
}

#endif
