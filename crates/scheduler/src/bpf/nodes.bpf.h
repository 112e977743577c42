/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps of nodes that the collection and the scheduler share, and the ways from a process to its node. */
#ifndef SPRY_NODES_BPF_H
#define SPRY_NODES_BPF_H

#include "types.bpf.h"

#define SPRY_NODE_INDEX(ref) ((ref) & (SPRY_NODES_MAX - 1))

/* Where processes are found by number: as many buckets as nodes, four ways each. */
#define SPRY_BUCKETS	 SPRY_NODES_MAX
#define SPRY_BUCKET_WAYS 4

/* A process' number in the low half, its node's name in the high half; 0 is a free way. */
struct spry_bucket {
	u64 ways[SPRY_BUCKET_WAYS];
};

/* Mapped by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPRY_NODES_MAX);
	__type(key, u32);
	__type(value, struct spry_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPRY_BUCKETS);
	__type(key, u32);
	__type(value, struct spry_bucket);
} groups SEC(".maps");

/* The node's name of a process; 0 where it has none. About 20 instructions. */
static __always_inline spry_ref find_ref(u32 tgid)
{
	u32 key = tgid % SPRY_BUCKETS;
	struct spry_bucket *bucket = bpf_map_lookup_elem(&groups, &key);

	if (!bucket)
		return 0;
#pragma unroll
	for (int way = 0; way < SPRY_BUCKET_WAYS; way++) {
		u64 entry = *(volatile u64 *)&bucket->ways[way];

		if ((u32)entry == tgid)
			return entry >> 32;
	}
	return 0;
}

/* The place of a node, whoever has it now. */
static __always_inline struct spry_node *node_at(spry_ref ref)
{
	u32 key = SPRY_NODE_INDEX(ref);

	return bpf_map_lookup_elem(&nodes, &key);
}

/* The node of a task's process; NULL where it has none, as ordinary short-lived processes have. */
static __always_inline struct spry_node *node_of(struct task_struct *task)
{
	spry_ref ref = find_ref(task->tgid);

	return ref ? node_at(ref) : NULL;
}

#endif
