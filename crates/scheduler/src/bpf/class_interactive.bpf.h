/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * INTERACTIVE: what is in use. A task has a quantum an epoch; the lowest level goes first, then who has most
 * left. Who has spent its quantum waits in the second queue. When nobody in the first has anything left, an
 * epoch ends: the queues change places, and who comes back from anywhere has a full quantum. Nothing is
 * carried over.
 */
#ifndef SPRY_CLASS_INTERACTIVE_BPF_H
#define SPRY_CLASS_INTERACTIVE_BPF_H

/* Quanta are below 2^40 ns; this less what is left orders by most left. */
#define LEFT_MAX	(1ull << 40)
#define LEVEL_SHIFT	48
#define LEVEL_INHERITED 255

volatile u32 epoch;

static __always_inline u32 interactive_queue(bool spent)
{
	return QUEUE_INTERACTIVE + ((epoch + spent) & 1);
}

/* What a verdict changes. Who enters has the quantum at once; otherwise what is left is cut to the new one.
 */
static __always_inline void interactive_set(struct thread_ctx *t, u32 level, u64 quantum_ns)
{
	bool enters = t->class != SPRY_CLASS_INTERACTIVE || t->inherited;

	if (quantum_ns >= LEFT_MAX)
		quantum_ns = LEFT_MAX - 1;
	t->level = level;
	t->quantum_ns = quantum_ns;
	t->inherited = false;
	if (enters) {
		t->left_ns = quantum_ns;
		t->epoch = epoch;
	} else if (t->left_ns > quantum_ns) {
		t->left_ns = quantum_ns;
	}
}

static __always_inline void interactive_charge(struct thread_ctx *t, u64 ran_ns)
{
	bool is_new = t->epoch != epoch && !t->inherited;

	/* Who had spent its quantum has waited since, and ran in the new epoch; others ran in the one before.
	 */
	if (is_new) {
		if (t->left_ns)
			ran_ns = 0;
		t->left_ns = t->quantum_ns;
		t->epoch = epoch;
	}
	t->left_ns = t->left_ns > ran_ns ? t->left_ns - ran_ns : 0;
}

static __always_inline u64 interactive_order(u32 level, u64 left_ns)
{
	if (wake_more_left)
		return KEY(SPRY_CLASS_INTERACTIVE, (LEFT_MAX - left_ns) << 8 | level);
	return KEY(SPRY_CLASS_INTERACTIVE, (u64)level << LEVEL_SHIFT | (LEFT_MAX - left_ns));
}

static __always_inline u64 interactive_key(struct thread_ctx *t)
{
	/* Who has nothing left is ordered as it will be when it has. */
	return interactive_order(t->level, t->left_ns ?: t->quantum_ns);
}

/* What the task of that order had left when it was ordered. */
static __always_inline u64 interactive_left(u64 key)
{
	if (wake_more_left)
		return LEFT_MAX - (key & KEY_LOW) / 256;
	return LEFT_MAX - (key & ((1ull << LEVEL_SHIFT) - 1));
}

/* Whether a woken task goes before one that has the CPU. */
static __always_inline bool interactive_wakes_over(u64 key, struct task_struct *curr)
{
	struct thread_ctx *t = find_thread(curr);
	u64 ran_ns, left_ns;

	if (!t)
		return true;
	ran_ns = curr->se.sum_exec_runtime - t->charged_ns;
	left_ns = t->left_ns > ran_ns ? t->left_ns - ran_ns : 0;
	return key < interactive_order(t->level, left_ns);
}

/* A child gets half of what its parent has left, and nothing after it. */
static __always_inline void interactive_fork(struct task_struct *child, struct task_struct *parent)
{
	struct thread_ctx *from = find_thread(parent), *t;
	u64 share_ns;

	if (!from || from->class != SPRY_CLASS_INTERACTIVE)
		return;
	share_ns = from->left_ns / 2;
	if (!share_ns)
		return;
	t = make_thread(child);
	if (!t)
		return;
	from->left_ns -= share_ns;
	t->class = SPRY_CLASS_INTERACTIVE;
	t->inherited = true;
	t->level = LEVEL_INHERITED;
	t->left_ns = share_ns;
}

#endif
