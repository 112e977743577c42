/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel workers on which processes in use depend.
 *
 * Purpose: a process in use gives the kernel work, for example a key for a terminal. Other work may have
 * spent the budgets of kernel workers. Without this file, these workers would wait among the tasks of OTHER.
 *
 * Rule: for 10 ms after a process in use has queued work, kernel workers are wanted. They are of KTHREAD
 * again, up to 30 % of the CPU for all kernel threads (wanted_percent). A worker is wanted if a process in
 * use wakes it. If other work has woken the worker before, the kernel wakes no worker for the new work. So
 * the next decision moves waiting workers up. A worker that has more work first wakes the next worker. The
 * wanted work is the last in the kernel's list, so workers that are woken by workers are wanted, too.
 */
#ifndef SPRY_WORKERS_BPF_H
#define SPRY_WORKERS_BPF_H

#include "class_kthread.bpf.h"
#include "rise.bpf.h"
#include "../common/types.bpf.h"

/* The most tasks of a queue that are looked at. */
#define WORKERS_MOST 256

/* The time for which workers are wanted after a process in use has queued work, ns. */
#define WANTED_NS (10 * MS)

/* The time until which workers are wanted, ns. */
static u64 work_wanted_until_ns;

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(spry_work_is_queued)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if (key_class(current->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE)
		__sync_fetch_and_add(&news.work, 1);
	return 0;
}

/* Moves kernel workers from a place's queue of OTHER to KTHREAD. */
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
		if (!t || !within_budget(cpu_at(at.cpu), SPRY_CLASS_KTHREAD, wanted_percent))
			continue;
		at.llc = llc_of(at.cpu);
		t->wanted_until_ns = work_wanted_until_ns;
		t->class = SPRY_CLASS_KTHREAD;
		move_up(BPF_FOR_EACH_ITER, p, &at, SPRY_CLASS_OTHER, SPRY_CLASS_KTHREAD,
			comes_now(SPRY_CLASS_KTHREAD), kthread_slice(t));
	}
	*first_at(place, SPRY_CLASS_OTHER) = 0;
	return 0;
}

/* Moves waiting workers up to KTHREAD, if a process in use has queued work since the last
 * call. One CPU does so. */
static __always_inline void workers_rise(void)
{
	u32 i, work = news.work, seen = heeded.work;

	if (work == seen || !__sync_bool_compare_and_swap(&heeded.work, seen, work))
		return;
	work_wanted_until_ns = scx_bpf_now() + WANTED_NS;
	bpf_for(i, 0, nr_llcs) move_workers_up(i);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) move_workers_up(place_of_cpu(i));
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX : 0) move_workers_up(place_of_mask(i));
}

/* A kernel worker wakes. It is wanted if a process in use woke it, or if another worker did while
 * workers are wanted. */
static __always_inline void worker_wakes(struct task_struct *p, struct cpu_ctx *c)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct thread_ctx *t = find_thread(p);
	u64 until_ns = 0;

	if (!t)
		return;
	if (key_class(waker->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE)
		until_ns = scx_bpf_now() + WANTED_NS;
	else if (waker->flags & PF_WQ_WORKER)
		until_ns = work_wanted_until_ns;
	t->wanted_until_ns = until_ns;
	/* The worker's remembered order is from before it was wanted. */
	if (is_wanted(t))
		forget_recent(c, p);
}

#endif
