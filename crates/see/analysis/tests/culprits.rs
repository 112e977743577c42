//! What had the CPU while a task waited for it: each culprit's time and number of waits.

mod tape;

use spry_analysis::findings::Party;
use spry_trace::event::{Context, Event, Migrate, PrevState, Tid};

use PrevState::{Preempted, Runnable, Sleeping};
use tape::{MS, Tape, US, named, switch, task, wakeup, waking};

#[test]
fn a_culprit_with_two_stays_in_one_wait_has_one_wait() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, named(7, 7, "player"));
    tape.at(US, 0, switch(7, 8, Sleeping)).at(MS, 0, waking(8, 7, Context::Task)).at(MS, 0, wakeup(7));
    tape.at(2 * MS, 0, switch(8, 9, Preempted)).at(3 * MS, 0, switch(9, 8, Preempted));
    tape.at(5 * MS, 0, switch(8, 7, Preempted));
    let findings = tape.findings(10 * MS);
    let party = |tid| Party::Task(task(&findings, tid).who);
    let of_it = findings.delays.as_ref().unwrap().blame.iter().filter(|blame| blame.victim.tid == Tid(7));
    let blamed: Vec<_> = of_it.map(|blame| (blame.culprit, blame.total_ns, blame.waits)).collect();
    assert_eq!(blamed, [(party(8), 3 * MS, 1), (party(9), MS, 1)]);
}

#[test]
fn a_wait_that_moved_blames_the_holders_of_both_cpus() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(7, 8, Sleeping)).at(0, 1, switch(0, 9, Runnable));
    tape.at(MS, 0, waking(8, 7, Context::Task)).at(MS, 0, wakeup(7));
    tape.at(4 * MS, 1, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 0, to_cpu: 1 }));
    tape.at(6 * MS, 1, switch(9, 7, Preempted));
    let findings = tape.findings(7 * MS);
    let worst = &findings.delays.as_ref().unwrap().worst[0];
    let blamed: Vec<_> = worst.culprits.iter().map(|culprit| (culprit.party, culprit.ran_ns)).collect();
    let party = |tid| Party::Task(task(&findings, tid).who);
    assert_eq!(blamed, [(party(8), 3 * MS), (party(9), 2 * MS)]);
    assert_eq!(task(&findings, 7).migrations, Some(1));
    assert_eq!((findings.cpus[0].migrations_out, findings.cpus[1].migrations_in), (Some(1), Some(1)));
}

#[test]
fn an_unknown_holder_of_a_cpu_is_not_counted_as_several_tasks() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(7, 8, Sleeping));
    tape.at(MS, 0, waking(8, 7, Context::Task)).at(MS, 0, wakeup(7));
    // No event has shown yet what runs on CPU 1, to which the task moves.
    tape.at(2 * MS, 1, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 0, to_cpu: 1 }));
    tape.at(6 * MS, 1, switch(0, 7, Runnable));
    let findings = tape.findings(7 * MS);
    let culprits = &findings.wakeup.as_ref().unwrap().culprits;
    let others = culprits.iter().filter(|culprit| culprit.party == Party::Others);
    assert_eq!(others.count(), 0, "{culprits:?}");
}
