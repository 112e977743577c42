//! The findings do not depend on the number of threads that count, nor on how late the threads are.

mod toy;

use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use spry_analysis::{CounterSet, Engine, Findings, FullBatch, Options, Selection, TraceTotals};
use toy::{Plan, ToyTrace, make};

/// Long enough that batches of each kind fill several times.
fn long() -> ToyTrace {
    let (cpus, tasks, events) = (2, 1_500, 300_000);
    make(Plan { seed: 5, cpus, tasks, events, burst_ns: 20_000, churn: true, all_groups: true })
}

fn engine(made: &ToyTrace) -> Engine {
    Engine::new(&made.header, Selection::default(), Options::default()).unwrap()
}

fn totals(made: &ToyTrace) -> TraceTotals {
    TraceTotals { end_ns: Some(made.end_ns), ..TraceTotals::default() }
}

/// All work on this thread.
fn alone(made: &ToyTrace) -> Findings {
    let mut engine = engine(made);
    made.events.iter().for_each(|event| _ = engine.push(event));
    engine.finish(totals(made))
}

/// Counting on this many threads.
fn on_threads(made: &ToyTrace, threads: usize) -> Findings {
    let mut engine = engine(made);
    let parts = engine.detach(threads);
    assert_eq!(parts.len(), threads);
    thread::scope(|scope| {
        let (give_back, empty) = channel();
        let start = |mut part: CounterSet| {
            let (to, from) = sync_channel::<FullBatch>(1);
            let give_back = give_back.clone();
            let thread = scope.spawn(move || {
                for mut full in from {
                    part.count(&mut full);
                    give_back.send(full).unwrap();
                }
                part
            });
            (to, thread)
        };
        let (to, started): (Vec<_>, Vec<_>) = parts.into_iter().map(start).unzip();
        for event in &made.events {
            engine.push(event);
            while let Some(full) = engine.full() {
                to[full.part(threads)].send(full).unwrap();
                empty.try_iter().for_each(|empty| engine.recycle(empty));
            }
        }
        drop(to);
        engine.attach(started.into_iter().map(|thread| thread.join().unwrap()).collect());
    });
    engine.finish(totals(made))
}

/// Counting after everything else.
fn late(made: &ToyTrace) -> (Findings, usize) {
    let mut engine = engine(made);
    let mut parts = engine.detach(1);
    let mut waiting = Vec::new();
    for event in &made.events {
        engine.push(event);
        waiting.extend(std::iter::from_fn(|| engine.full()));
    }
    waiting.iter_mut().for_each(|full| parts[0].count(full));
    engine.attach(parts);
    (engine.finish(totals(made)), waiting.len())
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let made = long();
    let expected = format!("{:?}", alone(&made));
    for threads in 1..=FullBatch::PARTS_MAX {
        assert!(format!("{:?}", on_threads(&made, threads)) == expected, "{threads} threads");
    }
    let (found, batches) = late(&made);
    assert!(format!("{found:?}") == expected, "counted late");
    assert!(batches > 10, "{batches} batches");
}

#[test]
fn two_analyses_of_one_trace_differ_if_an_event_does() {
    let mut made = long();
    let expected = format!("{:?}", alone(&made));
    made.events.pop();
    assert!(format!("{:?}", alone(&made)) != expected, "the comparison sees a lost event");
}
