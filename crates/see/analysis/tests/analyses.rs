//! Each analysis on a hand-made stream with a known answer.

use std::sync::Arc;

use spry_analysis::findings::{DelayCause, InterruptKind, Party};
use spry_analysis::{Engine, Findings, Options, Progress, Root, Selection, TaskPattern, TraceTotals};
use spry_trace::event::{
    Channel, ChannelKind, Comm, Context, Direction, Event, Fork, Ipc, Irq, Limit, Lost, Mark, Migrate,
    NeedResched, PrevState, Softirq, Stack, StatState, Switch, TaskStat, Throttled, Tick, TimerExpire,
    TimerKind, Urgency, Wakeup, WakeupKind,
};
use spry_trace::{Group, Tgid, Tid};

mod tape;

use PrevState::{Preempted, Runnable, Sleeping};

use tape::{MS, START_NS, Tape, US, named, switch, task, wakeup, waking};

/// `tid` runs for `run_ns` from each `phase_ns` of a period, for a second.
fn periodic(tape: &mut Tape, tid: u32, period_ns: u64, phase_ns: u64, run_ns: u64) {
    for round in 0..1_000 * MS / period_ns {
        let start_ns = round * period_ns + phase_ns;
        tape.at(start_ns, 0, switch(0, tid, Runnable)).at(start_ns + run_ns, 0, switch(tid, 0, Sleeping));
    }
}

#[test]
fn a_server_that_runs_between_100_hz_ticks_is_not_billed_there() {
    let mut tape = Tape::new(&[]);
    periodic(&mut tape, 7, 10 * MS, 50 * US, 9 * MS);
    let findings = tape.findings(1_000 * MS);
    let server = task(&findings, 7);
    assert_eq!(server.runtime_ns, 900 * MS);
    let billing = server.billing.as_deref().unwrap();
    assert_eq!(billing.iter().map(|at| at.hz).collect::<Vec<_>>(), [100, 250, 1_000, 20_000]);
    let (slow, fast) = (billing[0], billing[2]);
    assert!(slow.ratio.unwrap() < 0.05, "{slow:?}");
    assert_eq!(slow.missed_percent, Some(100.0));
    assert!(fast.ratio.unwrap() > 0.9 && fast.missed_percent == Some(0.0), "{fast:?}");
    // Any phase within the 9 ms bills every quantum a whole tick of 10 ms.
    assert!(slow.ratio_min.unwrap() < 0.05 && (slow.ratio_max.unwrap() - 10.0 / 9.0).abs() < 1e-9);
    assert!((billing[3].ratio.unwrap() - 1.0).abs() < 0.01);
}

#[test]
fn without_the_tick_phase_only_the_range_of_billing_is_known() {
    let mut tape = Tape::new(&[]);
    tape.header.tick_phase_ns = Vec::new();
    periodic(&mut tape, 7, 10 * MS, 50 * US, 9 * MS);
    let findings = tape.findings(1_000 * MS);
    let slow = task(&findings, 7).billing.as_deref().unwrap()[0];
    assert_eq!((slow.ratio, slow.missed_percent), (None, None));
    assert!(slow.ratio_min.unwrap() < 0.05 && slow.ratio_max.unwrap() > 1.1);
}

#[test]
fn recorded_ticks_bill_the_running_task_at_the_machine_s_rate() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(0, 7, Runnable)).at(0, 1, switch(0, 8, Runnable));
    for tick in 1..=10 {
        let due_ns = START_NS + tick * 4 * MS;
        tape.at(tick * 4 * MS, 0, Event::Tick(Tick { due_ns }));
    }
    let findings = tape.findings(40 * MS);
    let own_rate = |tid| task(&findings, tid).billing.as_deref().unwrap()[1];
    assert_eq!(own_rate(7).hz, 250);
    assert_eq!(own_rate(7).ratio, Some(1.0));
    // By the phase alone, the ticks of the task's CPU would have hit the task, but the trace has no ticks on
    // that CPU.
    assert_eq!((own_rate(8).ratio, own_rate(8).ratio_min), (Some(0.0), Some(0.0)));
    assert!(own_rate(8).ratio_max >= Some(1.0));
    assert_eq!(findings.cpus[0].ticks, Some(10));
}

#[test]
fn the_machines_own_rate_is_billed_at_even_if_not_asked_for() {
    let mut tape = Tape::new(&[]);
    tape.header.hz = Some(300);
    tape.options.rates_hz = vec![1_000];
    tape.at(0, 0, switch(0, 7, Runnable));
    let findings = tape.findings(10 * MS);
    let rates: Vec<u32> = task(&findings, 7).billing.iter().flatten().map(|at| at.hz).collect();
    assert_eq!(rates, [1_000, 300]);
}

#[test]
fn quanta_are_counted_whole_and_by_the_second_of_life() {
    let mut tape = Tape::new(&[]);
    periodic(&mut tape, 7, 20 * MS, MS, 5 * MS);
    tape.at(1_001 * MS, 0, switch(0, 7, Runnable));
    let findings = tape.findings(2_000 * MS);
    let quanta = task(&findings, 7).quanta.as_deref().unwrap();
    assert_eq!(quanta.lengths.count(), 50);
    assert_eq!(quanta.lengths.max(), Some(5 * MS));
    assert_eq!(quanta.per_second, Some(25.0));
    assert_eq!((quanta.cut.count, quanta.cut.sum_ns), (1, 999 * MS));
    assert_eq!(findings.overall.quanta.as_ref().unwrap().count(), 50);
}

/// Task 8 wakes task 7 at 10 us. Task 7 waits 5 us, then preempts task 8 for 20 us.
fn preemption() -> Tape {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, named(7, 7, "player")).at(0, 0, named(8, 8, "hog"));
    tape.at(US, 0, switch(7, 8, Sleeping)).at(10 * US, 0, waking(8, 7, Context::Task)).at(
        10 * US,
        0,
        wakeup(7),
    );
    tape.at(15 * US, 0, switch(8, 7, Preempted)).at(35 * US, 0, switch(7, 8, Sleeping));
    tape
}

#[test]
fn dispatch_latency_is_split_into_wake_ups_and_preemptions() {
    let findings = preemption().findings(100 * US);
    let player = task(&findings, 7).dispatch.as_deref().unwrap();
    let after_wakeup = player.wakeup.as_ref().unwrap();
    assert_eq!((after_wakeup.count(), after_wakeup.max()), (1, Some(5 * US)));
    assert_eq!(player.wait_share, Some(5.0 / 26.0));
    let hog = task(&findings, 8).dispatch.as_deref().unwrap();
    assert_eq!((hog.wakeup.as_ref().unwrap().count(), hog.preemption.max()), (0, Some(20 * US)));
    assert_eq!(hog.all.as_ref().unwrap().count(), 1);
}

#[test]
fn giving_way_to_a_task_s_own_wakee_is_voluntary_in_the_thesis() {
    let findings = preemption().findings(100 * US);
    let hog = task(&findings, 8);
    assert_eq!((hog.switches.voluntary, hog.switches.involuntary), (0, 1));
    let reasons = hog.reasons.as_deref().unwrap();
    let by = reasons.by_wakings.unwrap();
    assert_eq!((by.preempted_by_own_wakee, by.thesis_voluntary), (1, 1));
    assert_eq!(reasons.by_state[Preempted as usize], 1);
    assert_eq!(task(&findings, 7).switches.voluntary, 2);
}

#[test]
fn giving_way_to_an_earlier_waiter_is_the_end_of_a_slice() {
    let mut tape = Tape::new(&[]);
    tape.at(MS, 0, switch(7, 8, Preempted)).at(5 * MS, 0, switch(8, 7, Runnable));
    tape.at(6 * MS, 0, waking(7, 9, Context::Hardirq)).at(6 * MS, 0, wakeup(9)).at(
        7 * MS,
        0,
        switch(7, 9, Preempted),
    );
    let findings = tape.findings(10 * MS);
    assert_eq!(task(&findings, 8).reasons.as_deref().unwrap().by_wakings.map(|by| by.end_of_slice), Some(1));
    let by = task(&findings, 7).reasons.as_deref().unwrap().by_wakings.unwrap();
    assert_eq!((by.preempted_by_other_wakee, by.other_involuntary), (1, 1));
}

#[test]
fn the_worst_delay_names_its_victim_and_its_culprits_by_blame() {
    let mut tape = Tape::new(&[Group::Irq, Group::Stack]);
    tape.at(0, 0, named(7, 7, "player")).at(0, 0, named(8, 8, "hog")).at(0, 0, named(9, 9, "daemon"));
    tape.at(MS, 0, switch(7, 8, Sleeping)).at(2 * MS, 0, waking(8, 7, Context::Hardirq)).at(
        2 * MS,
        0,
        wakeup(7),
    );
    tape.at(3 * MS, 0, switch(8, 9, Preempted)).at(4 * MS, 0, Event::IrqEnter(Irq::Device(3)));
    tape.at(4 * MS + 7 * US, 0, Event::IrqExit(Irq::Device(3))).at(7 * MS, 0, switch(9, 8, Sleeping));
    tape.at(8 * MS, 0, switch(8, 7, Preempted));
    tape.at(
        8 * MS,
        0,
        Event::Stack(Stack { tid: Tid(8), frames: [Arc::from("spin"), Arc::from("main")].into() }),
    );
    let findings = tape.findings(9 * MS);
    let worst = &findings.delays.as_ref().unwrap().worst[0];
    assert_eq!(
        (worst.victim.comm, worst.start_ns, worst.wait_ns, worst.cpu),
        (Comm::new(b"player"), 2 * MS, 6 * MS, 0)
    );
    let hog = task(&findings, 8).who;
    assert_eq!(worst.cause, DelayCause::Woken { waker: Some(hog), context: Context::Hardirq });
    let blamed: Vec<_> = worst.culprits.iter().map(|culprit| (culprit.party, culprit.ran_ns)).collect();
    let daemon = task(&findings, 9).who;
    let irq = Party::Interrupt(InterruptKind::Irq(Irq::Device(3)));
    assert_eq!(blamed, [(Party::Task(daemon), 4 * MS), (Party::Task(hog), 2 * MS), (irq, 7 * US)]);
    let slices: Vec<_> = worst.slices.iter().map(|slice| (slice.start_ns, slice.party)).collect();
    assert_eq!(
        slices,
        [(2 * MS, Party::Task(hog)), (3 * MS, Party::Task(daemon)), (7 * MS, Party::Task(hog))]
    );
    assert_eq!(worst.culprit_stack.join(" "), "spin main");
    let blame = &findings.delays.as_ref().unwrap().blame[0];
    assert_eq!((blame.victim.tid, blame.culprit, blame.total_ns), (Tid(7), Party::Task(daemon), 4 * MS));
}

#[test]
fn a_throttled_wait_blames_the_quota_and_nothing_that_ran() {
    let limit = || Arc::new(Limit { group: "/slow".into(), quota_ns: 10 * MS, period_ns: 100 * MS });
    let throttled = |throttled_ns| Event::Throttled(Throttled { tid: Tid(7), throttled_ns, limit: limit() });
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(0, 7, Runnable)).at(2 * MS, 0, switch(7, 8, Runnable));
    tape.at(2 * MS, 0, throttled(None)).at(12 * MS, 0, throttled(Some(9 * MS)));
    tape.at(12 * MS, 0, switch(8, 7, Preempted)).at(13 * MS, 0, switch(7, 0, Runnable));
    // This wait is not over at the end of the trace; the CPU is idle meanwhile.
    tape.at(13 * MS, 0, throttled(None));
    let findings = tape.findings(20 * MS);
    let delays = findings.delays.as_ref().unwrap();
    let group: Box<str> = "/slow".into();
    let by_quota =
        DelayCause::Throttled { group: group.clone(), quota_ns: Some(10 * MS), period_ns: Some(100 * MS) };
    let hog = Party::Task(task(&findings, 8).who);
    let of_loop = delays.worst.iter().filter(|delay| delay.victim.tid == Tid(7));
    let told: Vec<_> = of_loop
        .map(|delay| {
            let culprits: Vec<_> =
                delay.culprits.iter().map(|culprit| (culprit.party, culprit.ran_ns)).collect();
            (delay.start_ns, delay.cause.clone(), culprits)
        })
        .collect();
    assert_eq!(
        told,
        [
            (2 * MS, by_quota.clone(), vec![(Party::Quota, 9 * MS)]),
            (13 * MS, by_quota, vec![(Party::Quota, 7 * MS)]),
            (11 * MS, DelayCause::Released { group }, vec![(hog, MS)]),
        ]
    );
    let of_loop = delays.blame.iter().filter(|blame| blame.victim.tid == Tid(7));
    let blamed: Vec<_> = of_loop.map(|blame| (blame.culprit, blame.total_ns, blame.waits)).collect();
    assert_eq!(blamed, [(Party::Quota, 16 * MS, 2), (hog, MS, 1)]);
    assert_eq!(task(&findings, 7).runnable_wait_ns, Some(17 * MS));
}

#[test]
fn a_wait_cut_by_the_trace_s_end_is_among_the_worst_delays() {
    let mut tape = Tape::new(&[]);
    tape.at(MS, 0, switch(7, 8, Preempted));
    let findings = tape.findings(900 * MS);
    let worst = &findings.delays.as_ref().unwrap().worst[0];
    assert_eq!((worst.victim.tid, worst.wait_ns), (Tid(7), 899 * MS));
    assert_eq!(worst.culprits[0].party, Party::Task(task(&findings, 8).who));
    let all = task(&findings, 7).dispatch.as_deref().unwrap().all.as_ref();
    assert_eq!(all.unwrap().count(), 0, "its latency is not known");
}

fn timer_wakeup(groups: &[Group]) -> Findings {
    let mut tape = Tape::new(groups);
    let has = |group| groups.contains(&group);
    tape.at(US, 0, switch(7, 8, Sleeping));
    if has(Group::Timer) {
        let (kind, deadline_ns, latest_ns) = (TimerKind::Sleep, START_NS + 100 * US, START_NS + 150 * US);
        tape.at(160 * US, 0, Event::TimerExpire(TimerExpire { tid: Tid(7), kind, deadline_ns, latest_ns }));
    }
    tape.at(162 * US, 0, waking(8, 7, Context::Hardirq)).at(165 * US, 0, wakeup(7));
    if has(Group::Resched) {
        let need = NeedResched { tid: Tid(8), target_cpu: 0, urgency: Urgency::Now };
        tape.at(170 * US, 0, Event::NeedResched(need));
    }
    tape.at(200 * US, 0, switch(8, 7, Preempted));
    tape.findings(300 * US)
}

#[test]
fn wake_up_latency_splits_into_its_five_parts() {
    let findings = timer_wakeup(&[Group::Timer, Group::Resched]);
    let parts = task(&findings, 7).wakeup.as_deref().unwrap();
    assert_eq!(parts.timer.unwrap().sum_ns, 60 * US);
    assert_eq!(parts.expiry.unwrap().sum_ns, 2 * US);
    assert_eq!(parts.enqueue.sum_ns, 3 * US);
    assert_eq!(parts.resched.unwrap().sum_ns, 8 * US);
    assert_eq!(parts.switch.unwrap().sum_ns, 30 * US);
    assert_eq!(parts.total.sum_ns, 38 * US);
    let overall = findings.wakeup.as_ref().unwrap();
    assert_eq!(overall.deadline_to_switch.as_ref().unwrap().max(), Some(100 * US));
    assert_eq!(overall.culprits[0].party, Party::Task(task(&findings, 8).who));
    assert_eq!(overall.culprits[0].ran_ns, 35 * US);
    let timers = findings.timers.as_deref().unwrap();
    assert_eq!(
        (timers[0].kind, timers[0].lateness.max(), timers[0].past_slack),
        (TimerKind::Sleep, Some(60 * US), 1)
    );
}

#[test]
fn a_third_of_a_film_s_wake_ups_is_late_at_a_bad_100_hz_phase() {
    let mut tape = Tape::new(&[Group::Timer]);
    tape.at(US, 0, switch(7, 8, Sleeping));
    for due in (1..=60).map(|nth| nth * 16_667 * US) {
        let (kind, deadline_ns, latest_ns) = (TimerKind::Sleep, START_NS + due, START_NS + due);
        tape.at(due, 0, Event::TimerExpire(TimerExpire { tid: Tid(7), kind, deadline_ns, latest_ns }));
        tape.at(due + US, 0, waking(8, 7, Context::Hardirq)).at(due + 2 * US, 0, wakeup(7));
        tape.at(due + 3 * US, 0, switch(8, 7, Preempted)).at(due + MS, 0, switch(7, 8, Sleeping));
    }
    let findings = tape.findings(1100 * MS);
    let frames = &findings.frames.as_deref().unwrap()[0];
    assert_eq!((frames.who.tid, frames.count, frames.period_ns), (Tid(7), 60, 16_667 * US));
    let most = frames.skipped.iter().map(|skipped| (skipped.hz, (skipped.most * 3.0).round()));
    assert_eq!(most.collect::<Vec<_>>(), [(100, 1.0), (250, 0.0), (1000, 0.0), (20_000, 0.0)]);
}

#[test]
fn values_of_absent_groups_are_none_and_name_the_group() {
    let findings = timer_wakeup(&[]);
    let parts = task(&findings, 7).wakeup.as_deref().unwrap();
    assert!(
        parts.timer.is_none() && parts.expiry.is_none() && parts.resched.is_none() && parts.switch.is_none()
    );
    assert_eq!(parts.total.sum_ns, 38 * US);
    assert!(findings.timers.is_none() && findings.interrupts.is_none() && findings.marks.is_none());
    assert!(findings.channels.is_none() && findings.cpus[0].irq_ns.is_none());
    assert!(task(&findings, 7).interrupted.is_none());
    assert!(findings.graph.as_ref().unwrap().bytes_without_writer.is_none());
    let named =
        |analysis, group| findings.absent.iter().any(|part| part.analysis == analysis && part.group == group);
    assert!(
        named("wakeup", Group::Timer) && named("wakeup", Group::Resched) && named("timers", Group::Timer)
    );
    assert!(named("cpu", Group::Irq) && named("stolen", Group::Irq) && named("graph", Group::Ipc));
    assert!(named("ipc", Group::Ipc) && named("marks", Group::Mark) && named("delays", Group::Stack));
    assert!(named("delays", Group::Idle));
}

#[test]
fn a_timer_that_names_another_sleeper_is_not_this_wake_ups() {
    let mut tape = Tape::new(&[Group::Timer]);
    tape.at(US, 0, switch(7, 8, Sleeping));
    let timer =
        TimerExpire { tid: Tid(9), kind: TimerKind::Sleep, deadline_ns: START_NS, latest_ns: START_NS };
    tape.at(10 * US, 0, Event::TimerExpire(timer)).at(11 * US, 0, waking(8, 7, Context::Hardirq));
    tape.at(12 * US, 0, wakeup(7)).at(15 * US, 0, switch(8, 7, Preempted));
    let findings = tape.findings(20 * US);
    assert_eq!(task(&findings, 7).wakeup.as_deref().unwrap().timer.unwrap().count, 0);
}

#[test]
fn interrupts_count_for_their_task_and_on_idle_cpus() {
    let mut tape = Tape::new(&[Group::Irq]);
    tape.at(0, 0, switch(0, 7, Runnable)).at(10 * US, 0, Event::IrqEnter(Irq::LocalTimer));
    tape.at(13 * US, 0, Event::IrqExit(Irq::LocalTimer)).at(13 * US, 0, Event::SoftirqEnter(Softirq(1)));
    tape.at(15 * US, 0, Event::SoftirqExit(Softirq(1))).at(20 * US, 0, switch(7, 0, Sleeping));
    tape.at(30 * US, 0, Event::IrqEnter(Irq::LocalTimer)).at(34 * US, 0, Event::IrqExit(Irq::LocalTimer));
    let findings = tape.findings(50 * US);
    let taken = task(&findings, 7).interrupted.unwrap();
    assert_eq!((taken.irq_ns, taken.softirq_ns, taken.count), (3 * US, 2 * US, 2));
    assert_eq!(findings.cpus[0].irq_ns, Some(9 * US));
    let most = findings.interrupts.as_deref().unwrap()[0];
    assert_eq!(
        (most.kind, most.time.sum_ns, most.stolen_ns),
        (InterruptKind::Irq(Irq::LocalTimer), 7 * US, 3 * US)
    );
}

#[test]
fn time_that_the_hypervisor_stole_is_no_run_time_but_busy_time() {
    let mut tape = Tape::new(&[]);
    let (prev, next) = (Tid(7), Tid(0));
    let event =
        Switch { prev, next, prev_state: Sleeping, prev_prio: 120, next_prio: 120, stolen_ns: 300_000 };
    tape.at(0, 0, switch(0, 7, Runnable)).at(MS, 0, Event::Switch(event));
    let findings = tape.findings(2 * MS);
    assert_eq!((task(&findings, 7).runtime_ns, task(&findings, 7).stolen_ns), (700 * US, Some(300_000)));
    assert_eq!((findings.cpus[0].busy_ns, findings.cpus[0].stolen_ns), (MS, Some(300_000)));
    assert_eq!(findings.cpus[1].unknown_ns, 2 * MS, "a CPU without a switch is not said to have been idle");
}

#[test]
fn kernel_time_beyond_the_stays_is_negative_stolen_time() {
    let mut tape = Tape::new(&[]);
    let (prev, next) = (Tid(7), Tid(0));
    let event =
        Switch { prev, next, prev_state: Sleeping, prev_prio: 120, next_prio: 120, stolen_ns: -40_000 };
    tape.at(0, 0, switch(0, 7, Runnable)).at(MS, 0, Event::Switch(event));
    let findings = tape.findings(2 * MS);
    assert_eq!((task(&findings, 7).runtime_ns, task(&findings, 7).stolen_ns), (1_040 * US, Some(-40_000)));
    assert_eq!((findings.cpus[0].busy_ns, findings.cpus[0].stolen_ns), (MS, Some(-40_000)));
}

#[test]
fn a_wait_behind_thousands_of_stays_names_those_who_had_them() {
    let mut tape = Tape::new(&[]);
    (0..100).for_each(|tid| _ = tape.at(0, 0, named(100 + tid, 100 + tid, "crowd")));
    tape.at(US, 0, switch(7, 100, Preempted));
    let turns = 20_000;
    for turn in 0..turns {
        let (prev, next) = (100 + turn % 100, 100 + (turn + 1) % 100);
        tape.at((u64::from(turn) + 2) * 10 * US, 0, switch(prev, next, Preempted));
    }
    let end_ns = (u64::from(turns) + 2) * 10 * US;
    tape.at(end_ns, 0, switch(100 + turns % 100, 7, Preempted));
    let findings = tape.findings(end_ns + MS);
    let delays = findings.delays.as_ref().unwrap();
    let worst = &delays.worst[0];
    assert_eq!((worst.victim.tid, worst.wait_ns), (Tid(7), end_ns - US));
    let [crowd] = &worst.names[..] else { panic!("{:?}", worst.names) };
    assert_eq!((crowd.comm, crowd.tasks), (Comm::new(b"crowd"), 100));
    assert!(crowd.ran_ns > worst.wait_ns / 20 * 19, "{} of {}", crowd.ran_ns, worst.wait_ns);
    let sum_ns: u64 = worst.culprits.iter().map(|culprit| culprit.ran_ns).sum();
    assert_eq!(sum_ns, worst.wait_ns);
    assert!(worst.culprits.iter().all(|culprit| culprit.party != Party::Unknown), "{:?}", worst.culprits);
}

#[test]
fn a_wait_that_moved_twice_blames_the_holders_of_all_stays() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(7, 8, Sleeping)).at(0, 1, switch(0, 9, Runnable));
    tape.at(MS, 0, waking(8, 7, Context::Task)).at(MS, 0, wakeup(7));
    tape.at(4 * MS, 1, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 0, to_cpu: 1 }));
    tape.at(6 * MS, 0, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 1, to_cpu: 0 }));
    tape.at(7 * MS, 0, switch(8, 7, Preempted));
    let findings = tape.findings(8 * MS);
    let worst = &findings.delays.as_ref().unwrap().worst[0];
    let blamed: Vec<_> = worst.culprits.iter().map(|culprit| (culprit.party, culprit.ran_ns)).collect();
    let party = |tid| Party::Task(task(&findings, tid).who);
    assert_eq!(blamed, [(party(8), 4 * MS), (party(9), 2 * MS)]);
}

/// Process 10 (threads 10, 11) wakes 20, which wakes 30; 40 wakes 50 apart from them.
fn talk(groups: &[Group]) -> Tape {
    let mut tape = Tape::new(groups);
    for (tid, tgid, name) in [
        (10, 10, "server"),
        (11, 10, "worker"),
        (20, 20, "middle"),
        (30, 30, "end"),
        (40, 40, "other"),
        (50, 50, "far"),
    ] {
        tape.at(0, 0, named(tid, tgid, name));
        let state = StatState::Blocked;
        tape.at(0, 0, Event::Stat(TaskStat { tid: Tid(tid), state, exec_ns: 0, utime_ns: 0, stime_ns: 0 }));
    }
    let mut time_ns = 0;
    let mut last = 0;
    for (waker, wakee) in [(10, 11), (11, 20), (10, 20), (20, 30), (40, 50)] {
        time_ns += 100 * US;
        tape.at(time_ns, 0, switch(last, waker, if last == 0 { Runnable } else { Sleeping }));
        tape.at(time_ns + 10 * US, 0, waking(waker, wakee, Context::Task)).at(
            time_ns + 10 * US,
            0,
            wakeup(wakee),
        );
        tape.at(time_ns + 50 * US, 0, switch(waker, wakee, Sleeping));
        last = wakee;
    }
    tape
}

#[test]
fn edges_go_from_the_waker_s_process_to_the_wakee_s_process() {
    let mut tape = talk(&[]);
    tape.options.root = Some(Root::parse("middle"));
    let findings = tape.findings(MS);
    let graph = findings.graph.as_ref().unwrap();
    let edges: Vec<_> =
        graph.edges.iter().map(|edge| (edge.from_tgid.0, edge.to_tgid.0, edge.wakeups)).collect();
    assert_eq!(edges, [(10, 20, 2), (20, 30, 1), (40, 50, 1)]);
    assert!(graph.edges.iter().all(|edge| edge.bytes.is_none()));
    let server = graph.nodes.iter().find(|node| node.tgid == Tgid(10)).unwrap();
    assert_eq!((server.threads, server.inner_wakeups, server.comm), (2, 1, Comm::new(b"server")));
    let component = graph.component.as_ref().unwrap();
    assert_eq!(component.root_tgid, Tgid(20));
    assert_eq!(component.tgids, [Tgid(20), Tgid(10), Tgid(30)]);
    let far = graph.nodes.iter().find(|node| node.tgid == Tgid(50)).unwrap();
    assert_eq!(far.distance, None);
}

#[test]
fn interrupts_make_no_edges() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(7, 8, Sleeping)).at(10, 0, waking(8, 7, Context::Softirq)).at(11, 0, wakeup(7));
    let graph = tape.findings(MS).graph.unwrap();
    assert!(graph.edges.is_empty());
    assert_eq!(graph.wakeups_without_task, 1);
}

#[test]
fn a_channel_s_bytes_go_to_its_reader_in_the_order_written() {
    let mut tape = talk(&[Group::Ipc]);
    let pipe = Channel { kind: ChannelKind::Pipe, id: 5 };
    let ipc = |tid, direction, bytes| Event::Ipc(Ipc { tid: Tid(tid), direction, channel: pipe, bytes });
    tape.at(600 * US, 0, ipc(10, Direction::Write, 100)).at(601 * US, 0, ipc(40, Direction::Write, 50));
    tape.at(602 * US, 0, ipc(30, Direction::Read, 120)).at(603 * US, 0, ipc(20, Direction::Read, 40));
    let findings = tape.findings(MS);
    let graph = findings.graph.as_ref().unwrap();
    let bytes = |from, to| {
        let edge = graph.edges.iter().find(|edge| edge.from_tgid == Tgid(from) && edge.to_tgid == Tgid(to));
        edge.map(|edge| edge.bytes.unwrap())
    };
    assert_eq!((bytes(10, 30), bytes(40, 30), bytes(40, 20)), (Some(100), Some(20), Some(30)));
    assert_eq!(bytes(20, 30), Some(0));
    assert_eq!(graph.bytes_without_writer, Some(10));
    let channels = findings.channels.as_ref().unwrap();
    assert_eq!(
        (channels.top[0].written_bytes, channels.top[0].read_bytes, channels.top[0].users.len()),
        (150, 160, 4)
    );
}

#[test]
fn marks_are_listed_in_order_with_their_makers() {
    let mut tape = Tape::new(&[Group::Mark]);
    let mark = |text: &str| Event::Mark(Mark { tid: Tid(7), text: text.into() });
    tape.at(0, 0, named(7, 7, "game")).at(5, 0, mark("frame 1")).at(9, 1, mark("frame 2"));
    let marks = tape.findings(100).marks.unwrap();
    let texts: Vec<_> = marks.list.iter().map(|mark| (mark.time_ns, mark.who.comm, &*mark.text)).collect();
    assert_eq!(texts, [(5, Comm::new(b"game"), "frame 1"), (9, Comm::new(b"game"), "frame 2")]);
}

#[test]
fn the_kernel_s_and_the_trace_s_account_cover_the_same_time() {
    let mut tape = Tape::new(&[]);
    let stat = |state, exec_ns, utime_ns| {
        Event::Stat(TaskStat { tid: Tid(7), state, exec_ns, utime_ns, stime_ns: 4 * MS })
    };
    // The task has had CPU 0 since before the trace: its account is as old as the last tick.
    tape.at(2 * MS, 1, stat(StatState::Running, 49 * MS, 40 * MS)).at(10 * MS, 0, switch(7, 0, Sleeping));
    tape.at(10 * MS, 0, stat(StatState::Blocked, 58 * MS, 48 * MS));
    tape.at(12 * MS, 0, switch(0, 7, Runnable)).at(15 * MS, 1, stat(StatState::Running, 61 * MS, 52 * MS));
    // The kernel has not shown the second switch to the task.
    tape.at(16 * MS, 0, switch(7, 0, Sleeping)).at(18 * MS, 1, stat(StatState::Running, 62 * MS, 53 * MS));
    let findings = tape.findings(20 * MS);
    let kernel = task(&findings, 7).kernel.unwrap();
    assert_eq!((kernel.from_ns, kernel.to_ns), (10 * MS, 15 * MS));
    assert_eq!((kernel.exec_ns, kernel.ticks_ns, kernel.runtime_ns), (3 * MS, 4 * MS, 3 * MS));
    assert_eq!(task(&findings, 7).runtime_ns, 14 * MS);
}

#[test]
fn only_rows_and_victims_are_limited_to_the_selected_tasks() {
    let mut tape = preemption();
    tape.selection.tasks = Some(TaskPattern::parse("pl*r"));
    let findings = tape.findings(100 * US);
    assert_eq!(findings.tasks.len(), 1);
    let delays = findings.delays.as_ref().unwrap();
    assert!(delays.worst.iter().all(|delay| delay.victim.tid == Tid(7)));
    assert!(matches!(delays.worst[0].culprits[0].party, Party::Task(who) if who.tid == Tid(8)));
}

#[test]
fn a_window_that_is_over_needs_no_more_events() {
    let tape = preemption();
    let selection = Selection { to_ns: Some(12 * US), ..Selection::default() };
    let mut engine = Engine::new(&tape.header, selection, Options::default()).unwrap();
    let progress: Vec<Progress> = tape.events.iter().map(|event| engine.push(event)).collect();
    assert_eq!(progress.iter().filter(|&&progress| progress == Progress::Enough).count(), 2);
    let findings = engine.finish(TraceTotals::default());
    assert_eq!(task(&findings, 8).runtime_ns, 11 * US);
    assert_eq!(
        (findings.trace.from_ns, findings.trace.to_ns, findings.trace.duration_ns),
        (0, 12 * US, 35 * US)
    );
}

#[test]
fn only_the_chosen_analyses_run() {
    let mut tape = preemption();
    tape.options.analyses = vec!["quanta".into()];
    let findings = tape.findings(100 * US);
    assert_eq!(findings.analyses, ["quanta"]);
    assert!(findings.delays.is_none() && findings.graph.is_none() && findings.drawing.is_none());
    assert!(task(&findings, 7).quanta.is_some() && task(&findings, 7).billing.is_none());
    assert_eq!(task(&findings, 7).switches.voluntary, 2);
}

#[test]
fn losses_are_counted_by_cpu_and_are_no_events() {
    let mut tape = Tape::new(&[]);
    tape.at(1, 0, switch(0, 7, Runnable)).at(5, 1, Event::Lost(Lost { count: 12 }));
    let trace = tape.findings(10).trace;
    assert_eq!((trace.events, trace.lost, trace.lost_by_cpu, trace.bytes), (1, 12, vec![0, 12], 99));
}

#[test]
fn a_task_born_inside_the_window_lives_from_its_fork() {
    let mut tape = Tape::new(&[]);
    let fork = Fork { parent: Tid(5), child: Tid(7), child_tgid: Tgid(7), comm: Comm::new(b"child") };
    tape.at(10, 0, Event::Fork(fork));
    tape.at(20, 0, Event::Wakeup(Wakeup { tid: Tid(7), target_cpu: 0, kind: WakeupKind::New }));
    tape.at(50, 0, switch(5, 7, Sleeping)).at(80, 0, switch(7, 5, PrevState::Dead));
    let findings = tape.findings(100);
    let child = task(&findings, 7);
    assert_eq!((child.start_ns, child.end_ns, child.life_ns), (Some(10), Some(80), 70));
    assert_eq!(
        (child.blocked_ns, child.runnable_wait_ns, child.runtime_ns, child.unknown_ns),
        (Some(10), Some(30), 30, 0)
    );
    assert_eq!(child.wakeups, Some(1));
}
