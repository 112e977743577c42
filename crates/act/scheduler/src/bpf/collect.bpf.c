/* SPDX-License-Identifier: GPL-2.0-only */
/* Which process depends on which: the programs here make edges from wake-ups, and keep them where the daemon
 * reads them without a system call. */
#include "edge.bpf.h"
#include "kernel.bpf.h"
#include "tty.bpf.h"

static __always_inline int wakes(struct task_struct *waiter)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	/* A process that ends sends no message by that; the kernel's own threads depend on no process. */
	if ((waiter->flags & (PF_EXITING | PF_KTHREAD)) || waker->flags & PF_EXITING)
		return 0;
	/* If threads of one process wake each other, this is no dependency between processes. */
	if (waiter->tgid == waker->tgid)
		return 0;
	if (!is_task_context(waker) || is_signalled(waiter))
		return 0;
	/* Kernel threads act for others. Only what workers carry between the ends of terminals is counted. */
	if (waker->flags & PF_KTHREAD) {
		if (waker->flags & PF_WQ_WORKER)
			carried(waiter, waker->pid);
		return 0;
	}
	depend(waiter, waker);
	return 0;
}

/* A task that really slept is woken. */
SEC("tp_btf/sched_waking")
int BPF_PROG(spry_sched_waking, struct task_struct *waiter)
{
	return wakes(waiter);
}

/* Used in place of spry_sched_waking where it is asked for and can be had: a task is to be woken, whether it
 * sleeps or not. */
SEC("fentry/try_to_wake_up")
int BPF_PROG(spry_try_to_wake_up, struct task_struct *waiter)
{
	return wakes(waiter);
}

/* A process that becomes another program is counted as another process: what the old program depended on says
 * nothing of the new one. */
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

/* Gives a node to a process of which only the daemon has heard; the node's name is put into the request. */
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
		/* A process that has begun to end may have looked for its node before it got this one, and
		 * would not give it back. Another process may get the same number later. */
		if (is_last_thread(task)) {
			release(request->tgid);
			request->ref = 0;
		}
	}
	bpf_task_release(task);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
