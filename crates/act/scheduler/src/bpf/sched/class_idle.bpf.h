/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * IDLE: tasks of SCHED_IDLE, and tasks that a manual override put here.
 *
 * Purpose: they run when no other task wants the CPU.
 *
 * Rule: first come, first served. A running task keeps the CPU until its slice ends, after 3 ms or after the
 * quantum that the daemon has set for the class.
 *
 * Bound: while other classes keep the CPU busy, the tasks of IDLE have turns of 5 % of the
 * time (below.bpf.h).
 *
 * Difference from the thesis: its IDLE class has Linux 2.4's epochs and can starve.
 */
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
	return at_least(tuning.idle_ns, slice_other_ns);
}

static __always_inline bool idle_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

/* Chooses the next task of IDLE. The timer ends its slice if the class has a quantum, or if many tasks of the
 * class wait. */
static __always_inline enum taken idle_take(const struct where *at, const struct running *r)
{
	u64 quantum_ns = tuning.idle_ns;

	if (waiting(at, SPRY_CLASS_IDLE) > (quantum_ns ? 0 : exact_tasks))
		in_time(at, SPRY_CLASS_IDLE, quantum_ns ?: slice_other_ns);
	return take_next(at, r, SPRY_CLASS_IDLE);
}

#endif
