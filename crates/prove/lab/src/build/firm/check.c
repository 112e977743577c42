/* SPDX-License-Identifier: GPL-2.0-only */
/* Firm timers' check at the return to user mode, and their settings. */
#ifdef CONFIG_HIGH_RES_TIMERS
void firm_check(struct pt_regs *regs);

/*
 * A trigger point: the return to user mode, with interrupts disabled. If a deadline has passed, timers are
 * served as by the clock device's interrupt.
 */
void firm_check(struct pt_regs *regs)
{
	struct hrtimer_cpu_base *cpu_base = this_cpu_ptr(&hrtimer_bases);
	struct pt_regs *outer;

	if (!cpu_base->hres_active)
		return;
	cpu_base->firm_counts[0]++;
	if (ktime_get() < READ_ONCE(cpu_base->firm_next))
		return;
	outer = set_irq_regs(regs);
	irq_enter_rcu();
	cpu_base->firm_checks_now = true;
	hrtimer_interrupt(__this_cpu_read(tick_cpu_device.evtdev));
	cpu_base->firm_checks_now = false;
	irq_exit_rcu();
	set_irq_regs(outer);
	hrtimer_rearm_deferred();
}

#ifdef CONFIG_SYSCTL
static int firm_overshoot_max_us = USEC_PER_SEC;

static int firm_overshoot_handler(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
				  loff_t *ppos)
{
	static DEFINE_MUTEX(lock);
	int ret;

	/* The switch is that of the latest value. */
	guard(mutex)(&lock);
	ret = proc_dointvec_minmax(table, write, buffer, lenp, ppos);
	if (ret || !write)
		return ret;
	if (READ_ONCE(firm_overshoot_us) < 0)
		static_branch_disable(&firm_timers);
	else
		static_branch_enable(&firm_timers);
	return 0;
}

/* Three numbers: checks, timers served at checks, timers served by interrupts. */
static int firm_counts_handler(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
			       loff_t *ppos)
{
	struct ctl_table shown = *table;
	unsigned long sums[3] = {};
	int cpu, nth;

	for_each_possible_cpu(cpu) for (nth = 0; nth < 3; nth++) sums[nth] +=
		READ_ONCE(per_cpu(hrtimer_bases, cpu).firm_counts[nth]);
	shown.data = sums;
	return proc_doulongvec_minmax(&shown, write, buffer, lenp, ppos);
}

static const struct ctl_table firm_sysctls[] = {
	{
		.procname = "firm_overshoot_us",
		.data = &firm_overshoot_us,
		.maxlen = sizeof(int),
		.mode = 0644,
		.proc_handler = firm_overshoot_handler,
		.extra1 = SYSCTL_NEG_ONE,
		.extra2 = &firm_overshoot_max_us,
	},
	{
		.procname = "firm_counts",
		.maxlen = 3 * sizeof(unsigned long),
		.mode = 0444,
		.proc_handler = firm_counts_handler,
	},
};

static int __init firm_sysctl_init(void)
{
	register_sysctl_init("kernel", firm_sysctls);
	return 0;
}
late_initcall(firm_sysctl_init);
#endif /* CONFIG_SYSCTL */
#endif /* CONFIG_HIGH_RES_TIMERS */
