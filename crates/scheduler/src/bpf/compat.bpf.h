/* SPDX-License-Identifier: GPL-2.0-only */
/* Every difference between kernels that the scheduler must bridge. Each is probed by what is there; versions
 * are never asked. */
#ifndef SPRY_COMPAT_BPF_H
#define SPRY_COMPAT_BPF_H

#include <scx/common.bpf.h>

#ifndef SCHED_IDLE
#define SCHED_IDLE 5
#endif

/* 7.x forbids to write a task's fields; before, there were no functions for it. */
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

/* Kernels from 6.19 on put tasks back from anywhere; before, they waited until a real-time task let go of the
 * CPU. */
void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;
void scx_bpf_reenqueue_local___v2___compat(void) __ksym __weak;

/* Has the tasks that a CPU was to run next ordered anew. */
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

/* 6.18 and later say who runs on a CPU; before, its run queue was given whole. */
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

/* The clock that run times are counted by, on this CPU, ns: without what interrupts and a hypervisor took. */
static __always_inline u64 task_clock_now(void)
{
	struct rq *rq = bpf_this_cpu_ptr(&runqueues);

	return scx_bpf_now() - (rq->clock - rq->clock_task);
}

/* Kernels from 7.1 on say when a queued task is taken out because its class, weight or CPUs change; before,
 * the scheduler did not hear of it. */
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
