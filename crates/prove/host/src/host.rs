//! The host machine, which runs cells with real threads under the real kernel, one cell at a time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spry_experiment::scheduler::{SchedulerError, SchedulerSpec, Setup};
use spry_experiment::{
    Cell, CellError, CellOutput, Experiment, Machine, RECORDED_GROUPS, Stop, digest, programs,
};
use spry_recorder::{Recorder, Recording};
use spry_scenario::kinds::SOURCES_VARIABLE;
use spry_scratch::Scratch;
use spry_sys::cpus::Cpus;
use spry_sys::settle::{Setting, settle, tie};
use spry_sys::{Signal, signal};

use crate::applied::{AppliedScheduler, ApplyError};

/// The interval between two checks of a running scenario. It is long, because each check disturbs
/// the measurement.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How much time the runner may take beyond the scenario's own time: for calibration, for an X server, and
/// for programs that start and end.
const OVERHEAD: Duration = Duration::from_secs(120);
/// How long the runner may take to end its processes after it received the request to end.
const ENDING: Duration = Duration::from_secs(20);

/// This machine, prepared for an experiment.
#[derive(Debug)]
pub struct Host {
    /// The path of the program `spry-runner`.
    runner: PathBuf,
    /// How many CPUs the scenario gets; `None`: all.
    cpus: Option<u32>,
    /// How long the scenario runs, including its warm-up.
    time: Duration,
    /// The directory of the published schedulers.
    peers: PathBuf,
    /// The directory with the unpacked source packages; `None`: the runner's own default.
    sources: Option<PathBuf>,
}

/// The reason why this machine cannot run an experiment.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The runner is not where it belongs.
    #[error(transparent)]
    Program(#[from] programs::MissingProgram),
    /// A scheduler is not available.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// A scheduler cannot be put in force on this kernel.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Machine for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn kernel(&self) -> String {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease");
        release.map_or_else(|_| "unknown".to_owned(), |release| release.trim().to_owned())
    }

    fn inputs(&self) -> BTreeMap<String, Value> {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let digest = digest::of_file(&self.runner).unwrap_or_default();
        // The directory's name is the hash of its contents.
        let sources = self.sources.as_deref().and_then(Path::file_name);
        let sources = sources.map(|name| ("sources", json!(name.to_string_lossy())));
        let machine = [
            ("cpu", json!(model.map_or("unknown", |(_, name)| name.trim()))),
            ("kernel", json!(self.kernel())),
            ("spry-runner", json!(digest)),
        ];
        machine.into_iter().chain(sources).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn scheduler(&self, scheduler: &SchedulerSpec) -> Result<String, SchedulerError> {
        scheduler.input(&self.peers)
    }

    fn side_by_side(&self) -> usize {
        1
    }

    fn cell_time(&self) -> Duration {
        self.time + Duration::from_secs(2)
    }

    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
        let setup = cell.setup(&self.peers).map_err(failed)?;
        let scratch = Scratch::make(None);
        let scratch =
            scratch.map_err(|error| failed(format!("cannot make a temporary directory: {error}")))?;
        let mut applied =
            AppliedScheduler::new(&setup, scratch.path().join("scheduler.log")).map_err(failed)?;
        let recording = trace.map(start_recording).transpose()?;
        let output = self.play(cell, &setup, scratch.path(), stop);
        let recorded = recording.map_or(Ok(()), |recording| recording.stop().map(drop));
        if let Some(reason) = applied.ejected() {
            return Err(CellError::Failed(format!("{} did not last to the end: {reason}", cell.label)));
        }
        let output = output?;
        recorded.map_err(|error| CellError::Failed(format!("recording failed: {error}")))?;
        Ok(output)
    }
}

fn failed(error: impl ToString) -> CellError {
    CellError::Failed(error.to_string())
}

fn start_recording(trace: &Path) -> Result<Recording, CellError> {
    Recorder::builder().groups(RECORDED_GROUPS.into_iter().collect()).start_into(trace).map_err(failed)
}

impl Host {
    /// Prepares this machine for an experiment: finds the runner, and checks whether every scheduler can
    /// run. Published schedulers are taken from the directory `peers`, source packages from `sources`.
    /// Changes nothing.
    ///
    /// # Errors
    /// If the runner or a scheduler does not exist, or this kernel cannot run under a scheduler.
    pub fn prepare(
        experiment: &Experiment,
        peers: PathBuf,
        sources: Option<PathBuf>,
    ) -> Result<Host, HostError> {
        let host = Host {
            runner: programs::own("spry-runner")?,
            cpus: experiment.scenarios().map(|scenario| scenario.machine.cpus).max().flatten(),
            time: experiment.time(),
            peers,
            sources,
        };
        for cell in experiment.cells() {
            AppliedScheduler::check(&cell.scheduler.setup(&host.peers)?)?;
        }
        Ok(host)
    }

    fn play(&self, cell: &Cell, setup: &Setup, scratch: &Path, stop: &Stop) -> Result<CellOutput, CellError> {
        let place = |name: &str| scratch.join(name);
        let scenario = place(cell.scenario_file_name());
        let written = fs::write(&scenario, &cell.scenario.text);
        written.map_err(|error| failed(format!("{}: {error}", scenario.display())))?;
        let errors = place("errors");
        let stderr = fs::File::create(&errors).map_err(failed)?;
        let out = place("runner.json");
        let mut command = Command::new(&self.runner);
        command.arg("run").arg("--scenario").arg(&scenario);
        command.args(cell.runner_arguments("calibrated", setup.class)).arg("--out").arg(&out);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        if let Some(sources) = &self.sources {
            command.env(SOURCES_VARIABLE, sources);
        }
        confine(&mut command, self.cpus)?;
        // The end of this thread sends SIGTERM to the runner, not SIGKILL, so that the runner can clean up.
        tie(&mut command, Signal::TERM);
        let child = command
            .spawn()
            .map_err(|error| failed(format!("cannot start {}: {error}", self.runner.display())))?;
        let status = wait(child, self.time + OVERHEAD, stop)?;
        let said = fs::read(&errors).unwrap_or_default();
        judge(status, &String::from_utf8_lossy(&said))?;
        let text = fs::read_to_string(&out);
        CellOutput::read(&text.map_err(|error| failed(format!("spry-runner left no results: {error}")))?)
    }
}

/// Restricts a command to this number of the available CPUs. It gets the last of them, because the first CPUs
/// serve most interrupts.
fn confine(command: &mut Command, cpus: Option<u32>) -> Result<(), CellError> {
    let available =
        Cpus::allowed().map_err(|error| failed(format!("cannot tell which CPUs there are: {error}")))?;
    let there: Vec<u32> = available.numbers().rev().collect();
    let wanted = cpus.map_or(there.len(), |cpus| cpus as usize);
    if wanted > there.len() {
        return Err(failed(format!(
            "the scenario wants {wanted} CPUs and this machine gives {}",
            there.len()
        )));
    }
    let own = Cpus::of(there[..wanted].iter().copied()).map_err(failed)?;
    settle(command, [Setting::On(own)]);
    Ok(())
}

/// Waits until the runner ends. Ends the runner if a stop is requested or if it takes too long.
fn wait(mut child: Child, limit: Duration, stop: &Stop) -> Result<ExitStatus, CellError> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => {
                end(&mut child);
                return Err(failed(format!("cannot wait for spry-runner: {error}")));
            }
        }
        if stop.is_requested() {
            end(&mut child);
            return Err(CellError::Interrupted);
        }
        if began.elapsed() > limit {
            end(&mut child);
            return Err(failed(format!(
                "spry-runner did not end within {} s and was ended",
                limit.as_secs()
            )));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Requests that the runner ends and removes its files and processes. If it does not end in time, kills it
/// and the processes that it started.
fn end(child: &mut Child) {
    // A child that was not waited for keeps its process id.
    _ = signal::send(child.id(), Signal::TERM);
    let began = Instant::now();
    while began.elapsed() < ENDING {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        thread::sleep(LOOK_EVERY / 4);
    }
    // The process group is the child's own.
    _ = signal::send_group(child.id(), Signal::KILL);
    _ = child.wait();
}

/// Decides from the runner's exit status and its output how the cell ended.
fn judge(status: ExitStatus, said: &str) -> Result<(), CellError> {
    let said = said.trim();
    let said = said.strip_prefix("spry-runner: ").unwrap_or(said);
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (_, Some(signal)) => Err(failed(format!("spry-runner was killed by signal {signal}; {said}"))),
        (code, _) if said.is_empty() => {
            Err(failed(format!("spry-runner failed with code {}", code.unwrap_or(1))))
        }
        _ => Err(failed(said)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;
    use spry_experiment::{Plan, Recording as Recorded, Source};

    const SCENARIO: &str = r#"
        name = "nothing"
        duration_s = 1
        measure = ["cpu_share"]
        [[task]]
        name = "a"
        kind = "stresser"
    "#;

    fn host(runner: &str) -> Host {
        let (time, peers) = (Duration::from_secs(1), "/nowhere".into());
        Host { runner: runner.into(), cpus: Some(1), time, peers, sources: None }
    }

    fn cell(scheduler: &str) -> Cell {
        let source = Source { name: "nothing.toml".to_owned(), text: SCENARIO.to_owned() };
        let plan = Plan { schedulers: vec![scheduler.parse().unwrap()], vary: Vec::new(), seeds: 1 };
        Experiment::new(source, plan, Recorded::Never).unwrap().cells()[0].clone()
    }

    #[test]
    fn a_runner_that_cannot_be_started_or_fails_is_told_apart() {
        let run =
            |runner: &str| host(runner).run(&cell("eevdf"), None, &Stop::new()).unwrap_err().to_string();
        assert!(run("/nowhere/spry-runner").contains("cannot start /nowhere/spry-runner"));
        assert_eq!(run("/bin/false"), "spry-runner failed with code 1");
        assert!(run("/bin/true").contains("left no results"));
    }

    #[test]
    fn a_request_to_stop_ends_what_was_started() {
        let stop = Stop::new();
        let mut command = Command::new("/bin/sleep");
        let child = command.arg("60").process_group(0).spawn().unwrap();
        let id = child.id();
        stop.request();
        assert_eq!(wait(child, Duration::from_secs(60), &stop), Err(CellError::Interrupted));
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn more_cpus_than_there_are_is_an_error() {
        let error = confine(&mut Command::new("/bin/true"), Some(100_000)).unwrap_err().to_string();
        assert!(error.contains("100000 CPUs"), "{error}");
    }
}
