/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is below a busy class has its turns nonetheless: a share of the time, which the turns divide into
 * lengths such that everybody who waits has one in time. Where there are so many that turns cannot be
 * shorter, they exceed the share.
 */
#ifndef SPRY_BELOW_BPF_H
#define SPRY_BELOW_BPF_H

#include "state.bpf.h"

/* From a turn's begin to the next one's, if it was used up, ns. */
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

/* From a turn's end to the next one. However many wait, what is above has half of the time. */
static __always_inline u64 below_interval(u64 period_ns)
{
	u64 slice_ns = below_slice(period_ns);

	return period_ns > 2 * slice_ns ? period_ns - slice_ns : slice_ns;
}

/* Whether it is the turn of what is below. Asked whenever a CPU decides while somebody waits there, and is
 * kept from it. */
static __always_inline bool below_due(struct below *b, u64 now, u64 interval_ns)
{
	if (b->began_ns) {
		/* What a turn left unused is given back: the next one comes earlier. */
		u64 next_ns = (now - b->began_ns) * (100 - share_percent) / (share_percent ?: 1);

		b->began_ns = 0;
		b->due_ns = now + (next_ns < interval_ns ? next_ns : interval_ns);
	}
	if (!b->due_ns) {
		b->since_ns = now;
		b->due_ns = now + interval_ns;
	}
	return (s64)(now - b->due_ns) >= 0;
}

#endif
