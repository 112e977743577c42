/* SPDX-License-Identifier: GPL-2.0-only */
/* The accounts of all threads, at the start and at the end of a recording. */
#ifndef SPRY_ACCOUNTS_BPF_H
#define SPRY_ACCOUNTS_BPF_H

/* The state of a task that has no CPU. */
static __always_inline u32 state_off_cpu(struct task_struct *task)
{
	return task_is_queued(task) && !task_state(task) ? SPRY_STAT_RUNNABLE : SPRY_STAT_BLOCKED;
}

/*
 * Brings the account of a running task up to now: the kernel itself does so only at ticks and switches. Until
 * a CPU's first switch after recording began, its running task is unknown here, and the account stays as it
 * is. An account must agree with the switches that are recorded up to now:
 *
 * - The task got the CPU after `now`: at `now` it was waiting.
 * - The task has left the CPU, but the kernel has not completed the switch: it has no CPU any more.
 * - The kernel did not show the switch to the task (see unseen_run_time()): no record shows that the task
 *   runs. The account is that of the task before it got the CPU, which the fair scheduler keeps. Another
 *   scheduler does not keep it; its value is then much older than the stay on the CPU.
 */
static __always_inline void bring_up_to_date(struct spry_stat *stat, struct task_struct *task, u64 now)
{
	u32 cpu = stat->meta.cpu;
	struct spry_cpu *c = bpf_map_lookup_elem(&cpus, &cpu);
	u64 running, since, exec, before;

	if (!c)
		return;
	running = *(volatile u64 *)&c->running;
	since = *(volatile u64 *)&c->since_ns;
	exec = *(volatile u64 *)&c->exec_ns;
	barrier();
	/* The CPU may have switched since the first look. */
	if (!running || *(volatile u64 *)&c->running != running || *(volatile u64 *)&c->since_ns != since)
		return;
	if (running == (stat->meta.tid | SPRY_RUNNING_KNOWN)) {
		if (since > now)
			stat->state = SPRY_STAT_RUNNABLE;
		else if (exec + (now - since) > stat->exec_ns)
			stat->exec_ns = exec + (now - since);
		return;
	}
	if (since > now)
		return;
	if (!task_is_current(task)) {
		stat->state = state_off_cpu(task);
		return;
	}
	before = task->se.prev_sum_exec_runtime;
	if (before <= stat->exec_ns && stat->exec_ns - before <= now - since) {
		stat->exec_ns = before;
		stat->state = SPRY_STAT_RUNNABLE;
	}
}

/* An account and its time may be this far apart, ns. Reading the account takes about 1 us. */
#define ACCOUNT_OFF_NS 10000
#define ACCOUNT_TRIES  8

/* Reads the account of a task; returns the time of the account. */
static __always_inline u64 read_account(struct spry_stat *stat, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();
	u32 state = task_has_cpu(task) ? SPRY_STAT_RUNNING : state_off_cpu(task);

	stat->meta.stamp = stamp(now, SPRY_STAT);
	stat->meta.cpu = task_cpu(task);
	stat->meta.tid = task->pid;
	fill_stat(stat, task, state);
	if (state == SPRY_STAT_RUNNING)
		bring_up_to_date(stat, task, now);
	return now;
}

/*
 * The reading thread can be preempted, and its CPU can be stolen, between the look at the clock and the read
 * of the account. Then the account is read again.
 */
static __always_inline void read_account_at_once(struct spry_stat *stat, struct task_struct *task)
{
	int tries;
	u64 now;

	for (tries = 0; tries < ACCOUNT_TRIES; tries++) {
		now = read_account(stat, task);
		if (bpf_ktime_get_ns() - now <= ACCOUNT_OFF_NS)
			break;
	}
	fill_inner(stat, task);
}

/*
 * Writes an account of every thread in the recorder's PID namespace: the recording needs the threads that
 * were there before it, and the accounts at its end.
 */
SEC("iter/task")
int spry_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct spry_stat stat = {};

	if (!task)
		return 0;
	read_account_at_once(&stat, task);
	bpf_seq_write(ctx->meta->seq, &stat, sizeof(stat));
	return 0;
}

/* The accounts that spry_walk writes, for a recorder in a PID namespace of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} accounts SEC(".maps");

/* Writes an account of every thread, whatever its PID namespace. Returns the number without room. */
SEC("syscall")
int spry_walk(void *ctx)
{
	struct spry_stat *stat;
	struct task_struct *task;
	struct task_walk walk;
	int missed = 0;

	bpf_rcu_read_lock();
	bpf_iter_task_new(&walk, NULL, WALK_ALL_THREADS);
	while ((task = bpf_iter_task_next(&walk))) {
		if (!task->pid)
			continue;
		stat = bpf_ringbuf_reserve(&accounts, sizeof(*stat), 0);
		if (!stat) {
			missed++;
			continue;
		}
		read_account_at_once(stat, task);
		bpf_ringbuf_submit(stat, BPF_RB_NO_WAKEUP);
	}
	bpf_iter_task_destroy(&walk);
	bpf_rcu_read_unlock();
	return missed;
}

#endif
