/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's state for each CPU, each domain of virtual time, each thread and each queue, and the
 * functions that find it. */
#ifndef SPRY_STATE_BPF_H
#define SPRY_STATE_BPF_H

#include "compat.bpf.h"
#include "knobs.bpf.h"

#define SPRY_CPUS_MAX 512
/* The number of tasks for which each CPU keeps the last order that it gave them. */
#define SPRY_RECENT 64
/* Queues are grouped in places. Each last-level cache has one, and each CPU has one, for tasks that may run
 * nowhere else. Each set of CPUs to which tasks are bound has one; see mask.bpf.h. */
#define SPRY_PLACES_MAX (4 * SPRY_CPUS_MAX)
/* The most sets of CPUs that can have a place at once, and the most of them that one CPU can serve. */
#define MASK_BITS    6
#define MASKS_MAX    (1 << MASK_BITS)
#define MASKS_OF_CPU 16
#define MASK_WORDS   (SPRY_CPUS_MAX / 64)

/* In each place, a class has the queue with the class' number. There are two further queues. QUEUE_PASSING
 * has parked tasks that get a CPU for a moment; see release.bpf.h. QUEUE_NEXT_PERIOD has tasks that have
 * spent the budgets of their reservations; no CPU takes tasks from it. See reserve.bpf.h. */
#define QUEUE_NEXT_PERIOD SPRY_CLASS_NONE
#define QUEUE_PASSING	  SPRY_CLASSES
#define QUEUES		  8

/* The turns of a class that waits behind a higher class, on one CPU; see below.bpf.h. */
struct below {
	/* The time of the class' next turn, ns; 0: no task of it waits behind a higher class. */
	u64 due_ns;
	/* The time since which tasks of the class have waited behind a higher class, ns. */
	u64 since_ns;
	/* The begin of the current turn of the class, ns; 0: no turn is under way. */
	u64 began_ns;
};

enum { BELOW_OTHER = 0, BELOW_IDLE = 1, BELOWS = 2 };

/* Statistics of a class on one CPU. The daemon maps them with all of .bss. */
struct class_stats {
	u64 ran_ns;
	/* The number of waits for a CPU by tasks of the class, and the sum of these waits, ns. */
	u64 waits;
	u64 waited_ns;
};

/* The last order of a task of OTHER, and the task's run time when this order was set, ns. The order holds for
 * the given values of verdict_round and of the domain. */
struct recent {
	u64 task;
	u64 charged_ns;
	u64 key;
	u32 round;
	u32 domain;
};

/* The state of a CPU. */
struct cpu_ctx {
	struct below below[BELOWS];
	/* The time at which the CPU must decide (0: no time is set), and the time at which its timer fires,
	 * ns. */
	u64 timer_ns;
	u64 armed_ns;
	/* The task that was running when this CPU last decided, and gave way. spry_enqueue puts it into a
	 * queue with this order and slice, if its run time has not changed since. */
	struct {
		u64 task;
		u64 ran_ns;
		u64 key;
		u64 slice_ns;
	} ordered;
	/* Tasks of OTHER with their last orders. A task that runs for microseconds at a time keeps its order
	 * and is charged only now and then. */
	struct recent recent[SPRY_RECENT];
	/* The order of the woken task that was last put into this CPU's local queue, before all queues; ~0
	 * since the CPU last decided. */
	u64 local_key;
	/* INTERACTIVE: the time at which the quantum of the last served task was given, ns. */
	u64 given_ns;
	/* The class that this CPU runs, and the class of a task that was sent to it. `missed_puts` and
	 * `looks` belong to misses(). See holder.bpf.h. */
	u32 has;
	u32 sent;
	u32 missed_puts;
	u32 looks;
	/* The places of the sets of CPUs that this CPU serves. */
	u32 masks_count;
	u32 masks[MASKS_OF_CPU];
	/* Budgets of DAEMON and KTHREAD on this CPU: the begin of the current period, and the run time of
	 * each class in it, ns. */
	u64 period_ns;
	u64 spent_ns[SPRY_CLASSES];
	struct class_stats classes[SPRY_CLASSES];
	/* Reservations on this CPU: their number; the value of reserve_round at the last look at waiting
	 * tasks; and the begin of the first period for which a demoted task waits, ns (0: there is none). */
	u32 reserved_count;
	u32 reserve_round;
	u64 demoted_until_ns;
	/* The slot of the running task's reservation, plus 1 (0: it has none), and the time until which the
	 * reservation has been charged. */
	u32 reserved_runs;
	u64 reserved_until_ns;
	/* On the monotonic clock, ns: the due time of the timer that was set last; and the time at which it
	 * fired while a task with a reservation ran (0: not since the task was last charged). */
	u64 expires_ns;
	u64 stopped_ns;
	/* Whether the timer has fired, and the CPU has not decided since. */
	u32 fired;
	/* The number of nested interrupts in progress, the first of which began while a task with a
	 * reservation ran; and the begin of that outermost interrupt, ns. */
	u32 stolen_depth;
	u64 stolen_since_ns;
	/* The end of the last interrupt of a task with a reservation, ns. */
	u64 stolen_until_ns;
	/* The number of the last thread of a program that ran here, kept while there are reservations. */
	u32 ran_last;
	/* Moving averages of two latencies before a task with a reservation runs, ns: from the timer to the
	 * decision, and from the decision to the switch. Then the time of the last decision. */
	u64 timer_way_ns;
	u64 switch_way_ns;
	u64 decided_ns;
	/* A moving average of the time that the kernel's tick takes from a task, and the begin of the last
	 * tick that interrupted a task with a reservation, ns. */
	u64 tick_way_ns;
	u64 ticked_ns;
	/* Whether the CPU is offline. */
	u32 is_offline;
	u32 pad;
	/* Turns of lower classes: their number, and the number of turns that ended early because a task of a
	 * higher class woke. */
	u64 below_turns;
	u64 early_yields;
	/* Counts of this CPU: preemptions of its task by a woken task, kicks of CPUs, and settings of the
	 * timer. */
	u64 preemptions;
	u64 kicks;
	u64 timers;
	/* Callbacks of this CPU's timer while there was a tick (knob tick_ns): their number, and the sum of
	 * their times, ns. */
	u64 ticks;
	u64 ticks_ns;
	/* A variable of through_memory(). */
	u64 passed;
} __attribute__((aligned(64)));

/*
 * A domain of virtual time in OTHER. Each place has one, with the number of the place.
 *
 * Tasks that are bound to a CPU progress at the speed of that CPU, not of their cache. With one virtual time
 * for both, the tasks of a slower CPU would always be as far behind as a task may be. They would then run in
 * turn, whatever their weights are.
 */
struct llc_ctx {
	/* The class' virtual time in this domain, in units of 64 ns. */
	u64 vtime;
	/* The offset that is added to virtual times of a CPU's or a set's domain for a comparison with tasks
	 * of its cache; see domain.bpf.h. */
	u64 offset;
	/* The value of `vtime` at the last housekeeping; the limits for a task's distance behind `vtime`
	 * (`lag`), and ahead of it (`ahead`); units of 64 ns. */
	u64 vtime_before;
	u64 lag;
	u64 ahead;
	/* Whether tasks of OTHER waited behind a higher class at the last housekeeping. */
	u64 waits;
	/* The number of the cache to which the domain belongs; the number of CPUs that serve it. */
	u32 cache;
	u32 cpus;
	/* For a cache's domain: the numbers of tasks that were put into queues so far, of classes above OTHER
	 * and of the other classes; see holder.bpf.h. */
	u32 puts[2];
} __attribute__((aligned(64)));

/* How a parked thread passes a CPU (release.bpf.h): for no time, or for moments; and whether its timer has
 * ended these moments. */
enum {
	PASSED_KICKED = 1,
	PASSED_STAYS,
	PASSED_STAYED,
};

/* The context of a thread. It is made when the thread first wants to run. */
struct thread_ctx {
	/* The node of the thread's process, and the value of verdict_round when it was looked up. */
	spry_ref node;
	u32 round;
	/* The thread's run time that has been charged, and its waiting time that has been counted, ns. */
	u64 charged_ns;
	u64 waited_ns;
	/* OTHER: the thread's virtual time, units of 64 ns. */
	u64 vtime;
	/* In a process' first thread: the largest virtual time at which one of its children or threads has
	 * exited, 0 for none. New ones start no earlier; see births.bpf.h. */
	u64 left;
	/* The process that created the thread, and the thread's line (births.bpf.h): the user of its first
	 * ancestor that was not root. */
	u32 creator;
	u32 line;
	/* The domain in which the thread's virtual time is counted. */
	u32 domain;
	/* INTERACTIVE, ns: the length of the process' quantum; the time at which the thread's quantum counts
	 * as given, by which it is ordered; the time at which the thread was put into the queue; and the rest
	 * of its part of its parent's quantum. See class_interactive.bpf.h. */
	u64 quantum_ns;
	u64 given_ns;
	u64 waits_ns;
	u64 left_ns;
	/* KTHREAD and DAEMON: the thread's run time in its current period, and this period's begin, ns. */
	u64 spent_ns;
	u64 spent_since_ns;
	/* For a kernel worker: the time until which a process in use waits for it, ns; 0: no process waits.
	 * See workers.bpf.h. */
	u64 wanted_until_ns;
	/* INTERACTIVE: the thread's own run time on its process' quantum, ns, and the time of the last refill
	 * of that quantum, ns. */
	u64 own_ran_ns;
	u64 own_quantum_ns;
	/* The class and the level of the thread's last order. */
	u8 class;
	u8 level;
	/* Whether the thread runs on a part of its parent's quantum. It is given no quantum
	 * when that is spent. */
	u8 inherited;
	/* OTHER, several CPUs: whether tasks waited for the thread's CPU when the thread last went to sleep.
	 * If so, the thread pays for its run time there, wherever it wakes. */
	u8 contended;
	/* The place of the thread's set of CPUs, as index and generation; 0: it is not known. See
	 * mask.bpf.h. */
	u32 mask;
	/* The thread's group, by address; its slot, plus 1; the slot's generation; and the weight with which
	 * the slot counts the thread now. See cgroup.bpf.h. */
	u64 group;
	u32 slot;
	u32 slot_generation;
	u32 counted;
	/* How the thread last left its CPU (park.bpf.h), the low byte of switches_round at that time, and the
	 * thread's run time then, ns. */
	u64 left_ran_ns;
	u8 left_cpu;
	u8 left_round;
	/* Whether the thread, which is parked, waits in QUEUE_PASSING; and whether it rests: it holds no lock
	 * of the kernel, so it stays parked for longer (release.bpf.h). */
	u8 passes;
	u8 rests;
	/* How often the thread had a CPU for moments since it was last known to be outside the kernel; and
	 * how it passes a CPU now. */
	u16 stays;
	u16 passed;
	/* The time from which on the parked thread may pass a CPU; its run time when it was parked, ns; and
	 * its order before that (0: it is not parked). */
	u64 passes_ns;
	u64 parked_ran_ns;
	u64 parked_key;
	/* The slot of the thread's reservation, plus 1 (0: it has none), and the value of reserve_round when
	 * this was looked up. */
	u32 reserved;
	u32 reserve_round;
	/* For a thread of a shared server: its run time when it last went to sleep, ns; 0: not known. */
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

/* The number of tasks that wait in each queue, or a number that is too high. A count goes up before its task
 * goes in, so a queue with a count of 0 is empty. Kernels before 7.1 do not report when they take a task out
 * because its nice value or affinity changes. Housekeeping corrects a count that is too high. */
u32 queued[SPRY_PLACES_MAX * QUEUES] __attribute__((aligned(64)));

/* The order of the first task of each queue; 0 where it is not known. */
u64 first[SPRY_PLACES_MAX * QUEUES];

/* The number of reservations now, and whether there ever were any. Until then no code looks for them. */
u32 reserved_all;
u32 reserved_ever;

/* Counted up by the daemon when verdicts have changed. Threads then look up their nodes again, and CPUs
 * forget the orders that they remember. */
volatile u32 verdict_round = 1;

/*
 * Events after which waiting tasks may belong to a higher class. The daemon counts `classes` up, after
 * verdict_round, when it has changed classes. `work` counts the times at which a process in use gave the
 * kernel work. `heeded` has the values up to which CPUs have acted. Each decision compares both fields as one
 * word, since it must be quick.
 */
struct news {
	u32 classes;
	u32 work;
} __attribute__((aligned(8)));
volatile struct news news;
struct news heeded;

/* The location at which a task waits or a CPU decides: the CPU, its last-level cache, and a place. */
struct where {
	s32 cpu;
	u32 llc;
	/* The place in which the task waits. */
	u32 place;
};

static __always_inline struct cpu_ctx *cpu_at(s32 cpu)
{
	return &cpus[cpu & (SPRY_CPUS_MAX - 1)];
}

/* Returns `value` after a write to memory and a read. The verifier then has no bounds of the value, and
 * checks the following code once, not once for each constant that the value can be. Only for programs that no
 * interrupt interrupts. */
static __always_inline u64 through_memory(u64 value)
{
	volatile u64 *passed = &cpu_at(nr_cpus > 1 ? bpf_get_smp_processor_id() : 0)->passed;

	*passed = value;
	return *passed;
}

/* The entry in which a CPU remembers a task's order, by the task's number. Tasks that wake each other were
 * mostly created one after the other, so their entries differ. With addresses instead of numbers, one pair of
 * eight would share an entry. */
static __always_inline struct recent *recent_of(struct cpu_ctx *c, const struct task_struct *p)
{
	return &c->recent[p->pid & (SPRY_RECENT - 1)];
}

/* Makes a CPU forget a task's order, so that the task is charged when its order is next computed. */
static __always_inline void forget_recent(struct cpu_ctx *c, const struct task_struct *p)
{
	struct recent *recent = recent_of(c, p);

	if (recent->task == (u64)p)
		recent->task = 0;
}

/* The domain of a cache, a CPU or a set of CPUs, by its number. */
static __always_inline struct llc_ctx *llc_at(u32 domain)
{
	return &llcs[domain & (SPRY_PLACES_MAX - 1)];
}

/* The number of a CPU's last-level cache, which is also the number of the cache's place. */
static __always_inline u32 llc_of(s32 cpu)
{
	return nr_llcs > 1 ? cpu_llc[cpu & (SPRY_CPUS_MAX - 1)] : 0;
}

/* The place where a CPU decides: that of its cache. */
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

/* The counts of all queues of a place. */
static __always_inline const u32 *counts_of(u32 place)
{
	return &queued[(place & (SPRY_PLACES_MAX - 1)) * QUEUES];
}

/* Not 0 if tasks wait in any queue of a place below RESERVED, but OTHER's. Each two counts are read as one
 * word. */
static __always_inline u64 besides_other(const u32 *counts)
{
	_Static_assert(SPRY_CLASS_KTHREAD == SPRY_CLASS_DAEMON + 1 && SPRY_CLASS_DAEMON % 2 == 0, "one word");
	_Static_assert(QUEUE_PASSING == SPRY_CLASS_IDLE + 1 && SPRY_CLASS_IDLE % 2 == 0, "one word");

	return *(const u64 *)&counts[SPRY_CLASS_DAEMON] | *(const u64 *)&counts[SPRY_CLASS_IDLE] |
	       counts[SPRY_CLASS_INTERACTIVE];
}

static __always_inline u64 *first_at(u32 place, u32 queue)
{
	return &first[(place * QUEUES + queue) & (SPRY_PLACES_MAX * QUEUES - 1)];
}

static __always_inline u64 dsq_at(u32 place, u32 queue)
{
	return place * QUEUES + queue + 1;
}

/* Whether a CPU serves the places of any sets of CPUs. */
static __always_inline bool has_masks(const struct where *at)
{
	return nr_cpus > 2 && cpu_at(at->cpu)->masks_count;
}

/* The place of the set that has this number among the sets that a CPU serves. Without such a set,
 * the CPU's own place. */
static __always_inline u32 place_of_set(u32 cpu, u32 number)
{
	struct cpu_ctx *c = cpu_at(cpu);
	u32 place = c->masks[number & (MASKS_OF_CPU - 1)];

	return number < c->masks_count && place ? place : place_of_cpu(cpu);
}

/* The functions that follow are global, since the verifier checks a global function only once and not again
 * in each state of its callers. */

/* The number of tasks of a class in the places of the sets of CPUs (mask.bpf.h) that a CPU serves. */
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

/* The number of tasks that wait in a class' queues, in the places of a CPU's cache, of the CPU and of its
 * sets. It may be too high. */
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

/* The number of tasks that wait in a class' queues that a CPU serves, as the kernel counts them: for callers
 * that need the right number. The places of sets have only the scheduler's own counts. */
static __always_inline u32 really_waiting(const struct where *at, u32 queue)
{
	s32 count = scx_bpf_dsq_nr_queued(dsq_at(at->llc, queue));

	if (nr_cpus > 1)
		count += scx_bpf_dsq_nr_queued(dsq_at(place_of_cpu(at->cpu), queue));
	if (has_masks(at))
		count += waiting_in_sets(at->cpu, queue);
	return count > 0 ? count : 0;
}

/* Whether a task of a class above OTHER that a CPU could take is waiting. It waits in a place that the CPU
 * serves, or in a place of another cache. */
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

/* Whether tasks of DAEMON, KTHREAD or INTERACTIVE wait in a place. Two counts are read as one word, since
 * this is called at each switch. */
static __always_inline bool has_above(u32 place)
{
	_Static_assert(SPRY_CLASS_KTHREAD == SPRY_CLASS_DAEMON + 1 && SPRY_CLASS_DAEMON % 2 == 0, "one word");

	return *(u64 *)queued_at(place, SPRY_CLASS_DAEMON) || *queued_at(place, SPRY_CLASS_INTERACTIVE);
}

/* Whether tasks of DAEMON, KTHREAD or INTERACTIVE wait in the places of the sets that a CPU serves. */
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

/* Whether a task of DAEMON, KTHREAD or INTERACTIVE that a CPU could take is waiting. It waits in a place that
 * the CPU serves, or in a place of another cache. */
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

/* The context of a thread; NULL if it has none. */
static __always_inline struct thread_ctx *find_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

/* The context of a thread, which is made if there is none; NULL without memory for it. */
static __always_inline struct thread_ctx *make_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* A task's order is one word, its dsq_vtime: the class in the highest byte, the order within the class in the
 * other bytes. The lowest order goes first. */
#define KEY_SHIFT     56
#define KEY_LOW	      ((1ull << KEY_SHIFT) - 1)
#define KEY(class, x) ((u64)(class) << KEY_SHIFT | ((x) & KEY_LOW))

/* The class in an order; OTHER if the task was never ordered by a class. */
static __always_inline u32 key_class(u64 key)
{
	u32 class = key >> KEY_SHIFT;

	return class == SPRY_CLASS_NONE || class > SPRY_CLASS_IDLE ? SPRY_CLASS_OTHER : class;
}

/* Virtual times are in units of 64 ns, and so are the times in orders of classes that are first
 * come, first served. */
#define VTIME_UNIT_SHIFT 6

static __always_inline u64 at_most(u64 value, u64 most)
{
	return value > most ? most : value;
}

/* The larger of two values, compared as virtual times, which may wrap around. */
static __always_inline u64 at_least(u64 vtime, u64 least)
{
	return (s64)(vtime - least) < 0 ? least : vtime;
}

static __always_inline struct task_struct *running_on(s32 cpu)
{
	return nr_cpus > 1 ? current_of(cpu) : bpf_get_current_task_btf();
}

/* Run time of a task up to now, ns. The kernel updates its count at ticks and switches. For the task that
 * runs on this CPU, the time since the last update is added. */
static __always_inline u64 ran_until_now(struct task_struct *p)
{
	s64 since_ns = 0;

	if (p == bpf_get_current_task_btf())
		since_ns = task_clock_now() - p->se.exec_start;
	return p->se.sum_exec_runtime + (since_ns > 0 ? since_ns : 0);
}

#endif
