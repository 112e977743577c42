/* SPDX-License-Identifier: GPL-2.0-only */
/* Group sched: switches, wake-ups, migrations, and the life of tasks from their creation to their exit. */
#ifndef SPRY_SCHED_BPF_H
#define SPRY_SCHED_BPF_H

#define TASK_DEAD_BIT 0x80

static __always_inline void fill_stat(struct spry_stat *stat, struct task_struct *task, u32 state)
{
	stat->tgid = task->tgid;
	stat->state = state;
	stat->policy = task->policy;
	stat->prio = task->prio;
	stat->pad = 0;
	stat->exec_ns = task->se.sum_exec_runtime;
	stat->utime_ns = task->utime;
	stat->stime_ns = task->stime;
	BPF_CORE_READ_INTO(&stat->comm, task, comm);
}

static __always_inline void fill_inner(struct spry_stat *stat, struct task_struct *task)
{
	stat->inner = inner_tid(task);
	stat->inner_tgid = inner_tgid(task);
}

/* Writes the account of a task that is leaving its CPU: at that moment the kernel's run time is exact. */
static __noinline void put_stat(struct stay *s, struct task_struct *task, u32 state)
{
	struct spry_stat *stat;

	if (!s || !task || !s->c)
		return;
	stat = reserve_meta(s, sizeof(*stat), SPRY_STAT, task->pid);
	if (!stat)
		return;
	fill_stat(stat, task, state);
	fill_inner(stat, task);
	bpf_ringbuf_submit(stat, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(spry_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 next_exec, prev_exec, known;
	s64 uncounted = 0;
	u32 state, allowed = 0;
	struct stay s;

	if (!enter(&s))
		return 0;
	state = knobs.has_prev_state ? (u32)ctx[3] : task_state(prev);
	prev_exec = prev->se.sum_exec_runtime;
	next_exec = next->se.sum_exec_runtime;
	if (s.c->running == (prev->pid | SPRY_RUNNING_KNOWN))
		uncounted = (s.now - s.c->since_ns) - (prev_exec - s.c->exec_ns);
	else if (s.c->running && prev->pid)
		uncounted = (s.now - s.c->since_ns) - unseen_run_time(prev, s.now - s.c->since_ns);
	if (uncounted != (s32)uncounted)
		uncounted = uncounted < 0 ? -0x7fffffff : 0x7fffffff;
	known = s.c->running;
	s.c->running = next->pid | SPRY_RUNNING_KNOWN;
	s.c->since_ns = s.now;
	s.c->exec_ns = next_exec;
	if (state & TASK_DEAD_BIT) {
		state |= prev->exit_state;
		put_stat(&s, prev, SPRY_STAT_EXITED);
	} else if (!known && prev->pid) {
		put_stat(&s, prev, state && !preempt ? SPRY_STAT_BLOCKED : SPRY_STAT_RUNNABLE);
	}
	if (preempt || !state)
		allowed = task_cpus_allowed(prev, SPRY_ALLOWED_MANY);
	put_throttle_over(&s, next);
	put(&s, SPRY_SWITCH, spry_switch, .prev_tid = prev->pid, .prev_policy = prev->policy,
	    .prev_allowed = allowed, .is_preempted = preempt, .next_tid = next->pid,
	    .next_policy = next->policy, .state = state, .prev_prio = prev->prio, .next_prio = next->prio,
	    .uncounted_ns = uncounted);
	if (prev->pid && task_is_throttled(prev))
		put_throttle(&s, prev);
	put_limit_begins(&s, prev);
	if (knobs.want_stacks && prev->pid && !(state & TASK_DEAD_BIT))
		put_stack(ctx, &s, prev);
	leave(&s);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(spry_sched_waking, struct task_struct *task)
{
	struct task_struct *waker;
	struct stay s;

	if (!enter(&s))
		return 0;
	waker = bpf_get_current_task_btf();
	put(&s, SPRY_WAKING, spry_waking, .waker = waker->pid, .context = waker_context(s.c, waker),
	    .wakee = task->pid);
	leave(&s);
	return 0;
}

static __always_inline void put_move(u32 kind, struct task_struct *task, u32 extra, u32 cpu)
{
	struct stay s;

	if (!enter(&s))
		return;
	put(&s, kind, spry_move, .tid = task->pid, .extra = extra, .cpu = cpu);
	leave(&s);
}

/* Writes the record of a wake-up. A sched_ext scheduler may keep the task waiting from now on. */
static __always_inline void put_wakeup(u32 kind, struct task_struct *task)
{
	struct stay s;

	if (!enter(&s))
		return;
	put(&s, kind, spry_move, .tid = task->pid, .extra = task_cpus_allowed(task, 0xffff),
	    .cpu = task_cpu(task));
	put_limit_begins(&s, task);
	leave(&s);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(spry_sched_wakeup, struct task_struct *task)
{
	put_wakeup(SPRY_WAKEUP, task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(spry_sched_wakeup_new, struct task_struct *task)
{
	put_wakeup(SPRY_WAKEUP_NEW, task);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(spry_sched_migrate_task, struct task_struct *task, int to_cpu)
{
	put_move(SPRY_MIGRATE, task, task_cpu(task), to_cpu);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(spry_sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct spry_fork *fork;
	struct stay s;

	stay_on_cpu();
	if (enter(&s)) {
		fork = reserve_meta(&s, sizeof(*fork), SPRY_FORK, parent->pid);
		if (fork) {
			fork->child = child->pid;
			fork->child_tgid = child->tgid;
			BPF_CORE_READ_INTO(&fork->comm, child, comm);
			fork->inner = inner_tid(child);
			fork->inner_tgid = inner_tgid(child);
			bpf_ringbuf_submit(fork, BPF_RB_NO_WAKEUP);
		}
		leave(&s);
	}
	may_leave_cpu();
	return 0;
}

/* The kernel does not show the last switch of a CPU that goes offline, which is to the idle task. */
SEC("tp_btf/cpuhp_exit")
int BPF_PROG(spry_cpuhp_exit, unsigned int cpu, int target, int step, int error)
{
	struct spry_meta *meta;
	struct stay s;

	if (error || step != bpf_core_enum_value(enum cpuhp_state, CPUHP_TEARDOWN_CPU))
		return 0;
	stay_on_cpu();
	if (enter(&s)) {
		meta = reserve_meta(&s, sizeof(*meta), SPRY_OFFLINE, 0);
		if (meta) {
			meta->cpu = cpu;
			bpf_ringbuf_submit(meta, BPF_RB_NO_WAKEUP);
		}
		leave(&s);
	}
	may_leave_cpu();
	return 0;
}

static __always_inline void put_life(u32 kind, struct task_struct *task, u64 value)
{
	struct spry_life *life;
	struct stay s;

	stay_on_cpu();
	if (enter(&s)) {
		life = reserve_meta(&s, sizeof(*life), kind, task->pid);
		if (life) {
			life->value = value;
			bpf_ringbuf_submit(life, BPF_RB_NO_WAKEUP);
		}
		leave(&s);
	}
	may_leave_cpu();
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(spry_sched_process_exec, struct task_struct *task, pid_t old_tid)
{
	put_life(SPRY_EXEC, task, old_tid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(spry_sched_process_exit, struct task_struct *task)
{
	put_life(SPRY_EXIT, task, 0);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(spry_task_rename, struct task_struct *task, const char *comm)
{
	struct spry_rename *rename;
	struct stay s;

	stay_on_cpu();
	if (enter(&s)) {
		rename = reserve_meta(&s, sizeof(*rename), SPRY_RENAME, task->pid);
		if (rename) {
			rename->tgid = task->tgid;
			rename->pad = 0;
			bpf_probe_read_kernel_str(rename->comm, sizeof(rename->comm), comm);
			bpf_ringbuf_submit(rename, BPF_RB_NO_WAKEUP);
		}
		leave(&s);
	}
	may_leave_cpu();
	return 0;
}

#endif
