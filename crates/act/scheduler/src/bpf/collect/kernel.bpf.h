/* SPDX-License-Identifier: GPL-2.0-only */
/* The differences between kernels that the collection must bridge and that shared headers do not bridge. Rust
 * code probes the features of a kernel. */
#ifndef SPRY_KERNEL_BPF_H
#define SPRY_KERNEL_BPF_H

#include "../common/types.bpf.h"
#include "../../../../../base/kernel/include/files.bpf.h"
#include "../../../../../base/kernel/include/preempt.bpf.h"
#include "../../../../../base/kernel/include/syscalls.bpf.h"

/* The collection's knobs, set before loading. */
const volatile struct spry_collect_knobs knobs SEC(".rodata.knobs");
#define bucket_secret knobs.bucket_secret

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* Constants of the kernel that its type information does not contain. */
#define S_PRIVATE  (1 << 9)
#define TS_COMPAT  2
#define PSR_MODE32 0x10
/* The offset of a socket's name in its address, and the length of a name that the kernel itself assigned. */
#define SUN_PATH  2
#define AUTOBOUND 6

/* Whether the current task itself runs, and no interrupt. */
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

/* Whether a task is in exec. */
static __always_inline bool is_in_exec(struct task_struct *task)
{
	struct task_struct___in_execve *flagged = (void *)task;

	return bpf_core_field_exists(flagged->in_execve) && BPF_CORE_READ_BITFIELD(flagged, in_execve);
}

/* Whether a task is about to be woken for a signal. Any process that may send a signal can do so, so the
 * wake-up shows no dependency. The kernel notes the signal before the wake-up. */
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

/* Whether a task that sleeps is in a system call that writes: a pipe or a socket is full. */
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

enum dentry_flags___named {
	DCACHE_FSNOTIFY_PARENT_WATCHED___named = 1 << 14,
};

/* The flag of a name in a watched directory. Before kernel 6.14 the kernel's type information
 * does not contain it. */
static __always_inline u32 parent_watched(void)
{
	if (bpf_core_enum_value_exists(enum dentry_flags___named, DCACHE_FSNOTIFY_PARENT_WATCHED___named))
		return bpf_core_enum_value(enum dentry_flags___named, DCACHE_FSNOTIFY_PARENT_WATCHED___named);
	return 1 << 14;
}

struct tty_struct___flat {
	struct pid *pgrp;
} __attribute__((preserve_access_index));

/* The process group in a terminal's foreground; 0 without one. Before kernel 5.16 (64d608db38ff) another
 * structure has it. */
static __always_inline u64 foreground_of(struct tty_struct *tty)
{
	struct tty_struct___flat *flat = (void *)tty;

	if (bpf_core_field_exists(flat->pgrp))
		return (u64)BPF_CORE_READ(flat, pgrp);
	return (u64)BPF_CORE_READ(tty, ctrl.pgrp);
}

/* Whether the thread that exits is the last of its process. */
static __always_inline bool is_last_thread(struct task_struct *task)
{
	return task->signal->live.counter <= 0;
}

#endif
