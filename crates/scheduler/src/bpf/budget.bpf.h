/* SPDX-License-Identifier: GPL-2.0-only */
/* Parts of a CPU's time that a class above INTERACTIVE may have. */
#ifndef SPRY_BUDGET_BPF_H
#define SPRY_BUDGET_BPF_H

#include "state.bpf.h"

static __always_inline bool within_budget(struct cpu_ctx *c, u32 class, u32 percent)
{
	u64 now = scx_bpf_now();

	if (now - c->period_ns >= budget_period_ns) {
		c->period_ns = now;
		c->spent_ns[SPRY_CLASS_DAEMON] = 0;
		c->spent_ns[SPRY_CLASS_KTHREAD] = 0;
	}
	return c->spent_ns[class] * 100 <= budget_period_ns * percent;
}

#endif
