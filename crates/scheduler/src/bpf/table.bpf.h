/* SPDX-License-Identifier: GPL-2.0-only */
/* The classes in their order, and what the scheduler asks of each. docs/adding-a-class.md goes through it. */
#ifndef SPRY_TABLE_BPF_H
#define SPRY_TABLE_BPF_H

#include "class_daemon.bpf.h"
#include "class_kthread.bpf.h"
#include "class_interactive.bpf.h"
#include "class_other.bpf.h"
#include "class_idle.bpf.h"

/* The class that a task has if nobody says anything else. */
static __always_inline u32 class_by_nature(struct task_struct *p)
{
	if (p->policy == SCHED_IDLE)
		return SPRY_CLASS_IDLE;
	if (p->flags & PF_KTHREAD)
		return p->static_prio > NICE_0_PRIO ? SPRY_CLASS_OTHER : SPRY_CLASS_KTHREAD;
	if (p->tgid == daemon_tgid)
		return SPRY_CLASS_DAEMON;
	return SPRY_CLASS_OTHER;
}

static __always_inline u64 verdict_of(struct task_struct *p, struct thread_ctx *t)
{
	struct spry_node *node;

	if (t->round != verdict_round) {
		t->round = verdict_round;
		t->node = find_ref(p->tgid);
	}
	if (!t->node)
		return 0;
	node = node_at(t->node);
	return node && node->ref == t->node ? node->verdict : 0;
}

/* The class that a task has now, with what a verdict says of it. */
static __always_inline u32 class_now(struct task_struct *p, struct thread_ctx *t, struct cpu_ctx *c)
{
	u32 class = SPRY_CLASS_NONE;

	if (t) {
		u64 verdict = verdict_of(p, t);

		class = SPRY_VERDICT_CLASS(verdict);
		if (class == SPRY_CLASS_INTERACTIVE)
			interactive_set(t, SPRY_VERDICT_LEVEL(verdict),
					SPRY_VERDICT_QUANTUM_US(verdict) * 1000ull);
		else if (class == SPRY_CLASS_NONE && t->inherited && t->left_ns)
			class = SPRY_CLASS_INTERACTIVE;
	}
	if (class == SPRY_CLASS_NONE || class > SPRY_CLASS_IDLE)
		class = class_by_nature(p);
	if (class == SPRY_CLASS_DAEMON && !daemon_may(c))
		class = SPRY_CLASS_OTHER;
	if (class == SPRY_CLASS_KTHREAD && !kthread_may(c))
		class = SPRY_CLASS_OTHER;
	/* The place of RESERVED is here; until it has one, its tasks are like others. */
	if (class == SPRY_CLASS_RESERVED)
		class = SPRY_CLASS_OTHER;
	return class;
}

/* What a task has run since this was last asked, counted for its class and its process. */
static __always_inline u64 take_ran(struct task_struct *p, struct thread_ctx *t, struct cpu_ctx *c)
{
	u32 class = key_class(p->scx.dsq_vtime);
	u64 ran_ns = p->se.sum_exec_runtime - t->charged_ns;
	u64 waited_ns = waited_of(p);
	struct class_stats *stats;

	t->charged_ns += ran_ns;
	if ((s64)ran_ns <= 0)
		return 0;
	if (class >= SPRY_CLASSES)
		return ran_ns;
	stats = &c->classes[class];
	stats->ran_ns += ran_ns;
	stats->waits++;
	stats->waited_ns += waited_ns - t->waited_ns;
	t->waited_ns = waited_ns;
	c->spent_ns[class] += ran_ns;
	limit_charge(t, ran_ns);
	if (t->node) {
		struct spry_node *node = node_at(t->node);

		if (node && node->ref == t->node)
			__sync_fetch_and_add(&node->ran_ns, ran_ns);
	}
	return ran_ns;
}

/* The order of a task that has run next to nothing since it was charged; 0 if it must be charged. */
static __always_inline u64 order_again(struct task_struct *p, const struct where *at)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u64 least = llc_at(at->llc)->vtime - (slice_other_ns >> VTIME_UNIT_SHIFT), key;

	if (cgroups_limited || RECENT(c, p)->task != (u64)p || RECENT(c, p)->round != verdict_round ||
	    p->se.sum_exec_runtime - RECENT(c, p)->charged_ns >= uncharged_ns)
		return 0;
	key = RECENT(c, p)->key;
	return (s64)((key & KEY_LOW) - least) < 0 ? 0 : key;
}

/* Charges a task for what it ran, and says where it stands from now on. */
static __always_inline u64 order(struct task_struct *p, struct thread_ctx *t, const struct where *at,
				 enum asked asked)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u64 ran_ns = t ? take_ran(p, t, c) : 0, key;
	u32 class;

	if (t && t->class == SPRY_CLASS_INTERACTIVE)
		interactive_charge(t, ran_ns);
	class = class_now(p, t, c);
	switch (class) {
	case SPRY_CLASS_DAEMON:
		key = daemon_key();
		break;
	case SPRY_CLASS_KTHREAD:
		key = kthread_key();
		break;
	case SPRY_CLASS_INTERACTIVE:
		key = t ? interactive_key(t) : 0;
		break;
	case SPRY_CLASS_IDLE:
		key = idle_key();
		break;
	default:
		key = other_key(p, t, c, llc_at(at->llc), ran_ns, asked);
	}
	if (!t)
		return key;
	t->class = class;
	if (class == SPRY_CLASS_OTHER || cgroups_limited)
		cgroup_count(p, t);
	if (class == SPRY_CLASS_OTHER) {
		RECENT(c, p)->task = (u64)p;
		RECENT(c, p)->charged_ns = t->charged_ns;
		RECENT(c, p)->key = key;
		RECENT(c, p)->round = verdict_round;
	}
	return key;
}

static __always_inline u32 queue_of(u32 class, struct thread_ctx *t)
{
	switch (class) {
	case SPRY_CLASS_DAEMON:
		return QUEUE_DAEMON;
	case SPRY_CLASS_KTHREAD:
		return QUEUE_KTHREAD;
	case SPRY_CLASS_INTERACTIVE:
		return interactive_queue(t && !t->left_ns);
	case SPRY_CLASS_IDLE:
		return QUEUE_IDLE;
	default:
		return QUEUE_OTHER;
	}
}

static __always_inline u32 class_of_queue(u32 queue)
{
	return queue + SPRY_CLASS_DAEMON - (queue > QUEUE_INTERACTIVE);
}

/* How long a task may run before the scheduler is asked again, ns. Ends at a tick, or earlier by the timer.
 */
static __always_inline u64 slice_of(u32 class, struct thread_ctx *t)
{
	if (class != SPRY_CLASS_INTERACTIVE)
		return slice_other_ns;
	return t && t->left_ns && t->left_ns < slice_interactive_ns ? t->left_ns : slice_interactive_ns;
}

/* Whether a woken task takes the CPU from who has it, at once. */
static __always_inline bool wakes_over(u64 key, struct task_struct *curr)
{
	u32 class = key >> KEY_SHIFT, has = key_class(curr->scx.dsq_vtime);

	if (class != has)
		return class < has;
	return class == SPRY_CLASS_INTERACTIVE && interactive_wakes_over(key, curr);
}

#endif
