//! Times and CPUs that only a forged trace names cost no more than the times and CPUs of other traces.

#[expect(dead_code, reason = "other tests need the rest of the tape")]
mod tape;

use spry_analysis::findings::Drawing;
use spry_trace::event::{Event, Lost, PrevState};

use PrevState::Sleeping;
use tape::{MS, START_NS, Tape, switch};

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
