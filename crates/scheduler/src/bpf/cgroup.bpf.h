/* SPDX-License-Identifier: GPL-2.0-only */
/* Shares of cgroups. */
#ifndef SPRY_CGROUP_BPF_H
#define SPRY_CGROUP_BPF_H

static __always_inline u64 other_charge(struct task_struct *p, struct thread_ctx *t, u64 ran_ns)
{
	return (ran_ns >> 6) * 100 / (p->scx.weight ?: 1);
}

#endif
