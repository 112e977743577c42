/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parked tasks: tasks that wait for the next period of their cgroup's cpu.max.
 *
 * Each cgroup with a slot has a queue of parked tasks, which no CPU serves. A task is parked when it is put
 * into a queue while its cgroup's quota is spent. If the quota is spent later, the task is parked when it
 * comes first in its class' queue.
 *
 * Inside: a task that lost its CPU inside the kernel may hold a lock of the kernel, and so may a task that
 * blocked there. Other tasks then wait for it, even those of root. A task that leaves its CPU on the way to
 * user mode holds no lock.
 *
 * Order: by the time at which a task passes a CPU (release.bpf.h). So tasks inside the kernel are soon first.
 * Of the other tasks, the task that has been parked for longest is first.
 */
#ifndef SPRY_PARK_BPF_H
#define SPRY_PARK_BPF_H

#include "limit.bpf.h"
#include "queue.bpf.h"

#include "../../../../../base/kernel/include/limits.bpf.h"

/* The most tasks that a CPU parks before it takes one. */
#define PARKED_AT_ONCE 32
/* Number of tasks parked in the current call. It is in memory, since the verifier would follow each value of
 * a local variable separately. */
static u32 parked_now;

/* How a thread last left its CPU. A blocked task that gets a CPU calls the scheduler again at once if the CPU
 * must decide again. The kernel reports this as it reports the way to user mode. So after a block such a
 * report counts only if the task had the CPU for long enough to leave the scheduler. */
enum {
	LEFT_UNKNOWN,
	LEFT_BLOCKED,
	LEFT_PREEMPTED,
	LEFT_TO_USER,
};

/* Counted up by the daemon when it has detached spry_leaves_cpu. How a thread left its CPU before is unknown
 * from then on, since the thread may have run since. */
u32 switches_round;

/* The run time of a task that has a CPU for no time, ns: about the median of what was measured, and at most
 * PASS_MOST_NS. An interrupt is in that time, so a task that has a CPU for so long leaves the scheduler. It
 * is used after PASS_SAMPLES measurements. */
#define PASS_MOST_NS 100000
#define PASS_STEPS   16
#define PASS_SAMPLES 16
u64 pass_ns;
static u32 pass_samples;

/* A task that runs for so long at once has left the scheduler, whatever interrupts came in between, ns. */
#define LEFT_AFTER_NS MS

static __always_inline u8 how_it_left(const struct thread_ctx *t)
{
	return t->left_round == (u8)switches_round ? t->left_cpu : LEFT_UNKNOWN;
}

static __always_inline void leaves_cpu(struct thread_ctx *t, u8 how)
{
	t->left_cpu = how;
	t->left_round = switches_round;
}

/* A task wakes, so it was blocked. */
static __always_inline void wakes(const struct task_struct *p, struct thread_ctx *t)
{
	leaves_cpu(t, LEFT_BLOCKED);
	t->left_ran_ns = p->se.sum_exec_runtime;
}

/* A task that had a CPU for no time has run for `ran_ns`. This is 0 if the kernel counted all of it as the
 * time of interrupts. */
static __always_inline void measure_pass(u64 ran_ns)
{
	u64 before_ns = pass_ns ?: ran_ns, step_ns = before_ns / PASS_STEPS + 1;

	if (!ran_ns)
		return;
	pass_ns = at_most(ran_ns > before_ns ? before_ns + step_ns : before_ns - step_ns, PASS_MOST_NS);
	if (pass_samples < PASS_SAMPLES)
		pass_samples++;
}

/* A task leaves its CPU. `preempt` is set if the kernel took the CPU away amid its own code; `prev_state` is
 * 0 unless the task blocks. Both are 0 on the way to user mode. The daemon attaches this program while
 * cgroups have limits. */
SEC("tp_btf/sched_switch")
int BPF_PROG(spry_leaves_cpu, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct thread_ctx *t = find_thread(prev);
	u64 ran_ns;
	u16 passed;

	if (!t)
		return 0;
	ran_ns = prev->se.sum_exec_runtime - t->left_ran_ns;
	t->left_ran_ns = prev->se.sum_exec_runtime;
	passed = t->passed;
	t->passed = 0;
	if (passed == PASSED_KICKED)
		measure_pass(ran_ns);
	if (preempt)
		leaves_cpu(t, LEFT_PREEMPTED);
	else if (prev_state)
		leaves_cpu(t, LEFT_BLOCKED);
	else if (how_it_left(t) != LEFT_BLOCKED || passed == PASSED_STAYED || ran_ns > LEFT_AFTER_NS)
		leaves_cpu(t, LEFT_TO_USER);
	return 0;
}

/* Whether a task that has no CPU is known to hold no lock of the kernel. */
static __always_inline bool is_outside(const struct task_struct *p, const struct thread_ctx *t)
{
	return how_it_left(t) == LEFT_TO_USER && !is_reader(p);
}

/* Whether a task that has no CPU may keep others waiting: it left its CPU inside the kernel. */
static __always_inline bool is_inside(const struct task_struct *p, const struct thread_ctx *t)
{
	return !is_outside(p, t) && (how_it_left(t) != LEFT_UNKNOWN || is_reader(p));
}

/* Whether a thread was parked and has not run since. */
static __always_inline bool is_parked(const struct task_struct *p, const struct thread_ctx *t)
{
	return t->passes_ns && t->parked_ran_ns == p->se.sum_exec_runtime;
}

/* Records for tracing that a task waits for its cgroup's next period. A task that has not run since it was
 * parked has waited for it all the time. */
static __always_inline void tell_parked(struct task_struct *p, u32 slot, u64 now)
{
	struct spry_limit_wait *wait;
	struct cgroup_slot *s = slot_at(slot);

	wait = bpf_task_storage_get(&spry_limits, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!wait)
		return;
	if (!wait->since_ns || wait->ran_ns != p->se.sum_exec_runtime)
		wait->since_ns = now;
	wait->until_ns = 0;
	wait->ran_ns = p->se.sum_exec_runtime;
	wait->group = s->owner;
	wait->quota_ns = s->quota_ns;
	wait->period_ns = s->period_ns;
}

/* Records for tracing that a parked task waits for a CPU from now on, as any other task. */
static __always_inline void tell_released(struct task_struct *p, u64 now)
{
	struct spry_limit_wait *wait = bpf_task_storage_get(&spry_limits, p, NULL, 0);

	if (wait && !wait->until_ns)
		wait->until_ns = now;
}

/* A thread is parked at the slot of a cgroup that has spent its quota. `key` is the thread's order in its
 * class. A thread that has not run since it was parked counts as parked since then, however often it was put
 * into other queues. A task is put before the kernel reports that it leaves its CPU. So each task is looked
 * at when a task inside the kernel would pass a CPU, and release_parked() tells them apart. */
static __always_inline void parks(struct task_struct *p, struct thread_ctx *t, u32 slot, u64 key)
{
	u64 now = scx_bpf_now();

	if (!is_parked(p, t)) {
		t->passes_ns = now + inside_most_ns;
		t->parked_ran_ns = p->se.sum_exec_runtime;
		t->rests = 0;
	}
	t->passes = 0;
	t->parked_key = key;
	/* The CPU forgets the thread's order; otherwise the thread would get it again without a
	 * check of its limits. */
	forget_recent(cpu_at(scx_bpf_task_cpu(p)), p);
	parking[slot & (SPRY_CGROUPS_MAX - 1)].looks = parking_looks = PARKING_LOOKS;
	tell_parked(p, slot, now);
}

/* Parks a thread instead of putting it into a queue, if its cgroup or a cgroup above has spent its quota.
 * Returns whether the thread was parked. */
static __always_inline bool park(struct task_struct *p, struct thread_ctx *t, u64 key, u64 slice_ns,
				 u64 enq_flags)
{
	u32 slot = limited_by(t);

	if (!slot) {
		if (t && is_parked(p, t))
			tell_released(p, scx_bpf_now());
		return false;
	}
	parks(p, t, slot, key);
	scx_bpf_dsq_insert_vtime(p, parked_dsq(slot), slice_ns, t->passes_ns, enq_flags);
	return true;
}

/* A parked task leaves parking to be put into a queue: gives it the order that it had in its class. In the
 * queue of parked tasks its order was the time at which it would pass a CPU. */
static __always_inline void parked_no_more(struct task_struct *p, struct thread_ctx *t)
{
	if (!t || !t->parked_key)
		return;
	set_key(p, t->parked_key);
	t->parked_key = 0;
}

/* Moves a task to the queue of parked tasks of a slot. The iterator `it` stands at the task. */
static __always_inline bool move_to_parked(struct bpf_iter_scx_dsq *it, struct task_struct *p, u32 slot,
					   u64 passes_ns)
{
	__COMPAT_scx_bpf_dsq_move_set_vtime(it, passes_ns);
	return __COMPAT_scx_bpf_dsq_move_vtime(it, p, parked_dsq(slot), 0);
}

/* Parks the first tasks of OTHER in a place while their cgroups' quotas are spent. This happened after the
 * tasks were put into the queue. Otherwise each of a cgroup's many threads would have one more turn. */
__noinline int park_first(u32 place)
{
	struct task_struct *p;

	if (!*queued_at(place, SPRY_CLASS_OTHER))
		return 0;
	parked_now = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_OTHER), 0)
	{
		struct thread_ctx *t = find_thread(p);
		u32 slot = limited_by(t), here = place;

		/* Inside the loop the verifier has lost the range of `place`. */
		barrier_var(here);
		if (!slot || !t || parked_now >= PARKED_AT_ONCE)
			break;
		parked_now++;
		parks(p, t, slot, p->scx.dsq_vtime);
		if (!move_to_parked(BPF_FOR_EACH_ITER, p, slot, t->passes_ns))
			continue;
		*first_at(here, SPRY_CLASS_OTHER) = 0;
		__sync_fetch_and_sub(queued_at(here, SPRY_CLASS_OTHER), 1);
	}
	return 0;
}

#endif
