/* SPDX-License-Identifier: GPL-2.0-only */
/* Groups irq and resched: interrupts, softirqs, and the way into and out of the scheduler. */
#ifndef SPRY_IRQ_BPF_H
#define SPRY_IRQ_BPF_H

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(spry_irq_handler_entry, int irq)
{
	put_value(SPRY_IRQ_ENTER, (u16)irq);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(spry_irq_handler_exit, int irq)
{
	put_value(SPRY_IRQ_EXIT, (u16)irq);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(spry_softirq_entry, unsigned int number)
{
	put_value(SPRY_SOFTIRQ_ENTER, number);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(spry_softirq_exit, unsigned int number)
{
	put_value(SPRY_SOFTIRQ_EXIT, number);
	return 0;
}

/* This interrupt is also the clock tick where the tick is not a high-resolution timer. */
SEC("tp_btf/local_timer_entry")
int BPF_PROG(spry_local_timer_entry)
{
	if (knobs.want_irqs)
		put_value(SPRY_IRQ_ENTER, SPRY_IRQ_LOCAL_TIMER);
	if (knobs.tick_is_irq)
		put_value(SPRY_TICK, 0);
	return 0;
}

#define INTERRUPT(tracepoint, kind, number)                                                                  \
	SEC("tp_btf/" #tracepoint)                                                                           \
	int BPF_PROG(spry_##tracepoint)                                                                      \
	{                                                                                                    \
		put_value(kind, number);                                                                     \
		return 0;                                                                                    \
	}

INTERRUPT(local_timer_exit, SPRY_IRQ_EXIT, SPRY_IRQ_LOCAL_TIMER)
INTERRUPT(reschedule_entry, SPRY_IRQ_ENTER, SPRY_IRQ_RESCHEDULE)
INTERRUPT(reschedule_exit, SPRY_IRQ_EXIT, SPRY_IRQ_RESCHEDULE)
INTERRUPT(call_function_entry, SPRY_IRQ_ENTER, SPRY_IRQ_CALL_FUNCTION)
INTERRUPT(call_function_exit, SPRY_IRQ_EXIT, SPRY_IRQ_CALL_FUNCTION)
INTERRUPT(call_function_single_entry, SPRY_IRQ_ENTER, SPRY_IRQ_CALL_FUNCTION)
INTERRUPT(call_function_single_exit, SPRY_IRQ_EXIT, SPRY_IRQ_CALL_FUNCTION)
INTERRUPT(irq_work_entry, SPRY_IRQ_ENTER, SPRY_IRQ_IRQ_WORK)
INTERRUPT(irq_work_exit, SPRY_IRQ_EXIT, SPRY_IRQ_IRQ_WORK)

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(spry_sched_entry_tp)
{
	stay_on_cpu();
	put_value(SPRY_SCHED_ENTER, 0);
	may_leave_cpu();
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(spry_sched_exit_tp)
{
	stay_on_cpu();
	put_value(SPRY_SCHED_EXIT, 0);
	may_leave_cpu();
	return 0;
}

SEC("tp_btf/sched_set_need_resched_tp")
int BPF_PROG(spry_sched_set_need_resched_tp, struct task_struct *task, int cpu, int flag)
{
	put_move(SPRY_NEED_RESCHED, task, flag, cpu);
	return 0;
}

#endif
