/* SPDX-License-Identifier: GPL-2.0-only */
/* The least that recording costs: programs at the tracepoints of switches and wake-ups that do nothing, that
 * read the clock, or that also write 16 bytes. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define CHUNK_BYTES (1 << 16)
#define CHUNKS	    256
#define CPUS_MAX    512

struct place {
	u64 head;
	u64 last_ns;
	u64 pad[14];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct place);
} places SEC(".maps");

/* One memory for all CPUs: only one CPU is measured. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CHUNKS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, CHUNK_BYTES);
} memory SEC(".maps");

static __always_inline int read_clock(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct place *place = bpf_map_lookup_elem(&places, &cpu);

	if (place)
		place->last_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int write_record(u64 word)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct place *place = bpf_map_lookup_elem(&places, &cpu);
	u32 chunk, offset;
	char *bytes;

	if (!place)
		return 0;
	chunk = (place->head / CHUNK_BYTES) % CHUNKS;
	offset = place->head & (CHUNK_BYTES - 16);
	bytes = bpf_map_lookup_elem(&memory, &chunk);
	if (!bytes)
		return 0;
	*(u64 *)(bytes + offset) = bpf_ktime_get_ns();
	*(u64 *)(bytes + offset + 8) = word;
	place->head += 16;
	return 0;
}

#define PROGRAMS(kind, work)                                                                                 \
	SEC("tp_btf/sched_switch")                                                                           \
	int BPF_PROG(kind##_switch, bool preempt, struct task_struct *task)                                  \
	{                                                                                                    \
		return work;                                                                                 \
	}                                                                                                    \
	SEC("tp_btf/sched_waking")                                                                           \
	int BPF_PROG(kind##_waking, struct task_struct *task)                                                \
	{                                                                                                    \
		return work;                                                                                 \
	}                                                                                                    \
	SEC("tp_btf/sched_wakeup")                                                                           \
	int BPF_PROG(kind##_wakeup, struct task_struct *task)                                                \
	{                                                                                                    \
		return work;                                                                                 \
	}

PROGRAMS(nothing, 0)
PROGRAMS(clock, read_clock())
PROGRAMS(record, write_record(task->pid))

char LICENSE[] SEC("license") = "GPL";
