/* SPDX-License-Identifier: GPL-2.0-only */
/* The differences between kernels that the scheduler must bridge. The code tests for features of a kernel,
 * never for its version. */
#ifndef SPRY_COMPAT_BPF_H
#define SPRY_COMPAT_BPF_H

#include <scx/common.bpf.h>

#ifndef SCHED_IDLE
#define SCHED_IDLE 5
#endif

/* Kernels 7.x forbid direct writes to a task's fields and have functions for them; earlier kernels have
 * no such functions. */
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym __weak;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;

/* Sets a task's order. */
static __always_inline void set_key(struct task_struct *p, u64 key)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, key);
	else
		p->scx.dsq_vtime = key;
}

/* Sets a task's slice. */
static __always_inline void set_slice(struct task_struct *p, u64 slice_ns)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice_ns);
	else
		p->scx.slice = slice_ns;
}

/* From kernel 6.19 on, tasks of a local queue can be ordered again at any time. On earlier kernels this is
 * possible only when a real-time task gives up the CPU. */
void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;
void scx_bpf_reenqueue_local___v2___compat(void) __ksym __weak;

/* Makes the kernel call spry_enqueue again for the tasks in a CPU's local queue, where the kernel can. */
static __always_inline void order_local_anew(s32 cpu)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq))
		scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | cpu, 0);
	else if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___compat))
		scx_bpf_reenqueue_local___v2___compat();
}

/* Whether a task lost its CPU in a read-side critical section of RCU, and has not left the section since.
 * Grace periods wait for such a task. It is false on kernels where read-side sections exclude preemption. */
static __always_inline bool is_reader(const struct task_struct *p)
{
	return bpf_core_field_exists(p->rcu_read_unlock_special) && p->rcu_read_unlock_special.b.blocked;
}

/* The sum of a task's waits for a CPU, ns; 0 on kernels that do not count it. */
static __always_inline u64 waited_of(struct task_struct *p)
{
	return bpf_core_field_exists(p->sched_info.run_delay) ? p->sched_info.run_delay : 0;
}

/* From kernel 6.18 on, a function returns the task that runs on a CPU. On earlier kernels the task is read
 * from the CPU's run queue. */
struct rq *scx_bpf_cpu_rq___whole(s32 cpu) __ksym __weak;

/* The task that runs on a CPU; NULL if the kernel does not report it. */
static __always_inline struct task_struct *current_of(s32 cpu)
{
	struct rq *rq;

	if (bpf_ksym_exists(scx_bpf_cpu_curr))
		return scx_bpf_cpu_curr(cpu);
	if (!bpf_ksym_exists(scx_bpf_cpu_rq___whole))
		return NULL;
	rq = scx_bpf_cpu_rq___whole(cpu);
	return rq ? rq->curr : NULL;
}

/* The clock of run times on this CPU, ns: it excludes the time that interrupts and a hypervisor took. */
static __always_inline u64 task_clock_now(void)
{
	struct rq *rq = bpf_this_cpu_ptr(&runqueues);

	return scx_bpf_now() - (rq->clock - rq->clock_task);
}

/* From kernel 7.1 on, the kernel reports that it takes a waiting task out of its queue because the task's
 * class, weight or CPUs change. */
enum scx_deq_flags___change {
	SCX_DEQ_SCHED_CHANGE___change = 1ull << 33,
};

/* Whether this kernel reports tasks that it takes out of their queues. */
static __always_inline bool says_what_is_taken_out(void)
{
	return bpf_core_enum_value_exists(enum scx_deq_flags___change, SCX_DEQ_SCHED_CHANGE___change);
}

/* Whether a call of spry_dequeue reports a task that was taken out of its queue to change its settings. */
static __always_inline bool is_taken_out(u64 deq_flags)
{
	return says_what_is_taken_out() &&
	       deq_flags & bpf_core_enum_value(enum scx_deq_flags___change, SCX_DEQ_SCHED_CHANGE___change);
}

#endif
