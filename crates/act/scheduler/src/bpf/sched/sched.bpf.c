/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler for sched_ext: a stack of scheduling classes, and an overview of the algorithm.
 *
 * PURPOSE. Processes that a person is using run on time, however loaded the machine is. The daemon finds
 * these processes. About once a second it writes a verdict for each of them, one word in a map, with the
 * class, the level and the quantum. The programs here read the verdicts and decide which task each CPU runs.
 * If the daemon stops, its latest verdicts stay in force. The programs keep all other data of a decision.
 *
 * CLASSES. A CPU tries the classes in this order. The kernel's deadline and real-time tasks are
 * above all of them.
 *
 *   class        tasks                                order in the class         bound
 *   RESERVED     a reservation with budget left       earliest end of period     the budget in each period
 *   DAEMON       Spry's own threads                   first come, first served   10 % of a CPU
 *   KTHREAD      kernel threads of nice 0 or less     first come, first served   20 % of a CPU, 3 % a thread
 *   INTERACTIVE  processes in use                     oldest quantum, level      the rest of the time
 *   OTHER        all other tasks                      least virtual time         5 % at least, in turns
 *   IDLE         SCHED_IDLE; by manual override       first come, first served   5 % at least, in turns
 *
 * Tasks of DAEMON and KTHREAD that exceed their bounds are of OTHER until the next period of 100 ms begins. A
 * task that has used up its reservation waits for the next period, or runs in the class that it would have
 * without it. The file class_NAME.bpf.h has the class NAME; table.bpf.h has the list; class.bpf.h has the
 * interface of a class.
 *
 * ORDER. A task has one word that orders it among all tasks, its dsq_vtime. The class is in the highest byte,
 * the order within the class in the other bytes. The lowest word runs first. The comments call the word the
 * task's order. The function order() charges a task for its run time, then sets a new order by its class'
 * rule. It is called when a task is put into a queue, and when a CPU decides whether the running task goes
 * on. A task of OTHER that ran less than 60 us since it was charged keeps its order instead.
 *
 * INTERACTIVE. All threads of a process spend one quantum. A process that has spent it is given the next one
 * at once. The time of this refill is the first part of the order of its threads. So the process goes behind
 * every process that was given its quantum earlier. Equally old quanta are ordered by the level (0 is the
 * display server's) and then by the run time that is left. A process with a long quantum has more of the CPU.
 * No process has a second quantum before each other waiting process has had one.
 *
 * OTHER. A task's virtual time grows with its run time divided by its weight, and the least virtual time runs
 * first. The weight counts within the task's group, a cgroup or a session (cgroup.bpf.h). The class has a
 * virtual time, too. It grows with the run time of its tasks, divided by the number of tasks that want to
 * run. A task that wakes is placed near it: about a slice behind it at most (the lag), and ahead of it up to
 * a limit. A new task begins where its creator stands, and a task that exits passes its lead on
 * (births.bpf.h). So neither sleeping nor forking gains run time.
 *
 * TURNS. A strict order of classes would starve lower classes. So OTHER has turns while higher classes keep
 * it waiting, and IDLE has turns while any other class does (below.bpf.h). The turns of each take 5 % of the
 * time, 2 ms each at most. With up to 120 waiting tasks, each of them has a turn within 0.4 s. With more
 * tasks, it is within 4.5 s, and the turns may then exceed their 5 %. RESERVED goes before turns. As long as
 * turns keep to their share, they have 20 % of a CPU together with DAEMON and KTHREAD (budget.bpf.h).
 *
 * QUEUES. A place is a group of eight queues: one for each class, and two more (state.bpf.h). Each last-level
 * cache has a place, for tasks that may use all CPUs. Tasks that are bound to one CPU wait in the place of
 * this CPU. Tasks that may use several CPUs, but not all, wait in the place of this set of CPUs (mask.bpf.h).
 * A CPU takes the first task of the places that it serves. It looks at other caches when these have no task.
 * Each place counts OTHER's virtual time by itself, as a domain; domain.bpf.h compares two domains.
 *
 * THE PATH OF A TASK.
 *
 *   wakes        spry_select_cpu picks an idle CPU, or the CPU that runs the lowest class below the task's
 *   is put       spry_enqueue orders the task; one of four things follows:
 *                  woken_first  its order precedes the running task's: into the local queue, with preemption
 *                  woken_alone  its CPU is idle and no task waits: into the local queue
 *                  park         its cgroup has spent cpu.max: into a queue that no CPU serves (park.bpf.h)
 *                  waits        otherwise: into the queue of its class, and a CPU is looked for
 *   is chosen    spry_dispatch: decide() tries RESERVED, then a due turn, then the other classes
 *   runs         until its slice ends at a tick, the CPU's timer fires (timer.bpf.h), or a task preempts it
 *   is charged   in the next order(): its process' quantum, its virtual time, its group, its class' budget
 *   sleeps       spry_quiescent: its group no longer counts it
 *
 * CHANGES WHILE A TASK WAITS. Its order was set when it was put. When verdicts change, the next CPU that
 * decides moves tasks that are now in use up to INTERACTIVE (rise.bpf.h). Kernel workers that processes in
 * use need move up likewise (workers.bpf.h). Every 200 ms, housekeeping pulls waiting tasks of OTHER back if
 * they stand too far ahead (housekeeping.bpf.h).
 *
 * SEVERAL CPUS. No CPU waits for a lock of the scheduler. Waking and deciding CPUs agree by a handshake
 * through memory (holder.bpf.h). A CPU that puts a task first counts the task, then reads which class each
 * CPU runs. A CPU that decides publishes its class first, then reads the counts again. At least one of them
 * sees the other; the deciding CPU then kicks itself to decide again. The count of a queue may be too high
 * for a moment, but a queue with a count of 0 is empty. Housekeeping corrects the counts.
 *
 * KERNELS. compat.bpf.h handles differences of kernels with sched_ext (6.12 and later). Real-time kernels
 * give BPF no timers: turns end at ticks there, decisions do the housekeeping, and cpu.max does not hold. On
 * one CPU the verifier removes all code for several CPUs.
 *
 * DIFFERENCE FROM THE THESIS (chapter 8.3, a stack of classes on one CPU). Its OTHER, KTHREAD and IDLE use
 * Linux 2.4's epochs; here OTHER is fair by weights. Its classes are strict; here turns and budgets bound
 * each of them. Its epoch ends for all processes at once; here each process' quantum ends by itself. It has
 * no reservations, cgroups or several CPUs.
 */
#include <scx/common.bpf.h>
#include "../common/intf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "births.bpf.h"
#include "cgroup_ops.bpf.h"
#include "dispatch.bpf.h"
#include "rise.bpf.h"
#include "workers.bpf.h"
#include "housekeeping.bpf.h"

/* Gives a task its first order, when it is first put into a queue. If the task is new, the order depends on
 * its creator, which is the current task. A child process of a task in use gets half of the rest of its
 * creator's quantum. Any other new task begins in OTHER where its creator stands. */
static __always_inline void first_order(struct task_struct *p, struct thread_ctx *t, const struct where *at)
{
	struct task_struct *creator = bpf_get_current_task_btf();
	bool is_child = p->real_parent->tgid == creator->tgid && p->tgid != creator->tgid;

	if (p->se.sum_exec_runtime)
		return;
	if (is_child && key_class(creator->scx.dsq_vtime) == SPRY_CLASS_INTERACTIVE) {
		struct thread_ctx *from = find_thread(creator);

		/* The child's creator is recorded. Otherwise, when the child exits, its debt would count
		 * against tasks of root. */
		descends(p, t, creator, from, at);
		if (from)
			interactive_fork(t, from);
	} else {
		is_born(p, t, at);
	}
}

/* Puts a task into the queue of its class, and finds a CPU for it. `key` is the task's order. */
static __always_inline void waits(struct task_struct *p, u64 key, u64 slice_ns, const struct where *at,
				  u64 enq_flags)
{
	u32 class = key >> KEY_SHIFT;

	if (class == SPRY_CLASS_RESERVED) {
		reserved_waits(p, key, at, enq_flags);
		return;
	}
	put(p, at->place, class, slice_ns, key, enq_flags);
	if (class == SPRY_CLASS_OTHER)
		starts_tick(at);
	if (nr_cpus > 1) {
		count_put(at, class);
		find_cpu_for(p, class, at);
	}
	/* The kernel found no other task for the CPU, so the CPU would become idle: the kick
	 * makes it decide again. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(spry_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread_ctx *t = NULL;
	struct where at = {};
	struct cpu_ctx *c = cpu_at(0);
	u64 key, slice_ns;
	bool gives_way;

	if (nr_cpus > 1) {
		at = where_of(scx_bpf_task_cpu(p));
		c = cpu_at(at.cpu);
		at.place = place_of(p, &at);
		if (reserved_all)
			reserved_where(p, &at);
	}
	gives_way = c->ordered.task == (u64)p && c->ordered.ran_ns == p->se.sum_exec_runtime;
	c->ordered.task = 0;
	if (gives_way) {
		waits(p, c->ordered.key, c->ordered.slice_ns, &at, enq_flags);
		return;
	}
	if (p->flags & PF_WQ_WORKER && enq_flags & SCX_ENQ_WAKEUP)
		worker_wakes(p, c);
	key = order_again(p, &at);
	slice_ns = slice_other_ns;
	if (!key) {
		t = make_thread(p);
		parked_no_more(p, t);
		if (t && cgroups_limited && enq_flags & SCX_ENQ_WAKEUP)
			wakes(p, t);
		if (t && !p->scx.dsq_vtime)
			first_order(p, t, &at);
		key = order(p, t, &at, enq_flags & SCX_ENQ_WAKEUP ? ASKED_AS_IT_WAKES : ASKED_AS_IT_IS_PUT);
		slice_ns = slice_of(key >> KEY_SHIFT, t);
		if (t && key_class(key) != SPRY_CLASS_RESERVED &&
		    (passes_on(p, t, key, slice_ns, &at, enq_flags) || park(p, t, key, slice_ns, enq_flags)))
			return;
	}
	if (enq_flags & SCX_ENQ_WAKEUP && key_class(key) != SPRY_CLASS_RESERVED &&
	    woken_at_once(p, key, slice_ns, &at, enq_flags))
		return;
	waits(p, key, slice_ns, &at, enq_flags);
}

/* A waiting task leaves its queue because its class, nice value or CPUs change, not because a CPU takes it.
 * The kernel will put it into a queue again. Only kernels from 7.1 on report this; see compat.bpf.h. */
void BPF_STRUCT_OPS(spry_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct scx_dispatch_q *dsq = p->scx.dsq;
	u64 index;

	if (!is_taken_out(deq_flags) || !dsq)
		return;
	index = dsq->id - 1;
	if (index >= SPRY_PLACES_MAX * QUEUES)
		return;
	first[index] = 0;
	__sync_fetch_and_sub(&queued[index], 1);
}

void BPF_STRUCT_OPS(spry_dispatch, s32 cpu, struct task_struct *prev)
{
	struct where at = nr_cpus > 1 ? where_of(cpu) : (struct where){}, waits_at = at;
	struct running running = {.class = SPRY_CLASSES};
	struct puts seen;
	bool with_reserved = reserved_ever, takes;

	if (*(volatile u64 *)&news != *(u64 *)&heeded) {
		rise();
		workers_rise();
	}
	if (!has_timers)
		keep_house_in_passing();
	if (with_reserved)
		reserved_charge(cpu_at(at.cpu), bpf_ktime_get_ns());
	if (nr_cpus > 1)
		seen = begin_to_decide(&at);
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		running.p = prev;
		if (nr_cpus > 1) {
			waits_at.place = place_of(prev, &at);
			if (reserved_all)
				reserved_where(prev, &waits_at);
		}
		running.key = order_again(prev, &waits_at);
		/* The task hardly ran since it was charged, so it is taken to yield the CPU voluntarily (for
		 * example by sched_yield). The next task of its class goes before it. */
		running.yields = running.key;
		if (!running.key) {
			running.t = make_thread(prev);
			running.key = order(prev, running.t, &waits_at, ASKED_WHICH_TO_RUN);
		}
		running.class = running.key >> KEY_SHIFT;
		if (running.class == SPRY_CLASS_RESERVED ? must_leave(prev, running.t, at.cpu)
							 : limited_by(running.t) != 0) {
			running.p = NULL;
			running.class = SPRY_CLASSES;
		}
	}
	takes = decide(&at, &running, with_reserved);
	if (takes) {
		give_way(&at, &running);
	} else {
		go_on(cpu_at(cpu), &running);
		if (nr_cpus > 1)
			cpu_at(cpu)->has = running.class;
	}
	if (nr_cpus > 1)
		end_to_decide(&at, &seen, takes, running.is_alone);
}

/* A real-time task takes the CPU from a task of this scheduler. The kernel would keep that task first
 * in the CPU's local queue, before all tasks that wake meanwhile. Instead, the task is put into its
 * class' queue again. */
void BPF_STRUCT_OPS(spry_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

void BPF_STRUCT_OPS(spry_cpu_online, s32 cpu)
{
	struct cpu_ctx *c = cpu_at(cpu);

	__builtin_memset(c->below, 0, sizeof(c->below));
	c->timer_ns = 0;
	c->is_offline = 0;
}

void BPF_STRUCT_OPS(spry_cpu_offline, s32 cpu)
{
	/* The kernel moves the CPU's tasks away, and sends no further task to this CPU. */
	cpu_at(cpu)->timer_ns = 0;
	cpu_at(cpu)->has = 0;
	cpu_at(cpu)->is_offline = 1;
	reserved_evict(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(spry_init)
{
	u32 i;
	s32 error;

	bpf_for(i, 0, nr_cpus * QUEUES)
	{
		u32 place = i / QUEUES, queue = i % QUEUES;

		if (place < nr_llcs) {
			error = scx_bpf_create_dsq(dsq_at(place, queue), -1);
			if (error)
				return error;
		}
		error = nr_cpus > 1 ? scx_bpf_create_dsq(dsq_at(place_of_cpu(place), queue), -1) : 0;
		if (error)
			return error;
	}
	bpf_for(i, 0, nr_cpus > 2 ? MASKS_MAX * QUEUES : 0)
	{
		error = scx_bpf_create_dsq(dsq_at(place_of_mask(i / QUEUES), i % QUEUES), -1);
		if (error)
			return error;
	}
	bpf_for(i, 0, nr_llcs) begin_domain(i, i, cpus_of_llc);
	bpf_for(i, 0, nr_cpus > 1 ? nr_cpus : 0) begin_domain(place_of_cpu(i), llc_of(i), 1);
	return init_timers();
}

void BPF_STRUCT_OPS(spry_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(spry_ops, .select_cpu = (void *)spry_select_cpu, .enqueue = (void *)spry_enqueue,
	       .dequeue = (void *)spry_dequeue, .dispatch = (void *)spry_dispatch, .tick = (void *)spry_tick,
	       .cpu_release = (void *)spry_cpu_release, .cpu_online = (void *)spry_cpu_online,
	       .cpu_offline = (void *)spry_cpu_offline, .quiescent = (void *)spry_quiescent,
	       .set_cpumask = (void *)spry_set_cpumask, .cgroup_init = (void *)spry_cgroup_init,
	       .cgroup_exit = (void *)spry_cgroup_exit, .cgroup_move = (void *)spry_cgroup_move,
	       .cgroup_set_weight = (void *)spry_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)spry_cgroup_set_bandwidth, .dump = (void *)spry_dump,
	       .init = (void *)spry_init, .exit = (void *)spry_exit,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED |
			SCX_OPS_ALLOW_QUEUED_WAKEUP,
	       .timeout_ms = 30000, .exit_dump_len = 65536, .name = "spry");
