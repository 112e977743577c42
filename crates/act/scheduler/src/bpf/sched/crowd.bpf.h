/* SPDX-License-Identifier: GPL-2.0-only */
/* Slices where many tasks wait for a CPU. */
#ifndef SPRY_CROWD_BPF_H
#define SPRY_CROWD_BPF_H

#include "cgroup.bpf.h"
#include "queue.bpf.h"
#include "timer.bpf.h"

/* If there are groups, the slices of all tasks that wait for a CPU take at most GROUPS_ALL_NS together, and
 * each takes at least GROUPS_EACH_NS. */
#define GROUPS_ALL_NS  (200 * MS)
#define GROUPS_EACH_NS (MS / 4)

/* The slice of a task of OTHER while others wait for its CPU, ns: the quantum that the daemon
 * has set, or 3 ms. */
static __always_inline u64 quantum_of_other(void)
{
	return tuning.quantum_ns ?: slice_other_ns;
}

/* Sets the CPU's timer to the end of a slice of at most `slice_ns`. Without the timer, a slice that begins
 * between two ticks would end late, by up to a tick. With very many waiting tasks the slice is shorter, so
 * that each task has a slice in time. */
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
