/* SPDX-License-Identifier: GPL-2.0-only */
/* Queues: putting tasks in, taking tasks out, and finding the first task. */
#ifndef SPRY_QUEUE_BPF_H
#define SPRY_QUEUE_BPF_H

#include "domain.bpf.h"

/* The tasks below RESERVED that wait for a CPU: none, tasks of OTHER only, or perhaps others. */
enum waits_below { NONE_WAITS, OTHERS_WAIT, MORE_WAIT };

/* Reads which tasks below RESERVED wait for a CPU, for all classes at once: most decisions need no more. If
 * the CPU serves sets, or the machine has several caches, the answer is MORE_WAIT. */
static __always_inline enum waits_below waits_below(const struct where *at)
{
	const u32 *counts = counts_of(at->llc);
	u64 more = besides_other(counts);
	u32 others = counts[SPRY_CLASS_OTHER];

	if (nr_cpus > 1) {
		if (nr_llcs > 1 || has_masks(at))
			return MORE_WAIT;
		counts = counts_of(place_of_cpu(at->cpu));
		more |= besides_other(counts);
		others |= counts[SPRY_CLASS_OTHER];
	}
	if (more)
		return MORE_WAIT;
	return others ? OTHERS_WAIT : NONE_WAITS;
}

/* Takes the first task of a queue for this CPU. Returns whether there was a task that this CPU may run. */
static __always_inline bool take(u32 place, u32 queue)
{
	u32 *count = queued_at(place, queue);

	if (!*count || !scx_bpf_dsq_move_to_local(dsq_at(place, queue)))
		return false;
	*first_at(place, queue) = 0;
	__sync_fetch_and_sub(count, 1);
	return true;
}

/* Puts a task into a queue, with its order and its slice. */
static __always_inline void put(struct task_struct *p, u32 place, u32 queue, u64 slice_ns, u64 key,
				u64 enq_flags)
{
	u64 *known = first_at(place, queue);

	if (!__sync_fetch_and_add(queued_at(place, queue), 1) || (*known && key < *known))
		*known = key;
	scx_bpf_dsq_insert_vtime(p, dsq_at(place, queue), slice_ns, key, enq_flags);
}

/* The destination of a waiting task that is moved: a place, one of its queues, an order and a slice. */
struct goes_to {
	u32 place;
	u32 queue;
	u64 key;
	u64 slice_ns;
};

/* Moves a task from a queue to another one, or to another position in its queue. The iterator `it`
 * stands at the task. */
static __always_inline void move_to(struct bpf_iter_scx_dsq *it, struct task_struct *p, u32 place, u32 queue,
				    const struct goes_to *to)
{
	u32 *count = queued_at(place, queue), *count_to = queued_at(to->place, to->queue);

	__COMPAT_scx_bpf_dsq_move_set_vtime(it, to->key);
	__COMPAT_scx_bpf_dsq_move_set_slice(it, to->slice_ns);
	__sync_fetch_and_add(count_to, 1);
	*first_at(to->place, to->queue) = 0;
	/* If another CPU has taken the task meanwhile, the move fails, and the count of the target is
	 * corrected instead. */
	if (!__COMPAT_scx_bpf_dsq_move_vtime(it, p, dsq_at(to->place, to->queue), 0))
		count = count_to;
	__sync_fetch_and_sub(count, 1);
}

/* The order of the first task of a queue; ~0, behind all orders, if the queue is empty. It is a hint, since
 * other CPUs change the queue meanwhile. */
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

/* The order of a place's first task, converted for a comparison with tasks of the place's cache. */
__noinline u64 first_key_seen(u32 place, u32 queue)
{
	u64 key = first_key(place, queue);

	return queue == SPRY_CLASS_OTHER && key != ~0ull ? order_in_cache(place, key) : key;
}

/* Among the sets of CPUs that a CPU serves, the number of the set with the first task of a class;
 * MASKS_OF_CPU if none has a task. */
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

/* The place with the first task of a class for a CPU, apart from the place of its cache. It is the CPU's own
 * place, or the place of one of its sets. */
__noinline u32 first_beside(u32 cpu, u32 queue)
{
	u32 own = place_of_cpu(cpu), set;

	if (nr_cpus <= 2 || !cpu_at(cpu)->masks_count)
		return own;
	set = place_of_set(cpu, first_set(cpu, queue));
	return first_key_seen(set, queue) < first_key_seen(own, queue) ? set : own;
}

/* The order of the first task of a class that a CPU can take, from its cache, its own place or its sets. */
__noinline u64 first_of_several(u32 cpu, u32 queue)
{
	u64 here = first_key(llc_of(cpu), queue);
	u64 beside = first_key_seen(first_beside(cpu, queue), queue);

	return beside < here ? beside : here;
}

/* The order of the first task of a class that waits for a CPU, other caches not counted; ~0 if none waits. */
static __always_inline u64 first_waiting(const struct where *at, u32 queue)
{
	return nr_cpus == 1 ? first_key(at->llc, queue) : first_of_several(at->cpu, queue);
}

/* Takes the first task of a class for a CPU: from its cache, its own place or its sets. If these have no
 * task, takes one from other caches. */
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

/* Takes the first task of a class for a CPU, which then runs that class. Returns whether it found one. */
static __always_inline bool take_first(const struct where *at, u32 queue)
{
	if (nr_cpus == 1 ? !take(at->llc, queue) : !take_of_several(at->cpu, queue))
		return false;
	cpu_at(at->cpu)->has = queue;
	return true;
}

/* Whether a waiting task of a class goes before the CPU's running task of the same class, which
 * has the order `key`. */
static __always_inline bool goes_first(const struct where *at, u32 queue, u64 key)
{
	return first_waiting(at, queue) <= key;
}

#endif
