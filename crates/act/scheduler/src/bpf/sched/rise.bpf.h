/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that come into use while they wait in a lower class.
 *
 * A task gets its order when it is put into a queue. The first click on a window wakes the window's program
 * before the daemon has found that this program is in use. Without this file, the program would wait among
 * the tasks of its old class.
 *
 * Rule: when the daemon has changed classes, it counts `news.classes` up. The next CPU that decides searches
 * all queues of OTHER and IDLE, and moves tasks that are in use now to INTERACTIVE.
 *
 * Bound: 1024 tasks of each queue are looked at.
 */
#ifndef SPRY_RISE_BPF_H
#define SPRY_RISE_BPF_H

#include "place.bpf.h"

/* The most tasks of a queue that are looked at. A task that was just woken stands among the
 * first of its queue. */
#define RISE_MOST 1024

/* Number of tasks looked at in the current queue. It is in memory, since the verifier would follow each value
 * of a local variable separately. */
static u32 looked;

/* The order in INTERACTIVE of a waiting task that has come into use. Its run time in the lower class is
 * already charged: that was done when it was put into its queue. */
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

/* Moves a task from its queue to the queue of a higher class, with the order `key`, and finds a CPU for it.
 * The iterator `it` stands at the task. */
static __always_inline void move_up(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct where *at,
				    u32 queue, u32 class, u64 key, u64 slice_ns)
{
	struct goes_to to = {.place = at->place, .queue = class, .key = key, .slice_ns = slice_ns};

	move_to(it, p, at->place, queue, &to);
	if (nr_cpus > 1) {
		count_put(at, class);
		find_cpu_for(p, class, at);
	}
}

/* Moves tasks that are in use now from one queue of OTHER or IDLE to INTERACTIVE. */
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

/* Moves tasks that are in use now from a place's queues of OTHER and IDLE to INTERACTIVE. */
__noinline int rise_from_place(u32 place)
{
	if (*queued_at(place, SPRY_CLASS_OTHER))
		rise_from(place, SPRY_CLASS_OTHER);
	if (*queued_at(place, SPRY_CLASS_IDLE))
		rise_from(place, SPRY_CLASS_IDLE);
	return 0;
}

/* If the daemon has changed classes since the last call, moves tasks that are in use now up from all queues
 * of OTHER and IDLE. One CPU does so. */
static __always_inline void rise(void)
{
	u32 i, classes = news.classes, seen = heeded.classes;

	if (classes == seen || !__sync_bool_compare_and_swap(&heeded.classes, seen, classes))
		return;
	bpf_for(i, 0, nr_llcs) rise_from_place(i);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) rise_from_place(place_of_cpu(i));
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX : 0) rise_from_place(place_of_mask(i));
}

#endif
