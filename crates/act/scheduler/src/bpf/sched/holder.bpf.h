/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several CPUs: the handshake between CPUs that decide and CPUs that put tasks into queues.
 *
 * Purpose: a deciding CPU overlooks no task that is put into a queue meanwhile. Two tasks that wake at once
 * are sent to two CPUs.
 *
 * State: each CPU publishes the class that it runs (`has`), as soon as it has decided and before the switch.
 * Each cache counts the tasks that were put into queues (`puts`).
 *
 * Rule: a CPU that puts a task counts it first and then reads `has` of the CPUs. A deciding CPU publishes
 * `has` first and then reads `puts` again. So one of the two sees the other. If tasks were put meanwhile, the
 * deciding CPU decides again.
 */
#ifndef SPRY_HOLDER_BPF_H
#define SPRY_HOLDER_BPF_H

#include "queue.bpf.h"

/* A flag in `has`: the CPU is in a turn of a lower class. Tasks that wake may end the turn; tasks that lost
 * this CPU to the turn may not. */
#define HAS_TURN 0x80u

enum { PUT_ABOVE = 0, PUT_BELOW = 1 };

/* The values of a cache's `puts` when a CPU began to decide. */
struct puts {
	u32 above;
	u32 below;
};

/* Counts a task that was put into a queue of a class. */
static __always_inline void count_put(const struct where *at, u32 queue)
{
	__sync_fetch_and_add(&llc_at(at->llc)->puts[queue < SPRY_CLASS_OTHER ? PUT_ABOVE : PUT_BELOW], 1);
}

/* A CPU begins to decide: tasks that were sent to it before no longer count as on their way. Returns the
 * cache's counts of tasks put into queues. */
static __always_inline struct puts begin_to_decide(const struct where *at)
{
	struct llc_ctx *l = llc_at(at->llc);
	struct puts seen = {
		.above = *(volatile u32 *)&l->puts[PUT_ABOVE],
		.below = *(volatile u32 *)&l->puts[PUT_BELOW],
	};

	__sync_lock_test_and_set(&cpu_at(at->cpu)->sent, SPRY_CLASSES);
	return seen;
}

/* The most times that a CPU decides again for a task that is counted in a queue but not found there. */
#define LOOKS_MOST 3

/*
 * Whether a CPU may have missed a task of a higher class than its decision. By the count of a queue there is
 * such a task. The kernel inserts a task into its queue after spry_enqueue has counted it and looked for a
 * CPU. A CPU that decides in between does not find the task. But a count may also be wrong, or count tasks
 * that cannot run on this CPU. So the CPU decides again only a few times for each task that is put.
 */
static __always_inline bool misses(const struct where *at, u32 has)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	struct llc_ctx *l = llc_at(at->llc);
	u32 puts = l->puts[PUT_ABOVE] + l->puts[PUT_BELOW];
	bool is_missing = false;

	if (has > SPRY_CLASS_INTERACTIVE && !(has & HAS_TURN))
		is_missing = any_above(at);
	if (has == SPRY_CLASSES)
		is_missing |= waiting(at, SPRY_CLASS_OTHER) || waiting(at, SPRY_CLASS_IDLE);
	if (!is_missing || c->missed_puts != puts) {
		c->missed_puts = puts;
		c->looks = 0;
	}
	return is_missing && c->looks++ < LOOKS_MOST;
}

/* Publishes the CPU's decision. If a task queued in the meantime would have changed it, the CPU kicks itself
 * to decide again. `takes`: whether the CPU has taken a task. `is_alone`: whether no task was counted. Then
 * none was on its way, and tasks that were put since are seen by `puts`. */
static __always_inline void end_to_decide(const struct where *at, const struct puts *seen, bool takes,
					  bool is_alone)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	struct llc_ctx *l = llc_at(at->llc);
	u32 has = c->has;
	bool again;

	if (c->local_key != ~0ull) {
		/* A woken task was put into the local queue meanwhile, and runs first. The task that the CPU
		 * has taken is behind it there, where no other CPU could take it: that task is ordered
		 * anew. */
		has = c->local_key >> KEY_SHIFT;
		if (takes)
			order_local_anew(at->cpu);
	}
	__sync_lock_test_and_set(&c->has, has);
	again = c->local_key != ~0ull && !takes;
	if (has > SPRY_CLASS_INTERACTIVE && !(has & HAS_TURN))
		again |= *(volatile u32 *)&l->puts[PUT_ABOVE] != seen->above;
	if (has == SPRY_CLASSES)
		again |= *(volatile u32 *)&l->puts[PUT_BELOW] != seen->below;
	if (is_alone)
		c->looks = 0;
	if (again || (!is_alone && misses(at, has))) {
		c->kicks++;
		scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
	}
}

/* Records that a task of a class is on its way to a CPU. */
static __always_inline void send_to(s32 cpu, u32 class)
{
	*(volatile u32 *)&cpu_at(cpu)->sent = class;
}

#endif
