/* SPDX-License-Identifier: GPL-2.0-only */
/* Who depends on whom: edges between processes from wake-ups, kept where the daemon reads them without a
 * system call. */
#include "edge.bpf.h"
#include "kernel.bpf.h"
#include "tty.bpf.h"

static __always_inline int wakes(struct task_struct *waiter)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	/* The end of a process is no message; the kernel's own threads depend on nobody. */
	if ((waiter->flags & (PF_EXITING | PF_KTHREAD)) || waker->flags & PF_EXITING)
		return 0;
	/* What threads of one process do for each other is no dependency. */
	if (waiter->tgid == waker->tgid)
		return 0;
	if (!is_task_context(waker) || is_signalled(waiter))
		return 0;
	/* Kernel threads act for others. */
	if (waker->flags & PF_KTHREAD) {
		if (waker->flags & PF_WQ_WORKER)
			carried(waiter, waker->pid);
		return 0;
	}
	depend(waiter, waker);
	return 0;
}

/* One that really slept is woken. */
SEC("tp_btf/sched_waking")
int BPF_PROG(spry_sched_waking, struct task_struct *waiter)
{
	return wakes(waiter);
}

/* In place of the former where it is asked for and can be had: one that is to be woken is tested, asleep or
 * not. */
SEC("fentry/try_to_wake_up")
int BPF_PROG(spry_try_to_wake_up, struct task_struct *waiter)
{
	return wakes(waiter);
}

/* Another program is another process: what its number depended on before says nothing of it. */
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

/* Gives a process a node that has shown itself to the daemon only; leaves the node's name in the request. */
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
		request->ref = find_ref(request->tgid);
		if (!request->ref)
			request->ref = new_node(request->tgid);
		/* Who has begun to end may have looked for its node already; who has not will find it. */
		if (is_last_thread(task)) {
			release(request->tgid);
			request->ref = 0;
		}
	}
	bpf_task_release(task);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
