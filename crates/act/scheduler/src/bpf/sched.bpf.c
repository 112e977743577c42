/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler for sched_ext: classes in a stack. The daemon gives it what it decides by, one word for each
 * process. */
#include <scx/common.bpf.h>
#include "intf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "births.bpf.h"
#include "cgroup_ops.bpf.h"
#include "dispatch.bpf.h"
#include "rise.bpf.h"
#include "workers.bpf.h"
#include "housekeeping.bpf.h"

/* Orders a task that was never ordered before. If the task is new, its order depends on its creator. */
static __always_inline void first_order(struct task_struct *p, struct thread_ctx *t, const struct where *at)
{
	struct task_struct *creator = bpf_get_current_task_btf();
	bool is_child = p->real_parent->tgid == creator->tgid && p->tgid != creator->tgid;

	if (p->se.sum_exec_runtime)
		return;
	if (is_child && key_class(creator->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE) {
		struct thread_ctx *from = find_thread(creator);

		/* What the child owes at its end goes to its parent, not to tasks of root. */
		descends(p, t, creator, from, at);
		if (from)
			interactive_fork(t, from);
	} else {
		is_born(p, t, at);
	}
}

/* Puts a task into the queue of its class, where it waits. */
static __always_inline void waits(struct task_struct *p, u64 key, u64 slice_ns, const struct where *at,
				  u64 enq_flags)
{
	u32 class = key >> KEY_SHIFT;

	if (class == SPRY_CLASS_RESERVED) {
		reserved_waits(p, key, at, enq_flags);
		return;
	}
	put(p, at->place, class, slice_ns, key, enq_flags);
	if (class == SPRY_CLASS_OTHER)
		starts_tick(at);
	if (nr_cpus > 1) {
		count_put(at, class);
		find_cpu_for(p, class, at);
	}
	/* The kernel found no other task for the CPU, so the CPU must look again. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(spry_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread_ctx *t = NULL;
	struct where at = {};
	struct cpu_ctx *c = cpu_at(0);
	u64 key, slice_ns;
	bool gives_way;

	if (nr_cpus > 1) {
		at = where_of(scx_bpf_task_cpu(p));
		c = cpu_at(at.cpu);
		at.place = place_of(p, &at);
		if (reserved_all)
			reserved_where(p, &at);
	}
	gives_way = c->ordered.task == (u64)p && c->ordered.ran_ns == p->se.sum_exec_runtime;
	c->ordered.task = 0;
	if (gives_way) {
		waits(p, c->ordered.key, c->ordered.slice_ns, &at, enq_flags);
		return;
	}
	if (p->flags & PF_WQ_WORKER && enq_flags & SCX_ENQ_WAKEUP)
		worker_wakes(p, c);
	key = order_again(p, &at);
	slice_ns = slice_other_ns;
	if (!key) {
		t = make_thread(p);
		parked_no_more(p, t);
		if (t && !p->scx.dsq_vtime)
			first_order(p, t, &at);
		key = order(p, t, &at, enq_flags & SCX_ENQ_WAKEUP ? ASKED_AS_IT_WAKES : ASKED_AS_IT_IS_PUT);
		slice_ns = slice_of(key >> KEY_SHIFT, t);
		if (t && key_class(key) != SPRY_CLASS_RESERVED && park(p, t, key, slice_ns, enq_flags))
			return;
	}
	if (enq_flags & SCX_ENQ_WAKEUP && key_class(key) != SPRY_CLASS_RESERVED) {
		if (woken_first(p, key, slice_ns, &at, enq_flags))
			return;
		if (nr_cpus > 1 && woken_alone(p, key, slice_ns, &at, enq_flags))
			return;
	}
	waits(p, key, slice_ns, &at, enq_flags);
}

/* A task that waits is taken out of its queue, but not to run: it will be put into a queue again. */
void BPF_STRUCT_OPS(spry_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct scx_dispatch_q *dsq = p->scx.dsq;
	u64 index;

	if (!is_taken_out(deq_flags) || !dsq)
		return;
	index = dsq->id - 1;
	if (index >= SPRY_PLACES_MAX * QUEUES)
		return;
	first[index] = 0;
	__sync_fetch_and_sub(&queued[index], 1);
}

void BPF_STRUCT_OPS(spry_dispatch, s32 cpu, struct task_struct *prev)
{
	struct where at = nr_cpus > 1 ? where_of(cpu) : (struct where){}, waits_at = at;
	struct running running = {.class = SPRY_CLASSES};
	struct puts seen;
	bool with_reserved = reserved_ever, takes;

	if (*(volatile u64 *)&news != *(u64 *)&heeded) {
		rise();
		workers_rise();
	}
	if (!has_timers)
		keep_house_in_passing();
	if (with_reserved)
		reserved_charge(cpu_at(at.cpu), bpf_ktime_get_ns());
	if (nr_cpus > 1)
		seen = begin_to_decide(&at);
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		running.p = prev;
		if (nr_cpus > 1) {
			waits_at.place = place_of(prev, &at);
			if (reserved_all)
				reserved_where(prev, &waits_at);
		}
		running.key = order_again(prev, &waits_at);
		/* A task that has hardly run since it was charged gives way of its own will. */
		running.yields = running.key;
		if (!running.key) {
			running.t = make_thread(prev);
			running.key = order(prev, running.t, &waits_at, ASKED_WHICH_TO_RUN);
		}
		running.class = running.key >> KEY_SHIFT;
		if (running.class == SPRY_CLASS_RESERVED ? must_leave(prev, running.t, at.cpu)
							 : limited_by(running.t) != 0) {
			running.p = NULL;
			running.class = SPRY_CLASSES;
		}
	}
	takes = decide(&at, &running, with_reserved);
	if (takes) {
		give_way(&at, &running);
	} else {
		go_on(cpu_at(cpu), &running);
		if (nr_cpus > 1)
			cpu_at(cpu)->has = running.class;
	}
	if (nr_cpus > 1)
		end_to_decide(&at, &seen, takes);
}

/*
 * A real-time task takes the CPU. The task that had the CPU would stand first in its local queue with the
 * rest of its slice, before all tasks that are woken meanwhile. Instead, it waits in its class' queue.
 */
void BPF_STRUCT_OPS(spry_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

void BPF_STRUCT_OPS(spry_cpu_online, s32 cpu)
{
	struct cpu_ctx *c = cpu_at(cpu);

	__builtin_memset(c->below, 0, sizeof(c->below));
	c->timer_ns = 0;
	c->is_offline = 0;
}

void BPF_STRUCT_OPS(spry_cpu_offline, s32 cpu)
{
	/* The kernel moves the CPU's tasks; no task is sent to this CPU any more. */
	cpu_at(cpu)->timer_ns = 0;
	cpu_at(cpu)->has = 0;
	cpu_at(cpu)->is_offline = 1;
	reserved_evict(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(spry_init)
{
	u32 i;
	s32 error;

	bpf_for(i, 0, nr_cpus * QUEUES)
	{
		u32 place = i / QUEUES, queue = i % QUEUES;

		if (place < nr_llcs) {
			error = scx_bpf_create_dsq(dsq_at(place, queue), -1);
			if (error)
				return error;
		}
		error = nr_cpus > 1 ? scx_bpf_create_dsq(dsq_at(place_of_cpu(place), queue), -1) : 0;
		if (error)
			return error;
	}
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX * QUEUES : 0)
	{
		error = scx_bpf_create_dsq(dsq_at(place_of_mask(i / QUEUES), i % QUEUES), -1);
		if (error)
			return error;
	}
	bpf_for(i, 0, nr_llcs) begin_domain(i, i, cpus_of_llc);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) begin_domain(place_of_cpu(i), llc_of(i), 1);
	return init_timers();
}

void BPF_STRUCT_OPS(spry_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(spry_ops, .select_cpu = (void *)spry_select_cpu, .enqueue = (void *)spry_enqueue,
	       .dequeue = (void *)spry_dequeue, .dispatch = (void *)spry_dispatch, .tick = (void *)spry_tick,
	       .cpu_release = (void *)spry_cpu_release, .cpu_online = (void *)spry_cpu_online,
	       .cpu_offline = (void *)spry_cpu_offline, .quiescent = (void *)spry_quiescent,
	       .set_cpumask = (void *)spry_set_cpumask, .cgroup_init = (void *)spry_cgroup_init,
	       .cgroup_exit = (void *)spry_cgroup_exit, .cgroup_move = (void *)spry_cgroup_move,
	       .cgroup_set_weight = (void *)spry_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)spry_cgroup_set_bandwidth, .dump = (void *)spry_dump,
	       .init = (void *)spry_init, .exit = (void *)spry_exit,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED |
			SCX_OPS_ALLOW_QUEUED_WAKEUP,
	       .timeout_ms = 30000, .exit_dump_len = 65536, .name = "spry");
