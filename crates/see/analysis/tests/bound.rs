//! Tasks that are bound to some of the CPUs, and wait while another CPU is idle.

#[expect(dead_code, reason = "other tests need the rest of the tape")]
mod tape;

use spry_analysis::findings::{Bound, Delay};
use spry_trace::event::{Affinity, Event, Migrate, PrevState, Tid};

use PrevState::{Preempted, Sleeping};
use tape::{MS, Tape, named, switch, task};

fn bound(tid: u32, cpus: u16) -> Event {
    Event::Affinity(Affinity { tid: Tid(tid), cpus })
}

/// Task 7 waits on CPU 0 from 1 ms to 9 ms, while task 8 runs there; CPU 1 is idle from 3 ms on.
fn waiting(affinity: Option<Event>) -> Tape {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, named(7, 7, "player")).at(0, 0, named(8, 8, "hog"));
    tape.at(0, 0, switch(0, 7, Preempted)).at(0, 1, switch(0, 9, Preempted));
    if let Some(affinity) = affinity {
        tape.at(MS, 0, affinity);
    }
    tape.at(MS, 0, switch(7, 8, Preempted)).at(3 * MS, 1, switch(9, 0, Sleeping));
    tape.at(9 * MS, 0, switch(8, 7, Preempted));
    tape
}

/// The longest wait of task 7.
fn worst(tape: &Tape) -> Delay {
    let findings = tape.findings(10 * MS);
    let victim = task(&findings, 7).who;
    findings.delays.unwrap().worst.into_iter().find(|delay| delay.victim == victim).unwrap()
}

#[test]
fn a_cpu_that_a_bound_task_may_not_use_is_named() {
    let delay = worst(&waiting(Some(bound(7, 1))));
    assert_eq!(delay.wait_ns, 8 * MS);
    assert_eq!(delay.bound, Some(Bound { cpus: 1, idle_cpu: 1, idle_ns: 6 * MS }));
}

#[test]
fn a_task_that_may_use_all_cpus_is_not_called_bound() {
    assert_eq!(worst(&waiting(None)).bound, None);
    assert_eq!(worst(&waiting(Some(bound(7, 2)))).bound, None);
    assert_eq!(worst(&waiting(Some(bound(8, 1)))).bound, None, "the other task is bound");
}

#[test]
fn a_wait_that_the_end_cuts_is_bound_up_to_the_end() {
    let mut tape = waiting(Some(bound(7, 1)));
    tape.events.pop();
    assert_eq!(worst(&tape).bound, Some(Bound { cpus: 1, idle_cpu: 1, idle_ns: 7 * MS }));
}

#[test]
fn the_affinity_at_the_end_of_the_wait_counts() {
    // The task may use all CPUs from 5 ms on, and moves.
    let mut tape = waiting(Some(bound(7, 1)));
    tape.events.pop();
    tape.at(5 * MS, 1, bound(7, 2));
    tape.at(5 * MS, 1, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 0, to_cpu: 1 }));
    tape.at(6 * MS, 1, switch(0, 7, Preempted));
    assert_eq!(worst(&tape).bound, None);
}

#[test]
fn without_an_idle_cpu_the_affinity_is_no_reason() {
    let mut tape = waiting(Some(bound(7, 1)));
    tape.events.retain(|stamped| stamped.cpu == 0);
    tape.at(0, 1, switch(0, 9, Preempted));
    tape.events.sort_by_key(|stamped| stamped.time_ns);
    assert_eq!(worst(&tape).bound, None);
}
