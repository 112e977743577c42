/* SPDX-License-Identifier: GPL-2.0-only */
/* Queues: how tasks get in and out of them, and which task is first. */
#ifndef SPRY_QUEUE_BPF_H
#define SPRY_QUEUE_BPF_H

#include "domain.bpf.h"

static __always_inline bool take(u32 place, u32 queue)
{
	u32 *count = queued_at(place, queue);

	if (!*count || !scx_bpf_dsq_move_to_local(dsq_at(place, queue)))
		return false;
	*first_at(place, queue) = 0;
	__sync_fetch_and_sub(count, 1);
	return true;
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

/* A place and one of its queues, with an order and a slice: where a waiting task goes. */
struct goes_to {
	u32 place;
	u32 queue;
	u64 key;
	u64 slice_ns;
};

/* Moves the task at which an iterator stands from a queue to another one, or to another place in its queue.
 */
static __always_inline void move_to(struct bpf_iter_scx_dsq *it, struct task_struct *p, u32 place, u32 queue,
				    const struct goes_to *to)
{
	u32 *count = queued_at(place, queue), *count_to = queued_at(to->place, to->queue);

	__COMPAT_scx_bpf_dsq_move_set_vtime(it, to->key);
	__COMPAT_scx_bpf_dsq_move_set_slice(it, to->slice_ns);
	__sync_fetch_and_add(count_to, 1);
	*first_at(to->place, to->queue) = 0;
	/* The move fails if the task was taken out, or taken by a CPU, meanwhile. */
	if (!__COMPAT_scx_bpf_dsq_move_vtime(it, p, dsq_at(to->place, to->queue), 0))
		count = count_to;
	__sync_fetch_and_sub(count, 1);
}

/* The order of the first task of a queue; behind all orders if the queue is empty. It is only a hint, since
 * other CPUs take tasks out and put tasks in meanwhile. */
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

/* The order of the first task of a place, among the tasks of the place's cache. */
__noinline u64 first_key_seen(u32 place, u32 queue)
{
	u64 key = first_key(place, queue);

	return queue == SPRY_CLASS_OTHER && key != ~0ull ? order_in_cache(place, key) : key;
}

/* A CPU belongs to sets, and each set has a queue. Returns the number of the set that has the first task of
 * all these queues; MASKS_OF_CPU if they are all empty. */
__noinline u32 first_set(u32 cpu, u32 queue)
{
	u64 first = ~0ull;
	u32 i, found = MASKS_OF_CPU;

	bpf_for(i, 0, MASKS_OF_CPU)
	{
		u64 key;

		if (i >= cpu_at(cpu)->masks_count)
			break;
		key = first_key_seen(place_of_set(cpu, i), queue);
		if (key < first) {
			first = key;
			found = i;
		}
	}
	return found;
}

/* The place, besides that of its cache, from which a CPU may take the first task of a queue. */
__noinline u32 first_beside(u32 cpu, u32 queue)
{
	u32 own = place_of_cpu(cpu), set;

	if (nr_cpus <= 2 || !cpu_at(cpu)->masks_count)
		return own;
	set = place_of_set(cpu, first_set(cpu, queue));
	return first_key_seen(set, queue) < first_key_seen(own, queue) ? set : own;
}

/* The order of the first task that a CPU may take from a queue, before it looks at other caches. */
__noinline u64 first_of_several(u32 cpu, u32 queue)
{
	u64 here = first_key(llc_of(cpu), queue);
	u64 beside = first_key_seen(first_beside(cpu, queue), queue);

	return beside < here ? beside : here;
}

static __always_inline u64 first_waiting(const struct where *at, u32 queue)
{
	return nr_cpus == 1 ? first_key(at->llc, queue) : first_of_several(at->cpu, queue);
}

/* Takes the first task of a queue: from the CPU's cache, from the CPU's own place, or from the places of its
 * sets; from other caches if there is no task there. */
__noinline u32 take_of_several(u32 cpu, u32 queue)
{
	u32 here = llc_of(cpu), beside = first_beside(cpu, queue), i;
	bool beside_first =
		!*queued_at(here, queue) || first_key_seen(beside, queue) <= first_key(here, queue);

	if (beside_first && take(beside, queue))
		return true;
	if (take(here, queue) || take(beside, queue) || take(place_of_cpu(cpu), queue))
		return true;
	if (nr_llcs == 1)
		return false;
	bpf_for(i, 1, nr_llcs)
	{
		u32 llc = here + i >= nr_llcs ? here + i - nr_llcs : here + i;

		if (take(llc, queue))
			return true;
	}
	return false;
}

static __always_inline bool take_first(const struct where *at, u32 queue)
{
	if (nr_cpus == 1 ? !take(at->llc, queue) : !take_of_several(at->cpu, queue))
		return false;
	cpu_at(at->cpu)->has = queue;
	return true;
}

/* Whether a task that waits in a class' queue goes before the running task of the same class. */
static __always_inline bool goes_first(const struct where *at, u32 queue, u64 key)
{
	return first_waiting(at, queue) <= key;
}

#endif
