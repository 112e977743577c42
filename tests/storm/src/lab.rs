//! Storms in the lab: each a virtual machine with the scheduler in charge, recorded and checked.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args as ClapArgs, ValueEnum};
use spry_lab::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Record, TRACE, Topology};
use spry_lab_tests::{example, machine, printed, programs, run as run_job};

use crate::act::IN_USE;
use crate::check::{Found, Limits, check};

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
    /// Which scheduler.
    #[arg(long, value_enum, default_value_t = Scheduler::Spry)]
    pub scheduler: Scheduler,
}

/// Where the scheduler says how many tasks it has counted in queues that were not there.
const MISCOUNTS: &str = "/run/miscounts";

/// What a storm did.
struct Storm {
    found: Found,
    /// It came to its end, and the scheduler was in charge then.
    in_charge: bool,
    /// Each task that was counted in a queue was there.
    counts_right: bool,
    said: String,
}

/// One storm.
fn storm(args: &Args, seed: u64) -> Result<Storm> {
    let mut stack_args = ["--miscounts", MISCOUNTS].map(str::to_owned).to_vec();
    if args.in_use {
        stack_args.push(format!("{}=3:50000", IN_USE.to_string_lossy()));
    }
    let stack =
        Program { file: example("spry-scheduler", "scx_stack"), args: stack_args, sign: Sign::SchedExt };
    let text = format!(
        "/spry/storm act {seed} {}; sleep 0.5; cat /sys/kernel/sched_ext/state {MISCOUNTS}",
        args.seconds
    );
    let mut job = Job {
        topology: Topology::of_cores(args.cpus),
        seed,
        record: Some(Record::default()),
        setup: Setup { program: (args.scheduler == Scheduler::Spry).then_some(stack), ..Setup::default() },
        commands: vec![GuestCommand {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), text],
            env: vec![],
            limit_s: args.seconds as u32 + 60,
        }],
        results_mib: 256,
        ..Job::default()
    };
    job.files.insert("/spry/storm".to_owned(), FileSource::File(programs().join("spry-storm")));
    let outcome = run_job(&machine(&MachineSpec::default()), &job).map_err(|error| anyhow!("{error}"))?;
    let said = printed(&outcome);
    let state = if args.scheduler == Scheduler::Spry { "enabled" } else { "disabled" };
    let limits = Limits { longest_ns: args.longest_ms * 1_000_000 };
    let is_over = said.contains("the storm is over");
    let found = check(&outcome.files[TRACE][..], limits)?;
    Ok(Storm {
        found,
        in_charge: is_over && said.lines().any(|line| line == state),
        counts_right: args.scheduler == Scheduler::Eevdf
            || said.lines().any(|line| line.strip_prefix("miscounted ").is_some_and(|count| count == "0")),
        said: said + &outcome.console,
    })
}

/// The storms that were asked for; each that breaks a rule is told with the command that repeats it.
///
/// # Errors
/// Where the lab fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (mut broken, mut longest_ns) = (0, 0);
    for seed in args.first..args.first + args.seeds {
        let Storm { found, in_charge, counts_right, said } = storm(args, seed)?;
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
        if !in_charge || !counts_right || !found.late.is_empty() {
            broken += 1;
            let in_use = if args.in_use { " --in-use" } else { "" };
            let under = if args.scheduler == Scheduler::Eevdf { " --scheduler eevdf" } else { "" };
            println!(
                "again: spry-storm lab --first {seed} --seconds {} --cpus {}{in_use}{under}",
                args.seconds, args.cpus
            );
        }
        io::stdout().flush()?;
    }
    println!("{} storms, {broken} broke a rule, longest wait {:.1} ms", args.seeds, longest_ns as f64 / 1e6);
    Ok(ExitCode::from(u8::from(broken > 0)))
}
