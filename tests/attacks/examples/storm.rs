//! Heavy loads under which a scheduler must keep working, and beside them a sleeper that measures
//! its longest delay.
//!
//! `storm fork|exec|affinity|cgroups|clients|memory SECONDS`
//!
//! The loads are: processes that begin and end; programs that begin and end; loops with changing affinity;
//! loops that move between cgroups of changing weights; X clients (on `DISPLAY`); a process that allocates
//! memory without end.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use spry_sys::cpus::Cpus;
use spry_sys::{Signal, process, signal};

use spry_attacks::{reap, shared, start};

/// The number of loops that are moved between CPUs or cgroups.
const LOOPS: usize = 8;
/// The number of processes of a fork storm that exist at once, and the work of each of them.
const BROOD: usize = 50;
const WORK: Duration = Duration::from_micros(200);
/// The time between the starts of two X clients.
const CLIENT_EVERY: Duration = Duration::from_millis(10);
/// The root directory of cgroups.
const HOME: &str = "/sys/fs/cgroup";
const GROUPS: [&str; 4] = ["storm-a", "storm-b", "storm-c", "storm-c/inner"];

/// A generator of random numbers, which are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Endless loops, and the number of rounds that each of them has made.
struct Loops {
    tgids: Vec<u32>,
    rounds: &'static [AtomicU64],
}

impl Loops {
    fn start(count: usize) -> Result<Loops> {
        let rounds: &'static [AtomicU64] = shared(count)?;
        let spin = |own: &'static AtomicU64| {
            start(move || {
                loop {
                    own.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        Ok(Loops { tgids: rounds.iter().map(spin).collect::<Result<_>>()?, rounds })
    }

    fn counts(&self) -> Vec<u64> {
        self.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect()
    }

    /// The number of loops that do not run at all in two seconds.
    fn stuck(&self) -> usize {
        let before = self.counts();
        thread::sleep(Duration::from_secs(2));
        self.counts().iter().zip(before).filter(|(now, before)| *now == before).count()
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for &tgid in &self.tgids {
            // The process is a child that has not been waited for.
            _ = signal::send(tgid, Signal::KILL);
            reap(tgid);
        }
    }
}

fn forks(until: Instant) -> Result<String> {
    let mut count = 0;
    while Instant::now() < until {
        let child = || {
            start(|| {
                spry_attacks::spin(WORK);
            })
        };
        let brood: Vec<u32> = (0..BROOD).map(|_| child()).collect::<Result<_>>()?;
        count += brood.len();
        brood.into_iter().for_each(reap);
    }
    Ok(format!("processes {count}"))
}

fn execs(until: Instant) -> Result<String> {
    let own = std::env::current_exe()?;
    let mut count = 0;
    while Instant::now() < until {
        let mut brood = (0..4).map(|_| Command::new(&own).arg("nothing").stdout(Stdio::null()).spawn());
        let brood: Vec<_> = brood.by_ref().collect::<io::Result<_>>()?;
        for mut program in brood {
            ensure!(program.wait()?.success(), "a program failed");
            count += 1;
        }
    }
    Ok(format!("programs {count}"))
}

fn affinities(until: Instant) -> Result<String> {
    let loops = Loops::start(LOOPS)?;
    let cpus = thread::available_parallelism()?.get();
    let (mut dice, mut count) = (Dice(1), 0);
    while Instant::now() < until {
        for &tgid in &loops.tgids {
            let chosen = 1 + dice.below((1 << cpus.min(8)) - 1);
            let set = (0..cpus.min(8) as u32).filter(|cpu| (chosen >> cpu) & 1 != 0);
            // The call may fail, since a CPU may be offline.
            _ = Cpus::of(set)?.hold(tgid);
            count += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(format!("affinities {count}\nstuck {}", loops.stuck()))
}

fn write(path: &str, text: impl ToString) -> Result<()> {
    fs::write(format!("{HOME}/{path}"), text.to_string()).with_context(|| path.to_owned())
}

fn cgroups(until: Instant) -> Result<String> {
    write("cgroup.subtree_control", "+cpu")?;
    for group in GROUPS {
        fs::create_dir_all(format!("{HOME}/{group}"))?;
    }
    // The kernel allows no process in a group that gives its children controllers, so storm-c has only a
    // child group.
    write("storm-c/cgroup.subtree_control", "+cpu")?;
    let places = ["storm-a", "storm-b", "storm-c/inner", "."];
    let loops = Loops::start(LOOPS)?;
    let (mut dice, mut count) = (Dice(2), 0);
    while Instant::now() < until {
        for tgid in &loops.tgids {
            write(&format!("{}/cgroup.procs", places[dice.below(places.len())]), tgid)?;
            count += 1;
        }
        let group = GROUPS[dice.below(GROUPS.len())];
        write(&format!("{group}/cpu.weight"), [1, 100, 10_000][dice.below(3)])?;
        write("storm-b/cpu.max", ["max 100000", "20000 100000"][dice.below(2)])?;
        let passing = format!("{HOME}/storm-{}", count % 7);
        fs::create_dir(&passing)?;
        fs::remove_dir(&passing)?;
        thread::sleep(Duration::from_millis(1));
    }
    write("storm-b/cpu.max", "max 100000")?;
    for group in GROUPS {
        write(&format!("{group}/cpu.weight"), 100)?;
    }
    for (index, tgid) in loops.tgids.iter().enumerate() {
        write(&format!("{}/cgroup.procs", places[index % 3]), tgid)?;
    }
    let stuck = loops.stuck();
    // After the storm the kernel's and the scheduler's counts of the groups must be right. Three groups of
    // the same weight have a third of the CPU each.
    let before = loops.counts();
    thread::sleep(Duration::from_secs(3));
    let mut had = [0; 3];
    for (index, (now, before)) in loops.counts().iter().zip(before).enumerate() {
        had[index % 3] += now - before;
    }
    let all = had.iter().sum::<u64>().max(1);
    let parts = had.map(|had| (had * 100 / all).to_string()).join(" ");
    drop(loops);
    for group in GROUPS.iter().rev() {
        fs::remove_dir(format!("{HOME}/{group}")).with_context(|| (*group).to_owned())?;
    }
    Ok(format!("moves {count}\nstuck {stuck}\nparts {parts}"))
}

/// Acts as one X client: it connects, makes a window, shows it, draws, and ends.
fn client(socket: &str) -> Result<()> {
    let mut stream = UnixStream::connect(socket).with_context(|| socket.to_owned())?;
    stream.write_all(&[b'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    ensure!(head[0] == 1, "the server refuses");
    let mut rest = vec![0; usize::from(u16::from_le_bytes([head[6], head[7]])) * 4];
    stream.read_exact(&mut rest)?;
    let word = |at: usize| rest[at..at + 4].iter().rev().fold(0, |all, &byte| (all << 8) | u32::from(byte));
    let vendor = usize::from(u16::from_le_bytes([rest[16], rest[17]])).next_multiple_of(4);
    let (id, root) = (word(4), word(32 + vendor + 8 * usize::from(rest[21])));
    let mut request = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| request.extend(word.to_le_bytes()));
    // CreateWindow of 200x100 with a white background, MapWindow, CreateGC, PolyFillRectangle, GetInputFocus.
    put(&[(9 << 16) | 1, id, root, 0, (100 << 16) | 200, 1 << 16, 0, 2, 0x00ff_ffff]);
    put(&[(2 << 16) | 8, id]);
    put(&[(4 << 16) | 55, id + 1, id, 0]);
    put(&[(5 << 16) | 70, id, id + 1, 0, (100 << 16) | 200]);
    put(&[(1 << 16) | 43]);
    stream.write_all(&request)?;
    let mut answer = [0; 32];
    stream.read_exact(&mut answer)?;
    ensure!(answer[0] == 1, "the server has an error for it: {}", answer[1]);
    Ok(())
}

fn clients(until: Instant) -> Result<String> {
    let display = std::env::var("DISPLAY").context("DISPLAY")?;
    let socket = format!("/tmp/.X11-unix/X{}", display.trim_start_matches(':'));
    client(&socket)?;
    let (mut living, mut count, begin) = (Vec::new(), 0, Instant::now());
    while Instant::now() < until {
        living.push(start(|| {
            if let Err(error) = client(&socket) {
                eprintln!("{error:#}");
            }
        })?);
        count += 1;
        if living.len() >= BROOD {
            living.drain(..).for_each(reap);
        }
        thread::sleep((begin + CLIENT_EVERY * count).saturating_duration_since(Instant::now()));
    }
    living.into_iter().for_each(reap);
    Ok(format!("clients {count}"))
}

fn memory() -> Result<String> {
    let hog = start(|| {
        _ = fs::write("/proc/self/oom_score_adj", "0");
        let mut all = Vec::new();
        loop {
            all.push(vec![1_u8; 1 << 20]);
        }
    })?;
    let status = process::wait(hog)?;
    Ok(format!("killed {}", status.signal().is_some()))
}

/// Sleeps 10 ms at a time until its input ends. Prints its longest delay, ms.
fn sleeper() -> Result<()> {
    static OVER: AtomicBool = AtomicBool::new(false);
    let sleeper = thread::spawn(|| {
        let (pause, mut latest) = (Duration::from_millis(10), Duration::ZERO);
        while !OVER.load(Ordering::Relaxed) {
            let begin = Instant::now();
            thread::sleep(pause);
            latest = latest.max(begin.elapsed().saturating_sub(pause));
        }
        latest
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    OVER.store(true, Ordering::Relaxed);
    println!("{:.1}", sleeper.join().unwrap_or_default().as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().context("which storm?")?;
    match kind.as_str() {
        "nothing" => return Ok(()),
        "sleeper" => return sleeper(),
        _ => {}
    }
    let seconds = args.next().map_or(Ok(2), |text| text.parse()).context("a number of seconds")?;
    // The sleeper is a process of its own. A thread of the storm's process would wait for the lock on the
    // memory that each fork takes.
    let mut sleeper = Command::new(std::env::current_exe()?)
        .arg("sleeper")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let said = match kind.as_str() {
        "fork" => forks(until),
        "exec" => execs(until),
        "affinity" => affinities(until),
        "cgroups" => cgroups(until),
        "clients" => clients(until),
        "memory" => memory(),
        _ => bail!("there is no storm `{kind}`"),
    };
    drop(sleeper.stdin.take());
    let latest = String::from_utf8(sleeper.wait_with_output()?.stdout)?;
    println!("{}\nlatest {} ms", said?, latest.trim());
    Ok(())
}
