/* SPDX-License-Identifier: GPL-2.0-only */
/* Timers: each CPU has one that makes the CPU decide between two ticks, and housekeeping has one. */
#ifndef SPRY_TIMER_BPF_H
#define SPRY_TIMER_BPF_H

#include "cgroup.bpf.h"

struct sched_timer {
	struct bpf_timer timer;
};

/* The timers of all CPUs; the last one is housekeeping's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPRY_CPUS_MAX + 1);
	__type(key, u32);
	__type(value, struct sched_timer);
} timers SEC(".maps");

/*
 * Knobs that the daemon can change while the scheduler runs, ns; 0: not set.
 *
 * While tasks wait for a CPU, a task of OTHER runs for a quantum, which ends at a multiple of the tick.
 * The timer's callback sets the timer again for the tick that ends the next quantum. If a decision set it,
 * that would cost an interrupt on the same CPU. A tick that ends no quantum would cost an interrupt, too,
 * so there is none.
 */
struct tuning {
	u64 tick_ns;
	u64 quantum_ns;
	/* The quantum of each process in use, in place of its verdict's; and that of each task of IDLE. */
	u64 interactive_ns;
	u64 idle_ns;
};
volatile struct tuning tuning;

/* The time of the last housekeeping, and the requested time of an early one, ns; 0: none is requested. */
static u64 kept_ns;
static u64 early_ns;

/* The time until housekeeping is due, ns; 0 if it is due now. */
static __always_inline u64 housekeeping_in(u64 now)
{
	u64 due_ns = early_ns ?: kept_ns + housekeeping_ns;

	return (s64)(due_ns - now) > 0 ? due_ns - now : 0;
}

/* Requests housekeeping at a certain time, before the end of its period. It is not done twice within half of
 * its period. */
static __always_inline void keep_house_early(u64 now, u64 at_ns)
{
	u64 least_ns = kept_ns + housekeeping_ns / 2;
	struct sched_timer *timer;
	u32 last = SPRY_CPUS_MAX;

	if (early_ns)
		return;
	early_ns = (s64)(at_ns - least_ns) < 0 ? least_ns : at_ns;
	/* While cgroups have limits, the timer is set to fire often enough. */
	if (!has_timers || cgroups_limited)
		return;
	timer = bpf_map_lookup_elem(&timers, &last);
	if (timer)
		bpf_timer_start(&timer->timer, housekeeping_in(now), 0);
}

/* Starts a CPU's timer to fire at `at_ns`. */
static __always_inline void timer_arm(struct cpu_ctx *c, struct sched_timer *timer, u64 now, u64 at_ns)
{
	u64 in_ns = at_ns > now ? at_ns - now : 0;

	c->armed_ns = at_ns;
	c->timers++;
	if (reserved_all) {
		/* From kernel 7.0 on (1bfbc267ec91) a timer that is started here begins to count a moment
		 * later, in an interrupt of its own. So the time is given as an absolute time. */
		c->expires_ns = bpf_ktime_get_ns() + in_ns;
		c->fired = 0;
		bpf_timer_start(&timer->timer, c->expires_ns, BPF_F_TIMER_CPU_PIN | BPF_F_TIMER_ABS);
		return;
	}
	bpf_timer_start(&timer->timer, in_ns, BPF_F_TIMER_CPU_PIN);
}

/* The time of the first tick that comes `in_ns` after `now`, or up to a quarter of a tick earlier. Ticks stay
 * in step with the tick that fired at `fired_ns`, however late its interrupt was. */
static __always_inline u64 tick_after(u64 fired_ns, u64 now, u64 in_ns)
{
	u64 tick_ns = at_least(tuning.tick_ns, 1), least_ns = now + in_ns - tick_ns / 4;

	return fired_ns + (least_ns - fired_ns + tick_ns - 1) / tick_ns * tick_ns;
}

/* A CPU's timer ends the stay of a parked task inside the kernel, if such a task runs. With a tick, the timer
 * may fire a little before the stay's time is over. */
static __always_inline void timer_ends_stay(const struct cpu_ctx *c, u64 now)
{
	struct thread_ctx *t;

	if (!cgroups_limited || (s64)(c->timer_ns - now) > 0)
		return;
	t = find_thread(bpf_get_current_task_btf());
	if (t && t->passed == PASSED_STAYS)
		t->passed = PASSED_STAYED;
}

/* A CPU's timer has fired: makes the CPU decide if the time for that has come. Otherwise
 * sets the timer again. */
static __always_inline void timer_ends_turn(u32 cpu, struct cpu_ctx *c, struct sched_timer *timer)
{
	/* The clock may stand still while another CPU holds the lock of this CPU's run queue. */
	u64 now = at_least(scx_bpf_now(), c->armed_ns), tick_ns = reserved_all ? 0 : tuning.tick_ns;
	u64 fired_ns = c->armed_ns;

	c->armed_ns = 0;
	if (!c->timer_ns)
		return;
	/* A quantum begins a moment after a tick, so the tick that is nearest to its end ends it. */
	if ((s64)(c->timer_ns - now) > (s64)(tick_ns / 4)) {
		timer_arm(c, timer, now,
			  tick_ns ? tick_after(fired_ns, now, c->timer_ns - now) : c->timer_ns);
		return;
	}
	timer_ends_stay(c, now);
	c->timer_ns = 0;
	if (tick_ns)
		timer_arm(c, timer, now, tick_after(fired_ns, now, tuning.quantum_ns));
	c->fired = 1;
	if (c->reserved_runs)
		c->stopped_ns = c->expires_ns;
	c->kicks++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The callback of a CPU's timer. While there is a tick (knob tick_ns), it counts itself and its time. The
 * interrupt around it is not in that time. */
static int cpu_timer_fired(void *map, u32 *cpu, struct sched_timer *timer)
{
	struct cpu_ctx *c = cpu_at(*cpu);
	u64 began_ns = tuning.tick_ns && !reserved_all ? bpf_ktime_get_ns() : 0;

	timer_ends_turn(*cpu, c, timer);
	if (began_ns) {
		c->ticks++;
		c->ticks_ns += bpf_ktime_get_ns() - began_ns;
	}
	return 0;
}

/* Starts a CPU's timer to fire at `at_ns`. */
__noinline int timer_arm_at(u32 cpu, u64 now, u64 at_ns)
{
	struct sched_timer *timer = bpf_map_lookup_elem(&timers, &cpu);

	if (timer)
		timer_arm(cpu_at(cpu), timer, now, at_ns);
	return 0;
}

/* Makes this CPU decide at `at_ns`, unless it decides before. If the timer is set for an earlier time, it
 * stays and is set again when it fires. So decisions in quick succession set it only once. */
static __always_inline void timer_set(s32 cpu, struct cpu_ctx *c, u64 now, u64 at_ns)
{
	c->timer_ns = at_ns;
	if (has_timers && !((s64)(c->armed_ns - now) > 0 && (s64)(c->armed_ns - at_ns) <= 0))
		timer_arm_at(cpu, now, at_ns);
}

/* Cancels the time at which the timer should make the CPU decide. The timer itself may still fire. */
static __always_inline void timer_forget(struct cpu_ctx *c)
{
	c->timer_ns = 0;
}

/* On kernels without timers, the first tick after the time that was set makes the CPU decide. */
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
