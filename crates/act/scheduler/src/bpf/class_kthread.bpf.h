/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KTHREAD: threads of the kernel that are not meant to be nice, for a small part of each CPU. Beyond this
 * part they are of OTHER, where they have paid for all that they ran. Any user can make the kernel's threads
 * work without end (by a flood of lines into a terminal): what they run here and in OTHER together is no more
 * than their fair share.
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
