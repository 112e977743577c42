/* SPDX-License-Identifier: GPL-2.0-only */
/* The collection: BPF programs that make edges between processes from wake-ups. The edges are in memory that
 * the daemon reads without a system call. */
#include "edge.bpf.h"
#include "kernel.bpf.h"
#include "tty.bpf.h"

/* The current task wakes a task: counts an edge between the two processes, if the wake-up shows that one
 * depends on the other. */
static __always_inline int wakes(struct task_struct *waiter)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	/* A process that exits sends no message by its wake-ups, and kernel threads depend on no process. */
	if ((waiter->flags & (PF_EXITING | PF_KTHREAD)) || waker->flags & PF_EXITING)
		return 0;
	/* Threads of one process that wake each other make no dependency between processes. */
	if (waiter->tgid == waker->tgid)
		return 0;
	if (!is_task_context(waker) || is_signalled(waiter))
		return 0;
	/* Kernel threads act on behalf of other tasks. Of their wake-ups only the wake-ups by workers that
	 * carry characters between the ends of terminals count. */
	if (waker->flags & PF_KTHREAD) {
		if (waker->flags & PF_WQ_WORKER)
			carried(waiter, waker->pid);
		return 0;
	}
	depend(waiter, waker);
	return 0;
}

/* A task that sleeps is about to be woken. */
SEC("tp_btf/sched_waking")
int BPF_PROG(spry_sched_waking, struct task_struct *waiter)
{
	return wakes(waiter);
}

/* Replaces spry_sched_waking on demand, where the kernel allows it: a task is about to be woken, whether
 * it sleeps or not. */
SEC("fentry/try_to_wake_up")
int BPF_PROG(spry_try_to_wake_up, struct task_struct *waiter)
{
	return wakes(waiter);
}

/* A process calls exec: it counts as a new process, since the old program's dependencies do not apply to the
 * new program. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(spry_sched_process_exec, struct task_struct *task)
{
	release(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(spry_sched_process_exit, struct task_struct *task)
{
	if (is_last_thread(task))
		release(task->tgid);
	return 0;
}

extern struct task_struct *bpf_task_from_pid(s32 tid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

/* Gives a node to a process, at the daemon's request; the request receives the node's name. */
SEC("syscall")
int spry_ensure(struct spry_ensure *request)
{
	struct task_struct *task;

	request->ref = 0;
	if (!bpf_ksym_exists(bpf_task_from_pid))
		return 0;
	task = bpf_task_from_pid(request->tgid);
	if (!task)
		return 0;
	if (task->tgid == request->tgid && !(task->flags & PF_KTHREAD)) {
		request->ref = ref_of(task);
		/* A process that was already exiting may have looked for its node before it got this one. It
		 * would not free the node, and a later process may get the same number. */
		if (is_last_thread(task)) {
			release(request->tgid);
			request->ref = 0;
		}
	}
	bpf_task_release(task);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
