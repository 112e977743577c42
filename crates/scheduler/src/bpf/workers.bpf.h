/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Workers of the kernel that are over their part and wait in OTHER, while what is in use gives the kernel
 * work (a key for a terminal). The kernel wakes its first free worker for it: if others' work has woken that
 * one already, nothing tells the scheduler that the worker is wanted now. The next decision moves waiting
 * workers up, within the part that all threads of the kernel have.
 */
#ifndef SPRY_WORKERS_BPF_H
#define SPRY_WORKERS_BPF_H

#include "class_kthread.bpf.h"
#include "rise.bpf.h"
#include "types.bpf.h"

/* How many tasks of a queue are looked at. */
#define WORKERS_MOST 256

/* How often what is in use gave the kernel work, and how often when workers were moved up last. */
static u32 wanted, wanted_seen;

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(spry_work_is_queued)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if (key_class(current->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE)
		__sync_fetch_and_add(&wanted, 1);
	return 0;
}

__noinline int move_workers_up(u32 place)
{
	struct task_struct *p;

	place &= SPRY_PLACES_MAX - 1;
	if (!*queued_at(place, SPRY_CLASS_OTHER))
		return 0;
	looked = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_OTHER), 0)
	{
		struct where at = {.cpu = scx_bpf_task_cpu(p), .place = place};
		struct thread_ctx *t;

		if (looked++ >= WORKERS_MOST)
			break;
		if (!(p->flags & PF_WQ_WORKER) || !kthread_by_nature(p))
			continue;
		t = find_thread(p);
		if (!t || !within_budget(cpu_at(at.cpu), SPRY_CLASS_KTHREAD, kthread_percent))
			continue;
		at.llc = llc_of(at.cpu);
		t->class = SPRY_CLASS_KTHREAD;
		move_up(BPF_FOR_EACH_ITER, p, &at, SPRY_CLASS_OTHER, SPRY_CLASS_KTHREAD,
			first_come(SPRY_CLASS_KTHREAD), kthread_slice(t));
	}
	*first_at(place, SPRY_CLASS_OTHER) = 0;
	return 0;
}

/* Moves waiting workers up, if what is in use has work for any. */
static __always_inline void workers_rise(void)
{
	u32 i, now = wanted, seen = wanted_seen;

	if (now == seen || !__sync_bool_compare_and_swap(&wanted_seen, seen, now))
		return;
	bpf_for(i, 0, nr_llcs) move_workers_up(i);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) move_workers_up(place_of_cpu(i));
}

#endif
