/* SPDX-License-Identifier: GPL-2.0-only */
/* Ties: the dependency between two processes, as the waker's system call shows it. */
#ifndef SPRY_TIE_BPF_H
#define SPRY_TIE_BPF_H

#include "kernel.bpf.h"

/*
 * The dependency between two processes that a wake-up shows.
 *
 * A process that sleeps is woken by the event for which it waits: bytes in a pipe, an answer, a lock. But
 * requests of clients also wake a server, and each process that changes a file wakes the processes that watch
 * it. These do not depend on the waker. So the tie follows from the system call that the waker is in.
 */
enum tie {
	/* The wake-up shows no dependency. */
	TIE_NONE,
	/* The two processes are equals: each may depend on the other. */
	TIE_EQUALS,
	/* The waker is a client of the woken process. */
	TIE_CLIENT,
	/* The waker is a server of the woken process. */
	TIE_SERVER,
};

/* The meaning of a wake-up, by the waker's system call. */
enum call {
	/* No dependency: the call opens, closes, changes or runs files. */
	CALL_NONE,
	/* The two processes share a lock, a queue or a semaphore. */
	CALL_SHARED,
	/* The file behind the call's first argument decides, or the file behind its third. */
	CALL_FILE,
	CALL_THIRD_FILE,
};

/* The meaning of a wake-up in a system call, by the call's number. */
static __always_inline enum call call_of(u64 number)
{
	switch (number) {
	case NR_futex:
	case NR_futex_wake:
	case NR_futex_requeue:
	case NR_msgsnd:
	case NR_msgrcv:
	case NR_semop:
	case NR_semtimedop:
	case NR_mq_timedsend:
	case NR_mq_timedreceive:
	case NR_fcntl:
	case NR_flock:
		return CALL_SHARED;
	case NR_read:
	case NR_readv:
	case NR_write:
	case NR_writev:
	case NR_sendto:
	case NR_sendmsg:
	case NR_sendmmsg:
	case NR_recvfrom:
	case NR_recvmsg:
	case NR_recvmmsg:
	case NR_sendfile:
	case NR_vmsplice:
	case NR_ioctl:
	case NR_accept:
	case NR_accept4:
	case NR_connect:
	case NR_shutdown:
		return CALL_FILE;
	case NR_splice:
	case NR_tee:
		return CALL_THIRD_FILE;
	}
	return CALL_NONE;
}

#if defined(__TARGET_ARCH_x86)
/* The meaning of a wake-up in a 32-bit program's system call, by the call's number. */
static __always_inline enum call call_of_32(u64 number)
{
	switch (number) {
	case NR_32_futex:
	case NR_32_futex_time64:
	case NR_futex_wake:
	case NR_futex_requeue:
	case NR_32_ipc:
	case NR_32_mq_timedsend:
	case NR_32_mq_timedreceive:
	case NR_32_mq_timedsend_time64:
	case NR_32_mq_timedreceive_time64:
	case NR_32_fcntl:
	case NR_32_fcntl64:
	case NR_32_flock:
		return CALL_SHARED;
	case NR_32_read:
	case NR_32_readv:
	case NR_32_write:
	case NR_32_writev:
	case NR_32_sendto:
	case NR_32_sendmsg:
	case NR_32_sendmmsg:
	case NR_32_recvfrom:
	case NR_32_recvmsg:
	case NR_32_recvmmsg:
	case NR_32_sendfile:
	case NR_32_sendfile64:
	case NR_32_ioctl:
	case NR_32_accept4:
	case NR_32_connect:
	case NR_32_shutdown:
		return CALL_FILE;
	case NR_32_splice:
		return CALL_THIRD_FILE;
	}
	return CALL_NONE;
}
#endif

/* The meaning of a wake-up in the system call that a task is in. Sets `fd` to the file descriptor on which
 * the call acts. */
static __always_inline enum call current_call(struct task_struct *task, u32 *fd)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	enum call call;

#if defined(__TARGET_ARCH_x86)
	if (task->thread_info.status & TS_COMPAT) {
		call = call_of_32(regs->orig_ax);
		*fd = call == CALL_THIRD_FILE ? regs->dx : regs->bx;
	} else {
		call = call_of(regs->orig_ax);
		*fd = call == CALL_THIRD_FILE ? regs->dx : regs->di;
	}
#elif defined(__TARGET_ARCH_arm64)
	/* On this architecture the numbers of 32-bit programs' system calls are not defined here. */
	if (regs->pstate & PSR_MODE32)
		return CALL_NONE;
	call = call_of(regs->syscallno);
	*fd = call == CALL_THIRD_FILE ? regs->regs[2] : regs->orig_x0;
#else
	call = call_of(regs->syscallno);
	*fd = -1;
#endif
	return call;
}

/* Whether a socket has a server's name. Sockets that a server accepts have the same name as the server's own.
 * A name that the kernel assigned, a zero and five digits, is no server's. */
static __always_inline bool is_of_server(struct unix_sock *sk)
{
	struct unix_address *address = BPF_CORE_READ(sk, addr);
	u32 length;
	char first;

	if (!address)
		return false;
	length = BPF_CORE_READ(address, len);
	if (length != SUN_PATH + AUTOBOUND)
		return true;
	bpf_probe_read_kernel(&first, sizeof(first),
			      (void *)address + bpf_core_field_offset(struct unix_address, name) + SUN_PATH);
	return first;
}

/* The tie that a wake-up through a socket shows. Only the names of Unix sockets distinguish clients from
 * servers. */
static __always_inline enum tie tie_by_socket(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk), *peer;

	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_UNIX)
		return TIE_EQUALS;
	if (!bpf_core_type_exists(struct unix_sock))
		return TIE_EQUALS;
	peer = BPF_CORE_READ((struct unix_sock *)sk, peer);
	/* The socket sends a datagram to a name, or its connection has not been accepted yet. */
	if (!peer || is_of_server((struct unix_sock *)peer))
		return TIE_CLIENT;
	return is_of_server((struct unix_sock *)sk) ? TIE_SERVER : TIE_EQUALS;
}

/* Whether a device is memory's (/dev/null) or a terminal, by its major number. A write to these wakes no
 * other process, except through kernel workers. Every user can write to some of them. */
static __always_inline bool is_open_to_all(u32 device)
{
	u32 major = DEV_MAJOR(device);

	return major == MEM_MAJOR || major == TTY_MAJOR || major == TTYAUX_MAJOR ||
	       (major >= PTY_MASTER_MAJOR && major <= PTY_LAST_MAJOR);
}

/* Whether a wake-up through a file may come from a watch on it (inotify). That is so if the file is on a
 * disk, or has a name and is watched. Any user may watch /dev. So a watch does not count for a device that
 * itself wakes the processes that wait for it (for example FUSE's). */
static __always_inline bool is_watched(struct file *file, struct inode *inode, u32 kind)
{
	u32 flags;

	if (kind == S_IFREG || kind == S_IFDIR)
		return !(BPF_CORE_READ(inode, i_flags) & S_PRIVATE);
	if (kind == S_IFCHR && !is_open_to_all(BPF_CORE_READ(inode, i_rdev)))
		return false;
	flags = BPF_CORE_READ(file, f_path.dentry, d_flags);
	return (flags & parent_watched()) || BPF_CORE_READ(inode, i_fsnotify_mask);
}

/* The tie that the current task's system call shows while the task wakes another task. */
static __noinline enum tie tie_of_waker(void)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct inode *inode;
	struct file *file;
	enum call call;
	u32 kind, fd;

	call = current_call(waker, &fd);
	if (call == CALL_NONE)
		return TIE_NONE;
	if (call == CALL_SHARED)
		return TIE_EQUALS;
	file = file_of(waker, fd);
	if (!file)
		return TIE_NONE;
	inode = BPF_CORE_READ(file, f_inode);
	kind = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (kind == S_IFSOCK)
		return tie_by_socket(file);
	return is_watched(file, inode, kind) ? TIE_NONE : TIE_EQUALS;
}

#endif
