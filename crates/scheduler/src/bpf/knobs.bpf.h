/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's knobs: set before loading, constants for the verifier. */
#ifndef SPRY_KNOBS_BPF_H
#define SPRY_KNOBS_BPF_H

#include <scx/common.bpf.h>
#include "intf.h"

/* The machine. */
const volatile u32 nr_cpus = 1;
const volatile u32 nr_llcs = 1;
const volatile u16 cpu_llc[512];
/* CPUs a cache, rounded up. */
const volatile u32 cpus_of_llc = 1;
/* The daemon's own process. */
const volatile u32 daemon_tgid;

/* Whether a woken task of INTERACTIVE needs more left of its quantum, rather than a lower level, to go first.
 */
const volatile bool wake_more_left = false;
/* At most this long between two decisions, ns. Ticks end a slice, so a little less than one is one. */
const volatile u64 slice_other_ns = 3000000;
const volatile u64 slice_interactive_ns = 20000000;
/* What is below INTERACTIVE has this part of any second, percent, in turns of this length, ns. */
const volatile u32 share_percent = 5;
const volatile u64 below_slice_ns = 2000000;
const volatile u64 below_slice_least_ns = 100000;
/* In how long everybody below has a turn, ns: while they are few, and when they are many. */
const volatile u32 few_tasks = 120;
/* When more than so many tasks have been kept waiting for this long, ns, their order is put right early. */
const volatile u32 some_tasks = 30;
const volatile u64 kept_waiting_ns = 20000000;
/* Where more tasks of OTHER wait, its slices end by the timer. */
const volatile u32 exact_tasks = 12;
/* Counts are made sure of from so many tasks on, where slices become shorter so that all have theirs in time.
 */
const volatile u32 crowd = 1000;
/* How far ahead of the class a task may be put, units of 64 ns. */
const volatile u64 ahead_least = 1000;
const volatile u64 ahead_most = 30000000;
/* How many are pulled back at once, when that has become less. */
const volatile u32 pulled_most = 1024;
const volatile u64 age_few_ns = 400000000;
const volatile u64 age_many_ns = 4500000000;
/* The parts of a CPU that classes above INTERACTIVE may have, percent of a period, ns. */
const volatile u64 budget_period_ns = 100000000;
const volatile u32 daemon_percent = 10;
const volatile u32 kthread_percent = 20;
/* The part that each thread of the kernel may have of that. */
const volatile u32 kthread_each_percent = 3;
/* A task is not charged each time that it runs less than this, ns. */
const volatile u64 uncharged_ns = 60000;
/* Housekeeping's period, ns. */
const volatile u64 housekeeping_ns = 200000000;

/* How often periods of cpu.max are looked at while there are any, and how long a task waits for one at most,
 * ns. */
const volatile u64 limit_tick_ns = 10000000;
const volatile u64 parked_most_ns = 8000000000;

/* Whether the kernel lets BPF programs have timers; real-time ones do not. Then turns end at ticks, decisions
 * do the housekeeping, and limits of cgroups are left to nobody. */
const volatile bool has_timers = true;

#define NICE_0_PRIO 120
#define MAX_RT_PRIO 100
#define MS	    (1000 * 1000ull)

#endif
