//! Storms that a scheduler must live through, and a sleeper beside them that says how late it ran at worst.
//!
//! `storm fork|exec|affinity|cgroups|clients|memory SECONDS`: processes that begin and end, programs, loops
//! of changing affinity, loops that move between cgroups of changing weights, X clients (on `DISPLAY`),
//! memory without end.

mod common;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use common::{reap, shared, start};

/// Loops that are moved about.
const LOOPS: usize = 8;
/// Processes of a fork storm that live at once, and how long each works.
const BROOD: usize = 50;
const WORK: Duration = Duration::from_micros(200);
/// Between two clients.
const CLIENT_EVERY: Duration = Duration::from_millis(10);
/// Of cgroups.
const HOME: &str = "/sys/fs/cgroup";
const GROUPS: [&str; 4] = ["storm-a", "storm-b", "storm-c", "storm-c/inner"];

/// Numbers that repeat.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Endless loops, and how often each has gone round.
struct Loops {
    tgids: Vec<libc::pid_t>,
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

    /// How many do not run in two seconds.
    fn stuck(&self) -> usize {
        let before = self.counts();
        thread::sleep(Duration::from_secs(2));
        self.counts().iter().zip(before).filter(|(now, before)| *now == before).count()
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for &tgid in &self.tgids {
            // SAFETY: a child of this process that has not been waited for.
            unsafe { libc::kill(tgid, libc::SIGKILL) };
            reap(tgid);
        }
    }
}

fn forks(until: Instant) -> Result<String> {
    let mut count = 0;
    while Instant::now() < until {
        let child = || {
            start(|| {
                let begin = Instant::now();
                while begin.elapsed() < WORK {}
            })
        };
        let brood: Vec<libc::pid_t> = (0..BROOD).map(|_| child()).collect::<Result<_>>()?;
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
            // SAFETY: a set is plain bits, and outlives the call.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                let chosen = 1 + dice.below((1 << cpus.min(8)) - 1);
                (0..cpus.min(8))
                    .filter(|cpu| (chosen >> cpu) & 1 != 0)
                    .for_each(|cpu| libc::CPU_SET(cpu, &mut set));
                // A CPU may be away.
                libc::sched_setaffinity(tgid, size_of_val(&set), &raw const set);
            }
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
    // Nobody can be in a group whose children have controllers, so the one with children is only above.
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
    // The storm has left no count of its groups: three groups of one weight have a third each.
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

/// One X client's life: it connects, makes a window, shows it, draws, and is gone.
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
    let mut status = 0;
    // SAFETY: a child of this process, and a status that is ours.
    unsafe { libc::waitpid(hog, &raw mut status, 0) };
    Ok(format!("killed {}", libc::WIFSIGNALED(status)))
}

/// Sleeps 10 ms at a time until its input ends: how much later than due it ever ran, ms.
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
    // The sleeper is a process: a thread of the storm would wait for the memory's lock that each fork takes.
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
