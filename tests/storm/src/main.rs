//! `spry-storm`: stresses a scheduler with random load from a seed, and finds in Spry's own trace which tasks
//! waited too long.

mod act;
mod check;
mod dice;
mod lab;
mod reserve;
mod reserved;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::act::Addition;
use crate::check::{Keeps, Limits, check};

/// Stresses a scheduler with random actions from a seed: forks, threads, ends, programs, yields, sleeps, nice
/// values, classes, sets of CPUs, cgroups, CPUs that go and come, reservations.
#[derive(Parser)]
#[command(after_help = "Examples:
  spry-storm lab --seeds 100            100 storms of 10 s on one CPU of the lab
  spry-storm lab --cpus 4 --first 17    storm 17 again, on 4 CPUs
  spry-storm lab --reservations         the daemon in charge, and reservations for any task of the storm
  spry-storm lab --scheduler eevdf      the same under the kernel's own scheduler
  spry-storm check trace.spry           which tasks of a recorded storm waited too long")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Storms in the lab, checked.
    Lab(lab::Args),
    /// Checks a recorded storm.
    Check {
        /// The trace of the storm.
        trace: PathBuf,
        /// The longest time that a task may wait, ms.
        #[arg(long, default_value_t = 2000)]
        longest_ms: u64,
    },
    /// A storm on this machine, as root: not on a machine that people use.
    #[command(hide = true)]
    Act {
        /// What it comes from.
        seed: u64,
        /// How long it goes on, s.
        seconds: u64,
        /// Actors ask the daemon for reservations.
        #[arg(long)]
        reservations: bool,
    },
    /// An actor of a storm that became this program anew.
    #[command(hide = true)]
    Actor {
        /// What it comes from.
        seed: u64,
        /// The first process of the storm, if there are reservations.
        first: Option<u32>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("spry-storm: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Lab(args) => lab::run(&args),
        Command::Check { trace, longest_ms } => {
            let file = File::open(&trace).with_context(|| trace.display().to_string())?;
            let limits = Limits { longest_ns: longest_ms * 1_000_000, keeps: Keeps::Nothing };
            let found = check(BufReader::new(file), limits)?;
            print!("{found}");
            Ok(ExitCode::from(u8::from(!found.late.is_empty())))
        }
        Command::Act { seed, seconds, reservations } => {
            let with = if reservations { Addition::Reservations } else { Addition::Nothing };
            act::storm(seed, Duration::from_secs(seconds), with)
        }
        Command::Actor { seed, first } => {
            if let Some(first) = first {
                reserve::begin(first);
            }
            act::actor(seed)
        }
    }
}
