/* SPDX-License-Identifier: GPL-2.0-only */
/* Timers: each CPU has one, which sends the CPU through the scheduler between two ticks; housekeeping has
 * one. */
#ifndef SPRY_TIMER_BPF_H
#define SPRY_TIMER_BPF_H

#include "cgroup.bpf.h"

struct sched_timer {
	struct bpf_timer timer;
};

/* Each CPU has one timer; the last timer is housekeeping's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPRY_CPUS_MAX + 1);
	__type(key, u32);
	__type(value, struct sched_timer);
} timers SEC(".maps");

/*
 * Knobs that the daemon turns while the scheduler runs, ns; 0: the knob is not turned. A task of OTHER runs
 * for a quantum while others wait for its CPU; the quantum ends at a multiple of the tick. The timer is set
 * anew in its own callback, for the tick that ends the next quantum: a timer that is set while a CPU decides
 * costs an interrupt to the CPU itself, and a tick that ends nothing would cost one, too.
 */
struct tuning {
	u64 tick_ns;
	u64 quantum_ns;
};
volatile struct tuning tuning;

/* When housekeeping was last done, and when it is wanted before its period has passed; 0: it is not. */
static u64 kept_ns;
static u64 early_ns;

/* How long until housekeeping is due, ns; 0 if it is due now. */
static __always_inline u64 housekeeping_in(u64 now)
{
	u64 due_ns = early_ns ?: kept_ns + housekeeping_ns;

	return (s64)(due_ns - now) > 0 ? due_ns - now : 0;
}

/* Asks for housekeeping at a time, but not twice within half of its period. */
static __always_inline void keep_house_early(u64 now, u64 at_ns)
{
	u64 least_ns = kept_ns + housekeeping_ns / 2;
	struct sched_timer *timer;
	u32 last = SPRY_CPUS_MAX;

	if (early_ns)
		return;
	early_ns = (s64)(at_ns - least_ns) < 0 ? least_ns : at_ns;
	/* While cgroups have limits, the timer fires often enough as it is set. */
	if (!has_timers || cgroups_limited)
		return;
	timer = bpf_map_lookup_elem(&timers, &last);
	if (timer)
		bpf_timer_start(&timer->timer, housekeeping_in(now), 0);
}

static __always_inline void timer_arm(struct cpu_ctx *c, struct sched_timer *timer, u64 now, u64 at_ns)
{
	u64 in_ns = at_ns > now ? at_ns - now : 0;

	c->armed_ns = at_ns;
	c->timers++;
	if (reserved_all) {
		/* Since 1bfbc267ec91 (7.0) a timer that is started here begins to count a moment later, in an
		 * interrupt of its own. */
		c->expires_ns = bpf_ktime_get_ns() + in_ns;
		c->fired = 0;
		bpf_timer_start(&timer->timer, c->expires_ns, BPF_F_TIMER_CPU_PIN | BPF_F_TIMER_ABS);
		return;
	}
	bpf_timer_start(&timer->timer, in_ns, BPF_F_TIMER_CPU_PIN);
}

/* The first tick at which `in_ns` have passed since `now`, but for a quarter of a tick. Ticks stay in step
 * with the tick that fired, however late that was. */
static __always_inline u64 tick_after(u64 fired_ns, u64 now, u64 in_ns)
{
	u64 tick_ns = at_least(tuning.tick_ns, 1), least_ns = now + in_ns - tick_ns / 4;

	return fired_ns + (least_ns - fired_ns + tick_ns - 1) / tick_ns * tick_ns;
}

static int cpu_timer_fired(void *map, u32 *cpu, struct sched_timer *timer)
{
	struct cpu_ctx *c = cpu_at(*cpu);
	/* The clock may stand still, where another CPU has the run queue's lock. */
	u64 now = at_least(scx_bpf_now(), c->armed_ns), tick_ns = reserved_all ? 0 : tuning.tick_ns;
	u64 fired_ns = c->armed_ns;

	c->armed_ns = 0;
	if (!c->timer_ns)
		return 0;
	/* A quantum began a moment after a tick: the tick that is nearest ends it. */
	if ((s64)(c->timer_ns - now) > (s64)(tick_ns / 4)) {
		timer_arm(c, timer, now,
			  tick_ns ? tick_after(fired_ns, now, c->timer_ns - now) : c->timer_ns);
		return 0;
	}
	c->timer_ns = 0;
	if (tick_ns)
		timer_arm(c, timer, now, tick_after(fired_ns, now, tuning.quantum_ns));
	c->fired = 1;
	if (c->reserved_runs)
		c->stopped_ns = c->expires_ns;
	c->kicks++;
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Arms a CPU's timer. */
__noinline int timer_arm_at(u32 cpu, u64 now, u64 at_ns)
{
	struct sched_timer *timer = bpf_map_lookup_elem(&timers, &cpu);

	if (timer)
		timer_arm(cpu_at(cpu), timer, now, at_ns);
	return 0;
}

/* Sends this CPU through the scheduler at a time, if nothing does before. A timer that fires earlier is set
 * anew then, so that decisions that follow each other closely set it only once. */
static __always_inline void timer_set(s32 cpu, struct cpu_ctx *c, u64 now, u64 at_ns)
{
	c->timer_ns = at_ns;
	if (has_timers && !((s64)(c->armed_ns - now) > 0 && (s64)(c->armed_ns - at_ns) <= 0))
		timer_arm_at(cpu, now, at_ns);
}

/* The time that the timer was set for is not wanted any more. */
static __always_inline void timer_forget(struct cpu_ctx *c)
{
	c->timer_ns = 0;
}

/* On kernels without timers, the first tick after the time that was set sends the CPU through the
 * scheduler. */
void BPF_STRUCT_OPS(spry_tick, struct task_struct *p)
{
	struct cpu_ctx *c = cpu_at(bpf_get_smp_processor_id());

	if (c->timer_ns && (s64)(scx_bpf_now() - c->timer_ns) >= 0) {
		c->timer_ns = 0;
		c->kicks++;
		set_slice(p, 0);
	}
}

#endif
