//! Time that the time line and every analysis take for an event: `cargo run --release -p spry-analysis
//! --example throughput [-- CASE [ANALYSIS...]]`.

#[path = "../tests/toy/mod.rs"]
mod toy;

use spry_analysis::{Engine, Options, Selection, TraceTotals};
use spry_trace::{Header, Stamped};

/// Time that this thread has had a CPU, so that other tasks on the machine disturb the measurement less.
fn on_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells a thread's time");
    let first = text.split_whitespace().next().expect("the first figure is the time");
    first.parse().expect("it is a number")
}

fn time(name: &str, header: &Header, events: &[Stamped]) {
    let mut best = f64::MAX;
    let mut checksum = 0;
    for _ in 0..9 {
        let analyses = std::env::args().skip(2).collect();
        let options = Options { analyses, ..Options::default() };
        let mut engine =
            Engine::new(header, Selection::default(), options).expect("the options are possible");
        let start_ns = on_cpu_ns();
        for event in events {
            engine.push(event);
        }
        let pushed_ns = (on_cpu_ns() - start_ns) as f64;
        let findings = engine.finish(TraceTotals::default());
        checksum = findings.tasks.iter().map(|task| task.runtime_ns).sum();
        best = best.min(pushed_ns / events.len() as f64);
    }
    println!("{name:<44} {:>9} events  {best:6.1} ns/event  (run time {checksum} ns)", events.len());
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    if "ping-pong".contains(&only) {
        let (header, events) = toy::ping_pong(2, 300_000);
        time("ping-pong: 2 pairs on 2 CPUs", &header, &events);
    }
    for (name, tasks, burst_ns, all_groups) in [
        ("20: 20 tasks, 2 CPUs", 20, 20_000, false),
        ("400: 400 tasks, 2 CPUs, long queues", 400, 20_000, false),
        ("1000: 1000 tasks, 2 CPUs, long queues", 1_000, 100_000, false),
        ("all: 20 tasks, 2 CPUs, all groups", 20, 20_000, true),
    ] {
        if name.starts_with(&only) {
            let plan =
                toy::Plan { seed: 1, cpus: 2, tasks, events: 1_000_000, burst_ns, churn: false, all_groups };
            let made = toy::make(plan);
            time(name, &made.header, &made.events);
        }
    }
}
