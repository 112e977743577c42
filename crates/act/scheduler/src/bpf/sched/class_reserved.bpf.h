/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RESERVED: tasks with a reservation (reserve.bpf.h) that have budget left in the current period.
 *
 * Purpose: a task has the CPU time that it reserved, in each period, whatever else runs.
 *
 * Rule: earliest deadline first, before all other classes. A task's deadline is the end of its reservation's
 * period. If two deadlines are equal, the task with less budget left runs first. A task that has spent its
 * budget waits for the next period in a queue that no CPU serves. If its reservation is of the demoting kind,
 * it is demoted instead: it runs in the class that it would have without the reservation.
 *
 * Bound: budgets. The daemon admits only reservations that fit on their CPU together.
 *
 * Difference from the thesis: the thesis has no such class. Rule and budgets follow Goel et al. 2002.
 */
#ifndef SPRY_CLASS_RESERVED_BPF_H
#define SPRY_CLASS_RESERVED_BPF_H

#include "ceiling.bpf.h"
#include "class.bpf.h"

/* The order of a task in RESERVED has two parts. They are the end of the period, in units of 1.024 us, and
 * the rest of the budget, in units of 66 us. */
#define DEADLINE_UNIT_SHIFT 10
#define DEADLINE_SHIFT	    10
#define BUDGET_UNIT_SHIFT   16
#define BUDGET_UNITS	    (1 << DEADLINE_SHIFT)

/* The most tasks that are moved at once from the queue of tasks that wait for a period. */
#define RELEASED_MOST 256
/* The most tasks of a lower class' queue that are searched at once for demoted tasks. */
#define PROMOTED_MOST 1024

/* Number of tasks looked at in the current search. It is in memory, since the verifier would follow each
 * value of a local variable separately. */
static u32 released;

/* The order of a task of RESERVED: by its deadline, then by the budget that is left. */
static __always_inline u64 reserved_order(const struct spry_reservation *r, const struct thread_ctx *t)
{
	u64 left = r->left_ns > 0 ? (u64)r->left_ns >> BUDGET_UNIT_SHIFT : 0;

	/* A shared server goes just before the client by which it is ranked. */
	if (is_server(r))
		return KEY(SPRY_CLASS_RESERVED, (ceiling_ns(t) >> DEADLINE_UNIT_SHIFT << DEADLINE_SHIFT) - 1);
	return KEY(SPRY_CLASS_RESERVED, next_period_ns(r) >> DEADLINE_UNIT_SHIFT << DEADLINE_SHIFT |
						at_most(left, BUDGET_UNITS - 1));
}

/* The order of a task that waits for its reservation's next period: the begin of that period. */
static __always_inline u64 order_till_next(const struct spry_reservation *r)
{
	return KEY(SPRY_CLASS_RESERVED, next_period_ns(r));
}

/* A task of the reservation is demoted to a lower class. Its CPU remembers the begin of the first period at
 * which a demoted task must be moved up again. */
static __always_inline void is_demoted(struct spry_reservation *r)
{
	struct cpu_ctx *c = cpu_at(r->cpu);

	if (!c->demoted_until_ns || (s64)(next_period_ns(r) - c->demoted_until_ns) < 0)
		c->demoted_until_ns = next_period_ns(r);
}

/* A task of the reservation gets the CPU. If the task waited for this period, its delay since the period's
 * begin is counted. */
static __always_inline void is_chosen(struct spry_reservation *r, u64 now)
{
	s64 late_ns = now - r->begun_ns;

	if (r->awaited && late_ns > (s64)r->late_most_ns)
		r->late_most_ns = late_ns;
	r->awaited = 0;
}

/* Whether a task is of RESERVED now. A task that has spent its budget is still of RESERVED if its reservation
 * makes it wait; otherwise it is demoted. */
static __always_inline bool is_reserved(struct task_struct *p, struct thread_ctx *t)
{
	struct spry_reservation *r = reservation_of(p, t);

	if (!r)
		return false;
	reservation_goes_on(t->reserved - 1, bpf_ktime_get_ns());
	if (!is_exhausted(r) || r->on_exhaustion == SPRY_EXHAUSTED_WAITS)
		return true;
	is_demoted(r);
	return false;
}

static __always_inline bool reserved_by_nature(struct task_struct *p)
{
	return false;
}

static __always_inline bool reserved_may(struct cpu_ctx *c, struct thread_ctx *t)
{
	return true;
}

static __always_inline u64 reserved_key(const struct asking *a)
{
	struct spry_reservation *r = a->t ? reservation_of(a->p, a->t) : NULL;

	return r ? reserved_order(r, a->t) : KEY(SPRY_CLASS_RESERVED, KEY_LOW);
}

/* The slice of a task of RESERVED. It is longer than any budget, since the CPU's timer ends the budget. */
static __always_inline u64 reserved_slice(struct thread_ctx *t)
{
	return 1000 * MS;
}

static __always_inline bool reserved_wakes_over(u64 key, struct task_struct *curr)
{
	return key < curr->scx.dsq_vtime;
}

/* A task with a reservation goes to sleep. The rest of this period's budget is lost. If the task is of a
 * shared server, a request is over. */
static __always_inline void reserved_sleeps(struct task_struct *p)
{
	struct thread_ctx *t = find_thread(p);
	bool serves = t && serves_by(t), is_of_class = t && t->class == SPRY_CLASS_RESERVED;
	struct spry_reservation *r = serves || is_of_class ? reservation_of(p, t) : NULL;
	u64 now;

	if (!r)
		return;
	now = bpf_ktime_get_ns();
	charge_old_period(cpu_at(nr_cpus > 1 ? scx_bpf_task_cpu(p) : 0), t, r, now);
	reservation_goes_on(t->reserved - 1, now);
	if (serves)
		request_is_over(p, t, r);
	if (is_of_class)
		r->slept = 1;
}

/* Whether a running task of RESERVED must give up the CPU: its budget is spent, or its reservation
 * is on another CPU. */
static __always_inline bool must_leave(struct task_struct *p, struct thread_ctx *t, s32 cpu)
{
	struct spry_reservation *r = t ? reservation_of(p, t) : NULL;

	return !r || is_exhausted(r) || (nr_cpus > 1 && r->cpu != (u32)cpu);
}

/* Whether a reservation's CPU must decide at once, because task `p` with the order `key` is put into its
 * queue. It need not if `p` is the task that runs there: then the CPU is already deciding. */
static __always_inline bool takes_cpu(const struct task_struct *p, u64 key, const struct spry_reservation *r)
{
	struct task_struct *curr = running_on(r->cpu);

	if (curr == p)
		return false;
	return !curr || curr->flags & PF_IDLE ||
	       (curr->prio >= MAX_RT_PRIO &&
		(key_class(curr->scx.dsq_vtime) != SPRY_CLASS_RESERVED || reserved_wakes_over(key, curr)));
}

/* Puts a task of RESERVED into a queue of its reservation's CPU, and makes this CPU decide if the task
 * precedes the running one. A task without budget goes into the queue of tasks that wait for a period. */
static __always_inline void reserved_waits(struct task_struct *p, u64 key, const struct where *at,
					   u64 enq_flags)
{
	struct thread_ctx *t = find_thread(p);
	struct spry_reservation *r = t ? reservation_of(p, t) : NULL;
	u64 slice_ns = reserved_slice(t);

	if (!r) {
		/* The reservation was closed after the task was ordered: the task is of OTHER. */
		put(p, at->llc, SPRY_CLASS_OTHER, slice_other_ns, order_in_other(t, at->llc), enq_flags);
		scx_bpf_kick_cpu(at->cpu, SCX_KICK_PREEMPT);
		return;
	}
	if (is_exhausted(r)) {
		put(p, reserved_place(r->cpu), QUEUE_NEXT_PERIOD, slice_ns, order_till_next(r), enq_flags);
		if (r->cpu == (nr_cpus > 1 ? bpf_get_smp_processor_id() : 0))
			timer_set_too(r->cpu, bpf_ktime_get_ns(),
				      next_period_ns(r) - lead_ns(cpu_at(r->cpu)));
		else
			scx_bpf_kick_cpu(r->cpu, SCX_KICK_PREEMPT);
		return;
	}
	put(p, reserved_place(r->cpu), SPRY_CLASS_RESERVED, slice_ns, key, enq_flags);
	if (enq_flags & SCX_ENQ_LAST || takes_cpu(p, key, r)) {
		cpu_at(r->cpu)->kicks++;
		scx_bpf_kick_cpu(r->cpu, SCX_KICK_PREEMPT);
	}
}

/* The destination of a task of RESERVED: place, queue, order and slice. Since the task was put into its
 * queue, its reservation may have a new period or may have spent its budget. */
static __always_inline struct goes_to where_to(struct task_struct *p, u32 cpu, u64 now)
{
	struct thread_ctx *t = find_thread(p);
	struct spry_reservation *r = t ? reservation_of(p, t) : NULL;
	struct goes_to to = {
		.place = reserved_place(cpu),
		.queue = SPRY_CLASS_RESERVED,
		.slice_ns = reserved_slice(t),
	};

	if (r)
		reservation_goes_on(t->reserved - 1, now);
	if (r && !is_exhausted(r)) {
		to.key = reserved_order(r, t);
	} else if (r && r->on_exhaustion == SPRY_EXHAUSTED_WAITS) {
		to.queue = QUEUE_NEXT_PERIOD;
		to.key = order_till_next(r);
	} else {
		if (r)
			is_demoted(r);
		else
			to.place = llc_of(cpu);
		to.queue = SPRY_CLASS_OTHER;
		to.key = order_in_other(t, r ? reserved_place(cpu) : llc_of(cpu));
		to.slice_ns = slice_other_ns;
		if (t)
			t->class = SPRY_CLASS_OTHER;
	}
	return to;
}

/* Moves tasks from the queue in which they waited for a period to the queue of RESERVED, if that period
 * has begun. If `looks_at_all` is not 0, since reservations were opened or closed, all tasks in that
 * queue are checked. */
__noinline int begin_periods(u32 cpu, u64 now, u32 looks_at_all)
{
	u32 place = reserved_place(cpu) & (SPRY_PLACES_MAX - 1);
	struct task_struct *p;

	if (!*queued_at(place, QUEUE_NEXT_PERIOD))
		return 0;
	released = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, QUEUE_NEXT_PERIOD), 0)
	{
		u64 begins_ns = p->scx.dsq_vtime & KEY_LOW;
		struct goes_to to;
		u32 here = place;

		/* Inside the loop the verifier has lost the range of `place`. */
		barrier_var(here);
		if ((!looks_at_all && (s64)(now + lead_ns(cpu_at(cpu)) - begins_ns) < 0) ||
		    released++ >= RELEASED_MOST)
			break;
		to = where_to(p, cpu, now);
		if (to.key != p->scx.dsq_vtime)
			move_to(BPF_FOR_EACH_ITER, p, here, QUEUE_NEXT_PERIOD, &to);
	}
	*first_at(place, QUEUE_NEXT_PERIOD) = 0;
	return 0;
}

/* Moves tasks without budget out of the queue of RESERVED, until its first task has a budget. Another thread
 * of the same reservation may have spent it. Returns the time until which this first task may run, ns; 0 if
 * there is none. */
__noinline u64 settle_reserved(u32 cpu, u64 now)
{
	u32 place = reserved_place(cpu) & (SPRY_PLACES_MAX - 1);
	struct task_struct *p;
	u64 until_ns = 0;

	if (!*queued_at(place, SPRY_CLASS_RESERVED))
		return 0;
	released = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, SPRY_CLASS_RESERVED), 0)
	{
		struct spry_reservation *r;
		struct goes_to to;
		u32 here = place;

		barrier_var(here);
		if (released++ >= RELEASED_MOST)
			break;
		to = where_to(p, cpu, now);
		if (to.queue != SPRY_CLASS_RESERVED) {
			move_to(BPF_FOR_EACH_ITER, p, here, SPRY_CLASS_RESERVED, &to);
			continue;
		}
		r = reservation_of_task(p);
		if (r) {
			until_ns = now + r->left_ns + cpu_at(cpu)->switch_way_ns + switch_ns;
			is_chosen(r, now);
		}
		break;
	}
	if (released > 1)
		*first_at(place, SPRY_CLASS_RESERVED) = 0;
	return until_ns;
}

/* Moves demoted tasks up from a place's queue of a lower class, if their reservation has budget again. If the
 * reservation's CPU is offline, the tasks go to the queues of its cache. */
__noinline int promote_from(u32 cpu, u32 place, u32 queue, u64 now)
{
	struct task_struct *p;

	place &= SPRY_PLACES_MAX - 1;
	queue &= QUEUES - 1;
	if (!*queued_at(place, queue))
		return 0;
	released = 0;
	bpf_for_each(scx_dsq, p, dsq_at(place, queue), 0)
	{
		struct thread_ctx *t = find_thread(p);
		struct spry_reservation *r;
		struct goes_to to;
		u32 here = place;

		barrier_var(here);
		if (released++ >= PROMOTED_MOST)
			break;
		if (!t)
			continue;
		/* The reservation may have been opened after the task began to wait. */
		r = reservation_of(p, t);
		if (!t->reserved || (!r && !cpu_at(cpu)->is_offline) || (r && r->cpu != cpu))
			continue;
		to.place = r ? reserved_place(cpu) : llc_of(cpu);
		to.queue = queue;
		to.key = p->scx.dsq_vtime;
		if (queue == SPRY_CLASS_OTHER && to.place != here)
			to.key = order_in_other(t, r ? reserved_place(cpu) : llc_of(cpu));
		to.slice_ns = p->scx.slice;
		if (r) {
			reservation_goes_on(t->reserved - 1, now);
			if (is_exhausted(r)) {
				is_demoted(r);
				if (here == to.place)
					continue;
			} else {
				t->class = SPRY_CLASS_RESERVED;
				to.queue = SPRY_CLASS_RESERVED;
				to.key = reserved_order(r, t);
				to.slice_ns = reserved_slice(t);
			}
		}
		move_to(BPF_FOR_EACH_ITER, p, here, queue, &to);
	}
	*first_at(place, queue) = 0;
	return 0;
}

/* Moves demoted tasks up from all lower classes' queues of a place. */
static __always_inline void promote(u32 cpu, u32 place, u64 now)
{
	promote_from(cpu, place, SPRY_CLASS_INTERACTIVE, now);
	promote_from(cpu, place, SPRY_CLASS_OTHER, now);
	promote_from(cpu, place, SPRY_CLASS_IDLE, now);
}

/* The longest time for which a CPU waits for a period to begin, ns. A switch to another task and
 * back takes longer. */
#define WAITS_MOST_NS 16000

/* If the next awaited period begins within WAITS_MOST_NS, the deciding CPU waits for it. It decides so that
 * the task's first instruction falls on the period's begin. A timer that was set for this moment could fire
 * while interrupts are off, and the period would begin late. Returns the time after the wait. */
__noinline u64 wait_for_period(u32 cpu, u64 now)
{
	u64 begins = first_key(reserved_place(cpu), QUEUE_NEXT_PERIOD), decides_ns;
	u32 i;

	if (begins == ~0ull)
		return now;
	begins &= KEY_LOW;
	decides_ns = begins - cpu_at(cpu)->switch_way_ns - switch_ns -
		     tick_lead_ns(cpu_at(cpu), begins, now - stop_ns);
	if ((s64)(decides_ns - now) > WAITS_MOST_NS)
		return now;
	bpf_for(i, 0, WAITS_MOST_NS / 16)
	{
		if ((s64)(decides_ns - now) <= 0)
			break;
		now = bpf_ktime_get_ns();
	}
	return now;
}

/* Moves tasks of a CPU between RESERVED, the queue for the next period and lower classes: periods have begun,
 * or reservations were opened or closed. */
static __always_inline void reserved_moves(u32 cpu, struct cpu_ctx *c, u64 now)
{
	u32 round = reserve_round, is_new = round != c->reserve_round;

	c->reserve_round = round;
	begin_periods(cpu, now, is_new);
	if (!c->demoted_until_ns || (!is_new && (s64)(now + lead_ns(c) - c->demoted_until_ns) < 0))
		return;
	c->demoted_until_ns = 0;
	promote(cpu, reserved_place(cpu), now);
	/* A task that already waits when its reservation is opened is in the queues of the cache. */
	if (is_new && nr_cpus > 1)
		promote(cpu, llc_of(cpu), now);
}

/* Sets the CPU's timer for the next decision on RESERVED: lead_ns before the next awaited period, or at
 * `until_ns`. The budget of the chosen task ends then (0: the task does not run on a reservation). */
static __always_inline void reserved_arm(u32 cpu, struct cpu_ctx *c, u64 now, u64 until_ns)
{
	u64 next = first_key(reserved_place(cpu), QUEUE_NEXT_PERIOD), lead;

	if (until_ns)
		timer_set_too(cpu, now, until_ns);
	if (next != ~0ull) {
		/* A tick that comes between the timer and the period's begin delays the decision or the task.
		 */
		next &= KEY_LOW;
		lead = lead_ns(c);
		if (since_tick_ns(next) < lead + c->tick_way_ns)
			lead += c->tick_way_ns;
		timer_set_too(cpu, now, next - lead);
	}
	if (c->demoted_until_ns)
		timer_set_too(cpu, now, c->demoted_until_ns - lead_ns(c));
}

/* The running task goes on with the budget of its reservation, or begins to use it. Returns the time until
 * which the budget lasts, ns. */
static __always_inline u64 goes_on_until(struct spry_reservation *r, const struct thread_ctx *t,
					 struct cpu_ctx *c, u64 now)
{
	is_chosen(r, now);
	if (c->reserved_runs != t->reserved) {
		c->reserved_runs = t->reserved;
		c->reserved_until_ns = now;
	} else if ((s64)(now - c->stolen_until_ns) < SOON_NS) {
		/* An interrupt caused this decision. Its end and the return to the task are not charged. */
		c->reserved_until_ns = now + c->switch_way_ns + return_ns;
	}
	/* The budget is counted from the time at which the task runs again. An earlier timer would interrupt
	 * a task with little budget before it runs, again and again. */
	return at_least(now, c->reserved_until_ns) + r->left_ns;
}

/* Chooses the next task of RESERVED. Sets `until_ns` to the time until which its budget lasts; 0 if
 * there is no such task. */
static __always_inline enum taken reserved_choose(const struct where *at, const struct running *r, u64 now,
						  u64 *until_ns)
{
	struct spry_reservation *mine = NULL;
	u32 place = reserved_place(at->cpu);

	*until_ns = settle_reserved(at->cpu, now);
	if (r->class == SPRY_CLASS_RESERVED) {
		if (r->p && r->t)
			mine = reservation_of(r->p, r->t);
		if (!*until_ns || first_key(place, SPRY_CLASS_RESERVED) >= r->key) {
			*until_ns = 0;
			if (mine)
				*until_ns = goes_on_until(mine, r->t, cpu_at(at->cpu), now);
			return GOES_ON;
		}
	}
	if (*until_ns && take(place, SPRY_CLASS_RESERVED)) {
		cpu_at(at->cpu)->has = SPRY_CLASS_RESERVED;
		cpu_at(at->cpu)->decided_ns = now;
		return TAKES_NEXT;
	}
	*until_ns = 0;
	return ASKS_ON;
}

/* Corrects where a task waits: a task with a reservation waits in the place of the reservation's CPU, in
 * whatever class it is. */
static __always_inline void reserved_where(struct task_struct *p, struct where *at)
{
	struct spry_reservation *r = reservation_of_task(p);

	if (!r)
		return;
	at->cpu = r->cpu;
	at->llc = llc_of(r->cpu);
	at->place = reserved_place(r->cpu);
}

/* A CPU goes offline: the tasks with reservations there go to the queues of the CPU's cache. */
static __always_inline void reserved_evict(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();

	begin_periods(cpu, now, 1);
	settle_reserved(cpu, now);
	promote(cpu, reserved_place(cpu), now);
}

#endif
