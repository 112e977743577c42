/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * INTERACTIVE: what is in use. A process has a quantum, which all its threads spend. A process that has spent
 * its quantum has a new one from then on, and goes behind all that were given theirs before: so an epoch of
 * the thesis (8.3.3) ends for each process when its own quantum does, and tasks on other CPUs neither refill
 * nor forgive it. Of tasks whose quanta are as old, the lowest level goes first, then the most left.
 *
 * A task that wakes stands where the task stands that its CPU serves, unless its process spent a quantum
 * since; what the process has left is made up if the CPU has come to a newer quantum meanwhile.
 *
 * A task so waits for one quantum of each other process in use at most, whatever number of threads that has,
 * and for one slice more.
 */
#ifndef SPRY_CLASS_INTERACTIVE_BPF_H
#define SPRY_CLASS_INTERACTIVE_BPF_H

#include "class.bpf.h"
#include "nodes.bpf.h"
#include "timer.bpf.h"

/* An order: since when the quantum is given, in units of 2.1 ms; the level; how little is left, in units of
 * 66 us. */
#define GIVEN_UNIT_SHIFT 21
#define GIVEN_SHIFT	 18
#define LEVELS		 64
#define LEFT_UNIT_SHIFT	 16
#define LEFT_UNITS	 4096

#define LEVEL_INHERITED (LEVELS - 1)
/* Quanta are shorter, ns. */
#define QUANTUM_MOST_NS (1ull << 40)

/* What a waking process has made up, of the time since that was done last: 3 / 4, so that a process whose
 * threads make each other's quanta up on several CPUs spends them nonetheless. */
#define MADE_UP(ns) ((ns) / 4 * 3)

/* A process in use, by its node's index. */
struct in_use {
	/* Its node; another one: the place is free. */
	spry_ref ref;
	/* What is left of its quantum, ns. */
	s64 left_ns;
	/* When its quantum was given to it, the last one being spent; 0: none was spent. */
	u64 given_ns;
	/* When what it has left was made up last. */
	u64 made_up_ns;
	/* The quantum in which a thread of its that had waited for long went first. */
	u64 passed_ns;
};

struct in_use in_use[SPRY_NODES_MAX];

/* The process of a thread; NULL if it is not in use. */
static __always_inline struct in_use *process_of(const struct thread_ctx *t)
{
	struct in_use *process = &in_use[SPRY_NODE_INDEX(t->node)];

	return t->node && process->ref == t->node ? process : NULL;
}

static __always_inline s64 left_of(const struct thread_ctx *t)
{
	const struct in_use *process = process_of(t);

	if (t->inherited)
		return t->left_ns;
	return process ? process->left_ns : 0;
}

/* What orders threads of quanta as old: a thread that ran little of its process' quantum goes before one that
 * ran much, so that a player's picture goes before the decoding of the next. Besides, it ran this much, ns.
 */
static __always_inline s64 own_left(struct thread_ctx *t, u64 ran_ns)
{
	const struct in_use *process = process_of(t);

	if (t->inherited)
		return t->left_ns - ran_ns;
	if (process && t->own_quantum_ns != process->made_up_ns) {
		t->own_quantum_ns = process->made_up_ns;
		t->own_ran_ns /= 2;
	}
	return t->quantum_ns - t->own_ran_ns - ran_ns;
}

static __always_inline u64 interactive_order(const struct thread_ctx *t, u64 given_ns, s64 left_ns)
{

	u64 units = left_ns < 0 ? 0 : (u64)left_ns >> LEFT_UNIT_SHIFT;
	u64 little = units < LEFT_UNITS - 1 ? LEFT_UNITS - 1 - units : 0;
	u64 given = given_ns >> GIVEN_UNIT_SHIFT << GIVEN_SHIFT;

	if (wake_more_left)
		return KEY(SPRY_CLASS_INTERACTIVE, given | little * LEVELS | t->level);
	return KEY(SPRY_CLASS_INTERACTIVE, given | (u64)t->level * LEFT_UNITS | little);
}

/* When the quantum was given of a task of that order, ns. */
static __always_inline u64 given_of(u64 key)
{
	return (key & KEY_LOW) >> GIVEN_SHIFT << GIVEN_UNIT_SHIFT;
}

/* The CPU serves a task of that order: the line goes on there. */
static __always_inline void interactive_serves(struct cpu_ctx *c, u64 key)
{
	c->given_ns = given_of(key);
}

/* What a verdict says. A process that comes to be in use has its quantum at once; otherwise what is left is
 * cut to the new one. */
static __always_inline void interactive_set(struct thread_ctx *t, u32 level, u64 quantum_ns)
{
	struct in_use *process = &in_use[SPRY_NODE_INDEX(t->node)];

	if (quantum_ns >= QUANTUM_MOST_NS)
		quantum_ns = QUANTUM_MOST_NS - 1;
	t->level = level < LEVEL_INHERITED ? level : LEVEL_INHERITED - 1;
	t->quantum_ns = quantum_ns ?: 1;
	if (process->ref != t->node) {
		process->ref = t->node;
		process->given_ns = 0;
		process->made_up_ns = scx_bpf_now();
		process->left_ns = t->quantum_ns;
	} else if (process->left_ns > (s64)t->quantum_ns) {
		process->left_ns = t->quantum_ns;
	}
}

static __always_inline void interactive_charge(struct thread_ctx *t, u64 ran_ns)
{
	struct in_use *process = process_of(t);

	if (!ran_ns)
		return;
	if (t->inherited) {
		t->left_ns = t->left_ns > ran_ns ? t->left_ns - ran_ns : 0;
		return;
	}
	own_left(t, 0);
	t->own_ran_ns += ran_ns;
	if (!process || (s64)__sync_fetch_and_sub(&process->left_ns, ran_ns) > (s64)ran_ns)
		return;
	process->given_ns = process->made_up_ns = scx_bpf_now();
	process->left_ns = t->quantum_ns;
}

/* Since when the task that its CPU serves has its quantum. Where no task of INTERACTIVE wants the CPU, a new
 * line begins now. */
static __always_inline u64 served_since(const struct where *at, u64 now)
{
	struct task_struct *curr = running_on(at->cpu);

	if (waiting(at, SPRY_CLASS_INTERACTIVE) ||
	    (curr && !(curr->flags & PF_IDLE) && key_class(curr->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE))
		return cpu_at(at->cpu)->given_ns;
	return now;
}

/* A thread joins the line: it wakes, or was of another class. */
static __always_inline void joins(struct thread_ctx *t, struct in_use *process, const struct where *at)
{
	u64 now = scx_bpf_now(), since = served_since(at, now);
	s64 left_ns;

	if (since > process->made_up_ns) {
		left_ns = process->left_ns + (s64)MADE_UP(now - process->made_up_ns);
		process->left_ns = left_ns < (s64)t->quantum_ns ? left_ns : (s64)t->quantum_ns;
		process->made_up_ns = now;
	}
	t->given_ns = process->given_ns > since ? process->given_ns : since;
}

static __always_inline bool interactive_by_nature(struct task_struct *p)
{
	return false;
}

static __always_inline bool interactive_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	return true;
}

static __always_inline u64 interactive_key(const struct asking *a)
{
	struct thread_ctx *t = a->t;
	struct in_use *process;

	if (!t)
		return KEY(SPRY_CLASS_INTERACTIVE, KEY_LOW);
	process = t->inherited ? NULL : process_of(t);
	if (process) {
		if (a->asked == ASKED_AS_IT_WAKES || t->class != SPRY_CLASS_INTERACTIVE)
			joins(t, process, a->at);
		else if (process->given_ns > t->given_ns)
			t->given_ns = process->given_ns;
	}
	t->waits_ns = scx_bpf_now();
	return interactive_order(t, t->given_ns, own_left(t, 0));
}

static __always_inline u64 interactive_slice(struct thread_ctx *t)
{
	s64 left_ns = t ? left_of(t) : 0;

	return left_ns > 0 && left_ns < (s64)slice_interactive_ns ? left_ns : slice_interactive_ns;
}

/* Whether a woken task goes before one of the same class that has the CPU. */
static __always_inline bool interactive_wakes_over(u64 key, struct task_struct *curr)
{
	struct thread_ctx *t = find_thread(curr);
	u64 ran_ns;

	if (!t)
		return true;
	ran_ns = ran_until_now(curr) - t->charged_ns;
	/* It has spent its quantum: all that wait go before it. */
	return left_of(t) <= (s64)ran_ns || key < interactive_order(t, t->given_ns, own_left(t, ran_ns));
}

/* A child gets half of what its parent has left, and nothing after it. */
static __always_inline void interactive_fork(struct thread_ctx *t, struct task_struct *parent)
{
	struct thread_ctx *from = find_thread(parent);
	struct in_use *process;
	s64 share_ns;

	if (!from || from->class != SPRY_CLASS_INTERACTIVE)
		return;
	process = process_of(from);
	share_ns = left_of(from);
	if (share_ns <= 1)
		return;
	share_ns >>= 1;
	if (from->inherited)
		from->left_ns -= share_ns;
	else if (process)
		__sync_fetch_and_sub(&process->left_ns, share_ns);
	t->class = SPRY_CLASS_INTERACTIVE;
	t->inherited = true;
	t->level = LEVEL_INHERITED;
	t->given_ns = from->given_ns;
	t->left_ns = share_ns;
}

/* How many threads of processes that spent their quanta are put behind at once. */
#define MOVED_MOST 256

/* A thread that has waited for so long has its turn though its process spends on elsewhere, ns; one a
 * quantum.
 */
#define OVERDUE_NS (1000 * MS)

/* Whether a thread that waits goes behind, since others of its process have spent the quantum meanwhile. */
static __always_inline bool goes_behind(const struct thread_ctx *t, struct in_use *process)
{
	if (process->given_ns <= t->given_ns)
		return false;
	if (process->passed_ns != process->given_ns && scx_bpf_now() - t->waits_ns >= OVERDUE_NS) {
		process->passed_ns = process->given_ns;
		return false;
	}
	return true;
}

/*
 * Threads that waited while others of their process spent its quantum go behind those that were given theirs
 * before, and before those of their own process that spent it. Returns what the first task's process has left
 * then, ns.
 */
__noinline u64 settle(u32 place)
{
	u64 left_ns = QUANTUM_MOST_NS;
	struct task_struct *p;
	u32 moved = 0;

	place &= SPRY_PLACES_MAX - 1;
	if (!*queued_at(place, SPRY_CLASS_INTERACTIVE))
		return left_ns;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_INTERACTIVE), 0)
	{
		struct thread_ctx *t = find_thread(p);
		struct in_use *process = t && !t->inherited ? process_of(t) : NULL;
		u32 here = place;

		/* The verifier forgets bounds that were found before the loop. */
		barrier_var(here);
		if (t && left_of(t) > 0)
			left_ns = left_of(t);
		if (!process || moved >= MOVED_MOST || !goes_behind(t, process))
			break;
		moved++;
		t->given_ns = process->given_ns;
		__COMPAT_scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
						    interactive_order(t, t->given_ns, QUANTUM_MOST_NS));
		__COMPAT_scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p,
						dsq_at(here & (SPRY_PLACES_MAX - 1), SPRY_CLASS_INTERACTIVE),
						0);
	}
	if (moved)
		*first_at(place, SPRY_CLASS_INTERACTIVE) = 0;
	return left_ns;
}

/* A quantum that ends before the next tick, while others wait for it, ends by the timer. */
static __always_inline void exact_quantum(const struct where *at, s64 left_ns)
{
	if (left_ns < (s64)slice_interactive_ns) {
		u64 now = scx_bpf_now();

		timer_set(at->cpu, cpu_at(at->cpu), now, now + (left_ns > 0 ? left_ns : 0));
	}
}

/* More threads in use than this have shorter slices, so that all have one in so long, ns. */
#define INTERACTIVE_MANY   100
#define INTERACTIVE_ALL_NS (2000 * MS)

static __always_inline enum taken interactive_take(const struct where *at, const struct running *r)
{
	bool mine = r->class == SPRY_CLASS_INTERACTIVE;
	u64 left_ns, other_ns, key;
	u32 count;

	if (!any(at, SPRY_CLASS_INTERACTIVE))
		return mine ? GOES_ON : ASKS_ON;
	left_ns = settle(at->llc);
	if (nr_cpus > 1) {
		other_ns = settle(place_of_cpu(at->cpu));
		if (other_ns < left_ns)
			left_ns = other_ns;
	}
	if (has_masks(at)) {
		other_ns = settle(place_of_set(at->cpu, first_set(at->cpu, SPRY_CLASS_INTERACTIVE)));
		if (other_ns < left_ns)
			left_ns = other_ns;
	}
	if (mine && !goes_first(at, SPRY_CLASS_INTERACTIVE, r->key)) {
		if (r->t)
			exact_quantum(at, left_of(r->t));
		return GOES_ON;
	}
	key = first_waiting(at, SPRY_CLASS_INTERACTIVE);
	if (!take_first(at, SPRY_CLASS_INTERACTIVE))
		return mine ? GOES_ON : ASKS_ON;
	if (key != ~0ull)
		interactive_serves(cpu_at(at->cpu), key);
	count = waiting(at, SPRY_CLASS_INTERACTIVE);
	if (count > INTERACTIVE_MANY && left_ns > INTERACTIVE_ALL_NS / count)
		left_ns = INTERACTIVE_ALL_NS / count;
	if (mine || count)
		exact_quantum(at, left_ns);
	return TAKES_NEXT;
}

#endif
