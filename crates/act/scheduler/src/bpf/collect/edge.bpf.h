/* SPDX-License-Identifier: GPL-2.0-only */
/* Edges between processes: an edge counts the waits of one process for another between two rounds of the
 * daemon. */
#ifndef SPRY_EDGE_BPF_H
#define SPRY_EDGE_BPF_H

#include "alloc.bpf.h"
#include "tie.bpf.h"

/* Adds an edge to a node. If the node is full, the new edge replaces the edge with the least count. */
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
	/* If another CPU changed the edge that is to be replaced, that edge stays, and the new one
	 * is counted as lost. */
	if (__sync_val_compare_and_swap((u64 *)&node->edges[place], least, (u64)times << 32 | on) != least ||
	    least >> 32)
		__sync_fetch_and_add(&counts->lost_edges, 1);
	return 0;
}

/* The edge from the process `ref` to the process `on`; NULL if there is none. */
static __always_inline struct spry_edge *find_edge(spry_ref ref, spry_ref on)
{
	struct spry_node *node;

	if (!ref || !on)
		return NULL;
	node = node_at(ref);
	if (!node)
		return NULL;
#pragma unroll
	for (int i = 0; i < SPRY_EDGES_MAX; i++)
		if (*(volatile u32 *)&node->edges[i].on == on)
			return &node->edges[i];
	return NULL;
}

/* The functions that follow are global, since the verifier checks a global function only once and not again
 * in each state of its callers. */

/* Counts that the process `ref` waited for the process `on`, `times` times. */
__noinline int count_edge(spry_ref ref, spry_ref on, u32 times)
{
	struct spry_edge *edge = find_edge(ref, on);

	if (edge)
		__sync_fetch_and_add(&edge->count, times);
	else
		new_edge(SPRY_NODE_INDEX(ref), on, times);
	return 0;
}

/* Adds 1 to the edge from `ref` to `on`, if it was counted since the daemon last took the counts away.
 * Returns 1 if so, else 0. */
__noinline u32 count_again(spry_ref ref, spry_ref on)
{
	struct spry_edge *edge = find_edge(ref, on);

	if (!edge || !*(volatile u32 *)&edge->count)
		return 0;
	__sync_fetch_and_add(&edge->count, 1);
	return 1;
}

#define SPRY_STRANGERS 1024

/* Pairs of processes in which one wakes the other, but the woken process does not depend on the waker.
 * `found` is the time of this finding, in units of 256 ticks. A pair with the same hash replaces an entry. */
static struct stranger {
	u64 pair;
	u64 found;
} strangers[SPRY_STRANGERS];

/* The tie (enum tie) by which the current task, of process `waker`, wakes a task of process `waiter`. Pairs
 * without dependency are remembered for up to 256 ticks. */
__noinline u32 tie_of(u32 waiter, u32 waker)
{
	u64 pair = (u64)waiter << 32 | waker, now = bpf_jiffies64() >> 8;
	struct stranger *place = &strangers[(waiter * 31 + waker) % SPRY_STRANGERS];
	enum tie tie;

	if (place->pair == pair && place->found == now)
		return TIE_NONE;
	tie = tie_of_waker();
	if (tie == TIE_NONE || tie == TIE_CLIENT) {
		place->pair = pair;
		place->found = now;
	}
	return tie;
}

/*
 * The current task, of one process, wakes a task of another process: counts edges between the two.
 *
 * The woken process depends on the waker. If the woken process sleeps in a write because a pipe or socket was
 * full, the waker takes its data and depends on it, too. An edge that is counted already in this round of the
 * daemon is counted again. Otherwise the waker's system call decides which of the two depends on the other.
 */
static __always_inline void depend(struct task_struct *waiter, struct task_struct *waker)
{
	spry_ref on = find_ref(waker->tgid), ref = find_ref(waiter->tgid);
	bool is_taken = knobs.blocked_writers_count && is_writing(waiter);
	bool gives = !count_again(ref, on), takes = is_taken && !count_again(on, ref);
	enum tie tie = TIE_EQUALS;

	if (!gives && !takes)
		return;
	if (!knobs.served_count) {
		tie = tie_of(waiter->tgid, waker->tgid);
		gives &= tie == TIE_EQUALS || tie == TIE_SERVER;
		takes &= tie == TIE_EQUALS || tie == TIE_CLIENT;
		if (!gives && !takes)
			return;
	}
	if (!on) {
		/* A child that calls exec wakes its parent, which waits until the child has left their common
		 * memory. The child has not yet become its new program, so this is not counted. */
		if (is_in_exec(waker))
			return;
		on = new_node(waker);
	}
	if (!ref)
		ref = new_node(waiter);
	if (!ref || !on)
		return;
	if (gives)
		count_edge(ref, on, 1);
	if (takes)
		count_edge(on, ref, 1);
}

#endif
