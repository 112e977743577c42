//! Runs every test of some groups, each in a process of its own, and reports which tests passed.
//!
//! `run-tests [--kept DIR [--shakes N [--only NAME]...]] MESSAGES COUNTS GROUP...`: MESSAGES is the file that
//! cargo wrote while it built the tests, as JSON. The program writes one line to COUNTS: how many tests
//! passed, how many failed, and how many were left out because they passed before. A test that was not run
//! for another reason counts as failed. The failures in short are appended to COUNTS.failed.
//!
//! With `--kept` each lab test that passed is noted in DIR, and not run again while its inputs stay equal. A
//! test with a result that may depend on this machine is run again all the same.
//!
//! With `--shakes` each of the lab's tests runs N times, each time with a different number of unused bytes in
//! its guests. `--only`: only tests that have one of the NAMEs in their name.

mod arguments;
mod group;
mod notes;
mod pool;
mod programs;
mod report;
mod running;
mod test;

use std::env;
use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::Arguments;
use crate::group::Group;
use crate::notes::Notes;
use crate::pool::QueuedTest;
use crate::programs::Program;
use crate::report::Report;
use crate::running::RunningTests;

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

/// Runs the tests. Returns whether all have passed.
fn run(arguments: &[String]) -> Result<bool> {
    let Arguments { messages, counts, groups, kept, shakes } = Arguments::of(arguments)?;
    let messages = fs::read_to_string(&messages).with_context(|| messages.clone())?;
    let all = programs::named_in(&messages, &env::current_dir()?)?;
    let mut report = Report::new();
    // Names without a program are reported only after a whole build: if a part of the tree did not build,
    // some programs are missing for that reason.
    if messages.contains(r#""reason":"build-finished","success":true"#) {
        programs::stale_groups(&all).iter().for_each(|name| {
            report.fault(name, "no test program has a source of that name (tests/run/src/group.rs)");
        });
    }
    let programs: Vec<Program> = all.into_iter().filter(|program| groups.contains(&program.group)).collect();
    ensure!(!programs.is_empty(), "cargo built no test program of these groups");
    let mut tasks = tasks(&programs, &mut report);
    let notes = kept.map(|directory| Notes::open(directory, &programs)).transpose()?;
    let all = tasks.len();
    tasks = match (&notes, &shakes) {
        (Some(notes), Some(asked)) => notes.shaken(asked, &programs, tasks),
        (Some(notes), None) => notes.without_passed(&programs, tasks),
        (None, _) => tasks,
    };
    if shakes.is_none() {
        report.passed_before(all - tasks.len());
    }
    let running = Arc::new(RunningTests::default());
    end_on_signals(Arc::clone(&running))?;
    let (one_by_one, beside): (Vec<QueuedTest>, Vec<QueuedTest>) =
        tasks.into_iter().partition(|task| programs[task.program].group.is_alone());
    for (tasks, workers) in [(beside, pool::side_by_side()), (one_by_one, 1)] {
        report.begin(&programs, &tasks, workers);
        pool::run(&programs, tasks, workers, &running, |task, ended| {
            if let Some(notes) = notes.as_ref().filter(|_| ended.failure.is_none()) {
                notes.note(&programs, task);
            }
            report.ended(&programs, task, ended);
        });
    }
    let is_well = report.finish(&programs);
    let failed = format!("{counts}.failed");
    let failures = fs::OpenOptions::new().create(true).append(true).open(&failed);
    failures
        .and_then(|mut file| file.write_all(report.failures_in_short().as_bytes()))
        .with_context(|| failed.clone())?;
    fs::write(&counts, report.counts()).with_context(|| counts.clone())?;
    Ok(is_well)
}

/// Every test of the programs. The lab's tests come first: they take longest, and other tests use the CPUs
/// that they leave free.
fn tasks(programs: &[Program], report: &mut Report) -> Vec<QueuedTest> {
    let mut tasks = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        match program.list() {
            Ok(listed) => {
                let (left_out, ran): (Vec<_>, Vec<_>) =
                    listed.all.into_iter().partition(|name| listed.ignored.contains(name));
                left_out.iter().for_each(|name| {
                    report.fault(&format!("{} {name}", program.source), "it is marked to be ignored");
                });
                tasks.extend(ran.into_iter().map(|name| QueuedTest {
                    program: number,
                    name,
                    shake_bytes: 0,
                }));
            }
            Err(error) => report.fault(&program.source, &format!("{error:#}")),
        }
    }
    tasks.sort_by_key(|task| programs[task.program].group != Group::Lab);
    tasks
}

/// From now on Ctrl-C ends the tests, and the results until then are reported.
fn end_on_signals(running: Arc<RunningTests>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be waited for")?;
    thread::spawn(move || signals.forever().for_each(|_| running.stop()));
    Ok(())
}
