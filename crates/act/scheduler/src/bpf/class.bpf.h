/* SPDX-License-Identifier: GPL-2.0-only */
/* The questions that the scheduler asks a class, and the answers. docs/adding-a-class.md goes through
 * them. */
#ifndef SPRY_CLASS_BPF_H
#define SPRY_CLASS_BPF_H

#include "queue.bpf.h"

/* When a task's order is asked for: when the task wakes, when it is put into a queue for another reason, or
 * when its CPU asks which task to run. */
enum asked { ASKED_AS_IT_WAKES, ASKED_AS_IT_IS_PUT, ASKED_WHICH_TO_RUN };

/* A task, for a class that is asked for the task's order. `t` is NULL where there was no memory for it. */
struct asking {
	struct task_struct *p;
	struct thread_ctx *t;
	const struct where *at;
	/* OTHER: the domain in which the task is ordered. */
	u32 domain;
	/* How long the task ran since its order was last asked for, ns. */
	u64 ran_ns;
	enum asked asked;
};

/* The order of a task that comes now to a class of tasks that are all alike. */
static __always_inline u64 comes_now(u32 class)
{
	return KEY(class, scx_bpf_now() >> VTIME_UNIT_SHIFT);
}

/*
 * An order for tasks that are all alike: the task that came first runs first, whichever queue of a CPU it
 * waits in. A task that was taken out of its queue and put back, and has not run meanwhile, keeps its order.
 * Otherwise a user that changes a waiting task's CPUs again and again would keep the task from running.
 */
static __always_inline u64 first_come(const struct asking *a, u32 class)
{
	u64 key = a->p->scx.dsq_vtime;

	if (a->asked == ASKED_AS_IT_IS_PUT && a->t && !a->ran_ns && key >> KEY_SHIFT == class)
		return key;
	return comes_now(class);
}

/* The task that had the CPU and would go on running. `class` is SPRY_CLASSES if there is no such task. */
struct running {
	struct task_struct *p;
	struct thread_ctx *t;
	u64 key;
	u32 class;
	/* Whether the next task of its class runs before the running task, whatever their orders are. */
	bool yields;
};

/* What a class answers when it is asked for its next task: the CPU takes that task; the running task goes on;
 * the next class is asked. */
enum taken { TAKES_NEXT, GOES_ON, ASKS_ON };

/* Takes the first task of a class' queue, unless the running task is of the class and goes before it. */
static __always_inline enum taken take_next(const struct where *at, const struct running *r, u32 class)
{
	if (r->class == class && !r->yields && !goes_first(at, class, r->key))
		return GOES_ON;
	if (take_first(at, class))
		return TAKES_NEXT;
	return r->class == class ? GOES_ON : ASKS_ON;
}

#endif
