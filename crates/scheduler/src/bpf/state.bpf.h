/* SPDX-License-Identifier: GPL-2.0-only */
/* What the scheduler keeps: of each CPU, each last-level cache, each thread, each queue. */
#ifndef SPRY_STATE_BPF_H
#define SPRY_STATE_BPF_H

#define SPRY_CPUS_MAX 512
/* Queues are in places: one a last-level cache, and one a CPU for tasks that can be nowhere else. */
#define SPRY_PLACES_MAX (2 * SPRY_CPUS_MAX)

/* The queues of a place, in the order of classes. The interactive class has two: see class_interactive.bpf.h.
 */
enum spry_queue {
	QUEUE_DAEMON = 0,
	QUEUE_KTHREAD = 1,
	QUEUE_INTERACTIVE = 2,
	QUEUE_OTHER = 4,
	QUEUE_IDLE = 5,
	/* Those whose cgroup has spent what it may have: see limit.bpf.h. No CPU serves it. */
	QUEUE_PARKED = 6,
	QUEUES = 8,
};

#define MS (1000 * 1000ull)

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
	/* What the timer was set for; 0: it is of no interest any more. */
	u64 timer_ns;
	/* Who was ordered when this CPU last asked whom to run, and gives way: what enqueueing it will need.
	 */
	struct {
		u64 task;
		u64 ran_ns;
		u64 key;
		u64 slice_ns;
		u32 queue;
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
	/* See holder.bpf.h. */
	u32 has;
	u32 sent;
	u32 missed_puts;
	u32 looks;
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
	/* What a short turn costs a task whose run time is not known, in the same units. */
	u64 turn;
	/* Whether tasks of OTHER waited behind a higher class when housekeeping was done. */
	u64 waits;
	/* Tasks that were put into queues: above OTHER, and others; see holder.bpf.h. */
	u32 puts[2];
} __attribute__((aligned(64)));

/* A thread that has run for a while, or is spoken of by a verdict. Others have none: what is short costs
 * nothing. */
struct thread_ctx {
	/* Its process' node, and in which round that was looked up. */
	spry_ref node;
	u32 round;
	/* Run time that has been charged, and time waited that has been counted, ns. */
	u64 charged_ns;
	u64 waited_ns;
	/* OTHER: its virtual time, units of 64 ns. */
	u64 vtime;
	/* INTERACTIVE: what is left of the quantum, the quantum, and the epoch that it is of. */
	u64 left_ns;
	u64 quantum_ns;
	u32 epoch;
	/* The class that it was last ordered by. */
	u8 class;
	u8 level;
	/* What is left was its parent's: nothing comes after it. */
	u8 inherited;
	u8 pad;
	/* Its cgroup's slot and the weight that is counted there; see cgroup.bpf.h. */
	u32 slot;
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
 * Tasks in each queue, or more: the kernel takes tasks out without a word when their nice value or affinity
 * changes. Counted up before a task goes in, so that a queue that counts nobody is empty; housekeeping takes
 * away what is too much.
 */
u32 queued[SPRY_PLACES_MAX * QUEUES];

/* The order of the first task of a queue, where that is known; 0 where it is not. */
u64 first[SPRY_PLACES_MAX * QUEUES];

/* Counted up by the daemon when verdicts have changed. */
volatile u32 verdict_round = 1;

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

static __always_inline u32 waiting(const struct where *at, u32 queue)
{
	u32 count = *queued_at(at->llc, queue);

	if (nr_cpus > 1)
		count += *queued_at(place_of_cpu(at->cpu), queue);
	return count;
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

/* Whether a task of any class above OTHER waits. */
static __always_inline bool any_above(const struct where *at)
{
	return any(at, QUEUE_DAEMON) || any(at, QUEUE_KTHREAD) || any(at, QUEUE_INTERACTIVE) ||
	       any(at, QUEUE_INTERACTIVE + 1);
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

#endif
