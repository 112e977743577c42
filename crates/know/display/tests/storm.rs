//! A hundred clients that come and go each second leave nothing behind in memory. The test is alone in its
//! program, because it measures the memory of the process.

mod support;

use std::fs;
use std::time::Instant;

use spry_display::Synthetic;
use support::{Actor, Eyes, ppm, server};

#[test]
fn a_storm_of_clients_leaves_nothing_behind() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) = (Actor::on(&server), Actor::with_window(&server, "300 0 300 300"));
    reader.act("keys");
    reader.act("focus");
    let mut crowd: Vec<Actor> = (0..4).map(|_| Actor::on(&server)).collect();
    // The first clients are not measured: after them everything that is kept for clients was needed once.
    storm(&mut crowd, 100);
    eyes.forget();
    let before = memory_kib();
    let begin = Instant::now();
    storm(&mut crowd, 1_000);
    let took = begin.elapsed();
    eyes.forget();
    let grown = memory_kib().saturating_sub(before);
    // 4,000 clients came and went, each with a window; if a kilobyte of each were kept, it would be four
    // megabytes.
    assert!(grown < 2_048, "{grown} KiB for 4,000 clients in {took:?}");
    typist.act("type 10");
    reader.act("fill 0 0 300 300");
    let seen = eyes.of(reader.tgid());
    assert_eq!(seen.input, 20, "in the end it sees as before");
    assert!(seen.output_ppm.abs_diff(ppm(300 * 300)) * 100 <= seen.output_ppm, "{seen:?}");
}

fn storm(crowd: &mut [Actor], times: u32) {
    crowd.iter_mut().for_each(|actor| actor.begin(&format!("come-and-go {times}")));
    for actor in crowd {
        actor.finish("come-and-go");
    }
}

fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a resident size");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}
