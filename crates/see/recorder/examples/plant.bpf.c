/* SPDX-License-Identifier: GPL-2.0-only */
/* Delays for tests: holds a CPU where nothing else may have it, in a tracepoint or in a timer's softirq. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The thread that is held up when it changes its name; the length of a hold, and the timer's period, ns. */
const volatile u32 tid SEC(".rodata.tid");
const volatile u64 hold_ns = 5000000;
const volatile u64 period_ns = 50000000;

struct hold {
	u64 until_ns;
};

struct planted {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct planted);
} timers SEC(".maps");

static int plant_spin(u32 index, struct hold *hold)
{
	return bpf_ktime_get_ns() >= hold->until_ns;
}

/* Kernels that have these two functions may run a tracepoint's program preemptibly. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void hold_cpu(void)
{
	struct hold hold = {.until_ns = bpf_ktime_get_ns() + hold_ns};

	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
	bpf_loop(1 << 23, plant_spin, &hold, 0);
	if (bpf_ksym_exists(bpf_preempt_enable))
		bpf_preempt_enable();
}

SEC("tp_btf/task_rename")
int BPF_PROG(plant_tracepoint, struct task_struct *task)
{
	if (task->pid == tid)
		hold_cpu();
	return 0;
}

static int plant_softirq(void *map, u32 *key, struct planted *planted)
{
	hold_cpu();
	bpf_timer_start(&planted->timer, period_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

SEC("syscall")
int plant_timer(void *ctx)
{
	u32 zero = 0;
	struct planted *planted = bpf_map_lookup_elem(&timers, &zero);

	if (!planted || bpf_timer_init(&planted->timer, &timers, 1 /* CLOCK_MONOTONIC */) ||
	    bpf_timer_set_callback(&planted->timer, plant_softirq))
		return 1;
	return bpf_timer_start(&planted->timer, period_ns, BPF_F_TIMER_CPU_PIN);
}

char LICENSE[] SEC("license") = "GPL";
