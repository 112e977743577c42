/* SPDX-License-Identifier: GPL-2.0-only */
/* A CPU decides which task to run: it tries the classes from the highest to the lowest. */
#ifndef SPRY_DISPATCH_BPF_H
#define SPRY_DISPATCH_BPF_H

#include "below.bpf.h"
#include "holder.bpf.h"
#include "release.bpf.h"
#include "table.bpf.h"

/* The running task gives way: the CPU remembers its order and slice. The kernel then calls spry_enqueue for
 * it, which puts it into a queue with this order and slice. */
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

/* The running task goes on, with a new slice. */
static __always_inline void go_on(struct cpu_ctx *c, struct running *r)
{
	if (!r->p)
		return;
	if (r->class == SPRY_CLASS_INTERACTIVE)
		interactive_serves(c, r->key);
	if (r->p->scx.dsq_vtime != r->key)
		set_key(r->p, r->key);
	set_slice(r->p, slice_of(r->class, r->t));
}

/* Begins a turn of a lower class if it is due, with the first waiting task. Otherwise sets the timer to the
 * time at which it will be due. Returns whether the CPU takes a task. */
__noinline u32 turn_below(u32 cpu, u32 which, u32 queue, u32 count)
{
	struct where at = where_of(cpu);
	struct cpu_ctx *c = cpu_at(cpu);
	struct below *b = &c->below[which & (BELOWS - 1)];
	u64 now = scx_bpf_now(), period_ns;

	/* The more tasks wait, the shorter turns are, so the number of tasks must be right. */
	if (count > some_tasks)
		count = really_waiting(&at, queue);
	period_ns = below_period(count);

	if (which == BELOW_OTHER && !b->due_ns && count > some_tasks)
		keep_house_early(now, now + kept_waiting_ns);
	if (!below_due(b, now, which, count, below_interval(period_ns))) {
		timer_set(cpu, c, now, b->due_ns);
		return false;
	}
	if (!take_first(&at, queue))
		return false;
	if (nr_cpus > 1)
		c->has |= HAS_TURN;
	b->began_ns = now;
	c->below_turns++;
	timer_set(cpu, c, now, now + below_slice(period_ns));
	return true;
}

/* Gives OTHER a turn if a higher class wants the CPU (`above`), or IDLE if any other class does, and if the
 * turn is due. Returns whether the CPU takes a task. */
static __always_inline bool below_first(const struct where *at, const struct running *r, bool above)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u32 others = waiting(at, SPRY_CLASS_OTHER), idlers = waiting(at, SPRY_CLASS_IDLE);

	/* A waiting task of DAEMON goes before turns: it is within its budget and soon done. A turn may last
	 * until the next tick on kernels without timers. */
	if (above && waiting(at, SPRY_CLASS_DAEMON))
		return false;
	if (idlers) {
		if ((above || others || r->class < SPRY_CLASS_IDLE) &&
		    turn_below(at->cpu, BELOW_IDLE, SPRY_CLASS_IDLE, idlers))
			return true;
	} else {
		c->below[BELOW_IDLE].due_ns = 0;
	}
	if (others && above)
		return turn_below(at->cpu, BELOW_OTHER, SPRY_CLASS_OTHER, others);
	c->below[BELOW_OTHER].due_ns = 0;
	c->below[BELOW_OTHER].began_ns = 0;
	return false;
}

/* No class keeps a lower class waiting on a CPU: no turn is due there, and none is under way. */
static __always_inline void no_turns(struct cpu_ctx *c)
{
	c->below[BELOW_IDLE].due_ns = 0;
	c->below[BELOW_OTHER].due_ns = 0;
	c->below[BELOW_OTHER].began_ns = 0;
}

/* Tries the classes below RESERVED in their order, after turns that are due. Returns whether the CPU takes
 * another task than the running one. */
static __always_inline bool decide_below(const struct where *at, struct running *r)
{
	bool above = r->class < SPRY_CLASS_OTHER;
	enum waits_below waits = waits_below(at);

	r->is_alone = waits == NONE_WAITS;
	if (r->is_alone || (waits == OTHERS_WAIT && !above)) {
		no_turns(cpu_at(at->cpu));
		return !r->is_alone && other_take(at, r) == TAKES_NEXT;
	}
	above |= any_above(at);
	if (passes_by(at))
		return true;
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
	SPRY_CLASS_LIST_BELOW(ASK)
#undef ASK
	return false;
}

/* Looks for a task of RESERVED. Sets `now` to the time of the decision, and `until_ns` to the end of the
 * chosen task's budget (0: there is none). */
static __always_inline enum taken decide_reserved(const struct where *at, const struct running *r, u64 *now,
						  u64 *until_ns)
{
	struct cpu_ctx *c = cpu_at(at->cpu);

	*now = bpf_ktime_get_ns();
	c->decided_ns = 0;
	if (c->fired) {
		way_took(&c->timer_way_ns, *now - c->expires_ns);
		c->fired = 0;
	}
	*now = wait_for_period(at->cpu, *now);
	reserved_moves(at->cpu, c, *now);
	return reserved_choose(at, r, *now, until_ns);
}

/* Decides for a CPU: tries RESERVED if there ever were reservations, then the other classes. Returns whether
 * the CPU takes another task than the running one. */
static __always_inline bool decide(const struct where *at, struct running *r, bool with_reserved)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	enum taken taken = ASKS_ON;
	u64 now = 0, until_ns = 0;
	bool takes;

	timer_forget(c);
	c->local_key = ~0ull;
	if (with_reserved)
		taken = decide_reserved(at, r, &now, &until_ns);
	takes = taken == ASKS_ON ? decide_below(at, r) : taken == TAKES_NEXT;
	if (!with_reserved)
		return takes;
	reserved_arm(at->cpu, c, now, until_ns);
	/* A task that gives way, or goes on in a lower class, no longer runs on its reservation. So the
	 * kernel's work until the switch is not charged to it. */
	if (taken != GOES_ON)
		c->reserved_runs = 0;
	return takes;
}

#endif
