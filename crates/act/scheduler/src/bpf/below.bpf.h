/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A class below a busy class has turns nonetheless: together they are a share of the time. The share is
 * divided into turns of such a length that each waiting task has one in time. Where so many tasks wait that
 * turns cannot become shorter, the turns exceed the share.
 */
#ifndef SPRY_BELOW_BPF_H
#define SPRY_BELOW_BPF_H

#include "state.bpf.h"

/* The time from the begin of a lower class' turn to the begin of its next turn, if the first of them was used
 * to its end, ns. */
static __always_inline u64 below_period(u32 count)
{
	u64 all_ns = count <= few_tasks ? age_few_ns : age_many_ns;
	u64 most_ns = below_slice_ns * 100 / (share_percent ?: 1);
	u64 each_ns = count ? all_ns / count : all_ns;

	return each_ns < most_ns ? each_ns : most_ns;
}

static __always_inline u64 below_slice(u64 period_ns)
{
	u64 slice_ns = period_ns * share_percent / 100;

	return slice_ns > below_slice_least_ns ? slice_ns : below_slice_least_ns;
}

/* The time from the end of a lower class' turn to the begin of its next turn, ns. However many tasks wait,
 * the classes above have half of the time. */
static __always_inline u64 below_interval(u64 period_ns)
{
	u64 slice_ns = below_slice(period_ns);

	return period_ns > 2 * slice_ns ? period_ns - slice_ns : slice_ns;
}

/*
 * The longest time from the end of a turn to the begin of the next turn, ns. Where there are no timers a turn
 * lasts until a tick, however short it was meant to be. Then the classes above are given back what the turn
 * took too much, as long as each waiting task still has a turn in time. Tasks of IDLE may wait longer.
 */
static __always_inline u64 below_pause_most(u32 which, u32 count, u64 used_ns, u64 interval_ns)
{
	u64 all_ns = which == BELOW_OTHER && count <= few_tasks ? age_few_ns : age_many_ns;
	u64 each_ns = count ? all_ns / count : all_ns;

	if (has_timers || each_ns < used_ns + interval_ns)
		return interval_ns;
	return each_ns - used_ns;
}

/* Whether a turn of a lower class is due. A CPU asks this whenever it decides while tasks of the lower class
 * wait, `count` of them, behind a higher class. */
static __always_inline bool below_due(struct below *b, u64 now, u32 which, u32 count, u64 interval_ns)
{
	if (b->began_ns) {
		/* Time that the last turn left unused is given back: the next turn comes earlier. */
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
