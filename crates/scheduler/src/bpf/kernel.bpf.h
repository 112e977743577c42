/* SPDX-License-Identifier: GPL-2.0-only */
/* Every difference between kernels that the collection must bridge, but for what others bridge, too; what
 * exists is probed in Rust. */
#ifndef SPRY_KERNEL_BPF_H
#define SPRY_KERNEL_BPF_H

#include "types.bpf.h"
#include "../../../kernel/include/preempt.bpf.h"
#include "../../../kernel/include/syscalls.bpf.h"

/* Set before loading. */
const volatile struct spry_collect_knobs knobs SEC(".rodata.knobs");

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* Whether what runs is the current task's own doing. */
static __always_inline bool is_task_context(struct task_struct *current)
{
	u64 address = 0;
	u32 count;

	if (!read_preempt_count(current, knobs.count_from_rq, &address, &count))
		return true;
	return !(count & knobs.interrupt_mask);
}

struct task_struct___in_execve {
	unsigned int in_execve : 1;
} __attribute__((preserve_access_index));

/* Whether the task is becoming another program. */
static __always_inline bool is_in_exec(struct task_struct *task)
{
	struct task_struct___in_execve *flagged = (void *)task;

	return bpf_core_field_exists(flagged->in_execve) && BPF_CORE_READ_BITFIELD(flagged, in_execve);
}

/*
 * Whether a task is about to be woken for a signal. Whoever may send one can, so it says nothing of whom the
 * task waits for. The signal is noted before the wake-up.
 */
static __always_inline bool is_signalled(struct task_struct *task)
{
	u64 pending = task->pending.signal.sig[0] | task->signal->shared_pending.signal.sig[0];

	return pending & ~task->blocked.sig[0];
}

#if defined(__TARGET_ARCH_x86)
#define SPRY_SYSCALL(regs) ((regs)->orig_ax)
#else
#define SPRY_SYSCALL(regs) ((regs)->syscallno)
#endif

/* Whether a task that sleeps does so in a system call that writes: a pipe, a socket, is full. */
static __always_inline bool is_writing(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	switch (SPRY_SYSCALL(regs)) {
	case NR_write:
	case NR_writev:
	case NR_sendto:
	case NR_sendmsg:
	case NR_splice:
		return true;
	}
	return false;
}

/* Whether the thread that exits is the last of its process. */
static __always_inline bool is_last_thread(struct task_struct *task)
{
	return task->signal->live.counter <= 0;
}

#endif
