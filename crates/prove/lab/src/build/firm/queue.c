/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Firm timers, as in Time-Sensitive Linux (Goel and others, OSDI 2002, section 3.1).
 *
 * A user's timer may expire up to an overshoot after its deadline. The clock device is programmed for the
 * latest time, deadline plus overshoot. Each return to user mode looks whether a deadline has passed and then
 * serves the timer without an interrupt of the clock device. kernel.firm_overshoot_us is the overshoot of all
 * users' timers; -1 switches firm timers off. With 0, each timer's own slack is its overshoot.
 */
DEFINE_STATIC_KEY_FALSE(firm_timers);
static int firm_overshoot_us = -1;

/* The range of a user's timer, ns: its slack, and at least the overshoot. Timers of real-time tasks and of
 * the kernel's own threads stay as they are. */
u64 firm_range_ns(u64 slack_ns)
{
	int overshoot_us = READ_ONCE(firm_overshoot_us);

	if (!static_branch_unlikely(&firm_timers) || overshoot_us < 0)
		return slack_ns;
	if (rt_or_dl_task_policy(current) || (current->flags & PF_KTHREAD))
		return slack_ns;
	return max(slack_ns, (u64)overshoot_us * NSEC_PER_USEC);
}

/* A timer with a longer range than this is served by its interrupt alone if an earlier one has not passed,
 * ns. */
static u64 firm_window_ns(void)
{
	return max(max(READ_ONCE(firm_overshoot_us), 0) * (u64)NSEC_PER_USEC, 10 * (u64)NSEC_PER_MSEC);
}

static bool firm_is(const struct hrtimer *timer)
{
	return hrtimer_get_softexpires(timer) != hrtimer_get_expires(timer);
}

/* Notes the deadline of a timer that is queued. */
static void firm_note(struct hrtimer *timer, struct hrtimer_clock_base *base)
{
	ktime_t deadline;

	if (!static_branch_unlikely(&firm_timers) || timer->is_soft || !firm_is(timer))
		return;
	deadline = ktime_sub(hrtimer_get_softexpires(timer), base->offset);
	if (deadline < base->cpu_base->firm_next)
		WRITE_ONCE(base->cpu_base->firm_next, deadline);
}

/* The first timer that is due although an earlier timer of the queue is not. */
static struct hrtimer *firm_due(struct hrtimer_clock_base *base, ktime_t now)
{
	struct timerqueue_linked_node *node;
	u64 window_ns;

	if (!static_branch_unlikely(&firm_timers))
		return NULL;
	window_ns = firm_window_ns();
	for (node = timerqueue_linked_first(&base->active); node; node = timerqueue_linked_next(node)) {
		struct hrtimer *timer = hrtimer_from_timerqueue_node(node);

		if (ktime_sub_ns(node->expires, window_ns) > now)
			break;
		if (hrtimer_get_softexpires(timer) <= now)
			return timer;
	}
	return NULL;
}

/* Counts a timer that is served: at a check, or by the clock device's interrupt. */
static void firm_count(struct hrtimer_cpu_base *cpu_base, const struct hrtimer *timer)
{
	if (static_branch_unlikely(&firm_timers) && firm_is(timer))
		cpu_base->firm_counts[cpu_base->firm_checks_now ? 1 : 2]++;
}

/* Finds the earliest deadline again after timers were served. */
static void firm_find_next(struct hrtimer_cpu_base *cpu_base)
{
	unsigned int active = cpu_base->active_bases & HRTIMER_ACTIVE_HARD;
	struct hrtimer_clock_base *base;
	ktime_t next = KTIME_MAX;
	u64 window_ns;

	if (!static_branch_unlikely(&firm_timers))
		return;
	window_ns = firm_window_ns();
	for_each_active_base(base, cpu_base, active)
	{
		struct timerqueue_linked_node *node = timerqueue_linked_first(&base->active);

		for (; node; node = timerqueue_linked_next(node)) {
			struct hrtimer *timer = hrtimer_from_timerqueue_node(node);

			if (ktime_sub_ns(ktime_sub(node->expires, base->offset), window_ns) >= next)
				break;
			if (firm_is(timer))
				next = min(next, ktime_sub(hrtimer_get_softexpires(timer), base->offset));
		}
	}
	WRITE_ONCE(cpu_base->firm_next, next);
}
