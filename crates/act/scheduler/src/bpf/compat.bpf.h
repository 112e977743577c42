/* SPDX-License-Identifier: GPL-2.0-only */
/* Every difference between kernels that the scheduler must bridge. The code tests what a kernel has; it never
 * asks for the kernel's version. */
#ifndef SPRY_COMPAT_BPF_H
#define SPRY_COMPAT_BPF_H

#include <scx/common.bpf.h>

#ifndef SCHED_IDLE
#define SCHED_IDLE 5
#endif

/* Kernels 7.x forbid to write a task's fields directly; earlier kernels had no functions for it. */
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym __weak;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;

static __always_inline void set_key(struct task_struct *p, u64 key)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, key);
	else
		p->scx.dsq_vtime = key;
}

static __always_inline void set_slice(struct task_struct *p, u64 slice_ns)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice_ns);
	else
		p->scx.slice = slice_ns;
}

/* On kernels from 6.19 on, tasks can be put back into queues from anywhere. On earlier kernels they waited
 * until a real-time task let go of the CPU. */
void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;
void scx_bpf_reenqueue_local___v2___compat(void) __ksym __weak;

/* Makes the scheduler order anew the tasks that wait in a CPU's local queue. */
static __always_inline void order_local_anew(s32 cpu)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq))
		scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | cpu, 0);
	else if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___compat))
		scx_bpf_reenqueue_local___v2___compat();
}

/* How long a task has waited for a CPU in all, ns; 0 on kernels built without that count. */
static __always_inline u64 waited_of(struct task_struct *p)
{
	return bpf_core_field_exists(p->sched_info.run_delay) ? p->sched_info.run_delay : 0;
}

/* Kernels from 6.18 on say which task runs on a CPU; earlier kernels give the CPU's whole run queue. */
struct rq *scx_bpf_cpu_rq___whole(s32 cpu) __ksym __weak;

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

/* The clock by which run times are counted, on this CPU, ns: it leaves out the time that interrupts and a
 * hypervisor took. */
static __always_inline u64 task_clock_now(void)
{
	struct rq *rq = bpf_this_cpu_ptr(&runqueues);

	return scx_bpf_now() - (rq->clock - rq->clock_task);
}

/* Kernels from 7.1 on say when a queued task is taken out because its class, weight or CPUs change; earlier
 * kernels did not tell the scheduler. */
enum scx_deq_flags___change {
	SCX_DEQ_SCHED_CHANGE___change = 1ull << 33,
};

static __always_inline bool says_what_is_taken_out(void)
{
	return bpf_core_enum_value_exists(enum scx_deq_flags___change, SCX_DEQ_SCHED_CHANGE___change);
}

static __always_inline bool is_taken_out(u64 deq_flags)
{
	return says_what_is_taken_out() &&
	       deq_flags & bpf_core_enum_value(enum scx_deq_flags___change, SCX_DEQ_SCHED_CHANGE___change);
}

#endif
