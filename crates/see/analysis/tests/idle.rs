//! Why a CPU was idle while a task waited for it.

mod tape;

use spry_analysis::findings::{Delay, IdleReason, Party};
use spry_trace::Group;
use spry_trace::event::{Context, Event, Lost, Migrate, PrevState, Tid};

use PrevState::{Preempted, Runnable, Sleeping};
use tape::{MS, Tape, US, named, switch, task, wakeup, waking};

fn enters(state: u32) -> Event {
    Event::IdleState(Some(state))
}

fn leaves() -> Event {
    Event::IdleState(None)
}

/// CPU 0 becomes idle and enters state 3; from CPU 1, a task wakes the task that sleeps on CPU 0.
fn asleep(groups: &[Group]) -> Tape {
    let mut tape = Tape::new(groups);
    tape.at(0, 0, named(7, 7, "player"));
    tape.at(0, 0, switch(0, 7, Runnable)).at(0, 1, switch(0, 8, Runnable));
    tape.at(MS, 0, switch(7, 0, Sleeping)).at(MS + 10 * US, 0, enters(3));
    tape.at(2 * MS, 1, waking(8, 7, Context::Task)).at(2 * MS, 1, wakeup(7));
    tape
}

/// The longest wait of task 7, with the time that a CPU was idle in it.
fn worst(tape: &Tape, end_ns: u64) -> (Delay, Option<u64>) {
    let findings = tape.findings(end_ns);
    let victim = task(&findings, 7).who;
    let delay = findings.delays.unwrap().worst.into_iter().find(|delay| delay.victim == victim).unwrap();
    let idle = delay.culprits.iter().find(|culprit| culprit.party == Party::Idle).copied();
    (delay, idle.map(|culprit| culprit.ran_ns))
}

#[test]
fn the_time_to_leave_the_idle_state_is_told_apart() {
    let mut tape = asleep(&[Group::Idle]);
    tape.at(2 * MS + 290 * US, 0, leaves()).at(2 * MS + 340 * US, 0, switch(0, 7, Runnable));
    let (delay, idle_ns) = worst(&tape, 3 * MS);
    assert_eq!(idle_ns, Some(340 * US));
    assert_eq!(delay.idle, Some(IdleReason::State { state: 3, leaving_ns: 290 * US }));
}

#[test]
fn a_state_that_is_entered_again_counts_once() {
    let mut tape = asleep(&[Group::Idle]);
    tape.at(2 * MS + 100 * US, 0, leaves()).at(2 * MS + 120 * US, 0, enters(1));
    tape.at(2 * MS + 400 * US, 0, leaves()).at(2 * MS + 410 * US, 0, switch(0, 7, Runnable));
    let reason = IdleReason::State { state: 3, leaving_ns: 100 * US };
    assert_eq!(worst(&tape, 3 * MS).0.idle, Some(reason));
}

#[test]
fn a_wait_that_the_end_cuts_is_in_the_state_to_the_end() {
    let (delay, idle_ns) = worst(&asleep(&[Group::Idle]), 3 * MS);
    assert_eq!(idle_ns, Some(MS));
    assert_eq!(delay.idle, Some(IdleReason::State { state: 3, leaving_ns: MS }));
}

#[test]
fn a_state_that_was_left_before_the_wait_is_no_reason() {
    let mut tape = Tape::new(&[Group::Idle]);
    tape.at(0, 0, switch(0, 7, Runnable)).at(MS, 0, switch(7, 0, Sleeping)).at(MS + 10 * US, 0, enters(2));
    // The interrupt that ends the state wakes the task.
    tape.at(2 * MS, 0, leaves()).at(2 * MS + US, 0, waking(0, 7, Context::Hardirq));
    tape.at(2 * MS + US, 0, wakeup(7)).at(2 * MS + 40 * US, 0, switch(0, 7, Runnable));
    let (delay, idle_ns) = worst(&tape, 3 * MS);
    assert_eq!((delay.idle, idle_ns), (Some(IdleReason::NoState), Some(39 * US)));
}

#[test]
fn without_the_group_there_is_no_reason() {
    let mut tape = asleep(&[]);
    tape.at(2 * MS + 340 * US, 0, switch(0, 7, Runnable));
    let (delay, idle_ns) = worst(&tape, 3 * MS);
    assert_eq!((delay.idle, idle_ns), (None, Some(340 * US)));
}

#[test]
fn a_wait_without_an_idle_cpu_needs_no_reason() {
    let mut tape = Tape::new(&[Group::Idle]);
    tape.at(0, 0, switch(7, 8, Preempted)).at(MS, 0, switch(8, 7, Preempted));
    let (delay, idle_ns) = worst(&tape, 2 * MS);
    assert_eq!((delay.idle, idle_ns), (None, None));
}

#[test]
fn only_the_cpu_that_the_task_gets_counts() {
    // The task moves to CPU 1, which is idle and in another state since 1.5 ms.
    let mut tape = Tape::new(&[Group::Idle]);
    tape.at(0, 0, switch(0, 7, Runnable)).at(0, 1, switch(0, 8, Runnable));
    tape.at(MS, 0, switch(7, 0, Sleeping)).at(MS + 10 * US, 0, enters(3));
    tape.at(MS + 400 * US, 1, switch(8, 0, Sleeping)).at(MS + 500 * US, 1, enters(1));
    tape.at(2 * MS, 0, waking(0, 7, Context::Hardirq)).at(2 * MS, 0, wakeup(7));
    tape.at(2 * MS + 50 * US, 0, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 0, to_cpu: 1 }));
    tape.at(2 * MS + 80 * US, 1, leaves()).at(2 * MS + 90 * US, 1, switch(0, 7, Runnable));
    let (delay, idle_ns) = worst(&tape, 3 * MS);
    assert_eq!((delay.cpu, idle_ns), (1, Some(90 * US)));
    assert_eq!(delay.idle, Some(IdleReason::State { state: 1, leaving_ns: 30 * US }));
}

#[test]
fn a_cpu_that_became_idle_during_the_wait_has_no_known_reason() {
    let mut tape = Tape::new(&[Group::Idle]);
    tape.at(0, 0, switch(7, 8, Preempted)).at(MS, 0, switch(8, 0, Sleeping)).at(MS + US, 0, enters(1));
    tape.at(2 * MS, 0, leaves()).at(2 * MS + US, 0, switch(0, 7, Runnable));
    assert_eq!(worst(&tape, 3 * MS).0.idle, Some(IdleReason::Unknown));
}

#[test]
fn a_state_from_before_a_loss_is_no_reason() {
    let mut tape = Tape::new(&[Group::Idle]);
    tape.at(0, 0, switch(7, 0, Sleeping)).at(0, 1, switch(0, 8, Runnable)).at(10 * US, 0, enters(3));
    tape.at(MS, 0, Event::Lost(Lost { count: 3 })).at(MS + US, 0, switch(9, 0, Sleeping));
    tape.at(2 * MS, 1, waking(8, 7, Context::Task)).at(2 * MS, 1, wakeup(7));
    tape.at(2 * MS + 40 * US, 0, switch(0, 7, Runnable));
    let (delay, idle_ns) = worst(&tape, 3 * MS);
    assert_eq!((delay.idle, idle_ns), (Some(IdleReason::NoState), Some(40 * US)));
}

#[test]
fn the_idle_task_never_waits_and_is_no_task_of_the_report() {
    // An interrupt wakes the idle task, which leaves its CPU as a runnable task.
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(7, 0, Sleeping)).at(0, 1, switch(0, 8, Runnable));
    tape.at(MS, 0, waking(0, 0, Context::Hardirq)).at(MS, 0, wakeup(0));
    tape.at(2 * MS, 0, waking(0, 7, Context::Hardirq)).at(2 * MS, 0, wakeup(7));
    tape.at(2 * MS + 20 * US, 0, switch(0, 7, Runnable)).at(3 * MS, 1, switch(8, 0, Sleeping));
    let findings = tape.findings(4 * MS);
    assert!(findings.tasks.iter().all(|task| task.who.tid != Tid::IDLE));
    let waits_ns: u64 = findings.tasks.iter().filter_map(|task| task.runnable_wait_ns).sum();
    assert_eq!(waits_ns, 20 * US, "task 7 alone has waited");
    let worst = findings.delays.unwrap().worst;
    assert_eq!(worst.iter().map(|delay| delay.wait_ns).collect::<Vec<_>>(), [20 * US]);
}

#[test]
fn a_waking_says_nothing_of_the_cpu_of_the_wait() {
    // CPU 0, on which the task slept, is idle. The task moves at its wake-up, and the move has no event.
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, named(7, 7, "player"));
    tape.at(0, 0, switch(0, 7, Runnable)).at(0, 1, switch(0, 8, Runnable));
    tape.at(MS, 0, switch(7, 0, Sleeping));
    tape.at(2 * MS, 0, waking(0, 7, Context::Hardirq));
    tape.at(2 * MS + 500 * US, 1, switch(8, 7, Preempted));
    let (delay, idle_ns) = worst(&tape, 3 * MS);
    assert_eq!((delay.cpu, idle_ns), (1, None));
}
