/* SPDX-License-Identifier: GPL-2.0-only */
/* The place in which a task waits, and the choice of its CPU: an idle CPU, or one with a lower class. */
#ifndef SPRY_PLACE_BPF_H
#define SPRY_PLACE_BPF_H

#include "holder.bpf.h"
#include "mask.bpf.h"
#include "table.bpf.h"

/* Whether a task can run only on the CPU on which it is. */
static __always_inline bool is_bound(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || is_migration_disabled(p);
}

/* The place in which a task waits: that of its cache, of its CPU, or of the set of CPUs that it may use. */
static __always_inline u32 place_of(struct task_struct *p, const struct where *at)
{
	if (is_bound(p))
		return place_of_cpu(at->cpu);
	if (nr_cpus > 2 && p->nr_cpus_allowed < nr_cpus)
		return masked_place(p, at);
	return at->llc;
}

/* The occasion on which a CPU is looked for: the task wakes, or it has been put into a queue. */
enum looks { LOOKS_FIRST, LOOKS_AGAIN };

/* Among the CPUs that a task may use, the CPU that runs the task of the lowest class below `class`; -1 if
 * there is none. A task on its way to a CPU counts as running there. If the task already waits in a queue, a
 * task on its way to the CPU `first` does not count: it may be this task. */
static __always_inline s32 cpu_to_take(struct task_struct *p, u32 class, s32 first, enum looks looks)
{
	u32 i, worst = class;
	s32 found = -1;

	bpf_for(i, 0, nr_cpus)
	{
		s32 cpu = first + i >= nr_cpus ? first + i - nr_cpus : first + i;
		u32 has = *(volatile u32 *)&cpu_at(cpu)->has, sent = *(volatile u32 *)&cpu_at(cpu)->sent;
		struct task_struct *curr;

		if (has & HAS_TURN)
			has = looks == LOOKS_AGAIN ? 0 : has & ~HAS_TURN;
		if (sent < has && !(looks == LOOKS_AGAIN && cpu == first))
			has = sent;
		if (has <= worst || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		curr = running_on(cpu);
		if (!curr || curr->prio < MAX_RT_PRIO)
			continue;
		worst = has;
		found = cpu;
	}
	return found;
}

/* Picks a CPU for a woken task: its reservation's CPU; else an idle CPU; else the CPU that runs the lowest
 * class below the task's. */
s32 BPF_STRUCT_OPS(spry_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	u32 class;
	s32 cpu, taken;

	if (nr_cpus == 1)
		return prev_cpu;
	if (reserved_all) {
		struct spry_reservation *r = reservation_of_task(p);

		if (r)
			return r->cpu;
	}
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	class = p->scx.dsq_vtime ? key_class(p->scx.dsq_vtime) : SPRY_CLASS_OTHER;
	if (!is_idle) {
		if (class == SPRY_CLASS_IDLE)
			return cpu;
		taken = cpu_to_take(p, class, prev_cpu, LOOKS_FIRST);
		if (taken < 0)
			return cpu;
		cpu = taken;
	}
	send_to(cpu, class);
	return cpu;
}

/* Whether a CPU is idle and no task is in its local queue. On one CPU, no task is put there while it is idle.
 * The caller holds the lock of the CPU's run queue. */
static __always_inline bool is_free(s32 cpu, const struct task_struct *curr)
{
	return curr->flags & PF_IDLE && (nr_cpus == 1 || !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu));
}

/*
 * Several CPUs: gives a woken task to its CPU, which is idle, at once, if no task waits for this CPU. Returns
 * whether the CPU got the task.
 *
 * Otherwise the CPU would have to find the task in a queue. Another CPU, mostly the waker's, could take the
 * task from there first. Then both CPUs would wait for the locks of both run queues, and the task would
 * move at each wake-up.
 */
static __always_inline bool woken_alone(struct task_struct *p, u64 key, u64 slice_ns, const struct where *at,
					u64 enq_flags)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	enum waits_below waits = waits_below(at);
	u32 class = key >> KEY_SHIFT;

	if (waits == OTHERS_WAIT || (waits == MORE_WAIT && (any_above(at) || waiting(at, SPRY_CLASS_OTHER) ||
							    waiting(at, SPRY_CLASS_IDLE))))
		return false;
	c->local_key = key;
	c->has = class;
	if (class == SPRY_CLASS_INTERACTIVE)
		interactive_serves(c, key);
	__sync_lock_test_and_set(&c->sent, SPRY_CLASSES);
	set_key(p, key);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
	return true;
}

/* Gives a woken task to its CPU at once if it goes before the task `curr` that runs there, which is
 * preempted. Returns whether the CPU got the woken task. */
static __always_inline bool woken_first(struct task_struct *p, struct task_struct *curr, u64 key,
					u64 slice_ns, const struct where *at, u64 enq_flags)
{
	struct cpu_ctx *c = cpu_at(at->cpu);
	u32 class = key >> KEY_SHIFT;
	bool is_idle;

	if (class == SPRY_CLASS_IDLE)
		return false;
	is_idle = curr->flags & PF_IDLE;
	if (class == SPRY_CLASS_OTHER) {
		if (!is_idle && key_class(curr->scx.dsq_vtime) == SPRY_CLASS_IDLE) {
			c->kicks++;
			scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
		}
		return false;
	}
	if (curr->prio < MAX_RT_PRIO) {
		/* The running task is a real-time task. The task that it interrupted is first in the local
		 * queue and would go on before the woken task: it is ordered anew. */
		if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | at->cpu) > 0)
			order_local_anew(at->cpu);
		return false;
	}
	if (!is_idle && !wakes_over(key, curr))
		return false;
	/* Another woken task is already in the local queue and waits for the switch. */
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | at->cpu) > 0) {
		if (c->local_key <= key)
			return false;
		/* If that task stayed in the local queue behind the new task, no other CPU could take it. */
		if (nr_cpus > 1)
			order_local_anew(at->cpu);
	}
	c->local_key = key;
	c->has = class;
	if (class == SPRY_CLASS_INTERACTIVE)
		interactive_serves(c, key);
	c->preemptions++;
	if (c->below[BELOW_OTHER].began_ns)
		c->early_yields++;
	set_key(p, key);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

/* Gives a woken task to its CPU at once, if that is possible. An idle CPU on a machine of one CPU looks at
 * the queues by itself. If the woken task were in the local queue already, it would run before the task that
 * the CPU finds. Returns whether the CPU got the task. */
static __always_inline bool woken_at_once(struct task_struct *p, u64 key, u64 slice_ns,
					  const struct where *at, u64 enq_flags)
{
	struct task_struct *curr = running_on(at->cpu);

	if (!curr)
		return false;
	if (is_free(at->cpu, curr))
		return nr_cpus > 1 && woken_alone(p, key, slice_ns, at, enq_flags);
	return woken_first(p, curr, key, slice_ns, at, enq_flags);
}

/* Finds a CPU for a task that has been put into a queue, and makes it decide. It is an idle CPU, or a CPU
 * that runs a task of a lower class. */
static __always_inline void find_cpu_for(struct task_struct *p, u32 class, const struct where *at)
{
	struct task_struct *curr = running_on(at->cpu);
	bool is_here = at->place == place_of_cpu(at->cpu);
	s32 cpu;

	/* The task's own CPU is idle: it looks at the queues by itself, unless a task is in its
	 * local queue already. */
	if (!curr || is_free(at->cpu, curr))
		return;
	if (!is_here) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu >= 0) {
			send_to(cpu, class);
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			return;
		}
	}
	if (class >= SPRY_CLASS_OTHER)
		return;
	if (is_here) {
		u32 has = *(volatile u32 *)&cpu_at(at->cpu)->has;

		cpu = has > class && !(has & HAS_TURN) && curr->prio >= MAX_RT_PRIO ? at->cpu : -1;
	} else {
		cpu = cpu_to_take(p, class, at->cpu, LOOKS_AGAIN);
	}
	if (cpu < 0)
		return;
	cpu_at(at->cpu)->kicks++;
	send_to(cpu, class);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

#endif
