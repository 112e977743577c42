/* SPDX-License-Identifier: GPL-2.0-only */
/* Group timer, and the clock tick of group sched. */
#ifndef SPRY_TIMER_BPF_H
#define SPRY_TIMER_BPF_H

static __always_inline u32 pid_number(struct pid *pid)
{
	return pid ? BPF_CORE_READ(pid, numbers[0].nr) : 0;
}

/* Who waits for a high-resolution timer, and above it what kind of timer it is. */
static __always_inline u64 sleeper_and_kind(struct hrtimer *timer, u64 handler)
{
	u64 tid = 0, kind = SPRY_TIMER_OTHER;

	if (handler == knobs.sleep_handler) {
		struct hrtimer_sleeper *sleeper =
			(void *)timer - bpf_core_field_offset(struct hrtimer_sleeper, timer);

		kind = SPRY_TIMER_SLEEP;
		tid = BPF_CORE_READ(sleeper, task, pid);
	} else if (handler == knobs.timerfd_handler) {
		kind = SPRY_TIMER_TIMERFD;
	} else if (handler == knobs.posix_handler) {
		struct k_itimer *posix =
			(void *)timer - bpf_core_field_offset(struct k_itimer, it.real.timer);

		kind = SPRY_TIMER_POSIX;
		tid = pid_number(BPF_CORE_READ(posix, it_pid));
	} else if (handler == knobs.itimer_handler) {
		struct signal_struct *signal =
			(void *)timer - bpf_core_field_offset(struct signal_struct, real_timer);

		kind = SPRY_TIMER_ITIMER;
		tid = pid_number(BPF_CORE_READ(signal, pids[PIDTYPE_TGID]));
	}
	return kind << SPRY_TIMER_SHIFT | tid;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(spry_hrtimer_expire_entry, struct hrtimer *timer)
{
	u64 handler = (u64)timer->function;
	struct stay s;
	s64 offset;

	if (handler == knobs.tick_handler) {
		if (knobs.want_ticks)
			put_value(SPRY_TICK, timer->node.expires);
		return 0;
	}
	if (!knobs.want_timers || !enter(&s))
		return 0;
	offset = clock_offset(timer);
	put(&s, SPRY_TIMER, spry_timer_expiry, .tid_kind = sleeper_and_kind(timer, handler),
	    .deadline = timer->_softexpires - offset, .latest = timer->node.expires - offset);
	leave(&s);
	return 0;
}

/* The wheel counts jiffies; how late the timer is in them is all that can be said here. */
SEC("tp_btf/timer_expire_entry")
int BPF_PROG(spry_timer_expire_entry, struct timer_list *timer)
{
	u64 late = 0, tid = 0;
	struct stay s;

	if (!enter(&s))
		return 0;
	if ((u64)timer->function == knobs.process_timeout_handler)
		tid = BPF_CORE_READ((struct process_timer *)timer, task, pid);
	if (knobs.has_wheel_clock)
		late = ctx[1] - timer->expires;
	put(&s, SPRY_TIMER, spry_timer_expiry, .tid_kind = (u64)SPRY_TIMER_WHEEL << SPRY_TIMER_SHIFT | tid,
	    .deadline = late);
	leave(&s);
	return 0;
}

#endif
