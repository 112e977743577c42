//! The storm itself: actors that do at random what programs can do to a scheduler.

use std::ffi::CStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::dice::Dice;

/// Actors that live from begin to end.
const ACTORS: u64 = 24;
/// Processes of this name are in use, where the scheduler is told so.
pub const IN_USE: &CStr = c"in-use";
/// Processes of the storm beyond which none begins.
const PROCESSES_MAX: usize = 80;
const CGROUPS: &str = "/sys/fs/cgroup";
const GROUPS: [&str; 4] = ["storm-a", "storm-b", "storm-c", "storm-c/inner"];

/// What an actor does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Spin(Duration),
    Sleep(Duration),
    Yield(u64),
    /// A child that does so many things, and ends.
    Fork(u64),
    /// A thread that does so many things, and ends.
    Thread(u64),
    Exec,
    Nice(i32),
    Class(i32),
    Cpus(u64),
    Move(&'static str),
    /// From now on its process is in use, or is not: the scheduler is told by names.
    Name(&'static CStr),
    Weight(&'static str, u64),
}

impl Act {
    /// What a short-lived child or thread does as well as an actor.
    fn simple(dice: &mut Dice) -> Act {
        match dice.below(12) {
            0..4 => Act::Spin(Duration::from_micros(100 + dice.below(5_000))),
            4 => Act::Spin(Duration::from_millis(20)),
            5 | 6 => Act::Sleep(Duration::from_micros(dice.below(20_000))),
            7 => Act::Yield(1 + dice.below(50)),
            8 => Act::Nice(dice.below(16) as i32 - 5),
            9 => Act::Class([libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE][dice.below(3) as usize]),
            10 => Act::Cpus(dice.next()),
            _ => Act::Move(GROUPS[dice.below(GROUPS.len() as u64) as usize]),
        }
    }

    fn any(dice: &mut Dice) -> Act {
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

    /// What the kernel refuses is no matter: the storm goes on.
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
                if processes() < PROCESSES_MAX && fork() {
                    (0..acts).for_each(|_| Act::simple(&mut own).carry_out(&mut own));
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(0) };
                }
            }
            Act::Thread(acts) => {
                let mut own = Dice::new(dice.next());
                let small = thread::Builder::new().stack_size(64 << 10);
                drop(small.spawn(move || (0..acts).for_each(|_| Act::simple(&mut own).carry_out(&mut own))));
            }
            Act::Exec => {
                let seed = dice.next().to_string();
                // It comes back only if that is refused.
                drop(Command::new("/proc/self/exe").args(["actor", &seed]).exec());
            }
            // SAFETY: numbers only.
            Act::Nice(value) => drop(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) }),
            Act::Class(class) => become_of(class, 0),
            Act::Cpus(bits) => allow(bits),
            Act::Name(name) => set_name(name),
            Act::Move(group) => drop(fs::write(format!("{CGROUPS}/{group}/cgroup.procs"), "0")),
            Act::Weight(group, weight) => {
                drop(fs::write(format!("{CGROUPS}/{group}/cpu.weight"), weight.to_string()));
            }
        }
    }
}

fn set_name(name: &CStr) {
    // SAFETY: a short text that ends with 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn become_of(class: i32, priority: i32) {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure outlives the call.
    unsafe { libc::sched_setscheduler(0, class | libc::SCHED_RESET_ON_FORK, &raw const param) };
}

/// The calling thread may use the CPUs of these bits, and the first if there is none of them.
fn allow(bits: u64) {
    // SAFETY: a set of CPUs is plain bits, and this function's own.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..64).filter(|cpu| bits >> cpu & 1 == 1).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) != 0 {
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

/// In the child `true`. Of several threads the child has this one alone, and takes no lock but the allocator's.
fn fork() -> bool {
    // SAFETY: as said above.
    unsafe { libc::fork() == 0 }
}

/// How many processes there are.
fn processes() -> usize {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = load.split('/').nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    all.map_or(PROCESSES_MAX, |all| all.saturating_sub(kernel_threads()))
}

/// Threads that are not the storm's, roughly: those that there were when the actor began.
fn kernel_threads() -> usize {
    static BEFORE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *BEFORE.get_or_init(|| {
        std::env::var("SPRY_STORM_BEFORE").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    })
}

/// An actor's life.
pub fn actor(seed: u64) -> ! {
    set_name(c"storm");
    // SAFETY: ended children are nobody's business.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let mut dice = Dice::new(seed);
    loop {
        Act::any(&mut dice).carry_out(&mut dice);
    }
}

fn online(cpu: usize, state: &str) {
    drop(fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), state));
}

/// A storm from a seed, for so long; CPUs but the first go and come meanwhile.
///
/// # Errors
/// Where there are no cgroups, or no process can be made.
pub fn storm(seed: u64, time: Duration) -> Result<ExitCode> {
    let load = fs::read_to_string("/proc/loadavg").context("reading the load")?;
    let all = load.split('/').nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("0");
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var("SPRY_STORM_BEFORE", all) };
    fs::write(format!("{CGROUPS}/cgroup.subtree_control"), "+cpu").context("cgroups with weights")?;
    for group in GROUPS {
        fs::create_dir_all(format!("{CGROUPS}/{group}")).context(group)?;
    }
    let cpus = thread::available_parallelism()?.get();
    // The one who ends the storm waits for nothing in it.
    become_of(libc::SCHED_RR, 1);
    // SAFETY: an own process group, by which all of the storm is ended.
    ensure!(unsafe { libc::setpgid(0, 0) } == 0, "no process group");
    let mut dice = Dice::new(seed);
    for _ in 0..ACTORS {
        let seed = dice.next();
        if fork() {
            actor(seed);
        }
    }
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()) {
        thread::sleep(left.min(Duration::from_millis(200 + dice.below(700))));
        if cpus > 1 {
            let cpu = 1 + dice.below(cpus as u64 - 1) as usize;
            online(cpu, "0");
            thread::sleep(Duration::from_millis(dice.below(200)));
            online(cpu, "1");
        }
    }
    // SAFETY: this process ignores what it sends to its whole group but itself.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::kill(0, libc::SIGTERM);
    }
    println!("the storm is over");
    Ok(ExitCode::SUCCESS)
}
