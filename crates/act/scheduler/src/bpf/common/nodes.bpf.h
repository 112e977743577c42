/* SPDX-License-Identifier: GPL-2.0-only */
/* The map of processes' nodes, which the collection and the scheduler share, and the look-up
 * of a process' node. */
#ifndef SPRY_NODES_BPF_H
#define SPRY_NODES_BPF_H

#include "types.bpf.h"
/* Both the collection and the scheduler have the secret factor of the buckets' hash among their settings. */
#ifndef SPRY_KERNEL_BPF_H
#include "../sched/knobs.bpf.h"
#endif

#define SPRY_NODE_INDEX(ref) ((ref) & (SPRY_NODES_MAX - 1))

/* The hash table from processes to nodes: as many buckets as nodes, with room for four processes each. */
#define SPRY_BUCKET_BITS 15
#define SPRY_BUCKETS	 (1 << SPRY_BUCKET_BITS)
#define SPRY_BUCKET_WAYS 4

/* A bucket. An entry has the process' number in the low half and the name of its node in the high half;
 * 0 is a free entry. */
struct spry_bucket {
	u64 ways[SPRY_BUCKET_WAYS];
};

/* The nodes; mapped by the daemon. */
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

/* The bucket of a process, by its number. Users can choose numbers of processes, but only the daemon has the
 * secret factor. So no user can fill the bucket of another user's process. */
static __always_inline u32 bucket_of(u32 tgid)
{
	return tgid * bucket_secret >> (32 - SPRY_BUCKET_BITS);
}

/* The name of a process' node; 0 if it has none. The look-up takes about 20 instructions. */
static __always_inline spry_ref find_ref(u32 tgid)
{
	u32 key = bucket_of(tgid);
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

/* The node at the index in a name, whichever process has it now. */
static __always_inline struct spry_node *node_at(spry_ref ref)
{
	u32 key = SPRY_NODE_INDEX(ref);

	return bpf_map_lookup_elem(&nodes, &key);
}

/* The node of a task's process; NULL if it has none, as is usual for short-lived processes. */
static __always_inline struct spry_node *node_of(struct task_struct *task)
{
	spry_ref ref = find_ref(task->tgid);

	return ref ? node_at(ref) : NULL;
}

#endif
