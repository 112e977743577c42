//! Times and CPUs that only a forged trace names cost no more than the times and CPUs of other traces.

#[expect(dead_code, reason = "other tests need the rest of the tape")]
mod tape;

use spry_analysis::findings::{Drawing, Party};
use spry_trace::Group;
use spry_trace::event::{Context, Event, Irq, Lost, PrevState, StatState, TaskStat, Tid, Wakeup, WakeupKind};

use PrevState::{Preempted, Sleeping};
use tape::{MS, START_NS, Tape, named, switch, waking};

fn drawing(tape: &Tape, end_ns: u64) -> Drawing {
    tape.findings(end_ns).drawing.unwrap()
}

#[test]
fn an_end_years_after_the_last_stay_adds_no_columns() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(0, 7, Sleeping)).at(MS, 0, switch(7, 0, Sleeping));
    tape.at(1 << 62, 1, Event::Lost(Lost { count: 1 }));
    let columns = drawing(&tape, 1 << 62).cpus[0].len();
    assert!((1024..=2048).contains(&columns), "{columns} columns");
}

#[test]
fn a_stay_that_ends_when_the_clock_does_has_an_end() {
    let mut tape = Tape::new(&[]);
    let end_ns = u64::MAX - START_NS;
    tape.at(0, 0, switch(0, 7, Sleeping)).at(end_ns, 0, switch(7, 0, Sleeping));
    let drawing = drawing(&tape, end_ns);
    assert_eq!(drawing.cpus[0].iter().map(|column| column.busy_ns).sum::<u64>(), end_ns);
}

#[test]
fn more_cpus_than_the_header_has_get_fewer_columns_each() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(0, 7, Sleeping)).at(10_000 * MS, 0, switch(7, 0, Sleeping));
    assert!(drawing(&tape, 10_000 * MS).cpus[0].len() > 1024);
    tape.at(10_000 * MS, 8191, switch(0, 8, Sleeping));
    let drawing = drawing(&tape, 10_000 * MS);
    assert_eq!((drawing.cpus.len(), drawing.cpus[0].len() <= 64), (8192, true));
}

#[test]
fn any_number_of_losses_is_a_number() {
    let mut tape = Tape::new(&[]);
    tape.at(0, 0, switch(0, 7, Sleeping));
    for cpu in [0, 0, 1] {
        tape.at(MS, cpu, Event::Lost(Lost { count: u64::MAX }));
    }
    tape.at(2 * MS, 0, switch(7, 0, Sleeping));
    let findings = tape.findings(3 * MS);
    assert_eq!((findings.trace.lost, findings.trace.lost_by_cpu), (u64::MAX, vec![u64::MAX; 2]));
}

#[test]
fn sums_over_tasks_and_cpus_are_numbers() {
    // Two threads of a process have a CPU each for the whole of the clock's time, in interrupts. Four woken
    // tasks wait for all that time.
    let mut tape = Tape::new(&[Group::Irq]);
    let end_ns = u64::MAX - START_NS;
    let stat = |exec_ns| TaskStat {
        tid: Tid(7),
        state: StatState::Runnable,
        exec_ns,
        utime_ns: u64::MAX,
        stime_ns: exec_ns,
    };
    tape.at(0, 0, named(7, 7, "both")).at(0, 0, named(8, 7, "both"));
    tape.at(0, 0, Event::Stat(stat(1)));
    for (cpu, tid) in [(0, 7), (1, 8)] {
        tape.at(0, cpu, switch(0, tid, Preempted)).at(0, cpu, Event::IrqEnter(Irq::LocalTimer));
    }
    for tid in 20..24 {
        tape.at(1, 0, waking(7, tid, Context::Task));
        tape.at(1, 0, Event::Wakeup(Wakeup { tid: Tid(tid), target_cpu: 0, kind: WakeupKind::Again }));
    }
    for (cpu, tid) in [(1, 8), (0, 7)] {
        tape.at(end_ns - 9, cpu, Event::IrqExit(Irq::LocalTimer)).at(
            end_ns - 8,
            cpu,
            switch(tid, 20 + u32::from(cpu), Sleeping),
        );
    }
    tape.at(end_ns - 7, 0, Event::Stat(stat(2))).at(end_ns - 6, 0, switch(20, 22, Sleeping));
    tape.at(end_ns - 5, 0, switch(22, 23, Sleeping));
    let findings = tape.findings(end_ns);
    let nodes = findings.graph.unwrap().nodes;
    assert_eq!(nodes.iter().find(|node| node.tgid.0 == 7).unwrap().runtime_ns, u64::MAX);
    assert_eq!(findings.interrupts.unwrap()[0].time.sum_ns, u64::MAX);
    let culprits = findings.wakeup.unwrap().culprits;
    let task = |culprit: &&spry_analysis::findings::Culprit| matches!(culprit.party, Party::Task(_));
    assert_eq!(culprits.iter().find(task).unwrap().ran_ns, u64::MAX);
}
