//! Runs the cells that figures need, and takes from each trace what the figures need of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use spry_analysis::{Progress as Wants, TraceTotals};
use spry_lab::Stop;
use spry_lab::results::digest;
use spry_lab::results::execute::{Execution, Progress};
use spry_lab::results::machine::{CellError, CellOutput, Machine, scheduler_inputs};
use spry_lab::results::plan::{Cell, Plan};
use spry_reproduce::application::Application;
use spry_reproduce::measurement::{Frames, Measured, Measurement, engine};
use spry_reproduce::study::{self, Study};
use spry_trace::Reader;

use super::files::{Directory, Kept};
use crate::args::{InteractiveArgs, MachineArg, RunArgs};
use crate::output::say;
use crate::progress;
use crate::run::{Job, expanded, machines};
use crate::shipped;

/// What came of all cells.
pub struct Tally {
    /// What was measured.
    pub study: Study,
    /// Cells in all.
    pub planned: usize,
    /// Cells that came to nothing, with what happened.
    pub failures: Vec<(String, String)>,
    /// What went in, for each application.
    pub inputs: BTreeMap<String, BTreeMap<String, Value>>,
    /// The kernel's release.
    pub kernel: String,
}

/// Measures one application after another.
pub struct Measuring<'a> {
    args: &'a InteractiveArgs,
    directory: &'a Directory,
    stop: &'a Stop,
    tally: Tally,
    meter: Meter,
}

/// How far all is.
struct Meter {
    began: Instant,
    bar: Option<ProgressBar>,
    /// Whether lines are written where there is no terminal for a bar.
    lines: bool,
    all: usize,
    /// Cells of applications before, run or kept, and those of them that were run.
    before: usize,
    ran: usize,
}

impl<'a> Measuring<'a> {
    /// Nothing measured yet.
    pub fn new(args: &'a InteractiveArgs, directory: &'a Directory, stop: &'a Stop) -> Measuring<'a> {
        let all = args.applications().into_iter().map(|application| {
            args.stressers_of(application).len() * args.scheduler.len() * args.seeds as usize
        });
        let all = all.sum();
        let shown = !args.playing.quiet && io::stderr().is_terminal();
        let study = Study {
            schedulers: args.scheduler.iter().map(|scheduler| scheduler.label()).collect(),
            stressers: args.loads(),
            cpus: args.cpus,
            cells: Vec::new(),
        };
        Measuring {
            args,
            directory,
            stop,
            tally: Tally {
                study,
                planned: all,
                failures: Vec::new(),
                inputs: BTreeMap::new(),
                kernel: String::new(),
            },
            meter: Meter {
                began: Instant::now(),
                bar: shown.then(|| progress::cells(all)),
                lines: !args.playing.quiet && !shown,
                all,
                before: 0,
                ran: 0,
            },
        }
    }

    /// Measures an application beside its loads under every scheduler. Where its machine cannot be made ready its cells have
    /// failed, and others go on.
    ///
    /// # Errors
    /// Where nothing can be written.
    pub fn measure(&mut self, application: &'static Application) -> Result<()> {
        let source = shipped::find(Path::new(application.scenario))?;
        let plan = self.plan(application)?;
        let scenarios = expanded(&source, &plan)?;
        let args = self.run_args(application, &plan);
        let job =
            Job { args: &args, source: &source, scenarios: &scenarios, cells: plan.cells(), plan: &plan };
        let stop = self.stop;
        let mut done = Ok(());
        let made = machines::with(&job, stop, |machine, jobs, peers| {
            done = self.cells(application, &job, machine, jobs, peers);
            Ok(std::process::ExitCode::SUCCESS)
        });
        self.meter.before += job.cells.len();
        match made {
            Ok(_) => done,
            Err(_) if stop.is_requested() => Ok(()),
            Err(error) => {
                let failed = |cell: &Cell| (named(application, cell), format!("{error:#}"));
                self.tally.failures.extend(job.cells.iter().map(failed));
                Ok(())
            }
        }
    }

    /// What came of it all.
    pub fn finish(self) -> Result<Tally> {
        if let Some(bar) = &self.meter.bar {
            bar.finish_and_clear();
        }
        self.directory.remove_empty("traces")?;
        Ok(self.tally)
    }

    fn plan(&self, application: &Application) -> Result<Plan> {
        let loads: Vec<String> =
            self.args.stressers_of(application).iter().map(ToString::to_string).collect();
        let sets = application.sets.iter().map(|(key, value)| format!("{key}={value}"));
        // One is what the scenarios say themselves.
        let cpus = (self.args.cpus > 1).then(|| format!("cpus={}", self.args.cpus));
        let vary =
            sets.chain(cpus).chain([format!("stressers={}", loads.join(","))]).map(|text| text.parse());
        let vary = vary.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
        Ok(Plan { schedulers: self.args.scheduler.clone(), vary, seeds: self.args.seeds })
    }

    fn run_args(&self, application: &Application, plan: &Plan) -> RunArgs {
        RunArgs {
            scenario: PathBuf::from(application.scenario),
            on: MachineArg::Lab,
            scheduler: plan.schedulers.clone(),
            vary: plan.vary.clone(),
            seeds: plan.seeds,
            record: true,
            json: false,
            output: None,
            playing: self.args.playing.clone(),
        }
    }

    /// Runs the cells that are not kept yet.
    fn cells(
        &mut self,
        application: &'static Application,
        job: &Job<'_>,
        machine: &dyn Machine,
        jobs: usize,
        peers: &Path,
    ) -> Result<()> {
        self.tally.kernel = machine.kernel();
        let mut parts = machine.inputs();
        parts.insert("schedulers".to_owned(), scheduler_inputs(&job.cells, peers)?);
        self.tally.inputs.insert(application.key.to_owned(), parts);
        let analysed = Analysed {
            machine,
            application,
            directory: self.directory,
            peers,
            keeps_traces: self.args.keep_traces,
        };
        let traces = self.directory.subdirectory(&format!("traces/{}", application.key))?;
        let mut left = Vec::new();
        for at in job.plan.order() {
            let cell = &job.cells[at];
            match self.directory.kept(&analysed.name(cell), &analysed.inputs(cell)?) {
                Some(cell) => self.tally.study.cells.push(cell),
                None => left.push(cell.clone()),
            }
        }
        let order: Vec<usize> = (0..left.len()).collect();
        let execution = Execution { cells: &left, order: &order, jobs, traces: Some(&traces) };
        let kept = job.cells.len() - left.len();
        self.meter.begin(application.name, kept, &left);
        let outcomes =
            execution.run(&analysed, self.stop, |progress| self.meter.tell(application, kept, &progress));
        for (cell, outcome) in left.iter().zip(outcomes) {
            match outcome {
                Some(Ok(_)) => {
                    let kept = self.directory.kept(&analysed.name(cell), &analysed.inputs(cell)?);
                    self.tally.study.cells.push(kept.context("a cell's figures are gone")?);
                }
                Some(Err(CellError::Failed(error))) => {
                    self.tally.failures.push((named(application, cell), error));
                }
                Some(Err(CellError::Interrupted)) | None => {}
            }
        }
        self.meter.ran += left.len();
        self.directory.remove_empty(&format!("traces/{}", application.key))
    }
}

/// How messages call a cell.
fn named(application: &Application, cell: &Cell) -> String {
    format!("{}, {}", application.name, cell.name())
}

impl Meter {
    fn begin(&self, name: &str, kept: usize, left: &[Cell]) {
        if self.lines && !left.is_empty() {
            let kept = if kept > 0 { format!(", {kept} are there already") } else { String::new() };
            say!("spry: {name}: {} cells{kept}", left.len());
        }
    }

    fn tell(&self, application: &Application, kept: usize, progress: &Progress) {
        let done = self.before + kept + progress.done;
        if let Some(bar) = &self.bar {
            let left = self.left(progress, self.all.saturating_sub(done)).as_secs();
            let left = if left < 100 { format!("{left} s") } else { format!("{} min", left.div_ceil(60)) };
            bar.set_length(self.all as u64);
            bar.set_position(done as u64);
            bar.set_message(format!("{}: {done} of {} cells, about {left} left", application.name, self.all));
        }
    }

    /// The time left, if the cells to come are as those that were run.
    fn left(&self, progress: &Progress, left: usize) -> Duration {
        let ran = self.ran + progress.done;
        if ran == 0 {
            let each = (progress.elapsed + progress.left) / progress.cells.max(1) as u32;
            return each * left as u32;
        }
        self.began.elapsed() / ran as u32 * left as u32
    }
}

/// A machine that takes the figures from each cell's trace, keeps them, and lets the trace go.
struct Analysed<'a> {
    machine: &'a dyn Machine,
    application: &'static Application,
    directory: &'a Directory,
    peers: &'a Path,
    keeps_traces: bool,
}

impl Analysed<'_> {
    fn name(&self, cell: &Cell) -> String {
        format!("{}-{}", self.application.key, cell.file_name())
    }

    /// The hash of all that the figures of a cell depend on.
    fn inputs(&self, cell: &Cell) -> Result<String> {
        let scheduler = scheduler_inputs(std::slice::from_ref(cell), self.peers)?;
        let inputs = json!({
            "machine": self.machine.inputs(),
            "scheduler": [cell.scheduler.to_string(), scheduler],
            "sets": cell.sets,
            "seed": cell.seed,
        });
        Ok(digest::of_json(&inputs))
    }

    fn keep(&self, cell: &Cell, trace: &Path, output: &CellOutput) -> Result<()> {
        let stressers = cell.sets.iter().find(|(key, _)| key == "stressers");
        let stressers = stressers.and_then(|(_, value)| value.parse().ok()).context("a load is no number")?;
        let measured = study::Cell {
            scheduler: cell.label.clone(),
            application: self.application.key.to_owned(),
            stressers,
            seed: cell.seed,
            measurement: measure(trace, self.application, &output.report)?,
        };
        self.directory.keep(&self.name(cell), &Kept { inputs: self.inputs(cell)?, cell: measured })
    }
}

impl Machine for Analysed<'_> {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn kernel(&self) -> String {
        self.machine.kernel()
    }

    fn inputs(&self) -> BTreeMap<String, Value> {
        self.machine.inputs()
    }

    fn cell_time(&self) -> Duration {
        self.machine.cell_time()
    }

    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
        let failed = |error: anyhow::Error| CellError::Failed(format!("{error:#}"));
        let trace = trace.ok_or_else(|| CellError::Failed("it is not recorded".to_owned()))?;
        let output = self.machine.run(cell, Some(trace), stop)?;
        let kept = self.keep(cell, trace, &output);
        if !self.keeps_traces {
            fs::remove_file(trace).map_err(|error| failed(error.into()))?;
        }
        kept.map_err(failed)?;
        Ok(output)
    }
}

/// What a trace says of an application, over the time that its scenario measured.
fn measure(trace: &Path, application: &Application, report: &Value) -> Result<Measurement> {
    let measured = Measured::read(report).context("the runner does not say when it measured")?;
    let bytes = fs::metadata(trace)?.len();
    let mut reader = Reader::new(File::open(trace)?)?;
    let mut engine = engine(reader.header(), measured)?;
    while let Some(event) = reader.next_event()? {
        if engine.push(event) == Wants::Enough {
            break;
        }
    }
    let totals = reader.totals();
    ensure!(totals.damaged_bytes == 0, "its trace is damaged");
    let findings =
        engine.finish(TraceTotals { bytes, end_ns: Some(totals.end_ns), ..TraceTotals::default() });
    match Measurement::of(&findings, application, Frames::read(report)) {
        Some(measurement) => Ok(measurement),
        None => bail!("no task of {} is in its trace", application.name),
    }
}
