//! Processes that their interval timers wake, and the time of a command beside them. They are the timer
//! processes of Time-Sensitive Linux's figures 6 to 8 (Goel et al. 2002, 4.3.2).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use spry_sys::settle::Setting;
use spry_sys::{Signal, alarm, clock, file, process, signal};

/// The time from the fork of the first process to the first timer, ns. All processes wait by then.
const BEFORE_NS: u64 = 100_000_000;
/// The counts of firm timers; only kernels with firm timers have the file.
const FIRM_COUNTS: &str = "/proc/sys/kernel/firm_counts";

/// The parameters of the measurement.
#[derive(Clone, Debug)]
pub struct TimerLoad {
    /// The number of processes; 0 measures the command alone.
    pub processes: u32,
    /// The period of each process' timer, ns; at least 1 us. The expiries of the processes are
    /// spread over a period.
    pub period_ns: u64,
    /// The command. Its standard output is not shown.
    pub command: Vec<String>,
}

/// How late processes woke after their timers were due, us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The median of all wake-ups.
    pub median_us: f64,
    /// The value that 99 of 100 wake-ups do not exceed.
    pub p99_us: f64,
    /// The greatest value.
    pub most_us: f64,
}

/// The measurement of a command beside timer processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimerCost {
    /// The time from the command's start to its end, ns.
    pub elapsed_ns: u64,
    /// The number of expiries that were due while the timers ran, of all processes.
    pub due: u64,
    /// The number of signals that came. It is less than `due` if a signal was later than a period.
    pub signals: u64,
    /// How late the signals were, without whole periods; `None` without a signal.
    pub late: Option<Lateness>,
    /// The interrupts of the clock devices while the command ran, of all CPUs.
    pub interrupts: u64,
    /// The checks, the timers served at checks, and the timers served by interrupts while the command ran;
    /// `None` if the kernel has no firm timers.
    pub firm: Option<[u64; 3]>,
}

/// A process with its timer, and the pipe for its results.
struct TimerProcess {
    tgid: u32,
    results: OwnedFd,
}

/// What the kernel has counted.
struct Counts {
    interrupts: u64,
    firm: Option<[u64; 3]>,
}

/// Runs the command beside the processes, and measures until the command has ended.
///
/// # Errors
/// If a process cannot be made, or the command cannot be started or ends with another status than 0. The
/// calling process must have one thread.
pub fn measure(load: &TimerLoad) -> io::Result<TimerCost> {
    let begin_ns = clock::monotonic_ns() + BEFORE_NS;
    let mut running = Vec::new();
    for nth in 0..load.processes {
        let first_ns = begin_ns + u64::from(nth) * load.period_ns / u64::from(load.processes);
        running.push(start(first_ns, load.period_ns)?);
    }
    clock::sleep_until(begin_ns + load.period_ns);
    let before = Counts::now();
    let since_ns = clock::monotonic_ns();
    let ended = run(&load.command);
    let elapsed_ns = clock::monotonic_ns() - since_ns;
    let after = Counts::now();
    let mut late_ns = Vec::new();
    let mut due = 0;
    for one in running {
        let (one_due, mut one_late_ns) = finish(one)?;
        due += one_due;
        late_ns.append(&mut one_late_ns);
    }
    ended?;
    Ok(TimerCost {
        elapsed_ns,
        due,
        signals: late_ns.len() as u64,
        late: Lateness::of(late_ns),
        interrupts: after.interrupts - before.interrupts,
        firm: before.firm.zip(after.firm).map(|(from, to)| [0, 1, 2].map(|nth| to[nth] - from[nth])),
    })
}

fn run(command: &[String]) -> io::Result<()> {
    let [program, arguments @ ..] = command else {
        return Err(io::Error::other("the command is empty"));
    };
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| io::Error::other(format!("{program} cannot be started: {error}")))?;
    if !status.success() {
        return Err(io::Error::other(format!("{program} failed: {status}")));
    }
    Ok(())
}

/// Forks a process with a timer that first expires a period after `first_ns`.
fn start(first_ns: u64, period_ns: u64) -> io::Result<TimerProcess> {
    let (from, to) = spry_sys::pipe()?;
    let tgid = process::fork(|| {
        // Without its parent the process would have no end.
        let _ = Setting::EndsWithParent(Signal::KILL).apply();
        i32::from(wake_and_sleep(first_ns, period_ns, &to).is_err())
    })?;
    Ok(TimerProcess { tgid, results: from })
}

/// Takes a signal each period and notes how late it is, until the parent ends the process. Writes the number
/// of expiries that were due, and then how late each signal was, ns.
fn wake_and_sleep(first_ns: u64, period_ns: u64, to: &OwnedFd) -> io::Result<()> {
    signal::block(&[Signal::ALARM, Signal::TERM]);
    let mut words = vec![0];
    clock::sleep_until(first_ns);
    let since_ns = clock::monotonic_ns();
    alarm::set_interval(period_ns)?;
    while signal::take(&[Signal::ALARM, Signal::TERM])? == Signal::ALARM {
        words.push((clock::monotonic_ns() - since_ns) % period_ns);
    }
    alarm::set_interval(0)?;
    words[0] = (clock::monotonic_ns() - since_ns) / period_ns;
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    file::write_all(to, &bytes)
}

/// Ends a process. Returns how many expiries were due, and how late each signal was, ns.
fn finish(one: TimerProcess) -> io::Result<(u64, Vec<u64>)> {
    signal::send(one.tgid, Signal::TERM)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut fs::File::from(one.results), &mut bytes)?;
    process::wait(one.tgid)?;
    let mut words = bytes.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
    let due = words.next().ok_or_else(|| io::Error::other("a timer process ended early"))?;
    Ok((due, words.collect()))
}

impl Lateness {
    fn of(mut late_ns: Vec<u64>) -> Option<Lateness> {
        late_ns.sort_unstable();
        let rank = |percent: usize| (late_ns.len() * percent).div_ceil(100).saturating_sub(1);
        let at = |percent| Some(*late_ns.get(rank(percent))? as f64 / 1e3);
        Some(Lateness { median_us: at(50)?, p99_us: at(99)?, most_us: at(100)? })
    }
}

impl Counts {
    fn now() -> Counts {
        let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let firm = fs::read_to_string(FIRM_COUNTS).unwrap_or_default();
        let mut numbers = firm.split_whitespace().filter_map(|word| word.parse().ok());
        let firm = numbers.next().zip(numbers.next()).zip(numbers.next());
        Counts { interrupts: clock_interrupts(&text), firm: firm.map(|((a, b), c)| [a, b, c]) }
    }
}

/// The interrupts of the clock devices (`LOC`) of all CPUs.
fn clock_interrupts(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("LOC:"));
    line.into_iter().flat_map(str::split_whitespace).map_while(|word| word.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_clock_devices_are_those_of_all_cpus() {
        let text =
            "  CPU0 CPU1\n  0: 7 0 IO-APIC\nLOC:  120  34  Local timer interrupts\nSPU: 9 9 Spurious\n";
        assert_eq!(clock_interrupts(text), 154);
        assert_eq!(clock_interrupts(""), 0);
    }

    #[test]
    fn lateness_is_of_ranks_and_unknown_without_signals() {
        assert_eq!(Lateness::of(Vec::new()), None);
        let late = Lateness::of((1..=200).rev().map(|nth| nth * 1000).collect()).expect("there are signals");
        assert_eq!((late.median_us, late.p99_us, late.most_us), (100.0, 198.0, 200.0));
    }
}
