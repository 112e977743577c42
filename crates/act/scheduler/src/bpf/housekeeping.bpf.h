/* SPDX-License-Identifier: GPL-2.0-only */
/* Housekeeping: from time to time it corrects the counts of queues, and how far ahead tasks of small weight
 * may be put. */
#ifndef SPRY_HOUSEKEEPING_BPF_H
#define SPRY_HOUSEKEEPING_BPF_H

#include "below.bpf.h"
#include "mask.bpf.h"
#include "release.bpf.h"
#include "table.bpf.h"

/* For each queue: the least error of its count since the count was last right, positive if the count was too
 * high; and how often the error was seen again. */
static struct {
	s32 least;
	u32 again;
} wrongs[SPRY_PLACES_MAX * QUEUES];

/* By how many tasks the counts of queues were wrong. On one CPU, where the kernel tells of each task that is
 * taken out, this stays 0; on several CPUs a task may be taken out while another CPU takes it. */
u64 miscounted;

/*
 * Corrects the count of a queue. A task is counted before it is in its queue, so the count may be too high by
 * one for each CPU that is just putting a task in; with one CPU it is not, since this function runs there. An
 * error that is seen again and again is corrected. A count that is too low would keep its tasks waiting for
 * ever. Returns the length of the longest queue so far.
 */
static __always_inline u32 recount(u32 place, u32 queue, u32 longest)
{
	u32 index = (place * QUEUES + queue) & (SPRY_PLACES_MAX * QUEUES - 1),
	    *count = queued_at(place, queue);
	s32 seen = *(volatile u32 *)count, there = scx_bpf_dsq_nr_queued(dsq_at(place, queue));
	s32 later = *(volatile u32 *)count, on_the_way = nr_cpus > 1 ? nr_cpus : 0, wrong, least;

	/* A task that came or went between the two looks does not make the count too low. */
	if (later > seen)
		seen = later;
	wrong = there < 0 ? 0 : seen - there;
	if (there > (s32)longest)
		longest = there;
	least = wrongs[index].least;
	if (!wrong || !least || (wrong > 0) != (least > 0)) {
		wrongs[index].least = wrong;
		wrongs[index].again = 0;
		return longest;
	}
	if (wrong > 0 ? wrong < least : wrong > least)
		wrongs[index].least = least = wrong;
	wrongs[index].again++;
	if (least < 0) {
		__sync_fetch_and_add(count, -least);
	} else if (least > on_the_way) {
		least -= on_the_way;
		__sync_fetch_and_sub(count, least);
	} else if (wrongs[index].again >= (says_what_is_taken_out() ? 10 : 3)) {
		__sync_fetch_and_sub(count, least);
	} else {
		return longest;
	}
	miscounted += least > 0 ? least : -least;
	wrongs[index].least = 0;
	*first_at(place, queue) = 0;
	return longest;
}

/* The value of weights_round when the waiting tasks were last looked at. */
static u32 weights_seen;

/* How many tasks were pulled back. The number is in memory, since the verifier would go through each value of
 * a local variable. */
static u32 pulled;

/* How far ahead of its class a task may stay, units of 64 ns. */
static __always_inline u64 stays_ahead(struct task_struct *p, struct thread_ctx *t, const struct llc_ctx *l,
				       u32 is_reweighted)
{
	u64 ahead = ahead_of_class(l, t);

	return is_reweighted ? at_most(ahead, other_charge(p, t, slice_other_ns)) : ahead;
}

/*
 * Pulls back tasks that were put further ahead than the class now gets in a while, since the class got more
 * when they were put: they would wait until all other tasks have come as far. In a crowd that is kept waiting
 * they go behind the next task, since one more round of all tasks would be too late. Where weights have
 * changed, a task is at most as far ahead as its last turn counts now. The tasks keep their order: the last
 * that had a turn stays the last.
 */
__noinline int pull_back(u32 place, u32 domain, u32 is_kept, u32 is_reweighted)
{
	struct llc_ctx *l = llc_at(domain);
	u64 most = l->vtime + l->ahead, to = most;
	struct task_struct *p;

	if (!*queued_at(place, SPRY_CLASS_OTHER))
		return 0;
	if (is_kept && *queued_at(place, SPRY_CLASS_OTHER) > few_tasks)
		to = l->vtime;
	if (is_reweighted)
		most = at_most(most, l->vtime + (slice_other_ns >> VTIME_UNIT_SHIFT));
	pulled = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_OTHER), SCX_DSQ_ITER_REV)
	{
		struct thread_ctx *t;
		u32 here = place;
		u64 vtime, stays = l->ahead;

		/* The verifier forgets bounds that were found before the loop. */
		barrier_var(here);
		if (p->scx.dsq_vtime <= KEY(SPRY_CLASS_OTHER, most) || pulled >= pulled_most)
			break;
		pulled++;
		t = find_thread(p);
		if (t)
			stays = stays_ahead(p, t, l, is_reweighted);
		if (p->scx.dsq_vtime <= KEY(SPRY_CLASS_OTHER, l->vtime + stays))
			continue;
		vtime = at_most(to, l->vtime + stays) - pulled;
		if (t)
			t->vtime = vtime;
		__COMPAT_scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, KEY(SPRY_CLASS_OTHER, vtime));
		__COMPAT_scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_at(here, SPRY_CLASS_OTHER), 0);
	}
	*first_at(place, SPRY_CLASS_OTHER) = 0;
	return 0;
}

/*
 * Without timers, turns end at ticks: with thousands of tasks some would wait longer than the watchdog
 * allows, and a turn of a class below a task in use would be a tick long. Then threads of the daemon wake
 * after each time of this length (ns), and each wake-up makes the thread's CPU decide. 0: ticks are enough.
 */
u32 beat_ns;

/* Each task of the longest queue is to have a turn within BEAT_ALL_NS, a third of the watchdog's time. The
 * shortest and the longest time between two wake-ups follow. */
#define BEAT_ALL_NS   (10 * 1000 * MS)
#define BEAT_LEAST_NS (MS / 5)
#define BEAT_MOST_NS  (MS / 2)

/* Sets how often threads of the daemon wake. `longest` is the length of the longest queue, `waits` says
 * whether any tasks are kept waiting behind a higher class. */
static __always_inline void set_beat(u32 longest, bool waits)
{
	u64 each_ns;

	if (has_timers)
		return;
	if (longest <= (waits ? some_tasks : crowd)) {
		beat_ns = 0;
		return;
	}
	each_ns = at_most(BEAT_ALL_NS / (longest ?: 1), BEAT_MOST_NS);
	beat_ns = each_ns < BEAT_LEAST_NS ? BEAT_LEAST_NS : each_ns;
}

/* Whether tasks of OTHER have waited on a CPU behind a higher class for `least_ns`. */
static __always_inline bool is_kept_on(s32 cpu, u64 now, u64 least_ns)
{
	struct below *b = &cpu_at(cpu)->below[BELOW_OTHER];

	return b->due_ns && (s64)(now - b->since_ns) >= (s64)least_ns;
}

/* The same on any CPU of a domain. */
static __always_inline bool is_kept_waiting(u32 domain, u64 now, u64 least_ns)
{
	u32 cpu;

	/* The tasks of a set wait as those of the cache do. */
	if (domain >= place_of_mask(0))
		return llc_at(llc_at(domain)->cache)->waits;
	if (is_apart(domain))
		return is_kept_on(domain - place_of_cpu(0), now, least_ns);
	bpf_for(cpu, 0, nr_cpus)
	{
		if (llc_of(cpu) == domain && is_kept_on(cpu, now, least_ns))
			return true;
	}
	return false;
}

/* Sets how far behind and ahead of its domain a task may be until the next housekeeping. Returns whether the
 * domain's tasks are kept waiting behind a higher class. */
__noinline u32 keep_domain(u32 domain, u64 now, u32 is_reweighted)
{
	struct llc_ctx *l = llc_at(domain);
	u64 come = l->vtime - l->vtime_before;
	u32 place = domain & (SPRY_PLACES_MAX - 1), count = *queued_at(place, SPRY_CLASS_OTHER);
	u64 least = ahead_least, turn = below_slice(below_period(count)) >> VTIME_UNIT_SHIFT;
	bool is_many = count > some_tasks;
	/* A kernel thread that runs for a moment does not keep a crowd waiting. */
	bool waits = is_kept_waiting(domain, now, is_many ? kept_waiting_ns : 0);

	l->vtime_before = l->vtime;
	/* Where the class has the CPU and many tasks wait, a smaller limit would make all of them alike. */
	if (count && !waits)
		least += age_many_ns / count >> VTIME_UNIT_SHIFT;
	if (waits && least < turn)
		least = turn;
	/* No task may have several turns before every other task has had its first one. */
	l->lag = waits || count > few_tasks ? LAG_SHORT : slice_other_ns >> VTIME_UNIT_SHIFT;
	/* If the class was put below a busy class since the last housekeeping, it gets only its share from
	 * now on. */
	if (waits && !l->waits && is_many)
		come = come * share_percent / 100;
	l->waits = waits;
	/* If no task waits, no task is kept waiting. */
	if (come > ahead_most || !count)
		come = ahead_most;
	l->ahead = come < least ? least : come;
	pull_back(place, domain, waits, is_reweighted);
	return waits;
}

static __always_inline void keep_counts(u64 now)
{
	u32 i, round = weights_round, longest = 0;
	bool is_reweighted = round != weights_seen, any_waits = false;

	early_ns = 0;
	weights_seen = round;
	bpf_for(i, 0, nr_llcs) any_waits |= keep_domain(i, now, is_reweighted);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) any_waits |=
		keep_domain(place_of_cpu(i), now, is_reweighted);
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX : 0) keep_domain(place_of_mask(i), now, is_reweighted);
	bpf_for(i, 0, nr_cpus * QUEUES)
	{
		u32 place = i / QUEUES, queue = i % QUEUES;

		if (place < nr_llcs)
			longest = recount(place, queue, longest);
		if (nr_cpus > 1)
			longest = recount(place_of_cpu(place), queue, longest);
	}
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX * QUEUES : 0) longest =
		recount(place_of_mask(i / QUEUES), i % QUEUES, longest);
	set_beat(longest, any_waits);
	masks_housekeep();
}

/* For kernels without timers: does housekeeping when a decision comes after the time for it. */
static __always_inline void keep_house_in_passing(void)
{
	u64 now = scx_bpf_now(), kept = kept_ns;

	if (!housekeeping_in(now) && __sync_bool_compare_and_swap(&kept_ns, kept, now))
		keep_counts(now);
}

/* The longest time for which housekeeping kept its CPU, ns. */
u64 housekeeping_longest_ns;

static int housekeep(void *map, u32 *key, struct sched_timer *timer)
{
	u64 now = scx_bpf_now(), began_ns = bpf_ktime_get_ns(), next_ns, again_ns, took_ns;

	if (!housekeeping_in(now)) {
		kept_ns = now;
		keep_counts(now);
	}
	next_ns = housekeeping_in(now);
	if (cgroups_limited || parking_looks) {
		again_ns = limits_keep(now);
		next_ns = at_most(next_ns, again_ns);
	}
	bpf_timer_start(&timer->timer, next_ns, 0);
	took_ns = bpf_ktime_get_ns() - began_ns;
	if (took_ns > housekeeping_longest_ns)
		housekeeping_longest_ns = took_ns;
	return 0;
}

static __always_inline int init_timers(void)
{
	struct sched_timer *timer;
	u32 i, last = SPRY_CPUS_MAX;
	int error;

	if (!has_timers)
		return 0;
	bpf_for(i, 0, nr_cpus)
	{
		timer = bpf_map_lookup_elem(&timers, &i);
		if (!timer)
			return -ENOENT;
		error = bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
		if (error)
			return error;
		bpf_timer_set_callback(&timer->timer, cpu_timer_fired);
	}
	timer = bpf_map_lookup_elem(&timers, &last);
	if (!timer)
		return -ENOENT;
	error = bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	if (error)
		return error;
	bpf_timer_set_callback(&timer->timer, housekeep);
	return bpf_timer_start(&timer->timer, housekeeping_ns, 0);
}

void BPF_STRUCT_OPS(spry_dump, struct scx_dump_ctx *context)
{
	u32 i;

	bpf_for(i, 0, nr_llcs) scx_bpf_dump(
		"cache %u: queued %u %u %u %u %u, vtime %llu\n", i, *queued_at(i, SPRY_CLASS_DAEMON),
		*queued_at(i, SPRY_CLASS_KTHREAD), *queued_at(i, SPRY_CLASS_INTERACTIVE),
		*queued_at(i, SPRY_CLASS_OTHER), *queued_at(i, SPRY_CLASS_IDLE), llc_at(i)->vtime);
}

#endif
