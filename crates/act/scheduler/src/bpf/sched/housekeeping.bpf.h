/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Housekeeping: each 200 ms, or a little earlier on demand, it brings the scheduler's counts and
 * limits up to date.
 *
 * It corrects the counts of queues. It sets the limits for the distance of a task of OTHER behind and ahead
 * of its class. It pulls back tasks that are too far ahead. It frees the places of unused sets of CPUs. A
 * timer runs it; on kernels without timers, decisions do.
 */
#ifndef SPRY_HOUSEKEEPING_BPF_H
#define SPRY_HOUSEKEEPING_BPF_H

#include "below.bpf.h"
#include "mask.bpf.h"
#include "release.bpf.h"
#include "table.bpf.h"

/* For each queue: the least error of its count since the count was last right, positive if the count was too
 * high. Then the number of times that an error was seen again since. */
static struct {
	s32 least;
	u32 again;
} wrongs[SPRY_PLACES_MAX * QUEUES];

/* The sum of the errors that were corrected, in tasks. It stays 0 on one CPU, where the kernel reports each
 * task that it takes out. On several CPUs a task may be taken out while another CPU takes it. */
u64 miscounted;

/*
 * Corrects the count of a queue, if the same error is seen again and again. A task is counted before it is in
 * its queue, so the count may be too high by one for each CPU. With one CPU it is not, since this function
 * runs there. A count that is too low would make its tasks wait for ever. Returns the larger of `longest` and
 * the queue's length.
 */
static __always_inline u32 recount(u32 place, u32 queue, u32 longest)
{
	u32 index = (place * QUEUES + queue) & (SPRY_PLACES_MAX * QUEUES - 1),
	    *count = queued_at(place, queue);
	s32 seen = *(volatile u32 *)count, there = scx_bpf_dsq_nr_queued(dsq_at(place, queue));
	s32 later = *(volatile u32 *)count, on_the_way = nr_cpus > 1 ? nr_cpus : 0, wrong, least;

	/* The greater of the two readings counts, so a task that came or left between them does not make the
	 * count look too low. */
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

/* The value of weights_round at the last housekeeping; and the free place of a set that it looks at. */
static u32 weights_seen, masks_look;

/* For each place: the number of tasks that the current housekeeping may still pull back there; 0 if it is
 * done there. It is in memory, since the verifier would follow each value of a local variable separately.
 * Then whether any place is not done, and whether weights had changed before the current housekeeping. */
static u32 pulls[SPRY_PLACES_MAX];
u32 pulls_on, is_reweighted;

/* The limit for the distance ahead of its class at which a waiting task may stay, units of 64 ns. If weights
 * have changed, the limit is at most the task's present charge for one slice. */
static __always_inline u64 stays_ahead(struct task_struct *p, struct thread_ctx *t, const struct llc_ctx *l)
{
	u64 ahead = ahead_of_class(l, t);

	return is_reweighted ? at_most(ahead, other_charge(p, t, slice_other_ns)) : ahead;
}

/*
 * Pulls back waiting tasks of OTHER that are further ahead of the class than the limit now allows.
 *
 * The limit was greater when they were put into the queue, since the class had more of the CPU then. They
 * would wait until all other tasks have come as far. If a crowd is kept waiting behind a higher class, its
 * tasks are put at the class' virtual time. One more round of all tasks would be too late. If weights have
 * changed, a task stays ahead by at most its present charge for one slice. The tasks keep their order.
 *
 * When the current run has taken its time, it leaves the other tasks to the next run.
 */
__noinline int pull_back(u32 place, u32 domain, u32 is_kept)
{
	struct llc_ctx *l = llc_at(domain);
	u64 most = l->vtime + l->ahead, to = most;
	u32 is_cut = 0;
	struct task_struct *p;

	if (is_kept && *queued_at(place, SPRY_CLASS_OTHER) > few_tasks)
		to = l->vtime;
	if (is_reweighted)
		most = at_most(most, l->vtime + (slice_other_ns >> VTIME_UNIT_SHIFT));
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_OTHER), SCX_DSQ_ITER_REV)
	{
		struct thread_ctx *t;
		u32 here = place, *left;
		u64 vtime, stays = l->ahead;

		/* Inside the loop the verifier has lost the range of `place`. */
		barrier_var(here);
		left = &pulls[here & (SPRY_PLACES_MAX - 1)];
		if (p->scx.dsq_vtime <= KEY(SPRY_CLASS_OTHER, most) || !*left)
			break;
		if (is_round_over()) {
			is_cut = 1;
			break;
		}
		--*left;
		t = find_thread(p);
		if (t)
			stays = stays_ahead(p, t, l);
		if (p->scx.dsq_vtime <= KEY(SPRY_CLASS_OTHER, l->vtime + stays))
			continue;
		vtime = at_most(to, l->vtime + stays) - (pulled_most - *left);
		if (t)
			t->vtime = vtime;
		__COMPAT_scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, KEY(SPRY_CLASS_OTHER, vtime));
		__COMPAT_scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_at(here, SPRY_CLASS_OTHER), 0);
	}
	*first_at(place, SPRY_CLASS_OTHER) = 0;
	if (is_cut)
		pulls_on = 1;
	else
		pulls[place & (SPRY_PLACES_MAX - 1)] = 0;
	return 0;
}

/* Goes on to pull back the tasks of a place, if the last run of housekeeping left any. */
static __always_inline void pull_on(u32 place)
{
	u32 *left = &pulls[place & (SPRY_PLACES_MAX - 1)];

	if (!*left)
		return;
	if (*queued_at(place, SPRY_CLASS_OTHER))
		pull_back(place, place, llc_at(place)->waits);
	else
		*left = 0;
}

/* Goes on to pull back the tasks that the last run of housekeeping left. */
static __always_inline void pull_rest(void)
{
	u32 i;

	pulls_on = 0;
	bpf_for(i, 0, nr_llcs) pull_on(i);
	bpf_for(i, 0, nr_cpus) pull_on(place_of_cpu(i));
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX : 0) pull_on(place_of_mask(i));
}

/*
 * The time between two wake-ups of the thread that the daemon has for each CPU, ns; 0: no wake-ups are
 * needed. Only kernels without timers need them, where turns end at ticks.
 *
 * Each wake-up makes the thread's CPU decide, and so ends a turn. If only ticks ended turns, some of
 * thousands of tasks would wait longer than the kernel's watchdog allows. A turn of a class below a task in
 * use would last a whole tick.
 */
u32 beat_ns;

/* Each task of the longest queue shall have a turn within BEAT_ALL_NS, a third of the watchdog's time.
 * BEAT_LEAST_NS and BEAT_MOST_NS bound the time between two wake-ups. */
#define BEAT_ALL_NS   (10 * 1000 * MS)
#define BEAT_LEAST_NS (MS / 5)
#define BEAT_MOST_NS  (MS / 2)

/* Sets the interval at which threads of the daemon wake. `longest` is the length of the longest queue.
 * `waits`: whether a higher class keeps any tasks waiting. */
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

/* Whether tasks of OTHER have waited on a CPU behind a higher class, for `least_ns` or longer. */
static __always_inline bool is_kept_on(s32 cpu, u64 now, u64 least_ns)
{
	struct below *b = &cpu_at(cpu)->below[BELOW_OTHER];

	return b->due_ns && (s64)(now - b->since_ns) >= (s64)least_ns;
}

/* Whether tasks of OTHER of a domain have waited behind a higher class, on any CPU of the domain, for
 * `least_ns` or longer. */
static __always_inline bool is_kept_waiting(u32 domain, u64 now, u64 least_ns)
{
	u32 cpu;

	/* For a set of CPUs, the state of its cache counts. */
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

/* Sets the limits behind and ahead of a domain's class until the next housekeeping. Pulls back tasks that are
 * too far ahead. Returns whether a higher class keeps the domain's tasks waiting. */
__noinline u32 keep_domain(u32 domain, u64 now)
{
	struct llc_ctx *l = llc_at(domain);
	u64 come = l->vtime - l->vtime_before;
	u32 place = domain & (SPRY_PLACES_MAX - 1), count = *queued_at(place, SPRY_CLASS_OTHER);
	u64 least = ahead_least, turn = below_slice(below_period(count)) >> VTIME_UNIT_SHIFT;
	bool is_many = count > some_tasks;
	/* A kernel thread that runs for a moment does not keep a crowd waiting, so a crowd must
	 * have waited longer. */
	bool waits = is_kept_waiting(domain, now, is_many ? kept_waiting_ns : 0);

	l->vtime_before = l->vtime;
	/* While the class has the CPU, the limit is not too small. With a smaller limit, tasks of different
	 * weights would all stand at the limit. */
	if (count && !waits)
		least += age_many_ns / count >> VTIME_UNIT_SHIFT;
	if (waits && least < turn)
		least = turn;
	/* While turns are short, no task may have several turns before each other task has had its first
	 * turn. */
	l->lag = waits || count > few_tasks ? LAG_SHORT : slice_other_ns >> VTIME_UNIT_SHIFT;
	/* If a higher class has become busy since the last housekeeping, the class gets only its share from
	 * now on. So it will advance proportionally less. */
	if (waits && !l->waits && is_many)
		come = come * share_percent / 100;
	l->waits = waits;
	/* If no task waits, the limit is as large as it can be, since no task would have to wait for it. */
	if (come > ahead_most || !count)
		come = ahead_most;
	l->ahead = come < least ? least : come;
	pulls[place] = pulled_most;
	pull_on(place);
	return waits;
}

/* Whether housekeeping looks at the place of a set of CPUs. A free place has no tasks and no set, so only one
 * of these places has its turn each time. */
static __always_inline bool is_looked_at(u32 index)
{
	return mask_at(index)->state != MASK_FREE || mask_has_tasks(index) || index == masks_look;
}

/* Does all of housekeeping, but for the tasks that pull_rest() pulls back. */
static __always_inline void keep_counts(u64 now)
{
	u32 i, round = weights_round, longest = 0;
	bool any_waits = false;

	early_ns = 0;
	is_reweighted = round != weights_seen;
	weights_seen = round;
	pulls_on = 0;
	masks_look = (masks_look + 1) % MASKS_MAX;
	bpf_for(i, 0, nr_llcs) any_waits |= keep_domain(i, now);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) any_waits |= keep_domain(place_of_cpu(i), now);
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX : 0)
	{
		if (is_looked_at(i))
			keep_domain(place_of_mask(i), now);
	}
	bpf_for(i, 0, nr_cpus * QUEUES)
	{
		u32 place = i / QUEUES, queue = i % QUEUES;

		if (place < nr_llcs)
			longest = recount(place, queue, longest);
		if (nr_cpus > 1)
			longest = recount(place_of_cpu(place), queue, longest);
	}
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX * QUEUES : 0)
	{
		if (is_looked_at(i / QUEUES))
			longest = recount(place_of_mask(i / QUEUES), i % QUEUES, longest);
	}
	set_beat(longest, any_waits);
	masks_housekeep();
}

/* Housekeeping on kernels without timers: the first decision after the due time does it. */
static __always_inline void keep_house_in_passing(void)
{
	u64 now = scx_bpf_now(), kept = kept_ns;

	if (!housekeeping_in(now) && __sync_bool_compare_and_swap(&kept_ns, kept, now))
		keep_counts(now);
}

/* The longest run of housekeeping so far, ns. */
u64 housekeeping_longest_ns;

/* Whether the last run of housekeeping left the check of limits and parked tasks to the next run. */
static u32 limits_left;

/* Housekeeping's timer has fired: does housekeeping if it is due, and checks limits and parked tasks. On
 * several CPUs the next run checks them after a run that did housekeeping, so that no run takes the time of
 * both. Sets the timer again. */
static int housekeep(void *map, u32 *key, struct sched_timer *timer)
{
	u64 now = scx_bpf_now(), began_ns = bpf_ktime_get_ns(), next_ns, again_ns = RELEASE_AGAIN_NS, took_ns;
	bool is_due = !housekeeping_in(now), leaves = is_due && nr_cpus > 1 && !limits_left;

	round_ends_ns = began_ns + ROUND_MOST_NS;
	if (is_due) {
		kept_ns = now;
		keep_counts(now);
	} else if (pulls_on) {
		pull_rest();
	}
	next_ns = housekeeping_in(now);
	if (pulls_on)
		next_ns = at_most(next_ns, RELEASE_AGAIN_NS);
	if (cgroups_limited || parking_looks) {
		limits_left = leaves;
		if (!leaves)
			again_ns = limits_keep(now);
		next_ns = at_most(next_ns, again_ns);
	}
	bpf_timer_start(&timer->timer, next_ns, 0);
	took_ns = bpf_ktime_get_ns() - began_ns;
	if (took_ns > housekeeping_longest_ns)
		housekeeping_longest_ns = took_ns;
	return 0;
}

/* Initialises the timers of all CPUs, and starts housekeeping's. */
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
