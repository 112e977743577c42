/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's knobs. The daemon sets them before it loads the programs, so they are constants
 * for the verifier. */
#ifndef SPRY_KNOBS_BPF_H
#define SPRY_KNOBS_BPF_H

#include <scx/common.bpf.h>
#include "../common/intf.h"

/* The machine: the numbers of its CPUs and last-level caches, and each CPU's cache. */
const volatile u32 nr_cpus = 1;
const volatile u32 nr_llcs = 1;
const volatile u16 cpu_llc[512];
/* The mean number of CPUs of a cache, rounded up. */
const volatile u32 cpus_of_llc = 1;
/* The daemon's own process. */
const volatile u32 daemon_tgid;
/* The secret factor in the hash that finds the bucket of a process (see bucket_of). */
const volatile u32 bucket_secret = 1;

/* Whether tasks of INTERACTIVE with equally old quanta are ordered by the rest of the quantum first, and by
 * the level only then. */
const volatile bool wake_more_left = false;
/* The longest slice of OTHER and of INTERACTIVE, ns. A slice ends at a tick, so a slice that is a little
 * shorter than the time between two ticks lasts for that time. */
const volatile u64 slice_other_ns = 3000000;
const volatile u64 slice_interactive_ns = 20000000;
/* The part of any second that OTHER has in turns while higher classes keep it waiting, percent; IDLE has as
 * much. Then the longest and the shortest turn, ns. */
const volatile u32 share_percent = 5;
const volatile u64 below_slice_ns = 2000000;
const volatile u64 below_slice_least_ns = 100000;
/* Up to this number, waiting tasks are few. Then each waiting task of a lower class has a turn within
 * age_few_ns, ns; otherwise within age_many_ns. */
const volatile u32 few_tasks = 120;
/* If more tasks than this have waited behind a higher class for kept_waiting_ns, housekeeping comes early and
 * corrects their order. */
const volatile u32 some_tasks = 30;
const volatile u64 kept_waiting_ns = 20000000;
/* If more tasks than this wait for a CPU, the timer ends their slices. */
const volatile u32 exact_tasks = 12;
/* If more tasks than this wait by the counts, the number of tasks is read from the kernel before slices are
 * made shorter. */
const volatile u32 crowd = 1000;
/* The bounds of the limit for a task's distance ahead of its class, units of 64 ns. */
const volatile u64 ahead_least = 1000;
const volatile u64 ahead_most = 30000000;
/* The most tasks of a queue that one housekeeping pulls back. */
const volatile u32 pulled_most = 1024;
const volatile u64 age_few_ns = 400000000;
const volatile u64 age_many_ns = 4500000000;
/* The budgets of DAEMON and KTHREAD: their period, ns, and the part of it that each may have, percent. */
const volatile u64 budget_period_ns = 100000000;
const volatile u32 daemon_percent = 10;
const volatile u32 kthread_percent = 20;
/* The common part of the period, percent, for DAEMON, KTHREAD and the turns of lower classes, which all go
 * before INTERACTIVE. DAEMON has daemon_least_percent of the period in any case. */
const volatile u32 servers_percent = 20;
const volatile u32 daemon_least_percent = 4;
/* Kernel workers that a process in use waits for are of KTHREAD until KTHREAD has used this part of
 * budget_period_ns on the CPU, percent. Then they are of OTHER. */
const volatile u32 wanted_percent = 30;
/* The part of the period, percent, that each kernel thread may have. Threads of DAEMON with their own budget
 * have it in any case. */
const volatile u32 each_percent = 3;
/* A rest of a reservation's budget that counts as none, ns. */
const volatile u64 budget_tail_ns = 500;

/* A task of OTHER that runs for less than this, ns, keeps its order and is not charged yet. */
const volatile u64 uncharged_ns = 60000;
/* Housekeeping's period, ns. */
const volatile u64 housekeeping_ns = 200000000;

/* The interval at which housekeeping checks the limits of cgroups (cpu.max), ns, while there are any. Then
 * the time after which a parked task gets a CPU for no time, ns (release.bpf.h). */
const volatile u64 limit_tick_ns = 10000000;
const volatile u64 parked_most_ns = 8000000000;
/* The time after which a parked task inside the kernel gets a CPU, and the time for which it gets it first
 * and at most, ns. On a slow CPU the latter is enough to switch to the task and back. */
const volatile u64 inside_most_ns = 50000000;
const volatile u64 inside_stay_ns = 5000;
const volatile u64 inside_stay_most_ns = 50000;

/* Whether BPF programs can have timers; on real-time kernels they cannot. Without timers, turns end at
 * ticks or when a thread of the daemon wakes (beat_ns). Decisions do the housekeeping, and limits of
 * cgroups do not hold. */
const volatile bool has_timers = true;

#define NICE_0_PRIO 120
#define MAX_RT_PRIO 100
#define MS	    (1000 * 1000ull)

#endif
