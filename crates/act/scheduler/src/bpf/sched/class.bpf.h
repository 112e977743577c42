/* SPDX-License-Identifier: GPL-2.0-only */
/* The interface of a scheduling class: the scheduler's arguments to a class, and the class' results.
 * docs/adding-a-class.md lists the functions of a class. */
#ifndef SPRY_CLASS_BPF_H
#define SPRY_CLASS_BPF_H

#include "queue.bpf.h"

/* The occasion of the scheduler's request for a task's order. The task wakes; or it is put into a queue for
 * another reason; or it runs and its CPU decides which task to run. */
enum asked { ASKED_AS_IT_WAKES, ASKED_AS_IT_IS_PUT, ASKED_WHICH_TO_RUN };

/* A request for a task's order, the argument of a class' function. `t` is the task's context, NULL if there
 * was no memory for it. */
struct asking {
	struct task_struct *p;
	struct thread_ctx *t;
	const struct where *at;
	/* OTHER: the domain of virtual time in which the task is ordered. */
	u32 domain;
	/* Run time of the task since its order was last computed, ns. */
	u64 ran_ns;
	enum asked asked;
};

/* The order that a task gets if it joins a class now in which the task that came first runs first. */
static __always_inline u64 comes_now(u32 class)
{
	return KEY(class, scx_bpf_now() >> VTIME_UNIT_SHIFT);
}

/* The order of a task in a class in which the task that came first runs first, in whichever of a CPU's queues
 * it waits. A task that was taken out of its queue and put back, and has not run meanwhile, keeps its order.
 * Otherwise a user could keep a waiting task from running by changing its CPUs again and again. */
static __always_inline u64 first_come(const struct asking *a, u32 class)
{
	u64 key = a->p->scx.dsq_vtime;

	if (a->asked == ASKED_AS_IT_IS_PUT && a->t && !a->ran_ns && key >> KEY_SHIFT == class)
		return key;
	return comes_now(class);
}

/* The task that had the CPU and could go on running, while the CPU decides. `class` is SPRY_CLASSES if
 * there is no such task. */
struct running {
	struct task_struct *p;
	struct thread_ctx *t;
	u64 key;
	u32 class;
	/* Whether the running task gives up the CPU voluntarily. Then the next task of its class runs first,
	 * whatever the orders of the two tasks are. */
	bool yields;
	/* Whether no task below RESERVED waited for the CPU as it decided. */
	bool is_alone;
};

/* The result when a CPU looks for its next task in a class. TAKES_NEXT: the CPU takes that task. GOES_ON: the
 * running task goes on. ASKS_ON: the class has no task, and the CPU tries the next class. */
enum taken { TAKES_NEXT, GOES_ON, ASKS_ON };

/* Takes the first task of a class' queues for a CPU, unless the running task is of the same class and its
 * order is lower. Most classes use this function. */
static __always_inline enum taken take_next(const struct where *at, const struct running *r, u32 class)
{
	if (r->class == class && !r->yields && !goes_first(at, class, r->key))
		return GOES_ON;
	if (take_first(at, class))
		return TAKES_NEXT;
	return r->class == class ? GOES_ON : ASKS_ON;
}

#endif
