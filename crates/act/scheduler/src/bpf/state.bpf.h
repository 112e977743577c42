/* SPDX-License-Identifier: GPL-2.0-only */
/* What the scheduler keeps for each CPU, each last-level cache, each thread and each queue. */
#ifndef SPRY_STATE_BPF_H
#define SPRY_STATE_BPF_H

#include "compat.bpf.h"
#include "knobs.bpf.h"

#define SPRY_CPUS_MAX 512
/* How many tasks each CPU remembers as charged a moment ago. */
#define SPRY_RECENT 64
/* Queues are grouped in places. There is one place for each last-level cache, one for each CPU (for tasks
 * that may run nowhere else), and one for each set of CPUs that some tasks are bound to; see mask.bpf.h. */
#define SPRY_PLACES_MAX (4 * SPRY_CPUS_MAX)
/* How many sets of CPUs there can be at once, and how many of them one CPU can look at. */
#define MASK_BITS    6
#define MASKS_MAX    (1 << MASK_BITS)
#define MASKS_OF_CPU 16
#define MASK_WORDS   (SPRY_CPUS_MAX / 64)

/* In each place, a class has the queue with the class' number. There are two further queues. The tasks of
 * QUEUE_PASSING get a CPU for no time, see release.bpf.h. No CPU serves QUEUE_NEXT_PERIOD: its tasks wait
 * because their reservations have spent their budgets, see reserve.bpf.h. */
#define QUEUE_NEXT_PERIOD SPRY_CLASS_NONE
#define QUEUE_PASSING	  SPRY_CLASSES
#define QUEUES		  8

/* A class that is kept waiting behind a higher class, and when its next turn is due: see below.bpf.h. */
struct below {
	/* When the next turn of the class is due; 0: no task of it waits behind a higher class. */
	u64 due_ns;
	/* Since when tasks of the class have waited behind a higher class. */
	u64 since_ns;
	/* When the turn of the class that is under way began; 0: no turn is under way. */
	u64 began_ns;
};

enum { BELOW_OTHER = 0, BELOW_IDLE = 1, BELOWS = 2 };

/* What is counted of a class on one CPU. The daemon maps it with all of .bss. */
struct class_stats {
	u64 ran_ns;
	/* How often a task of the class waited for a CPU, and how long all these waits were together. */
	u64 waits;
	u64 waited_ns;
};

/* A task of OTHER that was charged a moment ago, and the order that it was given. */
struct recent {
	u64 task;
	u64 charged_ns;
	u64 key;
	u32 round;
	u32 domain;
};

struct cpu_ctx {
	struct below below[BELOWS];
	/* The time that the timer was set for (0: it is no longer wanted), and the time at which the timer
	 * fires. */
	u64 timer_ns;
	u64 armed_ns;
	/* The task that was running when this CPU last asked which task to run, and that gives way: what
	 * spry_enqueue needs to put it into a queue. */
	struct {
		u64 task;
		u64 ran_ns;
		u64 key;
		u64 slice_ns;
	} ordered;
	/* Tasks of OTHER that were charged a moment ago: a task that runs for microseconds need not be
	 * charged each time. */
	struct recent recent[SPRY_RECENT];
	/* The order of the task that was last inserted before all queues, into the CPU's local queue. */
	u64 local_key;
	/* INTERACTIVE: when the task that this CPU served last was given its quantum. */
	u64 given_ns;
	/* The class that has this CPU; the class of a task that is on its way to it; what misses() keeps. See
	 * holder.bpf.h. */
	u32 has;
	u32 sent;
	u32 missed_puts;
	u32 looks;
	/* The places of the sets of CPUs that this CPU belongs to. */
	u32 masks_count;
	u32 masks[MASKS_OF_CPU];
	/* Budgets of classes: when the period began, and what each class has spent in it. */
	u64 period_ns;
	u64 spent_ns[SPRY_CLASSES];
	struct class_stats classes[SPRY_CLASSES];
	/* Reservations on this CPU: how many there are, when the first period begins that a demoted task
	 * waits for (0: there is none), and the value of reserve_round when waiting tasks were last looked
	 * at. */
	u32 reserved_count;
	u32 reserve_round;
	u64 demoted_until_ns;
	/* The reservation of the task that runs here, plus 1 (0: there is none), and until when it has been
	 * charged for this. */
	u32 reserved_runs;
	u64 reserved_until_ns;
	/* When the CPU's timer was to fire that was set last, and when it fired while a task with a
	 * reservation ran (0: it did not since the task was charged); of the monotonic clock. */
	u64 expires_ns;
	u64 stopped_ns;
	/* Whether the timer has sent the CPU through the scheduler, which has not decided since. */
	u32 fired;
	/* How many interrupts that began while such a task ran have not ended, and when the first of them
	 * began. */
	u32 stolen_depth;
	u64 stolen_since_ns;
	/* When the last of them ended. */
	u64 stolen_until_ns;
	/* The thread of a program that ran here last, while there are reservations. */
	u32 ran_last;
	/* The way to a task with a reservation, as it was of late: from the timer to the decision, and from
	 * the decision to the switch, ns; and when the CPU decided. */
	u64 timer_way_ns;
	u64 switch_way_ns;
	u64 decided_ns;
	/* Whether the CPU is offline. */
	u32 is_offline;
	u32 pad;
	/* Turns of classes below a busy one: how many there were, and how many ended early for a task of a
	 * higher class. */
	u64 below_turns;
	u64 early_yields;
	/* How often a woken task took the CPU at once; how often a CPU was kicked; how often the timer was
	 * set. */
	u64 preemptions;
	u64 kicks;
	u64 timers;
	/* See through_memory(). */
	u64 passed;
} __attribute__((aligned(64)));

/*
 * A domain of virtual time in OTHER: each place in which tasks wait has one, and the domain has the place's
 * number. The tasks of a cache that run on one CPU and the tasks that are bound to another CPU have virtual
 * times of different speeds. With one virtual time for all, the tasks of the slower CPU would always be as
 * far behind as a task may be, and would run in turn, whatever their weights are.
 */
struct llc_ctx {
	/* Virtual time of OTHER, in units of 64 ns. */
	u64 vtime;
	/* What is added to virtual times of a CPU's or a set's domain where its tasks are compared with tasks
	 * of the cache. */
	u64 offset;
	/* The virtual time `vtime` a while ago, and how far behind and ahead of it a task may be: see
	 * class_other.bpf.h. */
	u64 vtime_before;
	u64 lag;
	u64 ahead;
	/* Whether tasks of OTHER waited behind a higher class when housekeeping was last done. */
	u64 waits;
	/* The cache to which the domain belongs, and how many CPUs serve it. */
	u32 cache;
	u32 cpus;
	/* A cache: how many tasks were put into queues, of classes above OTHER and of the other classes; see
	 * holder.bpf.h. */
	u32 puts[2];
} __attribute__((aligned(64)));

/* What the scheduler keeps of a thread, from when the thread first wants to run. */
struct thread_ctx {
	/* The node of the thread's process, and the round of verdicts in which the node was looked up. */
	spry_ref node;
	u32 round;
	/* How much of the thread's run time has been charged, and how much of its waiting time has been
	 * counted, ns. */
	u64 charged_ns;
	u64 waited_ns;
	/* OTHER: the thread's virtual time, units of 64 ns. */
	u64 vtime;
	/* Kept with a process' first thread. Of the tasks that the process began and that have ended, it says
	 * where the task that was furthest ahead stood at its end; see births.bpf.h. */
	u64 left;
	/* The process that created the thread, and the user of the first of its ancestors that was not
	 * root. */
	u32 creator;
	u32 line;
	/* The domain by which the thread's virtual time is counted. */
	u32 domain;
	/* INTERACTIVE: the quantum of the thread's process; since when the thread stands in line, see
	 * class_interactive.bpf.h; when the thread was put into the queue; what is left of the time that its
	 * parent gave it. */
	u64 quantum_ns;
	u64 given_ns;
	u64 waits_ns;
	u64 left_ns;
	/* KTHREAD and DAEMON: what the thread ran in its current period, and when this period began, ns. */
	u64 spent_ns;
	u64 spent_since_ns;
	/* A worker of the kernel: until when it is one that a process in use waits for, ns; 0: it is none.
	 * See workers.bpf.h. */
	u64 wanted_until_ns;
	/* How long the thread itself ran on its process' quantum, and which quantum that was. */
	u64 own_ran_ns;
	u64 own_quantum_ns;
	/* The class, and the level, that the thread was last ordered by. */
	u8 class;
	u8 level;
	/* Whether the time that the thread has left was given by its parent: it is given no quantum after
	 * that. */
	u8 inherited;
	/* OTHER, several CPUs: whether tasks waited for the thread's CPU when the thread last went to sleep,
	 * so that it pays for what it ran there, wherever it wakes. */
	u8 contended;
	/* The place of the thread's set of CPUs, and which use of the place that is; 0: the place is not
	 * known. */
	u32 mask;
	/* The thread's group, the group's slot, and the weight with which the slot counts the thread; see
	 * cgroup.bpf.h. */
	u64 group;
	u32 slot;
	u32 slot_generation;
	u32 counted;
	/* Since when the thread has waited for its cgroup's next period, and how long it had run then, ns;
	 * while it is parked, the order that it had in its class (0: it is not parked). */
	u64 parked_ns;
	u64 parked_ran_ns;
	u64 parked_key;
	/* The thread's reservation, plus 1 (0: it has none), and the value of reserve_round when this was
	 * looked up. */
	u32 reserved;
	u32 reserve_round;
	/* A thread of a shared server: how long the thread had run when it last went to sleep, ns; 0: this is
	 * not known. */
	u64 ran_before_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_ctx);
} threads SEC(".maps");

struct cpu_ctx cpus[SPRY_CPUS_MAX];
struct llc_ctx llcs[SPRY_PLACES_MAX];

/*
 * How many tasks are in each queue, or more: kernels before 7.1 do not tell the scheduler when they take a
 * task out because its nice value or affinity changes. A count goes up before its task goes in, so that a
 * queue with a count of 0 is empty. Housekeeping corrects a count that is too high.
 */
u32 queued[SPRY_PLACES_MAX * QUEUES] __attribute__((aligned(64)));

/* The order of the first task of each queue, where it is known; 0 where it is not. */
u64 first[SPRY_PLACES_MAX * QUEUES];

/* How many reservations there are, and whether there ever were any: until then nothing looks for them. */
u32 reserved_all;
u32 reserved_ever;

/* Counted up by the daemon when verdicts have changed. */
volatile u32 verdict_round = 1;

/* What may move waiting tasks up, and what of it was heeded: the daemon counts `classes` up, after
 * verdict_round, when processes have come into other classes; `work` says how often a process in use gave the
 * kernel work. Both are compared as one word, since every decision asks. */
struct news {
	u32 classes;
	u32 work;
} __attribute__((aligned(8)));
volatile struct news news;
struct news heeded;

/* Where a task is, or where a CPU decides: the CPU, the last-level cache of this CPU, and the queues. */
struct where {
	s32 cpu;
	u32 llc;
	/* The place that has the queues in which the task waits. */
	u32 place;
};

static __always_inline struct cpu_ctx *cpu_at(s32 cpu)
{
	return &cpus[cpu & (SPRY_CPUS_MAX - 1)];
}

/* A value that was written to memory and read again, for programs that no interrupt interrupts. The verifier
 * knows nothing of the value then: it goes once through what follows, and not once for each constant that the
 * value can be. */
static __always_inline u64 through_memory(u64 value)
{
	volatile u64 *passed = &cpu_at(nr_cpus > 1 ? bpf_get_smp_processor_id() : 0)->passed;

	*passed = value;
	return *passed;
}

/* Where a CPU remembers a task as charged. The place depends on the task's number: tasks that talk to each
 * other were mostly created one after the other, so their places differ. By addresses, one pair of eight
 * would share a place. */
static __always_inline struct recent *recent_of(struct cpu_ctx *c, const struct task_struct *p)
{
	return &c->recent[p->pid & (SPRY_RECENT - 1)];
}

/* The task must be charged when its order is next asked for. */
static __always_inline void forget_recent(struct cpu_ctx *c, const struct task_struct *p)
{
	struct recent *recent = recent_of(c, p);

	if (recent->task == (u64)p)
		recent->task = 0;
}

/* A cache, a CPU or a set of CPUs, by the number of its domain. */
static __always_inline struct llc_ctx *llc_at(u32 domain)
{
	return &llcs[domain & (SPRY_PLACES_MAX - 1)];
}

static __always_inline u32 llc_of(s32 cpu)
{
	return nr_llcs > 1 ? cpu_llc[cpu & (SPRY_CPUS_MAX - 1)] : 0;
}

/* Where a CPU decides; its places are in its cache. */
static __always_inline struct where where_of(s32 cpu)
{
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};

	at.place = at.llc;
	return at;
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

/* Whether a CPU looks at the places of any sets of CPUs. */
static __always_inline bool has_masks(const struct where *at)
{
	return nr_cpus > 2 && cpu_at(at->cpu)->masks_count;
}

/* The place of one of a CPU's sets, by the set's number; beyond the last set, the CPU's own place. */
static __always_inline u32 place_of_set(u32 cpu, u32 number)
{
	struct cpu_ctx *c = cpu_at(cpu);
	u32 place = c->masks[number & (MASKS_OF_CPU - 1)];

	return number < c->masks_count && place ? place : place_of_cpu(cpu);
}

/* The verifier checks a global function once, by itself, not again in each state of the function's
 * callers. */

/* How many tasks wait in a queue, in all sets that a CPU belongs to. */
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

/* How many tasks wait in a queue, in all places that a CPU looks at before it looks at other caches. */
static __always_inline u32 waiting(const struct where *at, u32 queue)
{
	u32 count = *queued_at(at->llc, queue);

	if (nr_cpus == 1)
		return count;
	count += *queued_at(place_of_cpu(at->cpu), queue);
	if (has_masks(at))
		count += waiting_in_sets(at->cpu, queue);
	return count;
}

/* How many tasks wait in a queue, for callers that need the right number: the kernel is asked. */
static __always_inline u32 really_waiting(const struct where *at, u32 queue)
{
	s32 count = scx_bpf_dsq_nr_queued(dsq_at(at->llc, queue));

	if (nr_cpus > 1)
		count += scx_bpf_dsq_nr_queued(dsq_at(place_of_cpu(at->cpu), queue));
	if (has_masks(at))
		count += waiting_in_sets(at->cpu, queue);
	return count > 0 ? count : 0;
}

/* Whether a task waits in a queue of a class above OTHER: a CPU takes such tasks from other caches, too. */
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

/* Whether tasks of any class above OTHER wait in a place. The counts of two classes are read as one word,
 * since this is asked at each switch. */
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

/* Whether a task of any class above OTHER waits: a CPU takes such tasks from other caches, too. */
static __always_inline bool any_above(const struct where *at)
{
	u32 i;

	if (has_above(at->llc))
		return true;
	if (nr_cpus == 1)
		return false;
	if (has_above(place_of_cpu(at->cpu)))
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

/* A task's order is one word, its dsq_vtime: the class in the high bits, the order within the class in the
 * low bits. */
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

/* Run time of a task up to now, ns. The kernel counts it at ticks and switches. For the task that runs on
 * this CPU, the time since the last of these is added. */
static __always_inline u64 ran_until_now(struct task_struct *p)
{
	s64 since_ns = 0;

	if (p == bpf_get_current_task_btf())
		since_ns = task_clock_now() - p->se.exec_start;
	return p->se.sum_exec_runtime + (since_ns > 0 ? since_ns : 0);
}

#endif
