//! The storm itself: actors that do random actions, as programs may do to a scheduler.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use spry_reservations::Terms;
use spry_sys::cpus::Cpus;
use spry_sys::schedule::{self, Children, Policy};
use spry_sys::settle::Setting;
use spry_sys::{Signal, outlive, process, signal};

use crate::dice::Dice;
use crate::reserve;

/// How many actors run from the beginning of a storm to its end.
const ACTORS: u64 = 24;
/// Processes of this name are in use, if the scheduler's options set this.
pub const IN_USE: &CStr = c"in-use";
/// While the storm has this many processes, it starts no further process.
const PROCESSES_MAX: usize = 80;
/// The number of threads that the machine had before the storm. The storm's programs get it in the
/// environment variable `BEFORE_NAME`.
static BEFORE: OnceLock<usize> = OnceLock::new();
const BEFORE_NAME: &str = "SPRY_STORM_BEFORE";
const CGROUPS: &str = "/sys/fs/cgroup";
const GROUPS: [&str; 4] = ["storm-a", "storm-b", "storm-c", "storm-c/inner"];

/// The additional part of a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addition {
    Nothing,
    /// Reservations of the daemon.
    Reservations,
}

/// The next action of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Spin(Duration),
    Sleep(Duration),
    Yield(u64),
    /// A child process does this many actions and ends.
    Fork(u64),
    /// A thread does this many actions and ends.
    Thread(u64),
    Exec,
    Nice(i32),
    Class(Policy),
    Cpus(u64),
    Move(&'static str),
    /// The process gets this name, which decides whether it is in use: the scheduler recognises processes in
    /// use by their names.
    Name(&'static CStr),
    Weight(&'static str, u64),
    /// Any task of the storm gets a reservation of these terms, if they fit.
    Reserve(Terms),
    /// The reservation of any task of the storm ends.
    Release,
    /// A thread does this many actions of all kinds, and so may become another program.
    FreeThread(u64),
}

impl Act {
    /// An action that short-lived children and threads do, too.
    fn simple(dice: &mut Dice) -> Act {
        match dice.below(12) {
            0..4 => Act::Spin(Duration::from_micros(100 + dice.below(5_000))),
            4 => Act::Spin(Duration::from_millis(20)),
            5 | 6 => Act::Sleep(Duration::from_micros(dice.below(20_000))),
            7 => Act::Yield(1 + dice.below(50)),
            8 => Act::Nice(dice.below(16) as i32 - 5),
            9 => Act::Class([Policy::Other, Policy::Batch, Policy::Idle][dice.below(3) as usize]),
            10 => Act::Cpus(dice.next()),
            _ => Act::Move(GROUPS[dice.below(GROUPS.len() as u64) as usize]),
        }
    }

    /// An action on reservations.
    fn of_reservations(dice: &mut Dice) -> Act {
        match dice.below(8) {
            0..5 => Act::Reserve(reserve::terms(dice)),
            5 | 6 => Act::Release,
            _ => Act::FreeThread(1 + dice.below(4)),
        }
    }

    fn any(dice: &mut Dice) -> Act {
        if reserve::first().is_some() && dice.below(4) == 0 {
            return Act::of_reservations(dice);
        }
        match dice.below(17) {
            0..11 => Act::simple(dice),
            16 => Act::Name([c"storm", c"storm", c"storm", IN_USE][dice.below(4) as usize]),
            11 | 12 => Act::Fork(1 + dice.below(4)),
            13 => Act::Thread(1 + dice.below(4)),
            14 => Act::Exec,
            _ => {
                let weight = [1, 10, 100, 1000, 10_000][dice.below(5) as usize];
                Act::Weight(GROUPS[dice.below(GROUPS.len() as u64) as usize], weight)
            }
        }
    }

    /// Does the action. If the kernel refuses, the storm goes on.
    fn carry_out(self, dice: &mut Dice) {
        match self {
            Act::Spin(time) => {
                let begin = Instant::now();
                while begin.elapsed() < time {}
            }
            Act::Sleep(time) => thread::sleep(time),
            Act::Yield(times) => (0..times).for_each(|_| thread::yield_now()),
            Act::Fork(acts) => {
                let mut own = Dice::new(dice.next());
                if processes() < PROCESSES_MAX {
                    drop(fork(|| (0..acts).for_each(|_| Act::simple(&mut own).carry_out(&mut own))));
                }
            }
            Act::Thread(acts) => in_a_thread(dice, acts, Act::simple),
            Act::FreeThread(acts) => in_a_thread(dice, acts, Act::any),
            Act::Exec => {
                let seed = dice.next().to_string();
                // The call returns only if the kernel refuses.
                let before = kernel_threads().to_string();
                let first = reserve::first().map(|first| first.to_string());
                let mut command = Command::new("/proc/self/exe");
                drop(command.args(["actor", &seed]).args(first).env(BEFORE_NAME, before).exec());
            }
            Act::Reserve(terms) => reserve::reserve(dice, terms),
            Act::Release => reserve::release(dice),
            Act::Nice(value) => drop(schedule::set_nice(0, value)),
            Act::Class(class) => become_of(class),
            Act::Cpus(bits) => allow(bits),
            Act::Name(name) => process::set_name(name),
            Act::Move(group) => drop(fs::write(format!("{CGROUPS}/{group}/cgroup.procs"), "0")),
            Act::Weight(group, weight) => {
                drop(fs::write(format!("{CGROUPS}/{group}/cpu.weight"), weight.to_string()));
            }
        }
    }
}

/// Starts a thread that does this many actions.
fn in_a_thread(dice: &mut Dice, acts: u64, next: fn(&mut Dice) -> Act) {
    let mut own = Dice::new(dice.next());
    // A request to the daemon needs more of the stack than any other action.
    let small =
        thread::Builder::new().stack_size(if reserve::first().is_some() { 256 << 10 } else { 64 << 10 });
    drop(small.spawn(move || (0..acts).for_each(|_| next(&mut own).carry_out(&mut own))));
}

fn become_of(class: Policy) {
    _ = schedule::set_policy(0, class, Children::Ordinary);
}

/// Lets the calling thread use the CPUs of these bits, or also the first CPU if the kernel has none of them.
fn allow(bits: u64) {
    let hold = |bits: u64| Cpus::of((0..64).filter(|cpu| bits >> cpu & 1 == 1))?.hold(0);
    _ = hold(bits).or_else(|_| hold(bits | 1));
}

/// Forks a child that calls `child` and ends. If the process has several threads, the child has only the
/// calling thread, and takes no lock but the allocator's.
fn fork(child: impl FnOnce()) -> io::Result<u32> {
    let child = || {
        child();
        0
    };
    // SAFETY: the child takes no lock but the allocator's, as the comment above states.
    unsafe { outlive::fork(child) }
}

/// How many processes and threads the storm has.
fn processes() -> usize {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = load.split('/').nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    all.map_or(PROCESSES_MAX, |all| all.saturating_sub(kernel_threads()))
}

/// The approximate number of threads outside the storm: the number of threads before the storm began.
fn kernel_threads() -> usize {
    *BEFORE.get_or_init(|| std::env::var(BEFORE_NAME).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Runs an actor: it does one action after another without end.
pub fn actor(seed: u64) -> ! {
    process::set_name(c"storm");
    // The kernel reaps ended children itself from then on.
    signal::ignore(Signal::CHILD);
    let mut dice = Dice::new(seed);
    loop {
        Act::any(&mut dice).carry_out(&mut dice);
    }
}

fn online(cpu: usize, state: &str) {
    drop(fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), state));
}

/// Takes a CPU offline and brings it back.
fn goes_and_comes(cpus: usize, dice: &mut Dice) {
    let cpu = 1 + dice.below(cpus as u64 - 1) as usize;
    let note = |what: &str| {
        if reserve::first().is_some() {
            reserve::note(&format!("{what} {cpu}"));
        }
    };
    note("goes");
    online(cpu, "0");
    thread::sleep(Duration::from_millis(dice.below(200)));
    online(cpu, "1");
    note("comes");
}

/// Until the time is over: kills an actor now and then and starts another, takes CPUs offline and back, and
/// stores the daemon's account of the reservations.
fn with_reservations(
    begin: Instant,
    time: Duration,
    cpus: usize,
    actors: &mut [u32],
    dice: &mut Dice,
) -> Result<()> {
    while let Some(left) = time.checked_sub(begin.elapsed()) {
        thread::sleep(left.min(Duration::from_millis(20 + dice.below(160))));
        reserve::keep_account()?;
        let killed = &mut actors[dice.below(ACTORS) as usize];
        _ = signal::send(*killed, Signal::KILL);
        let seed = dice.next();
        *killed = fork(|| actor(seed))?;
        if cpus > 1 && dice.below(4) == 0 {
            goes_and_comes(cpus, dice);
        }
    }
    Ok(())
}

/// Runs a storm from a seed for this time. Meanwhile all CPUs but the first go offline and come back.
///
/// # Errors
/// If there are no cgroups, no process can be made, or the daemon does not answer.
pub fn storm(seed: u64, time: Duration, with: Addition) -> Result<ExitCode> {
    let load = fs::read_to_string("/proc/loadavg").context("reading the load")?;
    let all = load.split('/').nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    _ = BEFORE.set(all.unwrap_or(0));
    fs::write(format!("{CGROUPS}/cgroup.subtree_control"), "+cpu").context("cgroups with weights")?;
    for group in GROUPS {
        fs::create_dir_all(format!("{CGROUPS}/{group}")).context(group)?;
    }
    let cpus = thread::available_parallelism()?.get();
    // The process that ends the storm is real-time, so that it does not wait for the storm's tasks.
    become_of(Policy::RoundRobin(1));
    // A signal to the process group ends the whole storm.
    Setting::OwnGroup.apply().context("no process group")?;
    if with == Addition::Reservations {
        reserve::begin(std::process::id());
        // The kernel reaps killed actors itself.
        signal::ignore(Signal::CHILD);
    }
    let mut dice = Dice::new(seed);
    let mut actors = Vec::new();
    for _ in 0..ACTORS {
        let seed = dice.next();
        actors.push(fork(|| actor(seed))?);
    }
    let begin = Instant::now();
    if with == Addition::Reservations {
        with_reservations(begin, time, cpus, &mut actors, &mut dice)?;
    }
    while let Some(left) = time.checked_sub(begin.elapsed()) {
        thread::sleep(left.min(Duration::from_millis(200 + dice.below(700))));
        if cpus > 1 {
            goes_and_comes(cpus, &mut dice);
        }
    }
    // This process ignores the signal that it sends to its whole group.
    signal::ignore(Signal::TERM);
    _ = signal::send_group(std::process::id(), Signal::TERM);
    println!("the storm is over");
    if with == Addition::Reservations {
        let (left, after) = reserve::wait_for_none()?;
        println!("reservations left {left} after {} ms", after.as_millis());
    }
    Ok(ExitCode::SUCCESS)
}
