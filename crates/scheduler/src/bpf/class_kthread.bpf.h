/* SPDX-License-Identifier: GPL-2.0-only */
/* KTHREAD: threads of the kernel that are not meant to be nice, for at most a part of each CPU; beyond it
 * they are like others. */
#ifndef SPRY_CLASS_KTHREAD_BPF_H
#define SPRY_CLASS_KTHREAD_BPF_H

static __always_inline bool kthread_may(struct cpu_ctx *c)
{
	return within_budget(c, SPRY_CLASS_KTHREAD, kthread_percent);
}

static __always_inline u64 kthread_key(void)
{
	return KEY(SPRY_CLASS_KTHREAD, 0);
}

#endif
