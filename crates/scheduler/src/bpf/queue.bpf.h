/* SPDX-License-Identifier: GPL-2.0-only */
/* Queues: how tasks get in and out of them, and which task is first. */
#ifndef SPRY_QUEUE_BPF_H
#define SPRY_QUEUE_BPF_H

#include "state.bpf.h"

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

/* The order of the first task of a queue; behind all orders if there is none. A hint: other CPUs take and add
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

/* The set of a CPU, by its number, whose queue has the first task of all sets of the CPU; MASKS_OF_CPU if
 * none has any. */
__noinline u32 first_set(u32 cpu, u32 queue)
{
	u64 first = ~0ull;
	u32 i, found = MASKS_OF_CPU;

	bpf_for(i, 0, MASKS_OF_CPU)
	{
		u64 key;

		if (i >= cpu_at(cpu)->masks_count)
			break;
		key = first_key(place_of_set(cpu, i), queue);
		if (key < first) {
			first = key;
			found = i;
		}
	}
	return found;
}

/* The place other than its cache's from which a CPU may take the first task of a queue. */
__noinline u32 first_beside(u32 cpu, u32 queue)
{
	u32 own = place_of_cpu(cpu), set;

	if (nr_cpus <= 2 || !cpu_at(cpu)->masks_count)
		return own;
	set = place_of_set(cpu, first_set(cpu, queue));
	return first_key(set, queue) < first_key(own, queue) ? set : own;
}

/* The order of the first task of a queue that a CPU may take, before it looks at other caches. */
__noinline u64 first_of_several(u32 cpu, u32 queue)
{
	u64 here = first_key(llc_of(cpu), queue), beside = first_key(first_beside(cpu, queue), queue);

	return beside < here ? beside : here;
}

static __always_inline u64 first_waiting(const struct where *at, u32 queue)
{
	return nr_cpus == 1 ? first_key(at->llc, queue) : first_of_several(at->cpu, queue);
}

/* Takes the first of a queue, from its cache, from the CPU's own or from its sets; from other caches if there
 * is none. */
__noinline u32 take_of_several(u32 cpu, u32 queue)
{
	u32 here = llc_of(cpu), beside = first_beside(cpu, queue), i;
	bool beside_first = !*queued_at(here, queue) || first_key(beside, queue) <= first_key(here, queue);

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
	if (nr_cpus == 1)
		return take(at->llc, queue);
	if (!take_of_several(at->cpu, queue))
		return false;
	cpu_at(at->cpu)->has = queue;
	return true;
}

/* Whether a task that waits in a queue goes before a task of the same class that runs. */
static __always_inline bool goes_first(const struct where *at, u32 queue, u64 key)
{
	return first_waiting(at, queue) <= key;
}

#endif
