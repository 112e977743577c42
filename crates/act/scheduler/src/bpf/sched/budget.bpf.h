/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budgets of the classes above INTERACTIVE, and of each of their threads, in periods of 100 ms.
 *
 * On each CPU, DAEMON, KTHREAD and the turns of OTHER and of IDLE, which go before INTERACTIVE, have 20 % of
 * the time together (servers_percent). Turns have 5 % each while tasks wait for them (share_percent). DAEMON
 * has 4 % in any case. DAEMON and KTHREAD share the rest in the order in which they use it.
 */
#ifndef SPRY_BUDGET_BPF_H
#define SPRY_BUDGET_BPF_H

#include "state.bpf.h"

/* The part of a CPU that turns have now, percent. A class without waiting tasks has no turns. */
static __always_inline u32 turns_percent(const struct cpu_ctx *c)
{
	return (c->below[BELOW_OTHER].due_ns ? share_percent : 0) +
	       (c->below[BELOW_IDLE].due_ns ? share_percent : 0);
}

/* The time of the current period that DAEMON or KTHREAD may spend in all, ns. It is the common part less the
 * other class' time and the turns' part. */
static __always_inline u64 left_for(const struct cpu_ctx *c, u32 class)
{
	u32 turns = turns_percent(c), percent = servers_percent > turns ? servers_percent - turns : 0;
	u64 all_ns = budget_period_ns * percent / 100;
	u64 least_ns = budget_period_ns * daemon_least_percent / 100, others_ns;

	if (class == SPRY_CLASS_KTHREAD) {
		others_ns = at_least(c->spent_ns[SPRY_CLASS_DAEMON], least_ns);
		return all_ns > others_ns ? all_ns - others_ns : 0;
	}
	others_ns = c->spent_ns[SPRY_CLASS_KTHREAD];
	return at_least(all_ns > others_ns ? all_ns - others_ns : 0, least_ns);
}

/* Whether a class has spent no more than its part of this CPU in the current period. Begins the next
 * period if it is time. */
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

/* Charges a thread of the kernel or of the daemon to its own budget, in whatever class it ran. Begins the
 * next period if it is time. */
static __always_inline void own_charge(struct thread_ctx *t, u64 ran_ns)
{
	u64 now = scx_bpf_now();

	if (now - t->spent_since_ns >= budget_period_ns) {
		t->spent_since_ns = now;
		t->spent_ns = 0;
	}
	t->spent_ns += ran_ns;
}

/* Whether a thread has spent no more than 3 % of its current period (each_percent). */
static __always_inline bool within_own_budget(const struct thread_ctx *t)
{
	return t->spent_ns * 100 <= budget_period_ns * each_percent;
}

/* Whether a thread is within its own budget. After the end of its period it is, although it has not run since
 * and no new period has begun. */
static __always_inline bool within_renewed_budget(const struct thread_ctx *t)
{
	return scx_bpf_now() - t->spent_since_ns >= budget_period_ns || within_own_budget(t);
}

/* Whether a process in use waits for this kernel worker. */
static __always_inline bool is_wanted(const struct thread_ctx *t)
{
	return t->wanted_until_ns && (s64)(t->wanted_until_ns - scx_bpf_now()) > 0;
}

#endif
