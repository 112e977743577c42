/* SPDX-License-Identifier: GPL-2.0-only */
/* How long slices are where many tasks wait for the CPU. */
#ifndef SPRY_CROWD_BPF_H
#define SPRY_CROWD_BPF_H

#include "cgroup.bpf.h"
#include "queue.bpf.h"
#include "timer.bpf.h"

/* Where there are groups, the slices of all waiting tasks together take at most GROUPS_ALL_NS, and one slice
 * takes at least GROUPS_EACH_NS. */
#define GROUPS_ALL_NS  (200 * MS)
#define GROUPS_EACH_NS (MS / 4)

/* How long a task of OTHER runs while others wait for its CPU, ns. */
static __always_inline u64 quantum_of_other(void)
{
	return tuning.quantum_ns ?: slice_other_ns;
}

/* Where more than a few tasks wait, slices end by the timer: a slice that begins between two ticks and ends
 * at a tick would end up to a tick late. In a crowd slices are shorter, so that each task has one in time. */
static __always_inline void in_time(const struct where *at, u32 queue, u64 slice_ns)
{
	u32 count = waiting(at, queue);
	u64 now = scx_bpf_now();

	if (count > crowd)
		count = really_waiting(at, queue);
	if (count)
		slice_ns = at_most(slice_ns, age_many_ns / count);
	if (cgroups_used && count)
		slice_ns = at_most(slice_ns, at_least(GROUPS_ALL_NS / count, GROUPS_EACH_NS));
	timer_set(at->cpu, cpu_at(at->cpu), now, now + slice_ns);
}

#endif
