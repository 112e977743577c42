/* SPDX-License-Identifier: GPL-2.0-only */
/* Groups ipc and mark: bytes that system calls write to and read from channels, and programs' own events. */
#ifndef SPRY_IPC_BPF_H
#define SPRY_IPC_BPF_H

enum way { WRITES, READS };

/* An address that cannot be found back from the trace: a bijection keyed for this recording. */
static __always_inline u64 hide(u64 address)
{
	return (address ^ knobs.channel_key) * 0x9e3779b97f4a7c15;
}

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0xff51afd7ed558ccd;
	return hash ^ hash >> 32;
}

/* The id of one direction of an internet connection, made of (source, destination): both ends get the same
 * id. */
static __always_inline u64 inet_id(struct sock *sk, u32 family, enum way way)
{
	u64 own, peer, hash;
	u64 own_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	u64 peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));

	if (!peer_port)
		return 0;
	if (family == AF_INET) {
		own = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		peer = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	} else {
		struct in6_addr own_long = BPF_CORE_READ(sk, __sk_common.skc_v6_rcv_saddr);
		struct in6_addr peer_long = BPF_CORE_READ(sk, __sk_common.skc_v6_daddr);
		u32 *a = own_long.in6_u.u6_addr32, *b = peer_long.in6_u.u6_addr32;

		/* An IPv4 address written as IPv6 must give the same id as at the other end, where it may be
		 * written as IPv4. */
		own = a[3] ^ (a[2] == bpf_htonl(0xffff) ? 0 : mix(mix(a[0], a[1]), a[2]));
		peer = b[3] ^ (b[2] == bpf_htonl(0xffff) ? 0 : mix(mix(b[0], b[1]), b[2]));
	}
	hash = way == WRITES ? mix(mix(own, own_port), mix(peer, peer_port))
			     : mix(mix(peer, peer_port), mix(own, own_port));
	return hash ? hash : 1;
}

static __always_inline u32 socket_channel(struct file *file, enum way way, u64 *id)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk), *queue;
	u32 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	if (family == AF_UNIX) {
		queue = way == READS ? sk : BPF_CORE_READ((struct unix_sock *)sk, peer);
		*id = hide((u64)queue);
		return queue ? SPRY_CHANNEL_UNIX : SPRY_CHANNEL_NONE;
	}
	if (family == AF_INET || family == AF_INET6) {
		*id = inet_id(sk, family, way);
		return *id ? SPRY_CHANNEL_INET : SPRY_CHANNEL_NONE;
	}
	return SPRY_CHANNEL_NONE;
}

/* The channel of a terminal, which has two queues: to the program that uses the terminal (1) and from it
 * (0). */
static __always_inline u32 tty_channel(struct file *file, u32 device, enum way way, u64 *id)
{
	u32 major = DEV_MAJOR(device), towards, driver;
	struct tty_file_private *private;
	struct tty_struct *tty;

	if (major != TTY_MAJOR && major != TTYAUX_MAJOR &&
	    (major < PTY_SLAVE_MAJOR || major > PTY_LAST_MAJOR))
		return SPRY_CHANNEL_NONE;
	private = BPF_CORE_READ(file, private_data);
	tty = BPF_CORE_READ(private, tty);
	if (!tty)
		return SPRY_CHANNEL_NONE;
	towards = way == READS;
	driver = BPF_CORE_READ(tty, driver, major);
	if (driver >= PTY_MASTER_MAJOR && driver <= PTY_LAST_MAJOR) {
		if (driver < PTY_SLAVE_MAJOR)
			towards = !towards;
		driver = 0;
	}
	*id = ((u64)driver << 32 | (u32)BPF_CORE_READ(tty, index)) << 1 | towards;
	return SPRY_CHANNEL_TTY;
}

/* The channel that a descriptor refers to, if it is a channel between processes. */
static __always_inline u32 channel_of(struct task_struct *task, u32 fd, enum way way, u64 *id)
{
	struct file *file = file_of(task, fd);
	struct inode *inode;
	u32 mode;

	if (!file)
		return SPRY_CHANNEL_NONE;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (mode == S_IFIFO) {
		*id = (u64)BPF_CORE_READ(inode, i_sb, s_dev) << 40 ^ BPF_CORE_READ(inode, i_ino);
		return SPRY_CHANNEL_PIPE;
	}
	if (mode == S_IFSOCK)
		return socket_channel(file, way, id);
	if (mode == S_IFCHR)
		return tty_channel(file, BPF_CORE_READ(inode, i_rdev), way, id);
	return SPRY_CHANNEL_NONE;
}

/* Takes plain values and is not inlined, so that programs that call it twice stay small. */
static __noinline void put_ipc(u32 fd, u32 way, u64 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct stay s;
	u64 id = 0;
	u32 kind;

	kind = channel_of(task, fd, way, &id);
	if (kind == SPRY_CHANNEL_NONE)
		return;
	stay_on_cpu();
	if (enter(&s)) {
		put(&s, SPRY_IPC, spry_ipc, .id = id, .tid = task->pid,
		    .bytes = bytes > 0xffffffff ? 0xffffffff : bytes, .kind = kind, .is_read = way);
		leave(&s);
	}
	may_leave_cpu();
}

SEC("tp_btf/sys_exit")
int BPF_PROG(spry_sys_exit, struct pt_regs *regs, long result)
{
	struct syscall call;

	if (result <= 0 || !control.enabled || !read_syscall(regs, bpf_get_current_task_btf(), &call))
		return 0;
	switch (call.number) {
	case NR_write:
	case NR_writev:
	case NR_sendto:
	case NR_sendmsg:
		put_ipc(call.args[0], WRITES, result);
		break;
	case NR_read:
	case NR_readv:
	case NR_recvfrom:
	case NR_recvmsg:
		put_ipc(call.args[0], READS, result);
		break;
	case NR_sendfile:
		put_ipc(call.args[1], READS, result);
		put_ipc(call.args[0], WRITES, result);
		break;
	case NR_splice:
		put_ipc(call.args[0], READS, result);
		put_ipc(call.args[2], WRITES, result);
		break;
	}
	return 0;
}

static __always_inline void put_mark(struct task_struct *task, const void *text, u64 len)
{
	struct spry_mark *mark;
	struct stay s;

	stay_on_cpu();
	if (enter(&s)) {
		mark = reserve_meta(&s, sizeof(*mark), SPRY_MARK, task->pid);
		if (mark) {
			mark->pad = 0;
			if (len > SPRY_MARK_BYTES)
				len = SPRY_MARK_BYTES;
			mark->len = len;
			if (bpf_probe_read_user(mark->text, len, text)) {
				bpf_ringbuf_discard(mark, BPF_RB_NO_WAKEUP);
				__sync_fetch_and_add(&s.c->meta_lost, 1);
			} else {
				bpf_ringbuf_submit(mark, BPF_RB_NO_WAKEUP);
			}
		}
		leave(&s);
	}
	may_leave_cpu();
}

/* A mark is a write to the mark node. The kernel itself discards the bytes. */
SEC("tp_btf/sys_enter")
int BPF_PROG(spry_sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task;
	struct syscall call;
	struct inode *inode;
	struct file *file;

	if (number != NR_write || !control.enabled)
		return 0;
	task = bpf_get_current_task_btf();
	if (!read_syscall(regs, task, &call) || !call.args[2])
		return 0;
	file = file_of(task, call.args[0]);
	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if (BPF_CORE_READ(inode, i_ino) == knobs.mark_inode &&
	    BPF_CORE_READ(inode, i_sb, s_dev) == knobs.mark_device)
		put_mark(task, (const void *)call.args[1], call.args[2]);
	return 0;
}

#endif
