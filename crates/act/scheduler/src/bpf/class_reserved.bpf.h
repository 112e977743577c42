/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RESERVED: tasks that have a reservation and something left of its budget, before all other classes. The
 * task of the period that ends first goes first; if two periods end together, the task with less budget left
 * does.
 * A task that has spent its budget waits for the next period in a queue that no CPU serves, or goes on in
 * the class that it would have without the reservation.
 */
#ifndef SPRY_CLASS_RESERVED_BPF_H
#define SPRY_CLASS_RESERVED_BPF_H

#include "ceiling.bpf.h"
#include "class.bpf.h"

/* An order has two parts: when the period ends, in units of 1.024 us, and what is left of the budget, in
 * units of 66 us. */
#define DEADLINE_UNIT_SHIFT 10
#define DEADLINE_SHIFT	    10
#define BUDGET_UNIT_SHIFT   16
#define BUDGET_UNITS	    (1 << DEADLINE_SHIFT)

/* How many tasks that waited for a period are moved at once. */
#define RELEASED_MOST 256
/* How many tasks of a lower class' queue are looked at for demoted ones. */
#define PROMOTED_MOST 1024

/* How many tasks were looked at. The number is in memory, since the verifier would go through each value of a
 * local variable. */
static u32 released;

static __always_inline u64 reserved_order(const struct spry_reservation *r, const struct thread_ctx *t)
{
	u64 left = r->left_ns > 0 ? (u64)r->left_ns >> BUDGET_UNIT_SHIFT : 0;

	/* A server goes just before the client by which it is ranked. */
	if (is_server(r))
		return KEY(SPRY_CLASS_RESERVED, (ceiling_ns(t) >> DEADLINE_UNIT_SHIFT << DEADLINE_SHIFT) - 1);
	return KEY(SPRY_CLASS_RESERVED, next_period_ns(r) >> DEADLINE_UNIT_SHIFT << DEADLINE_SHIFT |
						at_most(left, BUDGET_UNITS - 1));
}

/* The order of a task that waits for its next period. */
static __always_inline u64 order_till_next(const struct spry_reservation *r)
{
	return KEY(SPRY_CLASS_RESERVED, next_period_ns(r));
}

/* A task of the reservation goes on in a lower class until the next period. */
static __always_inline void is_demoted(struct spry_reservation *r)
{
	struct cpu_ctx *c = cpu_at(r->cpu);

	if (!c->demoted_until_ns || (s64)(next_period_ns(r) - c->demoted_until_ns) < 0)
		c->demoted_until_ns = next_period_ns(r);
}

/* A task of the reservation is chosen for the first time in a period, for which it had waited. */
static __always_inline void is_chosen(struct spry_reservation *r, u64 now)
{
	s64 late_ns = now - r->begun_ns;

	if (r->awaited && late_ns > (s64)r->late_most_ns)
		r->late_most_ns = late_ns;
	r->awaited = 0;
}

/* Whether a task is of RESERVED now. Such a task that has spent its budget waits. */
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

/* Budgets end by the timer: slices are as long as can be. */
static __always_inline u64 reserved_slice(struct thread_ctx *t)
{
	return 1000 * MS;
}

static __always_inline bool reserved_wakes_over(u64 key, struct task_struct *curr)
{
	return key < curr->scx.dsq_vtime;
}

/* A task with a reservation goes to sleep: what it leaves of this period's budget is lost. */
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

/* Whether a running task of RESERVED must give up the CPU: its budget is spent, or it is not where its
 * reservation is. */
static __always_inline bool must_leave(struct task_struct *p, struct thread_ctx *t, s32 cpu)
{
	struct spry_reservation *r = t ? reservation_of(p, t) : NULL;

	return !r || is_exhausted(r) || (nr_cpus > 1 && r->cpu != (u32)cpu);
}

/* Whether the CPU of a reservation must decide now that a task with this order waits there. A task that the
 * CPU has just taken back from itself is put there while the CPU decides. */
static __always_inline bool takes_cpu(const struct task_struct *p, u64 key, const struct spry_reservation *r)
{
	struct task_struct *curr = running_on(r->cpu);

	if (curr == p)
		return false;
	return !curr || curr->flags & PF_IDLE ||
	       (curr->prio >= MAX_RT_PRIO &&
		(key_class(curr->scx.dsq_vtime) != SPRY_CLASS_RESERVED || reserved_wakes_over(key, curr)));
}

/* Puts a task of RESERVED into a queue of its reservation's CPU. */
static __always_inline void reserved_waits(struct task_struct *p, u64 key, const struct where *at,
					   u64 enq_flags)
{
	struct thread_ctx *t = find_thread(p);
	struct spry_reservation *r = t ? reservation_of(p, t) : NULL;
	u64 slice_ns = reserved_slice(t);

	if (!r) {
		/* The reservation was closed a moment ago. */
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

/* Where a waiting task goes by its reservation. */
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

/* A period begins: moves its tasks from the queue in which they waited for it. `looks_at_all` is not 0 after
 * reservations were opened or closed. */
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

		/* The verifier forgets bounds that were found before the loop. */
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

/* Moves tasks that another thread's running has left without a budget out of the queue of RESERVED, until its
 * first task has a budget. Returns until when this task may run, ns; 0 if there is none. */
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

/* The period of demoted tasks begins: moves them up from a place's queue of a lower class. If the CPU is
 * offline, they go where all others wait. */
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
		/* The reservation may be younger than the task's wait. */
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

static __always_inline void promote(u32 cpu, u32 place, u64 now)
{
	promote_from(cpu, place, SPRY_CLASS_INTERACTIVE, now);
	promote_from(cpu, place, SPRY_CLASS_OTHER, now);
	promote_from(cpu, place, SPRY_CLASS_IDLE, now);
}

/* A CPU waits at most so long for a period to begin, ns: no more than a switch to another task and back
 * takes. */
#define WAITS_MOST_NS 16000

/* When the next period begins that a task waits for, a CPU that decides just before waits until the task's
 * first instruction falls on this moment. If the timer were set for it, its interrupt could come while
 * interrupts are off, and the period would begin late. Returns the time then. */
__noinline u64 wait_for_period(u32 cpu, u64 now)
{
	u64 begins = first_key(reserved_place(cpu), QUEUE_NEXT_PERIOD), decides_ns;
	u32 i;

	if (begins == ~0ull)
		return now;
	decides_ns = (begins & KEY_LOW) - cpu_at(cpu)->switch_way_ns - switch_ns;
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

/* Moves tasks into and out of the queue of RESERVED, where their periods and budgets say so. */
static __always_inline void reserved_moves(u32 cpu, struct cpu_ctx *c, u64 now)
{
	u32 round = reserve_round, is_new = round != c->reserve_round;

	c->reserve_round = round;
	begin_periods(cpu, now, is_new);
	if (!c->demoted_until_ns || (!is_new && (s64)(now + lead_ns(c) - c->demoted_until_ns) < 0))
		return;
	c->demoted_until_ns = 0;
	promote(cpu, reserved_place(cpu), now);
	/* A task that waits when its reservation is opened waits with all others. */
	if (is_new && nr_cpus > 1)
		promote(cpu, llc_of(cpu), now);
}

/* Has the timer send the CPU through the scheduler when the next period begins that a task waits for, and
 * when the budget of the task that runs ends (`until_ns`; 0: it is of no reservation). */
static __always_inline void reserved_arm(u32 cpu, struct cpu_ctx *c, u64 now, u64 until_ns)
{
	u64 next = first_key(reserved_place(cpu), QUEUE_NEXT_PERIOD);

	if (until_ns)
		timer_set_too(cpu, now, until_ns);
	if (next != ~0ull)
		timer_set_too(cpu, now, (next & KEY_LOW) - lead_ns(c));
	if (c->demoted_until_ns)
		timer_set_too(cpu, now, c->demoted_until_ns - lead_ns(c));
}

/* A running task goes on, or begins, to run on its reservation. Returns until when the budget lasts, ns. */
static __always_inline u64 goes_on_until(struct spry_reservation *r, const struct thread_ctx *t,
					 struct cpu_ctx *c, u64 now)
{
	is_chosen(r, now);
	if (c->reserved_runs != t->reserved) {
		c->reserved_runs = t->reserved;
		c->reserved_until_ns = now;
	} else if ((s64)(now - c->stolen_until_ns) < SOON_NS) {
		/* An interrupt has led to this decision. */
		c->reserved_until_ns = now + c->switch_way_ns + return_ns;
	}
	/* The task runs again after the way back. If its timer were set without it, a task with less budget
	 * than that would be interrupted before it runs, again and again. */
	return at_least(now, c->reserved_until_ns) + r->left_ns;
}

/* Chooses the next task of RESERVED. `until_ns` is until when its budget lasts; 0 if there is none. */
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

/* A task with a reservation waits on the reservation's CPU, in whatever class. */
static __always_inline void reserved_where(struct task_struct *p, struct where *at)
{
	struct spry_reservation *r = reservation_of_task(p);

	if (!r)
		return;
	at->cpu = r->cpu;
	at->llc = llc_of(r->cpu);
	at->place = reserved_place(r->cpu);
}

/* A CPU goes offline: the tasks that have reservations there wait with all others. */
static __always_inline void reserved_evict(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();

	begin_periods(cpu, now, 1);
	settle_reserved(cpu, now);
	promote(cpu, reserved_place(cpu), now);
}

#endif
