//! Storms in the lab. Each is a virtual machine with the scheduler in charge, recorded and checked.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args as ClapArgs, ValueEnum};
use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Record, TRACE, Topology};
use spry_lab_tests::{example, machine, printed, programs, run as run_job};

use crate::act::IN_USE;
use crate::check::{Keeps, Limits, TraceFindings, check};
use crate::reserve::{ANSWERS, NOTES};
use crate::reserved::{self, ReservationFindings, TOLERANCE_NS};

/// Which scheduler is tortured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Scheduler {
    /// Spry's stack of classes, nothing being in use.
    Spry,
    /// The kernel's own.
    Eevdf,
}

/// Storms in the lab.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// How many storms, one after another.
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// The first one's seed.
    #[arg(long, default_value_t = 1)]
    pub first: u64,
    /// How long each goes on, seconds of the guest.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// CPUs of the machine.
    #[arg(long, default_value_t = 1)]
    pub cpus: u32,
    /// The longest time that a task may wait, ms.
    #[arg(long, default_value_t = 2000)]
    pub longest_ms: u64,
    /// Some actors are in use now and then, by their names.
    #[arg(long)]
    pub in_use: bool,
    /// The daemon is in charge, and actors ask it for reservations; limits of waits are divided by what is
    /// left beside the reservations.
    #[arg(long, conflicts_with_all = ["in_use", "scheduler"])]
    pub reservations: bool,
    /// How much of each CPU may be reserved, percent.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=95))]
    pub reservable: u32,
    /// Which scheduler.
    #[arg(long, value_enum, default_value_t = Scheduler::Spry)]
    pub scheduler: Scheduler,
}

/// The file in which the scheduler writes how many tasks it counted in queues in which they were not.
const COUNTS: &str = "/run/counts";
/// A part of the daemon's warning about such counts.
const MISCOUNTED: &str = "counted in queues";

/// The result of a storm.
struct Storm {
    found: TraceFindings,
    /// Whether the storm came to its end, and the scheduler was still in charge then.
    in_charge: bool,
    /// Whether each task that was counted in a queue was in that queue.
    counts_right: bool,
    /// The findings on reservations, if there were any.
    kept: Option<ReservationFindings>,
    said: String,
}

/// The scheduler's program: the daemon if there are reservations, otherwise the stack of classes alone.
fn program(args: &Args) -> Option<Program> {
    if args.reservations {
        let words = ["run", "--actuator", "scx", "--reservable", &args.reservable.to_string()];
        let file = programs().join("spry-sched");
        return Some(Program { file, args: words.map(str::to_owned).to_vec(), sign: Sign::SchedExt });
    }
    let mut stack_args = ["--counts", COUNTS].map(str::to_owned).to_vec();
    if args.in_use {
        stack_args.push(format!("{}=3:50000", IN_USE.to_string_lossy()));
    }
    let stack = Program { file: example("scx_stack"), args: stack_args, sign: Sign::SchedExt };
    (args.scheduler == Scheduler::Spry).then_some(stack)
}

/// The guest's script. With the daemon, its warnings report wrong counts of queues.
fn script(args: &Args, seed: u64) -> String {
    let Args { seconds, .. } = args;
    let state = "cat /sys/kernel/sched_ext/state";
    if args.reservations {
        let status = "/spry/spry sched status --json";
        format!("/spry/storm act {seed} {seconds} --reservations; sleep 1.5; {state}; {status}")
    } else {
        format!("/spry/storm act {seed} {seconds}; sleep 0.5; {state} {COUNTS}")
    }
}

/// Whether each task that was counted in a queue was in that queue.
fn are_counts_right(args: &Args, said: &str) -> bool {
    if args.reservations {
        return said.contains("\"warnings\"") && !said.contains(MISCOUNTED);
    }
    args.scheduler == Scheduler::Eevdf
        || said.lines().any(|line| line.strip_prefix("miscounted ").is_some_and(|count| count == "0"))
}

/// Runs one storm.
fn storm(args: &Args, seed: u64) -> Result<Storm> {
    let text = script(args, seed);
    let mut job = Job {
        topology: Topology::of_cores(args.cpus),
        seed,
        record: Some(Record::default()),
        setup: Setup { program: program(args), ..Setup::default() },
        commands: vec![GuestCommand {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), text],
            env: vec![],
            limit_s: args.seconds as u32 + 60,
        }],
        results_mib: 256,
        ..Job::default()
    };
    job.files.insert("/spry/storm".to_owned(), FileSource::File(programs().join("spry-storm")));
    job.files.insert("/spry/spry".to_owned(), FileSource::File(programs().join("spry")));
    let outcome = run_job(&machine(&MachineSpec::default()), &job).map_err(|error| anyhow!("{error}"))?;
    let said = printed(&outcome);
    let state = if args.scheduler == Scheduler::Spry { "enabled" } else { "disabled" };
    let keeps = if args.reservations { Keeps::Stays } else { Keeps::Nothing };
    let found = check(&outcome.files[TRACE][..], Limits { longest_ns: longest_ns(args), keeps })?;
    let text =
        |name: &str| String::from_utf8_lossy(outcome.files.get(name).map_or(&[], |file| file)).into_owned();
    let kept = args.reservations.then(|| {
        let mut kept = reserved::check(&text(NOTES), &text(ANSWERS), &found.stays, args.reservable)?;
        kept.broken.extend(leak(&said));
        anyhow::Ok(kept)
    });
    let stderr = text("0.stderr");
    Ok(Storm {
        in_charge: said.contains("the storm is over") && said.lines().any(|line| line == state),
        counts_right: are_counts_right(args, &said),
        kept: kept.transpose()?,
        found,
        said: said + &stderr + &outcome.console,
    })
}

/// The longest time that a task may wait: the others do not get the reserved time.
fn longest_ns(args: &Args) -> u64 {
    let left_percent = if args.reservations { 100 - u64::from(args.reservable) } else { 100 };
    args.longest_ms * 1_000_000 * 100 / left_percent
}

/// A reservation that outlives its task too long, in words; `None` if there is none.
fn leak(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.starts_with("reservations left"));
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    let of = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    match (of(2), of(4)) {
        (Some(0), Some(ms)) if ms <= 1000 => None,
        _ => Some(line.unwrap_or("it was not said which reservations were left").to_owned()),
    }
}

/// Prints the findings on reservations.
fn tell(kept: &ReservationFindings) {
    let [opened, refused, released] = kept.counts;
    println!(
        "    {opened} terms admitted, {refused} requests refused, {released} released; \
         at most {} at once, {:.2} % of a CPU in {} answers",
        kept.most,
        kept.most_ppm as f64 / 1e4,
        kept.answers
    );
    println!(
        "    {} windows of two periods; lacking at most {:.3} ms, \
         beyond a tenth of the budget {:.3} ms (allowed {:.1} ms)",
        kept.windows,
        kept.short_ns as f64 / 1e6,
        kept.beyond_ns as f64 / 1e6,
        TOLERANCE_NS as f64 / 1e6
    );
    kept.broken.iter().take(10).for_each(|broken| println!("    broken: {broken}"));
}

/// Runs the requested storms. For each storm that breaks a rule, the command that repeats it is
/// printed.
///
/// # Errors
/// If the lab fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (mut broken, mut longest_ns) = (0, 0);
    for seed in args.first..args.first + args.seeds {
        let Storm { found, in_charge, counts_right, kept, said } = storm(args, seed)?;
        longest_ns = longest_ns.max(found.longest_ns);
        print!("storm {seed}: {found}");
        if !in_charge {
            println!("the scheduler is not in charge any more\n{said}");
        }
        if !counts_right {
            let line =
                said.lines().find(|line| line.starts_with("miscounted")).unwrap_or("no count was given");
            println!("counts of queues were wrong: {line}");
        }
        kept.iter().for_each(tell);
        let is_kept = kept.is_none_or(|kept| kept.broken.is_empty());
        if !in_charge || !counts_right || !found.late.is_empty() || !is_kept {
            broken += 1;
            let with = if args.reservations { " --reservations" } else { "" };
            let in_use = if args.in_use { " --in-use" } else { "" };
            let under = if args.scheduler == Scheduler::Eevdf { " --scheduler eevdf" } else { "" };
            println!(
                "again: spry-storm lab --first {seed} --seconds {} --cpus {}{in_use}{under}{with}",
                args.seconds, args.cpus
            );
        }
        io::stdout().flush()?;
    }
    println!("{} storms, {broken} broke a rule, longest wait {:.1} ms", args.seeds, longest_ns as f64 / 1e6);
    Ok(ExitCode::from(u8::from(broken > 0)))
}
