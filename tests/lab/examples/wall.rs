//! Prints the host's time for the same work on one CPU of the lab and on four: `cargo run --profile checked
//! -p spry-lab-tests --example wall`, on an otherwise idle host.
//!
//! The work is four threads. On four CPUs each thread has a CPU of its own, on one CPU they share it. In the
//! guest the commands `wall sort` and `wall count` do the work.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use rustix::process::getppid;
use rustix::thread::{CpuSet, sched_setaffinity};
use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Topology};
use spry_lab_tests::{example, machine, run};

const THREADS: usize = 4;
/// How often each of the two machines does the work. They take turns.
const TURNS: usize = 5;

/// Fills and sorts an array of numbers, and makes system calls in between. This tests memory accesses,
/// branches and interrupts in the code that the emulator makes.
fn sort(seed: u64) {
    let mut state = seed;
    for _ in 0..40 {
        let mut numbers: Vec<u64> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 20
            })
            .collect();
        numbers.sort_unstable();
        black_box(&numbers);
        (0..200).for_each(|_| _ = black_box(getppid()));
    }
}

/// Counts down. The emulator translates this code once only.
fn count() {
    (0..200_000_000_u64).for_each(|number| _ = black_box(number));
}

/// The guest's program: it does the work on all CPUs of the guest.
fn work(kind: &str) {
    let cpus = thread::available_parallelism().expect("the kernel tells").get();
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                let mut set = CpuSet::new();
                set.set(number % cpus);
                sched_setaffinity(None, &set).expect("this machine has the CPU");
                if kind == "sort" { sort(number as u64) } else { count() }
            });
        }
    });
}

/// How long the host takes for a kind of work on this number of CPUs, s.
fn took_s(kind: &str, cpus: u32) -> f64 {
    let machine = machine(&MachineSpec::default());
    let mut job = Job { topology: Topology::of_cores(cpus), ..Job::default() };
    let argv = ["/spry/wall", kind].map(str::to_owned).into();
    job.commands = vec![GuestCommand { argv, env: Vec::new(), limit_s: 60 }];
    job.files.insert("/spry/wall".to_owned(), FileSource::File(example("wall")));
    let begun = Instant::now();
    run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
    begun.elapsed().as_secs_f64()
}

fn main() {
    if let Some(kind) = std::env::args().nth(1) {
        return work(&kind);
    }
    for kind in ["sort", "count"] {
        // The first run on each machine boots the machine and saves it, so it is not measured.
        for cpus in [1, 4] {
            took_s(kind, cpus);
        }
        let mut ratios: Vec<f64> = (0..TURNS)
            .map(|_| {
                let [one_s, four_s] = [1, 4].map(|cpus| took_s(kind, cpus));
                println!("{kind}: {one_s:.2} s on one CPU, {four_s:.2} s on four");
                four_s / one_s
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let [least, most] = [ratios[0], ratios[TURNS - 1]];
        println!("{kind}: {:.2} times ({least:.2} to {most:.2})", ratios[TURNS / 2]);
    }
}
