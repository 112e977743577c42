//! What a round trip over pipes, a pair of yields, and fork, exit and wait cost, without and with the collection.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use spry_policy::{Constants, Graph};
use spry_scheduler::collect::Collector;

/// Measured and thrown away first, then this many times as often.
const WARM_UP: u32 = 200;
const TIMES: u32 = 10;

/// Measurements of each.
const TURNS: usize = 3;

/// Forks; the child does its part and ends.
fn child(part: impl FnOnce()) -> i32 {
    // SAFETY: this program has one thread, so the child can go on as it was.
    match unsafe { libc::fork() } {
        0 => {
            part();
            // SAFETY: ends the child, without what the parent would do at its end.
            unsafe { libc::_exit(0) }
        }
        tid => tid,
    }
}

fn wait(child: i32) {
    // SAFETY: waits for a child; its status is not asked for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

fn pipe() -> [i32; 2] {
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

fn pass(from: i32, to: i32) -> bool {
    let mut byte = 0_u8;
    // SAFETY: one byte's place, both times.
    unsafe {
        libc::read(from, (&raw mut byte).cast(), 1) == 1 && libc::write(to, (&raw const byte).cast(), 1) == 1
    }
}

fn timed(rounds: u32, mut one: impl FnMut()) -> f64 {
    (0..rounds / TIMES).for_each(|_| one());
    let start = Instant::now();
    (0..rounds).for_each(|_| one());
    start.elapsed().as_nanos() as f64 / f64::from(rounds)
}

fn pipe_round_trip() -> f64 {
    let (there, back) = (pipe(), pipe());
    let partner = child(|| {
        // SAFETY: the end that only the other side is to hold open.
        unsafe { libc::close(there[1]) };
        while pass(there[0], back[1]) {}
    });
    // SAFETY: starts the ball.
    unsafe { libc::write(there[1], [0_u8].as_ptr().cast(), 1) };
    let ns = timed(WARM_UP * TIMES * 5, || assert!(pass(back[0], there[1])));
    // SAFETY: the partner then reads the end.
    unsafe { libc::close(there[1]) };
    wait(partner);
    ns
}

fn pair_of_yields() -> f64 {
    // SAFETY: nothing but the call.
    let give_way = || unsafe {
        libc::sched_yield();
    };
    let partner = child(|| {
        loop {
            give_way();
        }
    });
    let ns = timed(WARM_UP * TIMES * 5, give_way);
    // SAFETY: a child of this process.
    unsafe { libc::kill(partner, libc::SIGKILL) };
    wait(partner);
    ns
}

fn fork_exit_wait() -> f64 {
    timed(WARM_UP * TIMES, || wait(child(|| ())))
}

fn measure_here(what: &str) -> Result<f64> {
    match what {
        "pipe" => Ok(pipe_round_trip()),
        "yield" => Ok(pair_of_yields()),
        "fork" => Ok(fork_exit_wait()),
        _ => bail!("{what}: pipe, yield or fork"),
    }
}

/// Measures in a new process: the collector's own is left out of the collection, and larger to fork.
fn measure(what: &str) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?).args(["--measure", what]).output()?;
    String::from_utf8(output.stdout)?.trim().parse().with_context(|| format!("measuring {what}"))
}

fn main() -> Result<()> {
    // SAFETY: a set of CPUs that names the first one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if let [first, what] = names.as_slice() {
        if first == "--measure" {
            println!("{}", measure_here(what)?);
            return Ok(());
        }
    }
    let is_thesis = names.iter().any(|name| name == "--thesis");
    names.retain(|name| name != "--thesis");
    let constants = if is_thesis { Constants::thesis() } else { Constants::default() };
    let names = if names.is_empty() { vec!["pipe".into(), "yield".into(), "fork".into()] } else { names };
    // By turns, for what forking costs depends on the memory at hand; the least of each counts.
    let mut least = vec![[f64::INFINITY; 2]; names.len()];
    for _ in 0..TURNS {
        for (name, least) in names.iter().zip(&mut least) {
            least[0] = least[0].min(measure(name)?);
        }
        let mut collector = Collector::open(&constants)?;
        let before = collector.nodes().used().len();
        for (name, least) in names.iter().zip(&mut least) {
            least[1] = least[1].min(measure(name)?);
        }
        let nodes = collector.nodes().used().len() - before;
        let drained = collector.drain(&mut Graph::new());
        let (waits, warnings) = (collector.waits(), collector.warnings());
        println!("{waits:?} {warnings:?}; nodes used: {nodes}, edges lost: {}", drained.lost_edges);
    }
    for (name, [without_ns, with_ns]) in names.iter().zip(least) {
        let more_ns = with_ns - without_ns;
        println!("{name}: {without_ns:.0} ns, with the collection {with_ns:.0} ns, {more_ns:+.0}");
    }
    Ok(())
}
