//! Runs every test of some groups, each in a process of its own, and says what came of them.
//!
//! `run-tests MESSAGES COUNTS GROUP...`: MESSAGES is what cargo wrote while it built the tests, as JSON. Into COUNTS
//! goes one line, how many tests passed and how many failed. What was not run has failed.

mod group;
mod pool;
mod programs;
mod report;
mod running;
mod test;

use std::env;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::group::Group;
use crate::pool::Task;
use crate::programs::Program;
use crate::report::Report;
use crate::running::Running;

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("run-tests: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well.
fn run(arguments: &[String]) -> Result<bool> {
    let [messages, counts, groups @ ..] = arguments else {
        anyhow::bail!("usage: run-tests MESSAGES COUNTS GROUP...")
    };
    let groups = groups.iter().map(|name| name.parse()).collect::<Result<Vec<Group>>>()?;
    let messages = fs::read_to_string(messages).with_context(|| messages.clone())?;
    let all = programs::named_in(&messages, &env::current_dir()?)?;
    let mut report = Report::new();
    // Where a part of the tree did not build, its programs are not missing in the table.
    if messages.contains(r#""reason":"build-finished","success":true"#) {
        programs::stale_groups(&all).iter().for_each(|name| {
            report.fault(name, "no test program has a source of that name (tests/run/src/group.rs)");
        });
    }
    let programs: Vec<Program> = all.into_iter().filter(|program| groups.contains(&program.group)).collect();
    ensure!(!programs.is_empty(), "cargo built no test program of these groups");
    let tasks = tasks(&programs, &mut report);
    let running = Arc::new(Running::default());
    end_on_signals(Arc::clone(&running))?;
    let (one_by_one, beside): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|task| programs[task.program].group.is_alone());
    for (tasks, workers) in [(beside, pool::side_by_side()), (one_by_one, 1)] {
        report.begin(&programs, &tasks, workers);
        pool::run(&programs, tasks, workers, &running, |task, ended| report.ended(&programs, task, ended));
    }
    let is_well = report.finish(&programs);
    fs::write(counts, report.counts()).with_context(|| counts.clone())?;
    Ok(is_well)
}

/// Every test of the programs. Those of the lab come first: they take longest, and others fill what they leave.
fn tasks(programs: &[Program], report: &mut Report) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        match program.list() {
            Ok(listed) => {
                let (left_out, ran): (Vec<_>, Vec<_>) =
                    listed.all.into_iter().partition(|name| listed.ignored.contains(name));
                left_out.iter().for_each(|name| {
                    report.fault(&format!("{} {name}", program.source), "it is marked to be ignored");
                });
                tasks.extend(ran.into_iter().map(|name| Task { program: number, name }));
            }
            Err(error) => report.fault(&program.source, &format!("{error:#}")),
        }
    }
    tasks.sort_by_key(|task| programs[task.program].group != Group::Lab);
    tasks
}

/// From now on Ctrl-C ends the tests, and what has come of them until then is said.
fn end_on_signals(running: Arc<Running>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be waited for")?;
    thread::spawn(move || signals.forever().for_each(|_| running.stop()));
    Ok(())
}
