/* SPDX-License-Identifier: GPL-2.0-only */
/* What a class is asked, and what it answers. docs/adding-a-class.md goes through it. */
#ifndef SPRY_CLASS_BPF_H
#define SPRY_CLASS_BPF_H

#include "queue.bpf.h"

/* A task's order is asked for when it wakes, when it is put into a queue otherwise, or when its CPU asks
 * which task to run. */
enum asked { ASKED_AS_IT_WAKES, ASKED_AS_IT_IS_PUT, ASKED_WHOM_TO_RUN };

/* A task whose order is asked for. `t` is NULL where there was no memory for it. */
struct asking {
	struct task_struct *p;
	struct thread_ctx *t;
	const struct where *at;
	/* What it ran since it was ordered last, ns. */
	u64 ran_ns;
	enum asked asked;
};

/* An order of tasks that are all alike: first in, first out, whichever queues of a CPU they wait in. */
static __always_inline u64 first_come(u32 class)
{
	return KEY(class, scx_bpf_now() >> VTIME_UNIT_SHIFT);
}

/* The task that had the CPU and would go on. `class` is SPRY_CLASSES if there is none. */
struct running {
	struct task_struct *p;
	struct thread_ctx *t;
	u64 key;
	u32 class;
	/* Whether the next task of its class runs before it, in whatever order they are. */
	bool yields;
};

/* A class is asked for its next task: the CPU takes it; the running task goes on; the next class is asked. */
enum taken { TAKES_NEXT, GOES_ON, ASKS_ON };

/* The first of a class' queue, unless the running task is of the class and goes before it. */
static __always_inline enum taken take_next(const struct where *at, const struct running *r, u32 class)
{
	if (r->class == class && !r->yields && !goes_first(at, class, r->key))
		return GOES_ON;
	if (take_first(at, class))
		return TAKES_NEXT;
	return r->class == class ? GOES_ON : ASKS_ON;
}

#endif
