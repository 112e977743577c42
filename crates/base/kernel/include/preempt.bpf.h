/* SPDX-License-Identifier: GPL-2.0-only */
/* The count of preemption, softirq and hardirq levels, wherever the kernel keeps it. src/types.rs finds its
 * place before a program is loaded. */
#ifndef SPRY_PREEMPT_BPF_H
#define SPRY_PREEMPT_BPF_H

/*
 * On x86 the count is a per-CPU variable (inside pcpu_hot from 6.2 to 6.14), elsewhere a field of
 * thread_info. A kernel need not expose the addresses of its variables. But a task points to the run
 * queue of its CPU, and BTF gives the distance from that run queue to the count.
 */
struct rq___any {
} __attribute__((preserve_access_index));

struct cfs_rq___rq {
	struct rq___any *rq;
} __attribute__((preserve_access_index));

struct thread_info___count {
	struct {
		u32 count;
	} preempt;
} __attribute__((preserve_access_index));

struct thread_info___plain_count {
	int preempt_count;
} __attribute__((preserve_access_index));

struct task_struct___count {
	struct thread_info___count thread_info;
} __attribute__((preserve_access_index));

struct task_struct___plain_count {
	struct thread_info___plain_count thread_info;
} __attribute__((preserve_access_index));

/* Any type of the kernel that begins with an int, so that read_int can read one. */
struct refcount_struct___int {
	atomic_t refs;
} __attribute__((preserve_access_index));

/* Kernels from 6.2 on can read a value without a call, which saves half of the cost of a record. */
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

static __always_inline u32 read_int(u64 address)
{
	struct refcount_struct___int *place;
	u32 value = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast) && bpf_core_type_exists(struct refcount_struct)) {
		place = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct refcount_struct));
		return place->refs.counter;
	}
	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/*
 * Reads the count of the CPU on which `current` runs. `from_rq` is `PreemptCount::from_rq`; `address` keeps
 * the address of this CPU's count, and is 0 at first. Returns false if the kernel's count cannot be found.
 */
static __always_inline bool read_preempt_count(struct task_struct *current, s64 from_rq, u64 *address,
					       u32 *count)
{
	struct task_struct___count *split = (void *)current;
	struct task_struct___plain_count *plain = (void *)current;

	if (from_rq) {
		if (!*address) {
			struct cfs_rq___rq *queue = (void *)current->se.cfs_rq;
			u64 rq = (u64)queue->rq;

			if (!rq)
				return false;
			*address = rq + from_rq;
		}
		*count = read_int(*address);
	} else if (bpf_core_field_exists(split->thread_info.preempt.count)) {
		*count = split->thread_info.preempt.count;
	} else if (bpf_core_field_exists(plain->thread_info.preempt_count)) {
		*count = plain->thread_info.preempt_count;
	} else {
		return false;
	}
	return true;
}

#endif
