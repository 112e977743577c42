/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Workers of the kernel that are over their part of the CPU, while a process in use gives the kernel work (a
 * key for a terminal). Such workers go before OTHER, within the part that all threads of the kernel have and
 * a little more: floods may have used that part up, and processes in use give the kernel little work.
 *
 * The kernel wakes its first free worker for such work. If the work of others has woken that worker already,
 * nothing tells the scheduler that the worker is wanted now, so the next decision moves waiting workers up.
 * Each worker first wakes the next one if there is more work. The work that is wanted is the last in the
 * kernel's list, so a worker that another one wakes is wanted, too, for what is left of the time.
 */
#ifndef SPRY_WORKERS_BPF_H
#define SPRY_WORKERS_BPF_H

#include "class_kthread.bpf.h"
#include "rise.bpf.h"
#include "types.bpf.h"

/* How many tasks of a queue are looked at. */
#define WORKERS_MOST 256

/* How long workers are wanted after a process in use has given the kernel work, ns. */
#define WANTED_NS (10 * MS)

/* Until when they are wanted. */
static u64 work_wanted_until_ns;

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(spry_work_is_queued)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if (key_class(current->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE)
		__sync_fetch_and_add(&news.work, 1);
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

/* Moves waiting workers up, if a process in use has given the kernel work since. */
static __always_inline void workers_rise(void)
{
	u32 i, work = news.work, seen = heeded.work;

	if (work == seen || !__sync_bool_compare_and_swap(&heeded.work, seen, work))
		return;
	work_wanted_until_ns = scx_bpf_now() + WANTED_NS;
	bpf_for(i, 0, nr_llcs) move_workers_up(i);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) move_workers_up(place_of_cpu(i));
}

/* A worker wakes. It is wanted if a process in use woke it, or if another worker did while workers are
 * wanted. */
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
	/* What was decided when the worker slept says nothing of now. */
	if (is_wanted(t))
		forget_recent(c, p);
}

#endif
