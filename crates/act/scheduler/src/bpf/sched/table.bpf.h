/* SPDX-License-Identifier: GPL-2.0-only */
/* The list of the classes, and the functions that call the class of a task. docs/adding-a-class.md explains
 * them. */
#ifndef SPRY_TABLE_BPF_H
#define SPRY_TABLE_BPF_H

#include "class_reserved.bpf.h"
#include "class_daemon.bpf.h"
#include "class_kthread.bpf.h"
#include "class_interactive.bpf.h"
#include "class_other.bpf.h"
#include "class_idle.bpf.h"
#include "limit.bpf.h"
#include "verdict.bpf.h"

/* The classes from the highest to the lowest; there are no others. RESERVED is tried before the turns of
 * lower classes, the other classes after them. */
#define SPRY_CLASS_LIST(CLASS)                                                                               \
	CLASS(RESERVED, reserved)                                                                            \
	SPRY_CLASS_LIST_BELOW(CLASS)
#define SPRY_CLASS_LIST_BELOW(CLASS)                                                                         \
	CLASS(DAEMON, daemon)                                                                                \
	CLASS(KTHREAD, kthread)                                                                              \
	CLASS(INTERACTIVE, interactive)                                                                      \
	CLASS(OTHER, other)                                                                                  \
	CLASS(IDLE, idle)

/* The class of a task without a verdict and without a reservation. */
static __always_inline u32 class_by_nature(struct task_struct *p)
{
#define BY_NATURE(CLASS, name)                                                                               \
	if (name##_by_nature(p))                                                                             \
		return SPRY_CLASS_##CLASS;
	SPRY_CLASS_LIST(BY_NATURE)
#undef BY_NATURE
	return SPRY_CLASS_OTHER;
}

/* The daemon's verdict on a task's process; with class NONE if there is none. */
static __always_inline struct verdict verdict_of(struct task_struct *p, struct thread_ctx *t)
{
	struct spry_node *node;

	if (t->round != verdict_round) {
		t->round = verdict_round;
		t->node = find_ref(p->tgid);
	}
	node = t->node ? node_at(t->node) : NULL;
	return verdict_in(node && node->ref == t->node ? node->verdict : 0);
}

/* The class that a task has now: by its reservation, by the verdict on its process, or by its nature. A class
 * that does not admit the task, because its budget is spent, gives way to OTHER. */
static __always_inline u32 class_now(struct task_struct *p, struct thread_ctx *t, struct cpu_ctx *c)
{
	u32 class = SPRY_CLASS_NONE;

	if (t) {
		struct verdict verdict;

		if (is_reserved(p, t))
			return SPRY_CLASS_RESERVED;
		verdict = verdict_of(p, t);

		class = verdict.class;
		if (class == SPRY_CLASS_INTERACTIVE)
			interactive_set(t, verdict.level, verdict.quantum_ns);
		else if (class == SPRY_CLASS_NONE && t->inherited && t->left_ns)
			class = SPRY_CLASS_INTERACTIVE;
	}
	/* A verdict cannot put a task into RESERVED. */
	if (class <= SPRY_CLASS_RESERVED || class > SPRY_CLASS_IDLE)
		class = class_by_nature(p);
	switch (class) {
#define MAY(CLASS, name)                                                                                     \
	case SPRY_CLASS_##CLASS:                                                                             \
		return name##_may(c, t) ? class : SPRY_CLASS_OTHER;
		SPRY_CLASS_LIST(MAY)
#undef MAY
	}
	return SPRY_CLASS_OTHER;
}

/* Returns a task's run time since the last call, ns, and adds it to the counts of its class, its
 * cgroup and its process. */
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
	if (class != SPRY_CLASS_DAEMON || !t->spent_since_ns)
		c->spent_ns[class] += ran_ns;
	limit_charge(t, ran_ns);
	if (t->node) {
		struct spry_node *node = node_at(t->node);

		if (node && node->ref == t->node)
			__sync_fetch_and_add(&node->ran_ns, ran_ns);
	}
	return ran_ns;
}

/* The remembered order of a task of OTHER; 0 if the task must be charged now. It must be if it ran 60 us
 * since it was charged (uncharged_ns), or if anything on which its order depends has changed. */
static __always_inline u64 order_again(struct task_struct *p, const struct where *at)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u32 domain = domain_of(at);
	u64 least = llc_at(domain)->vtime - (slice_other_ns >> VTIME_UNIT_SHIFT), key;
	const struct recent *recent = recent_of(c, p);

	if (cgroups_limited || recent->task != (u64)p || recent->round != verdict_round ||
	    (nr_cpus > 1 && recent->domain != domain) ||
	    p->se.sum_exec_runtime - recent->charged_ns >= uncharged_ns)
		return 0;
	key = recent->key;
	return (s64)((key & KEY_LOW) - least) < 0 ? 0 : key;
}

/* Charges a task for its run time, and returns its new order. */
static __always_inline u64 order(struct task_struct *p, struct thread_ctx *t, const struct where *at,
				 enum asked asked)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	struct asking a = {.p = p, .t = t, .at = at, .asked = asked};
	u64 key = 0;
	u32 class;

	a.ran_ns = t ? take_ran(p, t, c) : 0;
	a.domain = domain_of(at);

	if (t && t->class == SPRY_CLASS_INTERACTIVE)
		interactive_charge(t, a.ran_ns);
	if (t && (p->flags & PF_KTHREAD || has_own_part(p, t)))
		own_charge(t, a.ran_ns);
	class = through_memory(class_now(p, t, c));
	/* The thread is counted in its group before it is charged, since the charge depends on
	 * the group's count. */
	if (t && (class == SPRY_CLASS_OTHER || t->class == SPRY_CLASS_OTHER || cgroups_limited))
		cgroup_count(p, t);
	if (t && t->class == SPRY_CLASS_KTHREAD)
		other_owes(&a);
	else if (t && t->class == SPRY_CLASS_OTHER && class != SPRY_CLASS_OTHER)
		other_leaves(&a);
	switch (class) {
#define ORDER(CLASS, name)                                                                                   \
	case SPRY_CLASS_##CLASS:                                                                             \
		key = name##_key(&a);                                                                        \
		break;
		SPRY_CLASS_LIST(ORDER)
#undef ORDER
	}
	key = through_memory(key);
	if (!t)
		return key;
	t->class = class;
	if (class == SPRY_CLASS_OTHER && !t->reserved) {
		struct recent *recent = recent_of(c, p);

		recent->task = (u64)p;
		recent->charged_ns = t->charged_ns;
		recent->key = key;
		recent->round = verdict_round;
		recent->domain = a.domain;
	}
	return key;
}

/* The slice of a task of a class, ns: after it, the CPU decides again. A slice ends at a tick, or
 * earlier by the timer. */
static __always_inline u64 slice_of(u32 class, struct thread_ctx *t)
{
	switch (class) {
#define SLICE(CLASS, name)                                                                                   \
	case SPRY_CLASS_##CLASS:                                                                             \
		return name##_slice(t);
		SPRY_CLASS_LIST(SLICE)
#undef SLICE
	}
	return slice_other_ns;
}

/* Whether a woken task with the order `key` preempts the running task `curr`. */
static __always_inline bool wakes_over(u64 key, struct task_struct *curr)
{
	u32 class = key >> KEY_SHIFT, has = key_class(curr->scx.dsq_vtime);

	if (class != has)
		return class < has;
	switch (class) {
#define WAKES_OVER(CLASS, name)                                                                              \
	case SPRY_CLASS_##CLASS:                                                                             \
		return name##_wakes_over(key, curr);
		SPRY_CLASS_LIST(WAKES_OVER)
#undef WAKES_OVER
	}
	return false;
}

#endif
