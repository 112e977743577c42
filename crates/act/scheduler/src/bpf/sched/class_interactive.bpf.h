/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * INTERACTIVE: threads of processes in use.
 *
 * Purpose: programs that a person is using run before all other programs, and share the CPU among themselves.
 *
 * State: a process in use has a quantum of run time, which all its threads spend. The scheduler keeps the
 * rest of it, and the time at which it was given. A thread has a time, too (`given_ns`), by which it is
 * ordered: the time at which its quantum counts as given.
 *
 * Rule: a process that has spent its quantum is given a new one at once. The thread with the oldest quantum
 * runs first. If quanta are equally old, the thread of the lowest level runs first, then the thread with the
 * most run time left. The quantum of a woken thread counts as old as the quantum of the task that the CPU
 * serves. If the thread's process was given a quantum later, that time counts. If the CPU has come to newer
 * quanta meanwhile, the woken process' quantum is refilled in part.
 *
 * Bound: a task waits at most for one quantum of each other process in use, and for one slice more. The
 * number of threads of these processes does not count.
 *
 * Difference from the thesis (8.3.3): its epoch ends for all processes when all have spent their quanta. Here
 * the quantum of each process ends by itself, so tasks on other CPUs neither refill nor extend it. The
 * thesis prefers the largest rest of a quantum; here age and level come first. Its processes have one thread.
 */
#ifndef SPRY_CLASS_INTERACTIVE_BPF_H
#define SPRY_CLASS_INTERACTIVE_BPF_H

#include "class.bpf.h"
#include "../common/nodes.bpf.h"
#include "timer.bpf.h"

/* The order of a task in INTERACTIVE has three parts, from the highest bits. They are: the time at which the
 * quantum was given, units of 2.1 ms; the level; the complement of the quantum's rest, units of 66 us. With
 * the knob wake_more_left the last two change places. */
#define GIVEN_UNIT_SHIFT 21
#define GIVEN_SHIFT	 18
#define LEVELS		 64
#define LEFT_UNIT_SHIFT	 16
#define LEFT_UNITS	 4096

/* The level of children that have a part of their parent's quantum: behind all levels that a
 * verdict can give. */
#define LEVEL_INHERITED (LEVELS - 1)
/* All quanta are shorter than this, ns. */
#define QUANTUM_MOST_NS (1ull << 40)

/* The part of the time since the last refill, ns, by which a waking process' quantum is refilled. It is less
 * than all of that time: threads on several CPUs that refill the quantum for each other still spend it. */
#define MADE_UP(ns) ((ns) / 4 * 3)

/* A process in use, in an array that is indexed by the process' node. */
struct in_use {
	/* The name of the process' node. If the node has another name now, this entry belongs to no
	 * process. */
	spry_ref ref;
	/* The rest of the process' quantum, ns. */
	s64 left_ns;
	/* The time at which the process was given its quantum because it had spent the previous one, ns; 0:
	 * it has not spent any. */
	u64 given_ns;
	/* The time of the last refill of the quantum, in whole or in part, ns. */
	u64 made_up_ns;
	/* The `given_ns` of the quantum during which an overdue thread of the process kept its
	 * turn; see OVERDUE_NS. */
	u64 passed_ns;
};

struct in_use in_use[SPRY_NODES_MAX];

/* The entry of a thread's process among the processes in use; NULL if the process is not in use. */
static __always_inline struct in_use *process_of(const struct thread_ctx *t)
{
	struct in_use *process = &in_use[SPRY_NODE_INDEX(t->node)];

	return t->node && process->ref == t->node ? process : NULL;
}

/* The rest of the quantum that a thread spends, ns: its process' quantum, or its part of its parent's. */
static __always_inline s64 left_of(const struct thread_ctx *t)
{
	const struct in_use *process = process_of(t);

	if (t->inherited)
		return t->left_ns;
	return process ? process->left_ns : 0;
}

/*
 * The rest of the quantum by which a thread is ordered among threads with equally old quanta, ns. Only the
 * thread's own run time is subtracted, and half of this is forgotten when the process' quantum is refilled.
 * So a player's thread that draws a picture precedes its thread that decodes the next pictures. `ran_ns` is
 * the run time for which the thread has not been charged yet.
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

/* The order of a thread with `left_ns` left of a quantum that was given at `given_ns`. */
static __always_inline u64 interactive_order(const struct thread_ctx *t, u64 given_ns, s64 left_ns)
{

	u64 units = left_ns < 0 ? 0 : (u64)left_ns >> LEFT_UNIT_SHIFT;
	u64 little = units < LEFT_UNITS - 1 ? LEFT_UNITS - 1 - units : 0;
	u64 given = given_ns >> GIVEN_UNIT_SHIFT << GIVEN_SHIFT;

	if (wake_more_left)
		return KEY(SPRY_CLASS_INTERACTIVE, given | little * LEVELS | t->level);
	return KEY(SPRY_CLASS_INTERACTIVE, given | (u64)t->level * LEFT_UNITS | little);
}

/* The time at which the quantum was given, read from a task's order, ns; rounded down to units of 2.1 ms. */
static __always_inline u64 given_of(u64 key)
{
	return (key & KEY_LOW) >> GIVEN_SHIFT << GIVEN_UNIT_SHIFT;
}

/* A CPU runs the task with the order `key`. If a thread wakes on this CPU, its quantum counts as old as this
 * task's. */
static __always_inline void interactive_serves(struct cpu_ctx *c, u64 key)
{
	c->given_ns = given_of(key);
}

/* Applies a verdict to a thread and its process. A quantum that the daemon has set for the class replaces the
 * verdict's. A process that comes into use has its whole quantum at once. For a process that was in use
 * already, the rest of the quantum is cut to the new length. */
static __always_inline void interactive_set(struct thread_ctx *t, u32 level, u64 quantum_ns)
{
	struct in_use *process = &in_use[SPRY_NODE_INDEX(t->node)];

	quantum_ns = tuning.interactive_ns ?: quantum_ns;
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

/* Charges a thread's run time to its process' quantum. If that spends the quantum, the process
 * is given a new one. */
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

/* Whether a real-time task has interrupted a task of INTERACTIVE. The kernel keeps the interrupted task in
 * the CPU's local queue meanwhile. `curr` is the task that runs on the CPU. */
static __always_inline bool is_interrupted(const struct where *at, const struct task_struct *curr)
{
	return curr->prio < MAX_RT_PRIO && cpu_at(at->cpu)->has == SPRY_CLASS_INTERACTIVE &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | at->cpu) > 0;
}

/* The time at which the quantum of the task that this CPU serves was given, ns. If no task of INTERACTIVE
 * wants the CPU, the result is `now`. */
static __always_inline u64 served_since(const struct where *at, u64 now)
{
	struct task_struct *curr = running_on(at->cpu);
	bool goes_on = waiting(at, SPRY_CLASS_INTERACTIVE);

	if (!goes_on && curr && !(curr->flags & PF_IDLE))
		goes_on =
			key_class(curr->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE || is_interrupted(at, curr);
	return goes_on ? cpu_at(at->cpu)->given_ns : now;
}

/*
 * Orders a thread that wakes, or that was of another class before, among the threads of its CPU. Its quantum
 * counts as old as the quantum of the task that the CPU serves. If its process was given a quantum later,
 * that time counts. If the CPU has come to newer quanta since the process' last refill, the process' quantum
 * is refilled in part.
 */
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

/* Whether a woken task of INTERACTIVE, with the order `key`, takes the CPU from the running task
 * `curr` of INTERACTIVE. */
static __always_inline bool interactive_wakes_over(u64 key, struct task_struct *curr)
{
	struct thread_ctx *t = find_thread(curr);
	u64 ran_ns;

	if (!t)
		return true;
	ran_ns = ran_until_now(curr) - t->charged_ns;
	/* If the running task has spent its quantum, all waiting tasks go before it. */
	return left_of(t) <= (s64)ran_ns || key < interactive_order(t, t->given_ns, own_left(t, ran_ns));
}

/* A process in use has created a child process. The child gets half of the rest of its parent's quantum. When
 * it has spent that, it is given no further quantum. */
static __always_inline void interactive_fork(struct thread_ctx *t, struct thread_ctx *from)
{
	struct in_use *process;
	s64 share_ns;

	if (from->class != SPRY_CLASS_INTERACTIVE)
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

/* The most threads that one call of settle() moves behind others. */
#define MOVED_MOST 256

/* Number of threads that settle() has looked at. It is in memory, since the verifier would follow each value
 * of a local variable separately. */
static u32 moved;

/* A thread is overdue if it has waited for this long, ns. It then keeps its turn although other threads of
 * its process have spent the quantum. In each quantum of a process one thread does so. */
#define OVERDUE_NS (1000 * MS)

/* Whether a waiting thread must go behind others, because its process has spent the quantum by which the
 * thread is ordered. An overdue thread need not. */
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

/* Corrects the order in a place's queue of INTERACTIVE. Some threads have waited while other threads of their
 * process spent the quantum. They go behind all threads with quanta older than the process' new one, but
 * before the threads that spent it. Returns the rest of the quantum of the queue's first task, ns. */
__noinline u64 settle(u32 place)
{
	u64 left_ns = QUANTUM_MOST_NS;
	struct task_struct *p;
	bool is_changed = false;

	place &= SPRY_PLACES_MAX - 1;
	if (!*queued_at(place, SPRY_CLASS_INTERACTIVE))
		return left_ns;
	moved = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_INTERACTIVE), 0)
	{
		struct thread_ctx *t = find_thread(p);
		struct in_use *process = t && !t->inherited ? process_of(t) : NULL;
		u32 here = place;

		/* Inside the loop the verifier has lost the range of `place`. */
		barrier_var(here);
		if (t && left_of(t) > 0)
			left_ns = left_of(t);
		if (!process || moved++ >= MOVED_MOST || !goes_behind(t, process))
			break;
		is_changed = true;
		t->given_ns = process->given_ns;
		__COMPAT_scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
						    interactive_order(t, t->given_ns, QUANTUM_MOST_NS));
		__COMPAT_scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p,
						dsq_at(here & (SPRY_PLACES_MAX - 1), SPRY_CLASS_INTERACTIVE),
						0);
	}
	if (is_changed)
		*first_at(place, SPRY_CLASS_INTERACTIVE) = 0;
	return left_ns;
}

/* Sets the CPU's timer to the end of a quantum with `left_ns` left, if that is shorter than a slice. Called
 * while other tasks wait for the CPU. */
static __always_inline void exact_quantum(const struct where *at, s64 left_ns)
{
	if (left_ns < (s64)slice_interactive_ns) {
		u64 now = scx_bpf_now();

		timer_set(at->cpu, cpu_at(at->cpu), now, now + (left_ns > 0 ? left_ns : 0));
	}
}

/* If more than INTERACTIVE_MANY threads in use wait, slices are shorter, so that each has one within
 * INTERACTIVE_ALL_NS. */
#define INTERACTIVE_MANY   100
#define INTERACTIVE_ALL_NS (2000 * MS)

/* Chooses the next task of INTERACTIVE for a CPU, after the order of the queues has been corrected. */
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
