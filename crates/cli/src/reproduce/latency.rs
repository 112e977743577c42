//! `spry reproduce scheduler-latency`: the article's kernels and today's beside its loads, a boot each.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use spry_lab::results::digest;
use spry_lab::{Event, Lab, LabMachine, LabOptions, Stop, digest_of_file};
use spry_reproduce::latency::{self as study, Cell, Study, Undone};

use super::files::{Directory, Kept};
use super::latency_guest::{Boot, spec};
use crate::args::SchedulerLatencyArgs;
use crate::output::{self, say};
use crate::progress;
use crate::run::machines;
use crate::steps::Steps;
use crate::stopping;

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// Everything that cells are run with.
struct Laboratory<'a> {
    lab: Lab,
    /// By the lab's names of their kernels.
    machines: BTreeMap<&'static str, LabMachine>,
    /// What the guest runs, and the hashes of it.
    spry: PathBuf,
    programs: [String; 2],
    directory: &'a Directory,
    stop: &'a Stop,
}

/// What became of a cell.
enum Ended {
    Measured(Box<Cell>),
    Failed(String, Error),
    Interrupted,
}

/// Runs the cells that are not kept, and tells what all of them say.
pub fn run(args: &SchedulerLatencyArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let directory = Directory::open(&args.output, "scheduler-latency")?;
    let boots = boots(args);
    let laboratory =
        Laboratory::open(args, &directory, &stop).map_err(|error| stopping::told(error, &stop))?;
    let mut found = Study::default();
    let mut left = Vec::new();
    for boot in &boots {
        match directory.kept(&boot.file_name(), &laboratory.inputs(boot)) {
            Some(cell) => found.cells.push(cell),
            None => left.push(boot.clone()),
        }
    }
    let meter = Meter::new(args, found.cells.len(), boots.len());
    let failures = laboratory.run(&left, jobs(args, left.len()), &mut found, &meter)?;
    let missing = boots.len() - found.cells.len() - failures.len();
    told(args, &laboratory, &found, &Undone { failures, missing })
}

/// All cells: every kernel beside every load with the first seed, then with the next.
fn boots(args: &SchedulerLatencyArgs) -> Vec<Boot> {
    let mut boots = Vec::new();
    for seed in 1..=args.seeds() {
        for load in args.loads() {
            let of = |kernel| Boot { kernel, load, seed, samples: args.samples() };
            boots.extend(args.kernels().into_iter().map(of));
        }
    }
    boots
}

fn jobs(args: &SchedulerLatencyArgs, cells: usize) -> usize {
    args.jobs.map_or_else(machines::side_by_side, usize::from).min(cells).max(1)
}

impl<'a> Laboratory<'a> {
    /// Makes every kernel's machine ready.
    fn open(args: &SchedulerLatencyArgs, directory: &'a Directory, stop: &'a Stop) -> Result<Laboratory<'a>> {
        let lab = Lab::open(LabOptions::default())?;
        let spry = machines::own_program("spry")?;
        let programs = [digest_of_file(&spry)?, digest_of_file(&machines::own_program("spry-guest")?)?];
        let steps = if args.quiet { Steps::hidden() } else { Steps::new() };
        let mut machines = BTreeMap::new();
        for kernel in args.kernels() {
            if !machines.contains_key(kernel.choice) {
                let machine = lab.prepare(&spec(kernel)?, &|event: Event<'_>| steps.show(event), stop)?;
                machines.insert(kernel.choice, machine);
            }
        }
        Ok(Laboratory { lab, machines, spry, programs, directory, stop })
    }

    /// The hash of all that a cell's figures depend on.
    fn inputs(&self, boot: &Boot) -> String {
        digest::of_json(&json!({
            "machine": self.machines[boot.kernel.choice].inputs(),
            "programs": self.programs,
            "preempt": boot.kernel.preempt,
            "script": boot.script(),
            "seed": boot.seed,
        }))
    }

    /// Runs cells, several side by side; those that came to nothing, with what happened.
    fn run(
        &self,
        boots: &[Boot],
        jobs: usize,
        found: &mut Study,
        meter: &Meter,
    ) -> Result<Vec<(String, String)>> {
        let mut failures = Vec::new();
        let (mut ran, next) = (0, AtomicUsize::new(0));
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            for _ in 0..jobs {
                let sender = sender.clone();
                scope.spawn(|| self.work(boots, &next, sender));
            }
            drop(sender);
            loop {
                match receiver.recv_timeout(SHOW_EVERY) {
                    Ok(Ended::Measured(cell)) => {
                        ran += 1;
                        meter.line(&format!("{}, {}, seed {}", cell.kernel, cell.load, cell.seed), ran);
                        found.cells.push(*cell);
                    }
                    Ok(Ended::Failed(cell, error)) => {
                        ran += 1;
                        let error = format!("{error:#}");
                        meter.failure(&format!("spry: {cell}: {error}"));
                        failures.push((cell, error.lines().next().unwrap_or_default().to_owned()));
                    }
                    Ok(Ended::Interrupted) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                meter.show(ran);
            }
        });
        meter.end();
        Ok(failures)
    }

    fn work(&self, boots: &[Boot], next: &AtomicUsize, sender: Sender<Ended>) {
        while !self.stop.is_requested() {
            let Some(boot) = boots.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let ended = match self.measure(boot) {
                Ok(cell) => Ended::Measured(Box::new(cell)),
                Err(_) if self.stop.is_requested() => Ended::Interrupted,
                Err(error) => Ended::Failed(boot.name(), error),
            };
            if sender.send(ended).is_err() {
                return;
            }
        }
    }

    fn measure(&self, boot: &Boot) -> Result<Cell> {
        let machine = &self.machines[boot.kernel.choice];
        let outcome = self.lab.run(machine, &boot.job(self.spry.clone()), &|_: Event<'_>| {}, self.stop)?;
        let [results, split] = boot.results(&outcome)?;
        let file = self.directory.subdirectory("latency")?.join(format!("{}.json", boot.file_name()));
        results.save(&file)?;
        let (kernel, load) = (boot.kernel.key.to_owned(), boot.load.key.to_owned());
        let cell = Cell { kernel, load, seed: boot.seed, results, split };
        let kept = Kept { inputs: self.inputs(boot), cell };
        self.directory.keep(&boot.file_name(), &kept)?;
        Ok(kept.cell)
    }
}

/// How far all is.
struct Meter {
    began: Instant,
    bar: Option<ProgressBar>,
    /// Whether lines are written where there is no terminal for a bar.
    lines: bool,
    kept: usize,
    all: usize,
}

impl Meter {
    fn new(args: &SchedulerLatencyArgs, kept: usize, all: usize) -> Meter {
        let shown = !args.quiet && io::stderr().is_terminal();
        let bar = shown.then(|| progress::cells(all)).filter(|_| kept < all);
        let lines = !args.quiet && !shown;
        if lines && kept > 0 {
            say!("spry: {kept} of {all} cells are there already");
        }
        Meter { began: Instant::now(), bar, lines, kept, all }
    }

    fn line(&self, what: &str, ran: usize) {
        if self.lines {
            say!("spry: {} of {}: {what}", self.kept + ran, self.all);
        }
    }

    fn failure(&self, words: &str) {
        match &self.bar {
            Some(bar) => bar.println(words),
            None => say!("{words}"),
        }
    }

    fn show(&self, ran: usize) {
        let Some(bar) = &self.bar else { return };
        let done = self.kept + ran;
        let left = match ran {
            0 => String::new(),
            ran => {
                let left = self.began.elapsed() / ran as u32 * (self.all - done) as u32;
                format!(", about {} min left", left.as_secs().div_ceil(60))
            }
        };
        bar.set_length(self.all as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{done} of {} cells{left}", self.all));
    }

    fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// Writes and prints what there is, and says what there is not.
fn told(
    args: &SchedulerLatencyArgs,
    laboratory: &Laboratory<'_>,
    found: &Study,
    undone: &Undone,
) -> Result<ExitCode> {
    let interrupted = laboratory.stop.is_requested();
    if found.cells.is_empty() {
        if interrupted {
            say!("spry: interrupted before any cell was done");
            return Ok(ExitCode::from(stopping::INTERRUPTED));
        }
        bail!("no cell has figures");
    }
    let (text, results) = write(args, laboratory, found, undone)?;
    output::print(if args.json { &results } else { &text })?;
    let place = args.output.display();
    let (done, all) = (found.cells.len(), found.cells.len() + undone.failures.len() + undone.missing);
    if interrupted {
        say!(
            "spry: interrupted after {done} of {all} cells, which are kept in {place}; the same command goes on with the others"
        );
        return Ok(ExitCode::from(stopping::INTERRUPTED));
    }
    if !args.quiet {
        say!("spry: {done} of {all} cells; open {place}/index.html");
    }
    Ok(if undone.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Page, summary and results; the texts of the last two.
fn write(
    args: &SchedulerLatencyArgs,
    laboratory: &Laboratory<'_>,
    found: &Study,
    undone: &Undone,
) -> Result<(String, String)> {
    let text = study::text(found, undone);
    let mut results = study::json(found, undone);
    let machines = laboratory.machines.iter().map(|(kernel, machine)| (*kernel, machine.inputs()));
    let inputs: BTreeMap<&str, _> = machines.collect();
    if let Value::Object(object) = &mut results {
        object.insert("digest".to_owned(), json!(digest::of_json(&object["loads"])));
        object.insert("seeds".to_owned(), json!(args.seeds()));
        object.insert("samples".to_owned(), json!(args.samples()));
        object.insert("inputs".to_owned(), json!({ "machines": inputs, "programs": laboratory.programs }));
    }
    let results = format!("{results}\n");
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let directory = laboratory.directory;
    directory.put("index.html", &study::page(found, undone, &command))?;
    directory.put("summary.txt", &text)?;
    directory.put("results.json", &results)?;
    Ok((text, results))
}
