/* SPDX-License-Identifier: GPL-2.0-only */
/* A CPU asks whom to run: the walk through the classes. */
#ifndef SPRY_DISPATCH_BPF_H
#define SPRY_DISPATCH_BPF_H

#include "below.bpf.h"
#include "holder.bpf.h"
#include "table.bpf.h"

/* Who runs gives way: it will be enqueued as it was ordered. */
static __always_inline void give_way(const struct where *at, struct running *r)
{
	struct cpu_ctx *c = cpu_at(at->cpu);

	if (!r->p)
		return;
	c->ordered.task = (u64)r->p;
	c->ordered.ran_ns = r->p->se.sum_exec_runtime;
	c->ordered.key = r->key;
	c->ordered.slice_ns = slice_of(r->class, r->t);
}

/* No task goes before the one that runs. */
static __always_inline void go_on(struct cpu_ctx *c, struct running *r)
{
	if (!r->p)
		return;
	if (r->class == SPRY_CLASS_INTERACTIVE)
		interactive_serves(c, r->key);
	set_key(r->p, r->key);
	set_slice(r->p, slice_of(r->class, r->t));
}

/* A turn of what is below, if it is due; otherwise sees to it that this is asked again in time. */
static __always_inline bool turn_below(const struct where *at, struct cpu_ctx *c, u32 which, u32 queue,
				       u32 count)
{
	struct below *b = &c->below[which];
	u64 now = scx_bpf_now(), period_ns;

	/* Many make turns short. */
	if (count > some_tasks)
		count = really_waiting(at, queue);
	period_ns = below_period(count);

	if (which == BELOW_OTHER && !b->due_ns && count > some_tasks)
		keep_house_early(now, now + kept_waiting_ns);
	if (!below_due(b, now, below_interval(period_ns))) {
		timer_set(at->cpu, c, now, b->due_ns);
		return false;
	}
	if (!take_first(at, queue))
		return false;
	if (nr_cpus > 1)
		c->has |= HAS_TURN;
	b->began_ns = now;
	c->below_turns++;
	timer_set(at->cpu, c, now, now + below_slice(period_ns));
	return true;
}

/* Turns of OTHER behind what is above it, and of IDLE behind everybody. */
static __always_inline bool below_first(const struct where *at, const struct running *r, bool above)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u32 others = waiting(at, SPRY_CLASS_OTHER), idlers = waiting(at, SPRY_CLASS_IDLE);

	if (idlers) {
		if ((above || others || r->class < SPRY_CLASS_IDLE) &&
		    turn_below(at, c, BELOW_IDLE, SPRY_CLASS_IDLE, idlers))
			return true;
	} else {
		c->below[BELOW_IDLE].due_ns = 0;
	}
	if (others && above)
		return turn_below(at, c, BELOW_OTHER, SPRY_CLASS_OTHER, others);
	c->below[BELOW_OTHER].due_ns = 0;
	c->below[BELOW_OTHER].began_ns = 0;
	return false;
}

/* The classes are asked in their order; whether the CPU takes another task than that which ran. */
static __always_inline bool decide(const struct where *at, struct running *r)
{
	bool above = r->class < SPRY_CLASS_OTHER || any_above(at);

	timer_forget(cpu_at(at->cpu));
	cpu_at(at->cpu)->local_key = ~0ull;
	if (below_first(at, r, above))
		return true;
#define ASK(CLASS, name)                                                                                     \
	if (above || SPRY_CLASS_##CLASS >= SPRY_CLASS_OTHER) {                                               \
		switch (name##_take(at, r)) {                                                                \
		case TAKES_NEXT:                                                                             \
			return true;                                                                         \
		case GOES_ON:                                                                                \
			return false;                                                                        \
		case ASKS_ON:                                                                                \
			break;                                                                               \
		}                                                                                            \
	}
	SPRY_CLASS_LIST(ASK)
#undef ASK
	return false;
}

#endif
