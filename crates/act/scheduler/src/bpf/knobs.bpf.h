/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's knobs: the daemon sets them before it loads the programs; for the verifier they are
 * constants. */
#ifndef SPRY_KNOBS_BPF_H
#define SPRY_KNOBS_BPF_H

#include <scx/common.bpf.h>
#include "intf.h"

/* The machine: its CPUs, its last-level caches, and each CPU's cache. */
const volatile u32 nr_cpus = 1;
const volatile u32 nr_llcs = 1;
const volatile u16 cpu_llc[512];
/* How many CPUs each cache has, rounded up. */
const volatile u32 cpus_of_llc = 1;
/* The daemon's own process. */
const volatile u32 daemon_tgid;
/* The secret number by which the collection finds the bucket of a process. */
const volatile u32 bucket_secret = 1;

/* Whether a woken task of INTERACTIVE needs more left of its quantum, rather than a lower level, to go first.
 */
const volatile bool wake_more_left = false;
/* The longest slice of each class, ns. A slice ends at a tick, so a slice that is a little shorter than the
 * time between two ticks lasts for that time. */
const volatile u64 slice_other_ns = 3000000;
const volatile u64 slice_interactive_ns = 20000000;
/* The classes below INTERACTIVE have this part of any second, percent, in turns of this length, ns. */
const volatile u32 share_percent = 5;
const volatile u64 below_slice_ns = 2000000;
const volatile u64 below_slice_least_ns = 100000;
/* How many waiting tasks still count as few. Each task of a lower class has a turn within age_few_ns while
 * tasks are few, and within age_many_ns when they are many. */
const volatile u32 few_tasks = 120;
/* When more tasks than this have been kept waiting for this long, ns, housekeeping puts their order right
 * early. */
const volatile u32 some_tasks = 30;
const volatile u64 kept_waiting_ns = 20000000;
/* Where more tasks of OTHER than this wait, their slices end by the timer. */
const volatile u32 exact_tasks = 12;
/* From so many waiting tasks on, the kernel is asked for their number before slices are made shorter so that
 * all tasks have theirs in time. */
const volatile u32 crowd = 1000;
/* How far ahead of the class a task may be put, units of 64 ns: the least and the greatest value of this
 * limit. */
const volatile u64 ahead_least = 1000;
const volatile u64 ahead_most = 30000000;
/* How many tasks are pulled back at once, when tasks may no longer be put so far ahead. */
const volatile u32 pulled_most = 1024;
const volatile u64 age_few_ns = 400000000;
const volatile u64 age_many_ns = 4500000000;
/* Which part of a CPU each class above INTERACTIVE may have, percent of a period; first the period, ns. */
const volatile u64 budget_period_ns = 100000000;
const volatile u32 daemon_percent = 10;
const volatile u32 kthread_percent = 20;
/* Which part of a CPU all that goes before what is in use may have together, percent of a period: the classes
 * above INTERACTIVE, and the turns of classes below it. Of this, DAEMON has the second part in any case. */
const volatile u32 servers_percent = 20;
const volatile u32 daemon_least_percent = 4;
/* Kernel workers for which a process in use has work are moved up until threads of the kernel have had this
 * part of the CPU, percent. */
const volatile u32 wanted_percent = 30;
/* The part of the CPU that each thread of the kernel may have, and that threads with a part of their own have
 * in any case, percent. */
const volatile u32 each_percent = 3;
/* How much of a reservation's budget counts as none, ns. */
const volatile u64 budget_tail_ns = 500;

/* A task that runs less than this, ns, is not charged each time. */
const volatile u64 uncharged_ns = 60000;
/* Housekeeping's period, ns. */
const volatile u64 housekeeping_ns = 200000000;

/* How often the scheduler looks whether periods of cpu.max are over, while there are any, and how long a task
 * waits for a period until it gets a CPU for no time, ns. */
const volatile u64 limit_tick_ns = 10000000;
const volatile u64 parked_most_ns = 8000000000;

/* Whether the kernel lets BPF programs have timers; a real-time kernel does not. Without timers, turns end at
 * ticks, or when a thread of the daemon wakes (beat_ns); decisions do the housekeeping; limits of cgroups are
 * not honoured. */
const volatile bool has_timers = true;

#define NICE_0_PRIO 120
#define MAX_RT_PRIO 100
#define MS	    (1000 * 1000ull)

#endif
