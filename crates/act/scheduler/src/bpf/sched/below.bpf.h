/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns: the share of the CPU that a class has while a higher class keeps it waiting.
 *
 * Purpose: no task starves below a busy class, and the kernel's watchdog does not end the scheduler.
 *
 * Rule: the turns of OTHER and of IDLE have 5 % of the time each (share_percent). The more tasks wait, the
 * shorter and more frequent turns are. So each waiting task has a turn in time: within 0.4 s for up to 120
 * tasks, else within 4.5 s. A turn that ends early lets the next turn begin earlier.
 *
 * Bound: a turn is 0.1 ms long at least and 2 ms at most. With so many tasks that turns cannot become
 * shorter, turns exceed their share. The higher classes have half of the time even then.
 *
 * Difference from the thesis: its classes have a strict order, without turns.
 */
#ifndef SPRY_BELOW_BPF_H
#define SPRY_BELOW_BPF_H

#include "state.bpf.h"

/* The time from the begin of a turn to the begin of the next one, ns, if the first is used to its end.
 * `count` tasks of the class wait. */
static __always_inline u64 below_period(u32 count)
{
	u64 all_ns = count <= few_tasks ? age_few_ns : age_many_ns;
	u64 most_ns = below_slice_ns * 100 / (share_percent ?: 1);
	u64 each_ns = count ? all_ns / count : all_ns;

	return each_ns < most_ns ? each_ns : most_ns;
}

/* The length of a turn, ns. */
static __always_inline u64 below_slice(u64 period_ns)
{
	u64 slice_ns = period_ns * share_percent / 100;

	return slice_ns > below_slice_least_ns ? slice_ns : below_slice_least_ns;
}

/* The time from the end of a turn to the begin of the next one, ns. However many tasks wait, the higher
 * classes have half of the time. */
static __always_inline u64 below_interval(u64 period_ns)
{
	u64 slice_ns = below_slice(period_ns);

	return period_ns > 2 * slice_ns ? period_ns - slice_ns : slice_ns;
}

/* The longest time from the end of a turn to the begin of the next one, ns. On kernels without timers a turn
 * lasts until a tick, even if it should be shorter. The higher classes then get the excess back, as long as
 * each waiting task still has a turn in time. Tasks of IDLE may wait longer. */
static __always_inline u64 below_pause_most(u32 which, u32 count, u64 used_ns, u64 interval_ns)
{
	u64 all_ns = which == BELOW_OTHER && count <= few_tasks ? age_few_ns : age_many_ns;
	u64 each_ns = count ? all_ns / count : all_ns;

	if (has_timers || each_ns < used_ns + interval_ns)
		return interval_ns;
	return each_ns - used_ns;
}

/* Whether a turn of a lower class is due. A CPU calls this at each decision while `count` tasks of the class
 * wait behind a higher class. */
static __always_inline bool below_due(struct below *b, u64 now, u32 which, u32 count, u64 interval_ns)
{
	if (b->began_ns) {
		/* A turn was under way and ends with this decision. The less of it was used, the earlier the
		 * next turn is due. */
		u64 used_ns = now - b->began_ns;
		u64 next_ns = used_ns * (100 - share_percent) / (share_percent ?: 1);
		u64 most_ns = below_pause_most(which, count, used_ns, interval_ns);

		b->began_ns = 0;
		b->due_ns = now + (next_ns < most_ns ? next_ns : most_ns);
	}
	if (!b->due_ns) {
		b->since_ns = now;
		b->due_ns = now + interval_ns;
	}
	return (s64)(now - b->due_ns) >= 0;
}

#endif
