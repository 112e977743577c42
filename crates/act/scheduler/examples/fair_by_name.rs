//! A tool for developers: gives processes that are named on the command line their places through the
//! fall-back actuator, again and again: `fair_by_name Xvfb=0:200000 player=1:200000`. With `--ready FILE` the
//! file is made when the tool is in charge.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use spry_policy::Tgid;
use spry_scheduler::actuator::{Actuator, Class, Verdict};
use spry_scheduler::fair::{Fair, FairOptions};
use spry_sys::{Signal, signal};

/// The time between two rounds. Each round looks for new processes.
const ROUND: Duration = Duration::from_millis(250);

struct Command {
    places: BTreeMap<String, (u8, u32)>,
    ready: Option<PathBuf>,
    options: FairOptions,
    is_verbose: bool,
}

fn command() -> anyhow::Result<Command> {
    let mut command =
        Command { places: BTreeMap::new(), ready: None, options: FairOptions::default(), is_verbose: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--ready" => command.ready = Some(value()?.into()),
            "--journal" => command.options.journal = value()?.into(),
            "--background-share" => command.options.background_share = value()?.parse()?,
            "--verbose" => command.is_verbose = true,
            _ => {
                let Some((comm, place)) = word.split_once('=') else {
                    bail!("{word}: say COMM=LEVEL:QUANTUM_US");
                };
                let (level, quantum_us) = place.split_once(':').unwrap_or((place, "200000"));
                command.places.insert(comm.to_owned(), (level.parse()?, quantum_us.parse()?));
            }
        }
    }
    Ok(command)
}

fn verdicts(places: &BTreeMap<String, (u8, u32)>) -> Vec<Verdict> {
    let tgids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tgids = tgids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let verdict = |tgid| {
        let comm = fs::read_to_string(format!("/proc/{tgid}/comm")).ok()?;
        let &(level, quantum_us) = places.get(comm.trim())?;
        Some(Verdict { tgid: Tgid(tgid), class: Class::Interactive, level, quantum_us })
    };
    tgids.filter_map(verdict).collect()
}

fn main() -> anyhow::Result<()> {
    let command = command()?;
    let mut fair = Fair::start(command.options)?;
    for warning in fair.warnings() {
        eprintln!("{warning}");
    }
    if let Some(ready) = &command.ready {
        if let Some(directory) = ready.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(ready, "")?;
    }
    let stopped = signal::note(&[Signal::INT, Signal::TERM]);
    let mut said = String::new();
    while !stopped.load(Ordering::Relaxed) {
        let verdicts = verdicts(&command.places);
        let began = Instant::now();
        fair.apply(&verdicts)?;
        let now = format!("{} processes, {:?}, {:?}", verdicts.len(), fair.tally(), fair.warnings());
        if command.is_verbose && now != said {
            eprintln!("{now}, {} us", began.elapsed().as_micros());
            said = now;
        }
        sleep(ROUND);
    }
    drop(fair);
    if let Some(ready) = &command.ready {
        fs::remove_file(ready)?;
    }
    Ok(())
}
