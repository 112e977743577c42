/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which part of a CPU's time a class above INTERACTIVE may have, and which part each of its threads may have.
 *
 * On each CPU four servers go before what is in use, each for a part of each 100 ms: DAEMON, KTHREAD, and the
 * turns of OTHER and of IDLE behind a higher class. Together they have `servers_percent`. Turns have
 * `share_percent` each while tasks wait for them, and DAEMON has its least part; what is left of the whole is
 * for DAEMON and KTHREAD as they come.
 */
#ifndef SPRY_BUDGET_BPF_H
#define SPRY_BUDGET_BPF_H

#include "state.bpf.h"

/* The part of a CPU that turns of lower classes have, percent, as far as tasks wait for turns now. */
static __always_inline u32 turns_percent(const struct cpu_ctx *c)
{
	return (c->below[BELOW_OTHER].due_ns ? share_percent : 0) +
	       (c->below[BELOW_IDLE].due_ns ? share_percent : 0);
}

/* What is left of the time of all servers for DAEMON or KTHREAD, ns of a period. */
static __always_inline u64 left_for(const struct cpu_ctx *c, u32 class)
{
	u64 all_ns = budget_period_ns * (servers_percent - turns_percent(c)) / 100;
	u64 least_ns = budget_period_ns * daemon_least_percent / 100, others_ns;

	if (class == SPRY_CLASS_KTHREAD) {
		others_ns = at_least(c->spent_ns[SPRY_CLASS_DAEMON], least_ns);
		return all_ns > others_ns ? all_ns - others_ns : 0;
	}
	others_ns = c->spent_ns[SPRY_CLASS_KTHREAD];
	return at_least(all_ns > others_ns ? all_ns - others_ns : 0, least_ns);
}

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

/* Charges a thread of the kernel or of the daemon for what it ran, in whatever class it ran. */
static __always_inline void own_charge(struct thread_ctx *t, u64 ran_ns)
{
	u64 now = scx_bpf_now();

	if (now - t->spent_since_ns >= budget_period_ns) {
		t->spent_since_ns = now;
		t->spent_ns = 0;
	}
	t->spent_ns += ran_ns;
}

static __always_inline bool within_own_budget(const struct thread_ctx *t)
{
	return t->spent_ns * 100 <= budget_period_ns * each_percent;
}

/* Whether a thread is within its own budget, though it may not have run since its period ended: what it spent
 * is of the old period. */
static __always_inline bool within_renewed_budget(const struct thread_ctx *t)
{
	return scx_bpf_now() - t->spent_since_ns >= budget_period_ns || within_own_budget(t);
}

/* Whether a process in use waits for this worker of the kernel. */
static __always_inline bool is_wanted(const struct thread_ctx *t)
{
	return t->wanted_until_ns && (s64)(t->wanted_until_ns - scx_bpf_now()) > 0;
}

#endif
