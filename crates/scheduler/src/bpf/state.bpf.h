/* SPDX-License-Identifier: GPL-2.0-only */
/* What the scheduler keeps: of each CPU, each last-level cache, each thread, each queue. */
#ifndef SPRY_STATE_BPF_H
#define SPRY_STATE_BPF_H

#include "compat.bpf.h"
#include "knobs.bpf.h"

#define SPRY_CPUS_MAX 512
/* Queues are in places: one a last-level cache, one a CPU for tasks that can be nowhere else, and one for
 * each set of CPUs that some tasks are bound to; see mask.bpf.h. */
#define SPRY_PLACES_MAX (4 * SPRY_CPUS_MAX)
/* Sets of CPUs at once, and those that one CPU looks at. */
#define MASK_BITS    6
#define MASKS_MAX    (1 << MASK_BITS)
#define MASKS_OF_CPU 16
#define MASK_WORDS   (SPRY_CPUS_MAX / 64)

/* A class has a queue in each place, of the class' number. In the last one wait tasks whose cgroup has spent
 * what it may have, see limit.bpf.h: no CPU serves it. */
#define QUEUE_PARKED SPRY_CLASSES
#define QUEUES	     8

/* What is below a busy class, and when it is its turn nonetheless: see below.bpf.h. */
struct below {
	/* 0: nobody waits behind a higher class. */
	u64 due_ns;
	/* Since when tasks have waited so. */
	u64 since_ns;
	/* When the turn that is under way began; 0: none is. */
	u64 began_ns;
};

enum { BELOW_OTHER = 0, BELOW_IDLE = 1, BELOWS = 2 };

/* Mapped by the daemon with all of .bss. */
struct class_stats {
	u64 ran_ns;
	/* Times that a task of the class waited for a CPU, and how long in all. */
	u64 waits;
	u64 waited_ns;
};

struct cpu_ctx {
	struct below below[BELOWS];
	/* What the timer was set for; 0: it is of no interest any more. When it fires. */
	u64 timer_ns;
	u64 armed_ns;
	/* Who was ordered when this CPU last asked whom to run, and gives way: what enqueueing it will need.
	 */
	struct {
		u64 task;
		u64 ran_ns;
		u64 key;
		u64 slice_ns;
	} ordered;
	/* Tasks of OTHER that were charged a moment ago: what runs for microseconds need not be charged each
	 * time. */
	struct {
		u64 task;
		u64 charged_ns;
		u64 key;
		u32 round;
	} recent[8];
	/* The order of the task that was last put before all queues. */
	u64 local_key;
	/* INTERACTIVE: when the quantum was given of the task that it served last. */
	u64 given_ns;
	/* See holder.bpf.h. */
	u32 has;
	u32 sent;
	u32 missed_puts;
	u32 looks;
	/* Places of sets of CPUs that it is of. */
	u32 masks_count;
	u32 masks[MASKS_OF_CPU];
	/* Budgets: since when, and what each class spent. */
	u64 period_ns;
	u64 spent_ns[SPRY_CLASSES];
	struct class_stats classes[SPRY_CLASSES];
	/* Turns of what is below: how many, and those that were given back for somebody of a higher class. */
	u64 below_turns;
	u64 early_yields;
	/* Wake-ups that took the CPU at once; kicks of other CPUs; settings of the timer. */
	u64 preemptions;
	u64 kicks;
	u64 timers;
} __attribute__((aligned(64)));

struct llc_ctx {
	/* Virtual time of OTHER, in units of 64 ns. */
	u64 vtime;
	/* The same a while ago, and how far a task may be behind and ahead of it: see class_other.bpf.h. */
	u64 vtime_before;
	u64 lag;
	u64 ahead;
	/* Whether tasks of OTHER waited behind a higher class when housekeeping was done. */
	u64 waits;
	/* Tasks that were put into queues: above OTHER, and others; see holder.bpf.h. */
	u32 puts[2];
} __attribute__((aligned(64)));

/* Each thread has one from when it first wants to run. */
struct thread_ctx {
	/* Its process' node, and in which round that was looked up. */
	spry_ref node;
	u32 round;
	/* Run time that has been charged, and time waited that has been counted, ns. */
	u64 charged_ns;
	u64 waited_ns;
	/* OTHER: its virtual time, units of 64 ns. */
	u64 vtime;
	/* Of a process: where the furthest of those that it began was when it ended; see births.bpf.h. */
	u64 left;
	/* The process that began it, and the user of the first of its ancestors that was not root. */
	u32 creator;
	u32 line;
	/* The cache by whose virtual time its own is. */
	u32 llc;
	/* INTERACTIVE: the quantum of its process, and since when the thread stands in line; see
	 * class_interactive.bpf.h. When it was put into the queue. What is left of what it was given by its
	 * parent. */
	u64 quantum_ns;
	u64 given_ns;
	u64 waits_ns;
	u64 left_ns;
	/* KTHREAD: what it ran lately, and since when, ns. */
	u64 spent_ns;
	u64 spent_since_ns;
	/* What the thread itself ran of its process' quantum, and of which. */
	u64 own_ran_ns;
	u64 own_quantum_ns;
	/* The class that it was last ordered by. */
	u8 class;
	u8 level;
	/* What is left was its parent's: nothing comes after it. */
	u8 inherited;
	u8 pad;
	/* The place of its set of CPUs, and which use of the place that is; 0: it is not known. */
	u32 mask;
	/* Its group, the group's slot and the weight that is counted there; see cgroup.bpf.h. */
	u64 group;
	u32 slot;
	u32 slot_generation;
	u32 counted;
	/* Since when it has waited for its cgroup's next period. */
	u64 parked_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_ctx);
} threads SEC(".maps");

struct cpu_ctx cpus[SPRY_CPUS_MAX];
struct llc_ctx llcs[SPRY_CPUS_MAX];

/*
 * Tasks in each queue, or more: kernels before 7.1 take tasks out without a word when their nice value or
 * affinity changes. Counted up before a task goes in, so that a queue that counts nobody is empty;
 * housekeeping takes away what is too much.
 */
u32 queued[SPRY_PLACES_MAX * QUEUES] __attribute__((aligned(64)));

/* The order of the first task of a queue, where that is known; 0 where it is not. */
u64 first[SPRY_PLACES_MAX * QUEUES];

/* Counted up by the daemon when verdicts have changed. */
volatile u32 verdict_round = 1;

/* Counted up by the daemon, after that, when processes have come into other classes. */
volatile u32 class_round;

/* Where a task is. */
struct where {
	s32 cpu;
	u32 llc;
	/* Whose queues it waits in. */
	u32 place;
};

static __always_inline struct cpu_ctx *cpu_at(s32 cpu)
{
	return &cpus[cpu & (SPRY_CPUS_MAX - 1)];
}

#define RECENT(c, p) (&(c)->recent[((u64)(p) >> 6 ^ (u64)(p) >> 9 ^ (u64)(p) >> 12) & 7])

static __always_inline struct llc_ctx *llc_at(u32 llc)
{
	return &llcs[llc & (SPRY_CPUS_MAX - 1)];
}

static __always_inline u32 llc_of(s32 cpu)
{
	return nr_llcs > 1 ? cpu_llc[cpu & (SPRY_CPUS_MAX - 1)] : 0;
}

static __always_inline u32 place_of_cpu(s32 cpu)
{
	return SPRY_CPUS_MAX + (cpu & (SPRY_CPUS_MAX - 1));
}

static __always_inline u32 place_of_mask(u32 index)
{
	return 2 * SPRY_CPUS_MAX + (index & (MASKS_MAX - 1));
}

static __always_inline u32 *queued_at(u32 place, u32 queue)
{
	return &queued[(place * QUEUES + queue) & (SPRY_PLACES_MAX * QUEUES - 1)];
}

static __always_inline u64 *first_at(u32 place, u32 queue)
{
	return &first[(place * QUEUES + queue) & (SPRY_PLACES_MAX * QUEUES - 1)];
}

static __always_inline u64 dsq_at(u32 place, u32 queue)
{
	return place * QUEUES + queue + 1;
}

/* Whether a CPU looks at places of sets of CPUs. */
static __always_inline bool has_masks(const struct where *at)
{
	return nr_cpus > 2 && cpu_at(at->cpu)->masks_count;
}

/* The place of a CPU's set by its number; the CPU's own place beyond the last. */
static __always_inline u32 place_of_set(u32 cpu, u32 number)
{
	struct cpu_ctx *c = cpu_at(cpu);
	u32 place = c->masks[number & (MASKS_OF_CPU - 1)];

	return number < c->masks_count && place ? place : place_of_cpu(cpu);
}

/* Functions that are global are verified by themselves, once, not again in each state of their callers. */

/* How many wait in a queue of all sets that a CPU is of. */
__noinline u32 waiting_in_sets(u32 cpu, u32 queue)
{
	u32 i, count = 0;

	bpf_for(i, 0, MASKS_OF_CPU)
	{
		if (i >= cpu_at(cpu)->masks_count)
			break;
		count += *queued_at(place_of_set(cpu, i), queue);
	}
	return count;
}

/* How many tasks wait in a queue that a CPU may take, before it looks at other caches. */
static __always_inline u32 waiting(const struct where *at, u32 queue)
{
	u32 count = *queued_at(at->llc, queue);

	if (nr_cpus > 1)
		count += *queued_at(place_of_cpu(at->cpu), queue);
	if (has_masks(at))
		count += waiting_in_sets(at->cpu, queue);
	return count;
}

/* How many wait in a queue, where it matters whether the count is right. */
static __always_inline u32 really_waiting(const struct where *at, u32 queue)
{
	s32 count = scx_bpf_dsq_nr_queued(dsq_at(at->llc, queue));

	if (nr_cpus > 1)
		count += scx_bpf_dsq_nr_queued(dsq_at(place_of_cpu(at->cpu), queue));
	if (has_masks(at))
		count += waiting_in_sets(at->cpu, queue);
	return count > 0 ? count : 0;
}

/* Whether a task waits in a queue above OTHER: such tasks are taken from other caches, too. */
static __always_inline bool any(const struct where *at, u32 queue)
{
	u32 i;

	if (waiting(at, queue) > 0)
		return true;
	if (nr_llcs == 1)
		return false;
	bpf_for(i, 0, nr_llcs)
	{
		if (*queued_at(i, queue))
			return true;
	}
	return false;
}

/* Whether a place has tasks of any class above OTHER. The counts of two classes are one word: this is asked
 * at each switch. */
static __always_inline bool has_above(u32 place)
{
	_Static_assert(SPRY_CLASS_KTHREAD == SPRY_CLASS_DAEMON + 1 && SPRY_CLASS_DAEMON % 2 == 0, "one word");

	return *(u64 *)queued_at(place, SPRY_CLASS_DAEMON) || *queued_at(place, SPRY_CLASS_INTERACTIVE);
}

__noinline u32 has_above_in_sets(u32 cpu)
{
	u32 i, above = 0;

	bpf_for(i, 0, MASKS_OF_CPU)
	{
		if (i >= cpu_at(cpu)->masks_count)
			break;
		above |= has_above(place_of_set(cpu, i));
	}
	return above;
}

/* Whether a task of any class above OTHER waits: such tasks are taken from other caches, too. */
static __always_inline bool any_above(const struct where *at)
{
	u32 i;

	if (has_above(at->llc))
		return true;
	if (nr_cpus > 1 && has_above(place_of_cpu(at->cpu)))
		return true;
	if (has_masks(at) && has_above_in_sets(at->cpu))
		return true;
	if (nr_llcs == 1)
		return false;
	bpf_for(i, 0, nr_llcs)
	{
		if (has_above(i))
			return true;
	}
	return false;
}

static __always_inline struct thread_ctx *find_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

static __always_inline struct thread_ctx *make_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* A task's order is one word, its dsq_vtime: its class above, what the class makes of it below. */
#define KEY_SHIFT     56
#define KEY_LOW	      ((1ull << KEY_SHIFT) - 1)
#define KEY(class, x) ((u64)(class) << KEY_SHIFT | ((x) & KEY_LOW))

/* The class that a task was last ordered by; OTHER if it never was. */
static __always_inline u32 key_class(u64 key)
{
	u32 class = key >> KEY_SHIFT;

	return class == SPRY_CLASS_NONE || class > SPRY_CLASS_IDLE ? SPRY_CLASS_OTHER : class;
}

/* Virtual times, and times in orders, are in units of 64 ns. */
#define VTIME_UNIT_SHIFT 6

static __always_inline u64 at_most(u64 value, u64 most)
{
	return value > most ? most : value;
}

static __always_inline u64 at_least(u64 vtime, u64 least)
{
	return (s64)(vtime - least) < 0 ? least : vtime;
}

static __always_inline struct task_struct *running_on(s32 cpu)
{
	return nr_cpus > 1 ? current_of(cpu) : bpf_get_current_task_btf();
}

/* Run time of a task up to now, ns. The kernel counts it at ticks and switches; what came since is known of
 * the task that runs on this CPU. */
static __always_inline u64 ran_until_now(struct task_struct *p)
{
	s64 since_ns = 0;

	if (p == bpf_get_current_task_btf())
		since_ns = task_clock_now() - p->se.exec_start;
	return p->se.sum_exec_runtime + (since_ns > 0 ? since_ns : 0);
}

#endif
