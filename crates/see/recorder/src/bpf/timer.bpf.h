/* SPDX-License-Identifier: GPL-2.0-only */
/* Group timer, and the clock tick of group sched. */
#ifndef SPRY_TIMER_BPF_H
#define SPRY_TIMER_BPF_H

static __always_inline u32 pid_number(struct pid *pid)
{
	return pid ? BPF_CORE_READ(pid, numbers[0].nr) : 0;
}

/* A timer's kind, and the thread that waits for it. */
struct awaited {
	u32 kind;
	u32 tid;
};

static __always_inline struct awaited awaited_by(struct hrtimer *timer, u64 handler)
{
	u32 tid = 0, kind = SPRY_TIMER_OTHER;

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
	return (struct awaited){.kind = kind, .tid = tid};
}

/* A timer that is late by this, ns, when the first timer of its CPU is seen, was passed by its clock. */
#define CLOCK_JUMP_NS 1000000000ull

/* Whether the timer's clock, which is not the monotonic one, was set past the timer's time. Then it is not
 * known how late the timer is. */
static __always_inline bool clock_jumped_past(struct stay *s, struct hrtimer *timer, u64 latest)
{
	u64 settings = clock_settings(timer), before = s->c->clock_settings;

	if (settings != before) {
		s->c->clock_settings = settings;
		s->c->clock_set_ns = before || latest + CLOCK_JUMP_NS < s->now ? s->now : 0;
	}
	return latest < s->c->clock_set_ns;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(spry_hrtimer_expire_entry, struct hrtimer *timer)
{
	u64 handler = (u64)timer->function;
	struct awaited awaited;
	s64 offset, latest;
	struct stay s;

	if (handler == knobs.tick_handler) {
		if (knobs.want_ticks)
			put_value(SPRY_TICK, timer->node.expires);
		return 0;
	}
	if (!knobs.want_timers || !enter(&s))
		return 0;
	offset = clock_offset(timer);
	latest = timer->node.expires - offset;
	if (latest <= SPRY_AT_ONCE_NS || (offset && clock_jumped_past(&s, timer, latest))) {
		leave(&s);
		return 0;
	}
	awaited = awaited_by(timer, handler);
	put(&s, SPRY_TIMER, spry_timer_expiry, .tid = awaited.tid, .kind = awaited.kind,
	    .deadline = timer->_softexpires - offset, .latest = latest);
	leave(&s);
	return 0;
}

/* The timer wheel counts jiffies: `deadline` is the number of jiffies by which the timer is late. */
SEC("tp_btf/timer_expire_entry")
int BPF_PROG(spry_timer_expire_entry, struct timer_list *timer)
{
	u64 late = 0;
	u32 tid = 0;
	struct stay s;

	if (!enter(&s))
		return 0;
	if ((u64)timer->function == knobs.process_timeout_handler)
		tid = BPF_CORE_READ((struct process_timer *)timer, task, pid);
	if (knobs.has_wheel_clock)
		late = ctx[1] - timer->expires;
	put(&s, SPRY_TIMER, spry_timer_expiry, .tid = tid, .kind = SPRY_TIMER_WHEEL, .deadline = late);
	leave(&s);
	return 0;
}

#endif
