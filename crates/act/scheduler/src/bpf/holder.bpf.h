/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several CPUs: which class has each CPU. A CPU says it as soon as it has decided, not when the switch is
 * done. So a task that is woken meanwhile finds the right CPU, and two tasks that are woken at once are sent
 * to two CPUs. A task that is put into a queue while a CPU is deciding is either found by this CPU when it
 * has decided, or sees what the CPU has decided.
 */
#ifndef SPRY_HOLDER_BPF_H
#define SPRY_HOLDER_BPF_H

#include "queue.bpf.h"

/* The CPU is in a turn of a lower class: tasks that are woken end the turn, tasks that lost their CPU to it
 * do not. */
#define HAS_TURN 0x80u

enum { PUT_ABOVE = 0, PUT_BELOW = 1 };

/* How many tasks had been put into queues when a CPU began to decide. */
struct puts {
	u32 above;
	u32 below;
};

static __always_inline void count_put(const struct where *at, u32 queue)
{
	__sync_fetch_and_add(&llc_at(at->llc)->puts[queue < SPRY_CLASS_OTHER ? PUT_ABOVE : PUT_BELOW], 1);
}

/* A CPU begins to decide: no task that was sent to it before counts as on its way any more. */
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

/* How often a CPU looks again for a task that is counted in a queue and not found there. */
#define LOOKS_MOST 3

/*
 * Whether the CPU may have missed a task of a queue that goes before what the CPU has decided for: the
 * queue's count says that there is one. The kernel inserts a task into its queue after spry_enqueue has
 * counted the task and looked for a CPU; a CPU that decides in between does not find the task. But a count
 * may also be wrong, or count tasks that may not run on this CPU: so the CPU looks again only a few times for
 * each task that is put.
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

/* A CPU has decided, and takes a task or none (`takes`). If it would decide otherwise by now, it is made to
 * decide again. */
static __always_inline void end_to_decide(const struct where *at, const struct puts *seen, bool takes)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	struct llc_ctx *l = llc_at(at->llc);
	u32 has = c->has;
	bool again;

	if (c->local_key != ~0ull) {
		/* A task was put before all queues meanwhile, and goes first. If the task that the CPU took
		 * stayed behind it, no other CPU could take that task. */
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
	if (again || misses(at, has)) {
		c->kicks++;
		scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
	}
}

static __always_inline void send_to(s32 cpu, u32 class)
{
	*(volatile u32 *)&cpu_at(cpu)->sent = class;
}

#endif
