/* SPDX-License-Identifier: GPL-2.0-only */
/* DAEMON: Spry's own threads, first of all, for a small part of each CPU; beyond it they are of OTHER. */
#ifndef SPRY_CLASS_DAEMON_BPF_H
#define SPRY_CLASS_DAEMON_BPF_H

#include "budget.bpf.h"
#include "class.bpf.h"

static __always_inline bool daemon_by_nature(struct task_struct *p)
{
	return p->tgid == daemon_tgid && p->policy != SCHED_IDLE;
}

static __always_inline bool daemon_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	return within_budget(c, SPRY_CLASS_DAEMON, daemon_percent);
}

static __always_inline u64 daemon_key(const struct asking *a)
{
	return first_come(SPRY_CLASS_DAEMON);
}

static __always_inline u64 daemon_slice(struct thread_ctx *t)
{
	return slice_other_ns;
}

static __always_inline bool daemon_wakes_over(u64 key, struct task_struct *curr)
{
	return false;
}

static __always_inline enum taken daemon_take(const struct where *at, const struct running *r)
{
	return take_next(at, r, SPRY_CLASS_DAEMON);
}

#endif
