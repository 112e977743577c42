/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler: classes in a stack, for sched_ext. What it decides by comes from the daemon, one word a
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

/* A task that was never ordered: if it is new, its creator has a word in it. */
static __always_inline void first_order(struct task_struct *p, struct thread_ctx *t, const struct where *at)
{
	struct task_struct *creator = bpf_get_current_task_btf();
	bool is_child = p->real_parent->tgid == creator->tgid && p->tgid != creator->tgid;

	if (p->se.sum_exec_runtime)
		return;
	if (is_child && key_class(creator->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE)
		interactive_fork(t, creator);
	else
		is_born(p, t, at);
}

/* A task waits in the queue of its class. */
static __always_inline void waits(struct task_struct *p, u64 key, u64 slice_ns, const struct where *at,
				  u64 enq_flags)
{
	u32 class = key >> KEY_SHIFT;

	put(p, at->place, class, slice_ns, key, enq_flags);
	if (nr_cpus > 1) {
		count_put(at, class);
		find_cpu_for(p, class, at);
	}
	/* The kernel found no other task: it must look again. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(spry_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = nr_cpus > 1 ? scx_bpf_task_cpu(p) : 0;
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};
	struct cpu_ctx *c = cpu_at(cpu);
	bool gives_way = c->ordered.task == (u64)p && c->ordered.ran_ns == p->se.sum_exec_runtime;
	u64 key, slice_ns = slice_other_ns;
	struct thread_ctx *t = NULL;

	c->ordered.task = 0;
	at.place = place_of(p, &at);
	if (gives_way) {
		waits(p, c->ordered.key, c->ordered.slice_ns, &at, enq_flags);
		return;
	}
	key = order_again(p, &at);
	if (!key) {
		t = make_thread(p);
		if (t && !p->scx.dsq_vtime)
			first_order(p, t, &at);
		key = order(p, t, &at, enq_flags & SCX_ENQ_WAKEUP ? ASKED_AS_IT_WAKES : ASKED_AS_IT_IS_PUT);
		slice_ns = slice_of(key >> KEY_SHIFT, t);
		if (t && is_over_limit(t)) {
			t->parked_ns = scx_bpf_now();
			put(p, at.place, QUEUE_PARKED, slice_ns, key, enq_flags);
			return;
		}
	}
	if (enq_flags & SCX_ENQ_WAKEUP) {
		if (woken_first(p, key, slice_ns, &at, enq_flags))
			return;
		if (nr_cpus > 1 && woken_alone(p, key, slice_ns, &at, enq_flags))
			return;
	}
	waits(p, key, slice_ns, &at, enq_flags);
}

/* A task that waits is taken out of its queue, not to run: it will be put anew. */
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
	struct where at = {.cpu = nr_cpus > 1 ? cpu : 0, .llc = llc_of(cpu)};
	struct running running = {.class = SPRY_CLASSES};
	struct puts seen;
	bool takes;

	rise();
	workers_rise();
	if (!has_timers)
		keep_house_in_passing();
	at.place = at.llc;
	if (nr_cpus > 1)
		seen = begin_to_decide(&at);
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		running.p = prev;
		running.key = order_again(prev, &at);
		/* A task that has hardly run gives way of its own will. */
		running.yields = running.key;
		if (!running.key) {
			running.t = make_thread(prev);
			running.key = order(prev, running.t, &at, ASKED_WHOM_TO_RUN);
		}
		running.class = running.key >> KEY_SHIFT;
		if (is_over_limit(running.t)) {
			running.p = NULL;
			running.class = SPRY_CLASSES;
		}
	}
	takes = decide(&at, &running);
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
 * A real-time task takes the CPU. Who had it would stand first here with the rest of its slice, before all
 * who are woken meanwhile; it waits in its class' queue instead.
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
}

void BPF_STRUCT_OPS(spry_cpu_offline, s32 cpu)
{
	/* The kernel moves its tasks; nobody is sent there any more. */
	cpu_at(cpu)->timer_ns = 0;
	cpu_at(cpu)->has = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(spry_init)
{
	u32 i;
	s32 error;

	bpf_for(i, 0, nr_cpus * QUEUES)
	{
		u32 place = i / QUEUES, queue = i % QUEUES;

		if (!queue)
			continue;
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
	bpf_for(i, 0, nr_llcs)
	{
		llc_at(i)->vtime = llc_at(i)->vtime_before = 1ull << 40;
		llc_at(i)->lag = slice_other_ns >> VTIME_UNIT_SHIFT;
		llc_at(i)->ahead = ahead_most;
	}
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
