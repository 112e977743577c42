/* SPDX-License-Identifier: GPL-2.0-only */
/* Edges: who waited for whom, how often, between two rounds of the daemon. */
#ifndef SPRY_EDGE_BPF_H
#define SPRY_EDGE_BPF_H

#include "alloc.bpf.h"

/* Puts an edge in that the node does not have; the rarest gives way. */
static __noinline int new_edge(u32 index, spry_ref on, u32 times)
{
	struct spry_node *node = bpf_map_lookup_elem(&nodes, &index);
	struct spry_collected *counts = counters();
	u64 least = ~0ull;
	u32 place = 0;

	if (!node || !counts)
		return 0;
	for (u32 i = 0; i < SPRY_EDGES_MAX; i++) {
		u64 edge = *(volatile u64 *)&node->edges[i];

		if (edge >> 32 < least >> 32) {
			least = edge;
			place = i;
		}
	}
	if (place >= SPRY_EDGES_MAX)
		return 0;
	/* One that was counted meanwhile, or taken, keeps its place. */
	if (__sync_val_compare_and_swap((u64 *)&node->edges[place], least, (u64)times << 32 | on) != least ||
	    least >> 32)
		__sync_fetch_and_add(&counts->lost_edges, 1);
	return 0;
}

/* `ref` waited for `on` so many times. */
static __always_inline void count_edge(spry_ref ref, spry_ref on, u32 times)
{
	struct spry_node *node = node_at(ref);

	if (!node)
		return;
#pragma unroll
	for (int i = 0; i < SPRY_EDGES_MAX; i++) {
		if (*(volatile u32 *)&node->edges[i].on == on) {
			__sync_fetch_and_add(&node->edges[i].count, times);
			return;
		}
	}
	new_edge(SPRY_NODE_INDEX(ref), on, times);
}

/* A task of one process waited for what a task of another did, which is running. */
static __always_inline void depend(struct task_struct *waiter, struct task_struct *waker)
{
	spry_ref ref, on;

	on = find_ref(waker->tgid);
	if (!on) {
		/* A child that execs wakes who waits for it to leave their common memory: it is not that
		 * program yet. */
		if (is_in_exec(waker))
			return;
		on = new_node(waker->tgid);
	}
	ref = find_ref(waiter->tgid);
	if (!ref)
		ref = new_node(waiter->tgid);
	if (!ref || !on)
		return;
	count_edge(ref, on, 1);
	/* It has taken what the other could not get rid of: it lives on that, though it need not have waited
	 * for it. */
	if (knobs.blocked_writers_count && is_writing(waiter))
		count_edge(on, ref, 1);
}

#endif
