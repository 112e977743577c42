/* SPDX-License-Identifier: GPL-2.0-only */
/* A CPU asks whom to run: the walk through the classes. */
#ifndef SPRY_DISPATCH_BPF_H
#define SPRY_DISPATCH_BPF_H

/* Who had the CPU and would go on. `class` is SPRY_CLASSES if nobody would. */
struct running {
	struct task_struct *p;
	struct thread_ctx *t;
	u64 key;
	u32 class;
};

static __always_inline bool take(u32 place, u32 queue)
{
	u32 *count = queued_at(place, queue);

	if (!*count || !scx_bpf_dsq_move_to_local(dsq_at(place, queue)))
		return false;
	*first_at(place, queue) = 0;
	__sync_fetch_and_sub(count, 1);
	return true;
}

/* The order of who is first in a queue; behind everybody if nobody is. A hint: other CPUs take and add
 * meanwhile. */
static __always_inline u64 first_key(u32 place, u32 queue)
{
	u64 *known = first_at(place, queue);
	struct task_struct *p;

	if (!*queued_at(place, queue))
		return ~0ull;
	if (!*known) {
		p = __COMPAT_scx_bpf_dsq_peek(dsq_at(place, queue));
		if (!p)
			return ~0ull;
		*known = p->scx.dsq_vtime;
	}
	return *known;
}

/* Puts a task into a queue. */
static __always_inline void put(struct task_struct *p, u32 place, u32 queue, u64 slice_ns, u64 key,
				u64 enq_flags)
{
	u64 *known = first_at(place, queue);

	if (!__sync_fetch_and_add(queued_at(place, queue), 1) || (*known && key < *known))
		*known = key;
	scx_bpf_dsq_insert_vtime(p, dsq_at(place, queue), slice_ns, key, enq_flags);
}

/* Takes the first of a queue, from here or from this CPU's own; from other caches if nobody is here. */
static __always_inline bool take_of_several(const struct where *at, u32 queue)
{
	u32 own = place_of_cpu(at->cpu), i;

	if (*queued_at(own, queue)) {
		bool own_first =
			!*queued_at(at->llc, queue) || first_key(own, queue) <= first_key(at->llc, queue);

		if (own_first && take(own, queue))
			return true;
	}
	if (take(at->llc, queue) || take(own, queue))
		return true;
	if (nr_llcs == 1)
		return false;
	bpf_for(i, 1, nr_llcs)
	{
		u32 llc = at->llc + i >= nr_llcs ? at->llc + i - nr_llcs : at->llc + i;

		if (take(llc, queue))
			return true;
	}
	return false;
}

static __always_inline bool take_first(const struct where *at, u32 queue)
{
	if (nr_cpus == 1)
		return take(at->llc, queue);
	if (!take_of_several(at, queue))
		return false;
	cpu_at(at->cpu)->has = class_of_queue(queue);
	return true;
}

/* Whether who waits in the class of who runs goes before them. */
static __always_inline bool goes_first(const struct where *at, u32 queue, u64 key)
{
	if (first_key(at->llc, queue) <= key)
		return true;
	return nr_cpus > 1 && first_key(place_of_cpu(at->cpu), queue) <= key;
}

/* Who runs gives way: it will be enqueued as it was ordered. */
static __always_inline void give_way(const struct where *at, struct running *r)
{
	struct cpu_ctx *c = cpu_at(at->cpu);

	if (!r->p)
		return;
	c->ordered.task = (u64)r->p;
	c->ordered.ran_ns = r->p->se.sum_exec_runtime;
	c->ordered.key = r->key;
	c->ordered.queue = queue_of(r->class, r->t);
	c->ordered.slice_ns = slice_of(r->class, r->t);
}

/* Nobody goes before who runs. */
static __always_inline void go_on(struct running *r)
{
	if (!r->p)
		return;
	set_key(r->p, r->key);
	set_slice(r->p, slice_of(r->class, r->t));
}

/* A turn of what is below, if it is due; otherwise sees to it that this is asked again in time. */
static __always_inline bool turn_below(const struct where *at, struct cpu_ctx *c, u32 which, u32 queue,
				       u32 count)
{
	struct below *b = &c->below[which];
	u64 now = scx_bpf_now(), period_ns = below_period(count);

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
	u32 others = waiting(at, QUEUE_OTHER), idlers = waiting(at, QUEUE_IDLE);

	if (idlers) {
		if ((above || others || r->class < SPRY_CLASS_IDLE) &&
		    turn_below(at, c, BELOW_IDLE, QUEUE_IDLE, idlers))
			return true;
	} else {
		c->below[BELOW_IDLE].due_ns = 0;
	}
	if (others && above)
		return turn_below(at, c, BELOW_OTHER, QUEUE_OTHER, others);
	c->below[BELOW_OTHER].due_ns = 0;
	c->below[BELOW_OTHER].began_ns = 0;
	return false;
}

/* A quantum that ends before the next tick, while others wait for it, ends by the timer. */
static __always_inline void exact_quantum(const struct where *at, u64 left_ns)
{
	if (left_ns < slice_interactive_ns) {
		u64 now = scx_bpf_now();

		timer_set(at->cpu, cpu_at(at->cpu), now, now + left_ns);
	}
}

/* Takes the next of INTERACTIVE, unless who runs is that. */
static __always_inline bool take_interactive(const struct where *at, struct running *r)
{
	bool mine = r->class == SPRY_CLASS_INTERACTIVE;
	u32 queue = interactive_queue(false), spent = interactive_queue(true);

	if (mine && r->t && !r->t->left_ns && !any(at, queue)) {
		/* Nobody who could run has anything left. */
		epoch++;
		interactive_charge(r->t, 0);
		r->key = interactive_key(r->t);
		queue = interactive_queue(false);
		spent = interactive_queue(true);
	}
	if (any(at, queue) && (!mine || !r->t || !r->t->left_ns || goes_first(at, queue, r->key))) {
		u64 key = waiting(at, queue) + waiting(at, spent) + mine > 1 ? first_key(at->llc, queue)
									     : ~0ull;

		if (take_first(at, queue)) {
			if (key != ~0ull)
				exact_quantum(at, interactive_left(key));
			return true;
		}
	}
	if (mine) {
		if (any(at, queue) && r->t)
			exact_quantum(at, r->t->left_ns);
		return false;
	}
	if (!any(at, spent))
		return false;
	epoch++;
	return take_first(at, spent);
}

/* A crowd has shorter slices, so that everybody has one in time. */
static __always_inline void in_time(const struct where *at)
{
	u32 count = waiting(at, QUEUE_OTHER);
	u64 now;

	if (count <= crowd)
		return;
	now = scx_bpf_now();
	timer_set(at->cpu, cpu_at(at->cpu), now, now + age_many_ns / count);
}

/* Takes whoever is next; whether that is somebody else than who ran. */
static __always_inline bool decide(const struct where *at, struct running *r)
{
	bool above = r->class < SPRY_CLASS_OTHER || any_above(at);

	timer_forget(cpu_at(at->cpu));
	cpu_at(at->cpu)->local_key = ~0ull;
	if (below_first(at, r, above))
		return true;
	if (above) {
		if (r->class == SPRY_CLASS_DAEMON && !goes_first(at, QUEUE_DAEMON, r->key))
			return false;
		if (take_first(at, QUEUE_DAEMON))
			return true;
		if (r->class == SPRY_CLASS_DAEMON ||
		    (r->class == SPRY_CLASS_KTHREAD && !goes_first(at, QUEUE_KTHREAD, r->key)))
			return false;
		if (take_first(at, QUEUE_KTHREAD))
			return true;
		if (r->class < SPRY_CLASS_INTERACTIVE)
			return false;
		if (take_interactive(at, r))
			return true;
		if (r->class == SPRY_CLASS_INTERACTIVE)
			return false;
	}
	in_time(at);
	if ((r->class > SPRY_CLASS_OTHER || goes_first(at, QUEUE_OTHER, r->key)) &&
	    take_first(at, QUEUE_OTHER))
		return true;
	return r->class > SPRY_CLASS_OTHER && take_first(at, QUEUE_IDLE);
}

#endif
