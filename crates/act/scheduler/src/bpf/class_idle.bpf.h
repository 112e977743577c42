/* SPDX-License-Identifier: GPL-2.0-only */
/* IDLE: tasks of SCHED_IDLE and tasks put into this class by hand. They run one after the other, when no
 * other task wants the CPU. */
#ifndef SPRY_CLASS_IDLE_BPF_H
#define SPRY_CLASS_IDLE_BPF_H

#include "class.bpf.h"
#include "crowd.bpf.h"

static __always_inline bool idle_by_nature(struct task_struct *p)
{
	return p->policy == SCHED_IDLE;
}

static __always_inline bool idle_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	return true;
}

static __always_inline u64 idle_key(const struct asking *a)
{
	return first_come(a, SPRY_CLASS_IDLE);
}

static __always_inline u64 idle_slice(struct thread_ctx *t)
{
	return slice_other_ns;
}

static __always_inline bool idle_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

/* A task of IDLE that runs has its slice to the end: no task of IDLE goes before it. */
static __always_inline enum taken idle_take(const struct where *at, const struct running *r)
{
	if (waiting(at, SPRY_CLASS_IDLE) > exact_tasks)
		in_time(at, SPRY_CLASS_IDLE, slice_other_ns);
	return take_next(at, r, SPRY_CLASS_IDLE);
}

#endif
