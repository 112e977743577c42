/* SPDX-License-Identifier: GPL-2.0-only */
/* Nodes of processes: a process is given a node with its first edge. The node becomes free when the process
 * exits or calls exec. */
#ifndef SPRY_ALLOC_BPF_H
#define SPRY_ALLOC_BPF_H

#include "kernel.bpf.h"
#include "../common/nodes.bpf.h"
#include "users.bpf.h"

/* The collection's counters; the daemon maps them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spry_collected);
} collected SEC(".maps");

/* Indices of free nodes that were used before. The index that was freed last is used first, so that the nodes
 * in use stay close together in memory. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SPRY_NODES_MAX);
	__type(value, u32);
} spare SEC(".maps");

static __always_inline struct spry_collected *counters(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&collected, &key);
}

/* Takes the index of a free node; returns SPRY_NODES_MAX if there is none. */
static __always_inline u32 take_index(struct spry_collected *counts)
{
	u32 index;

	if (!bpf_map_pop_elem(&spare, &index))
		return index;
	if (*(volatile u32 *)&counts->used >= SPRY_NODES_MAX)
		return SPRY_NODES_MAX;
	/* Several CPUs at once may count past the end of the array; the daemon allows for that. */
	return __sync_fetch_and_add(&counts->used, 1);
}

/* Gives a node to the process of a task, and returns the node's name. Returns 0 if all nodes are taken or if
 * the process' user has its share of them; the loss is counted. */
static __noinline spry_ref new_node(struct task_struct *task)
{
	struct spry_collected *counts = counters();
	u32 tgid = task->tgid, key = bucket_of(tgid), index, generation, user;
	struct spry_bucket *bucket = bpf_map_lookup_elem(&groups, &key);
	struct spry_node *node;
	spry_ref ref;

	if (!counts || !bucket || tgid == knobs.own_tgid)
		return 0;
	user = user_of(task);
	if (!take_for(counts, &user)) {
		__sync_fetch_and_add(&counts->lost_nodes, 1);
		return 0;
	}
	index = take_index(counts);
	node = index < SPRY_NODES_MAX ? bpf_map_lookup_elem(&nodes, &index) : NULL;
	if (!node) {
		__sync_fetch_and_add(&counts->lost_nodes, 1);
		give_back_of(counts, user);
		return 0;
	}
	node->user = user;
	generation = (node->ref >> 16) + 1 & 0xffff;
	ref = (generation ? generation : 1) << 16 | index;
	node->verdict = 0;
	node->ran_ns = 0;
	for (int i = 0; i < SPRY_EDGES_MAX; i++)
		*(volatile u64 *)&node->edges[i] = 0;
	*(volatile u32 *)&node->ref = ref;
	*(volatile u32 *)&node->tgid = tgid;
	for (int way = 0; way < SPRY_BUCKET_WAYS; way++) {
		u64 entry = *(volatile u64 *)&bucket->ways[way];

		if (!entry)
			entry = __sync_val_compare_and_swap(&bucket->ways[way], 0, (u64)ref << 32 | tgid);
		if (!entry)
			return ref;
		if ((u32)entry == tgid) {
			/* Another CPU has given the process a node meanwhile; that node is used. */
			ref = entry >> 32;
			goto give_back;
		}
	}
	__sync_fetch_and_add(&counts->lost_nodes, 1);
	ref = 0;
give_back:
	*(volatile u32 *)&node->tgid = 0;
	bpf_map_push_elem(&spare, &index, 0);
	give_back_of(counts, user);
	return ref;
}

/* Frees the node of a process that has exited or called exec. */
static __noinline int release(u32 tgid)
{
	struct spry_collected *counts = counters();
	u32 key = bucket_of(tgid);
	struct spry_bucket *bucket = bpf_map_lookup_elem(&groups, &key);

	if (!counts || !bucket)
		return 0;
	for (int way = 0; way < SPRY_BUCKET_WAYS; way++) {
		u64 entry = *(volatile u64 *)&bucket->ways[way];
		struct spry_node *node;
		u32 index, user;

		if ((u32)entry != tgid || !entry ||
		    __sync_val_compare_and_swap(&bucket->ways[way], entry, 0) != entry)
			continue;
		index = SPRY_NODE_INDEX((u32)(entry >> 32));
		node = bpf_map_lookup_elem(&nodes, &index);
		if (!node)
			continue;
		user = node->user;
		node->verdict = 0;
		*(volatile u32 *)&node->tgid = 0;
		bpf_map_push_elem(&spare, &index, 0);
		give_back_of(counts, user);
	}
	return 0;
}

/* The name of the node of a task's process. If the process has no node, it is given one; the name is
 * 0 if none is free. */
static __always_inline spry_ref ref_of(struct task_struct *task)
{
	return find_ref(task->tgid) ?: new_node(task);
}

#endif
