/* SPDX-License-Identifier: GPL-2.0-only */
/* The numbers that tasks have in the recorder's PID namespace. */
#ifndef SPRY_NAMESPACE_BPF_H
#define SPRY_NAMESPACE_BPF_H

/* The kernel's greatest depth of PID namespaces (MAX_PID_NS_LEVEL). */
#define NAMESPACES_MAX 32

/* A task's number in the recorder's PID namespace; 0 if the task has none there. Most recorders are in the
 * outermost namespace, and no number is looked for. A function that is not static is verified once. */
__noinline u32 inner_number(u64 address)
{
	struct pid *pid = (void *)address;
	u32 level;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	for (u32 at = 0; at <= NAMESPACES_MAX; at++) {
		struct upid *number;

		/* Keeps the counter in a register of its own. Otherwise the compiler counts by the
		 * address alone, and the verifier of Linux 6.1 finds no end of the loop. */
		barrier_var(at);
		if (at > level)
			break;
		number = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			 at * bpf_core_type_size(struct upid);
		if (BPF_CORE_READ(number, ns, ns.inum) == knobs.namespace_inode)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

static __always_inline u32 inner_tid(struct task_struct *task)
{
	return knobs.namespace_inode ? inner_number((u64)BPF_CORE_READ(task, thread_pid)) : 0;
}

static __always_inline u32 inner_tgid(struct task_struct *task)
{
	return knobs.namespace_inode ? inner_number((u64)BPF_CORE_READ(task, group_leader, thread_pid)) : 0;
}

#endif
