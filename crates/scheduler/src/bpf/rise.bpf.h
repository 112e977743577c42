/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that come to be in use while they wait below. A task is ordered as it is put into a queue; the first
 * click on a window wakes its program before the daemon knows of it, and the program would wait behind all
 * of OTHER. The first CPU that decides after the daemon has changed classes moves such tasks up.
 */
#ifndef SPRY_RISE_BPF_H
#define SPRY_RISE_BPF_H

#include "place.bpf.h"

/* How many tasks of a queue are looked at. A task that has just been woken stands among the first. */
#define RISE_MOST 1024

/* The last change of classes by which tasks were looked at. */
static u32 class_round_seen;

/* How many were. In memory, as the verifier would go through each value of a local variable. */
static u32 looked;

/* The order of a task that is in use by now. What it ran in its class below it was charged for when it was
 * put there. */
static __always_inline u64 order_in_use(struct task_struct *p, struct thread_ctx *t, const struct where *at,
					const struct verdict *verdict)
{
	struct asking a = {.p = p, .t = t, .at = at, .asked = ASKED_AS_IT_WAKES};
	u64 key;

	interactive_set(t, verdict->level, verdict->quantum_ns);
	key = interactive_key(&a);
	t->class = SPRY_CLASS_INTERACTIVE;
	return key;
}

/* The task at which an iterator stands goes from its queue to that of a higher class, with that order. */
static __always_inline void move_up(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct where *at,
				    u32 queue, u32 class, u64 key, u64 slice_ns)
{
	u32 *count = queued_at(at->place, queue), *count_up = queued_at(at->place, class);

	__COMPAT_scx_bpf_dsq_move_set_vtime(it, key);
	__COMPAT_scx_bpf_dsq_move_set_slice(it, slice_ns);
	__sync_fetch_and_add(count_up, 1);
	*first_at(at->place, class) = 0;
	/* Another CPU may have taken it. */
	if (!__COMPAT_scx_bpf_dsq_move_vtime(it, p, dsq_at(at->place, class), 0))
		count = count_up;
	__sync_fetch_and_sub(count, 1);
	if (nr_cpus > 1) {
		count_put(at, class);
		find_cpu_for(p, class, at);
	}
}

/* Moves up what is in use and waits in a queue of OTHER or IDLE. */
__noinline int rise_from(u32 place, u32 queue)
{
	struct task_struct *p;

	place &= SPRY_PLACES_MAX - 1;
	queue &= QUEUES - 1;
	looked = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, queue), 0)
	{
		struct thread_ctx *t = find_thread(p);
		struct where at = {.cpu = scx_bpf_task_cpu(p), .place = place};
		struct verdict verdict;

		if (looked++ >= RISE_MOST)
			break;
		if (!t)
			continue;
		verdict = verdict_of(p, t);
		if (verdict.class != SPRY_CLASS_INTERACTIVE)
			continue;
		at.llc = llc_of(at.cpu);
		move_up(BPF_FOR_EACH_ITER, p, &at, queue, SPRY_CLASS_INTERACTIVE,
			order_in_use(p, t, &at, &verdict), interactive_slice(t));
	}
	*first_at(place, queue) = 0;
	return 0;
}

__noinline int rise_from_place(u32 place)
{
	if (*queued_at(place, SPRY_CLASS_OTHER))
		rise_from(place, SPRY_CLASS_OTHER);
	if (*queued_at(place, SPRY_CLASS_IDLE))
		rise_from(place, SPRY_CLASS_IDLE);
	return 0;
}

/* Looks at all queues below, if classes have changed. */
static __always_inline void rise(void)
{
	u32 i, round = class_round, seen = class_round_seen;

	if (round == seen || !__sync_bool_compare_and_swap(&class_round_seen, seen, round))
		return;
	bpf_for(i, 0, nr_llcs) rise_from_place(i);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) rise_from_place(place_of_cpu(i));
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX : 0) rise_from_place(place_of_mask(i));
}

#endif
