//! What counts, and what is left out: windows, selected tasks, limits.

use spry_analysis::TaskPattern;
use spry_analysis::findings::{Channels, Party};
use spry_analysis::histogram::Histogram;
use spry_trace::event::{
    Channel, ChannelKind, Comm, Context, Direction, Event, Fork, Ipc, NeedResched, PrevState, TimerExpire,
    TimerKind, Urgency,
};
use spry_trace::{Group, Tgid, Tid};

mod tape;

use PrevState::{Preempted, Runnable, Sleeping};

use tape::{MS, START_NS, Tape, US, named, switch, task, wakeup, waking};

/// Task 8 gets the CPU when task 7 sleeps, and loses it when task 7 is woken.
fn taken_cpu() -> Tape {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, named(7, 7, "player")).at(US, 0, switch(7, 8, Sleeping));
    tape.at(10 * US, 0, waking(8, 7, Context::Task)).at(11 * US, 0, wakeup(7));
    tape.at(15 * US, 0, switch(8, 7, Preempted)).at(30 * US, 0, switch(7, 8, Sleeping));
    tape
}

/// A timer wakes task 7, which waits for the CPU of task 8.
fn timer_wakeup() -> Tape {
    let mut tape = Tape::new(&[Group::Timer, Group::Resched]);
    tape.at(US, 0, switch(7, 8, Sleeping));
    let (kind, deadline_ns, latest_ns) = (TimerKind::Sleep, START_NS + 100 * US, START_NS + 150 * US);
    tape.at(160 * US, 0, Event::TimerExpire(TimerExpire { tid: Tid(7), kind, deadline_ns, latest_ns }));
    tape.at(162 * US, 0, waking(8, 7, Context::Hardirq)).at(165 * US, 0, wakeup(7));
    let need = NeedResched { tid: Tid(8), target_cpu: 0, urgency: Urgency::Now };
    tape.at(170 * US, 0, Event::NeedResched(need)).at(200 * US, 0, switch(8, 7, Preempted));
    tape
}

#[test]
fn channels_beyond_the_limit_are_not_counted_by_event() {
    let mut tape = Tape::new(&[Group::Ipc]);
    let most = Channels::SEEN_MAX as u64;
    tape.at(0, 0, switch(0, 7, Runnable));
    let ipc = |id, direction| {
        Event::Ipc(Ipc { tid: Tid(7), direction, channel: Channel { kind: ChannelKind::Pipe, id }, bytes: 8 })
    };
    (0..most).for_each(|id| _ = tape.at(1 + id, 0, ipc(id, Direction::Write)));
    let channels = tape.findings(MS).channels.unwrap();
    let hidden_bytes = 8 * (most - channels.top.len() as u64);
    assert_eq!((channels.seen, channels.other_bytes), (most, hidden_bytes));
    // One more channel: each of its bytes is written, and then read.
    for event in 0..10 {
        tape.at(MS + 2 * event, 0, ipc(most, Direction::Write));
        tape.at(MS + 2 * event + 1, 0, ipc(most, Direction::Read));
    }
    let channels = tape.findings(2 * MS).channels.unwrap();
    assert_eq!((channels.seen, channels.other_bytes), (most + 1, hidden_bytes + 80));
}

#[test]
fn events_outside_of_the_window_do_not_count() {
    let mut tape = taken_cpu();
    let all = tape.findings(100 * US).trace.events;
    let in_window = |tape: &Tape, from_ns, to_ns| {
        let times = tape.events.iter().map(|event| event.time_ns - START_NS);
        let counted = tape.events.iter().zip(times).filter(|(event, time_ns)| {
            (from_ns..to_ns).contains(time_ns) && !matches!(event.event, Event::Task(_))
        });
        counted.count() as u64
    };
    assert_eq!(all, in_window(&tape, 0, 100 * US));
    (tape.selection.from_ns, tape.selection.to_ns) = (11 * US, Some(30 * US));
    let part = tape.findings(100 * US).trace.events;
    assert_eq!(part, in_window(&tape, 11 * US, 30 * US));
    assert!(0 < part && part < all, "{part} of {all}");
}

#[test]
fn wake_ups_of_other_tasks_are_not_among_the_selected_ones() {
    let mut tape = timer_wakeup();
    let others_ns = 200 * MS;
    for round in 0..5 {
        let at_ns = others_ns + round * MS;
        tape.at(at_ns, 1, waking(0, 30, Context::Hardirq)).at(at_ns + US, 1, wakeup(30));
        tape.at(at_ns + 2 * US, 1, switch(31, 30, Preempted)).at(at_ns + 3 * US, 1, switch(30, 31, Sleeping));
    }
    let all = tape.findings(300 * MS).wakeup.unwrap();
    tape.selection.tasks = Some(TaskPattern::parse("7"));
    let findings = tape.findings(300 * MS);
    let (own, chosen) = (task(&findings, 7).wakeup.as_deref().unwrap(), findings.wakeup.as_ref().unwrap());
    assert!(all.total.count() >= own.total.count + 4, "{all:?}");
    assert_eq!((chosen.total.count(), chosen.total.max()), (own.total.count, Some(own.total.max_ns)));
    assert_eq!(chosen.enqueue.count(), own.enqueue.count);
    assert_eq!(chosen.timer.as_ref().map(Histogram::count), own.timer.map(|timer| timer.count));
    assert_eq!(chosen.resched.as_ref().map(Histogram::count), own.resched.map(|part| part.count));
    let is_other = |party: &Party| matches!(party, Party::Task(who) if who.tid == Tid(31));
    assert!(all.culprits.iter().any(|culprit| is_other(&culprit.party)));
    assert!(chosen.culprits.iter().all(|culprit| !is_other(&culprit.party)));
}

#[test]
fn a_life_without_length_has_no_rate_of_quanta() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(0, 5, Runnable));
    let fork = Fork { parent: Tid(5), child: Tid(7), child_tgid: Tgid(7), comm: Comm::new(b"child") };
    tape.at(100, 0, Event::Fork(fork));
    let findings = tape.findings(100);
    assert_eq!(task(&findings, 7).life_ns, 0);
    assert_eq!(task(&findings, 7).quanta.as_ref().unwrap().per_second, None);
    assert_eq!(task(&findings, 5).quanta.as_ref().unwrap().per_second, Some(0.0));
}
