/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler: classes in a stack, for sched_ext. What it decides by comes from the daemon, one word a
 * process. */
#include <scx/common.bpf.h>
#include "intf.h"

/* Set before loading. The machine. */
const volatile u32 nr_cpus = 1;
const volatile u32 nr_llcs = 1;
const volatile u16 cpu_llc[512];
/* The daemon's own process. */
const volatile u32 daemon_tgid;

/* Whether a woken task of INTERACTIVE needs more left of its quantum, rather than a lower level, to go first.
 */
const volatile bool wake_more_left = false;
/* At most this long between two decisions, ns. Ticks end a slice, so a little less than one is one. */
const volatile u64 slice_other_ns = 3000000;
const volatile u64 slice_interactive_ns = 20000000;
/* What is below INTERACTIVE has this part of any second, percent, in turns of this length, ns. */
const volatile u32 share_percent = 5;
const volatile u64 below_slice_ns = 2000000;
const volatile u64 below_slice_least_ns = 100000;
/* In how long everybody below has a turn, ns: while they are few, and when they are many. */
const volatile u32 few_tasks = 120;
/* When more than so many tasks have been kept waiting for this long, ns, their order is put right early. */
const volatile u32 some_tasks = 30;
const volatile u64 kept_waiting_ns = 20000000;
/* From so many on, OTHER has shorter slices, so that all have theirs in time. */
const volatile u32 crowd = 1000;
/* How far ahead of the class a task may be put, units of 64 ns. */
const volatile u64 ahead_least = 1000;
const volatile u64 ahead_most = 30000000;
/* How many are pulled back at once, when that has become less. */
const volatile u32 pulled_most = 1024;
const volatile u64 age_few_ns = 400000000;
const volatile u64 age_many_ns = 4500000000;
/* The parts of a CPU that classes above INTERACTIVE may have, percent of a period, ns. */
const volatile u64 budget_period_ns = 100000000;
const volatile u32 daemon_percent = 10;
const volatile u32 kthread_percent = 80;
/* A thread that has run less in all is not charged; its parent pays this much for it, ns. */
const volatile u64 short_ns = 1000000;
const volatile u64 fork_tax_ns = 250000;
/* Nor is one charged each time that runs less than this, ns. */
const volatile u64 uncharged_ns = 30000;
/* Housekeeping's period, ns. */
const volatile u64 housekeeping_ns = 200000000;

/* How often periods of cpu.max are looked at while there are any, and how long a task waits for one at most,
 * ns. */
const volatile u64 limit_tick_ns = 10000000;
const volatile u64 parked_most_ns = 8000000000;

/* Whether the kernel lets BPF programs have timers; real-time ones do not. Then turns end at ticks, decisions
 * do the housekeeping, and limits of cgroups are left to nobody. */
const volatile bool has_timers = true;

#define NICE_0_PRIO 120
#define MAX_RT_PRIO 100

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "compat.bpf.h"
#include "nodes.bpf.h"
#include "state.bpf.h"
#include "budget.bpf.h"
#include "below.bpf.h"
#include "cgroup.bpf.h"
#include "limit.bpf.h"
#include "timer.bpf.h"
#include "cgroup_ops.bpf.h"
#include "table.bpf.h"
#include "holder.bpf.h"
#include "dispatch.bpf.h"
#include "place.bpf.h"
#include "housekeeping.bpf.h"

/* A task that never was ordered: if it is new, its parent has a word in it. */
static __always_inline void first_order(struct task_struct *p, const struct where *at)
{
	struct task_struct *parent = bpf_get_current_task_btf();

	if (p->se.sum_exec_runtime || p->real_parent->tgid != parent->tgid || p->tgid == parent->tgid)
		return;
	if (key_class(parent->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE)
		interactive_fork(p, parent);
	else
		set_key(p, other_fork(parent, llc_at(at->llc)));
}

/* Short-lived threads of processes without a verdict have no storage. */
static __always_inline struct thread_ctx *thread_of(struct task_struct *p)
{
	struct thread_ctx *t = find_thread(p);
	struct spry_node *node;

	if (t)
		return t;
	if (p->se.sum_exec_runtime < short_ns) {
		node = node_of(p);
		if (!node || !node->verdict)
			return NULL;
	}
	return make_thread(p);
}

void BPF_STRUCT_OPS(spry_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = nr_cpus > 1 ? scx_bpf_task_cpu(p) : 0;
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};
	struct cpu_ctx *c = cpu_at(cpu);
	bool is_ordered = c->ordered.task == (u64)p && c->ordered.ran_ns == p->se.sum_exec_runtime;
	u64 key = c->ordered.key, slice_ns = c->ordered.slice_ns;
	u32 queue = c->ordered.queue;

	c->ordered.task = 0;
	at.place = place_of(p, &at);
	if (!is_ordered) {
		slice_ns = slice_other_ns;
		queue = QUEUE_OTHER;
		key = order_again(p, &at);
	}
	if (!key) {
		struct thread_ctx *t;

		if (!p->scx.dsq_vtime)
			first_order(p, &at);
		t = thread_of(p);
		key = order(p, t, &at, ASKED_ABOUT_IT);
		if (key >> KEY_SHIFT == SPRY_CLASS_INTERACTIVE && t)
			key = end_epoch_for(t, key, &at);
		queue = queue_of(key >> KEY_SHIFT, t);
		slice_ns = slice_of(key >> KEY_SHIFT, t);
		if (t && is_over_limit(t)) {
			t->parked_ns = scx_bpf_now();
			put(p, at.place, QUEUE_PARKED, slice_ns, key, enq_flags);
			return;
		}
	}
	if (!is_ordered && enq_flags & SCX_ENQ_WAKEUP && woken_first(p, key, queue, slice_ns, &at, enq_flags))
		return;
	if (nr_cpus > 1 && !is_ordered && enq_flags & SCX_ENQ_WAKEUP &&
	    woken_alone(p, key, slice_ns, &at, enq_flags))
		return;
	put(p, at.place, queue, slice_ns, key, enq_flags);
	if (nr_cpus > 1) {
		count_put(&at, queue);
		find_cpu_for(p, key >> KEY_SHIFT, &at);
	}
	/* The kernel found nobody else: it must look again. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(spry_dispatch, s32 cpu, struct task_struct *prev)
{
	struct where at = {.cpu = nr_cpus > 1 ? cpu : 0, .llc = llc_of(cpu)};
	struct running running = {.class = SPRY_CLASSES};
	struct puts seen;
	bool takes;

	if (!has_timers)
		keep_house_in_passing();
	at.place = at.llc;
	if (nr_cpus > 1)
		seen = begin_to_decide(&at);
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		running.p = prev;
		running.key = order_again(prev, &at);
		if (running.key) {
			/* It has hardly run and gives way of its own will: behind who is next. */
			u64 next = first_key(at.llc, QUEUE_OTHER);

			if (next != ~0ull && (s64)(next - running.key) > 0)
				running.key = next;
		} else {
			running.t = thread_of(prev);
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
		go_on(&running);
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

		if (queue > QUEUE_PARKED)
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
	bpf_for(i, 0, nr_llcs)
	{
		llc_at(i)->vtime = llc_at(i)->vtime_before = 1ull << 40;
		llc_at(i)->lag = slice_other_ns >> VTIME_UNIT_SHIFT;
		llc_at(i)->ahead = ahead_most;
		llc_at(i)->turn = ahead_least;
	}
	return init_timers();
}

void BPF_STRUCT_OPS(spry_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(spry_ops, .select_cpu = (void *)spry_select_cpu, .enqueue = (void *)spry_enqueue,
	       .dispatch = (void *)spry_dispatch, .tick = (void *)spry_tick,
	       .cpu_release = (void *)spry_cpu_release, .cpu_online = (void *)spry_cpu_online,
	       .cpu_offline = (void *)spry_cpu_offline, .quiescent = (void *)spry_quiescent,
	       .cgroup_init = (void *)spry_cgroup_init, .cgroup_exit = (void *)spry_cgroup_exit,
	       .cgroup_move = (void *)spry_cgroup_move, .cgroup_set_weight = (void *)spry_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)spry_cgroup_set_bandwidth, .dump = (void *)spry_dump,
	       .init = (void *)spry_init, .exit = (void *)spry_exit,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED |
			SCX_OPS_ALLOW_QUEUED_WAKEUP,
	       .timeout_ms = 30000, .exit_dump_len = 65536, .name = "spry");
