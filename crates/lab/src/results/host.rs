//! The machine that this program runs on: real threads of a real kernel, one cell at a time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spry_workload::model::Scenario;
use spry_workload::runner::scratch::Scratch;

use super::machine::{CellError, CellOutput, Machine, setup};
use super::plan::Cell;
use crate::cache::{digest_of, digest_of_file};
use crate::command::tie;
use crate::progress::Stop;
use crate::scheduler::{Applied, Setup};

/// How often a running scenario is looked after. Rarely: it measures.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What the runner may take beyond the scenario's own time: calibration, an X server, programs that start and end.
const OVERHEAD: Duration = Duration::from_secs(120);
/// How long the runner may take to end what it started.
const ENDING: Duration = Duration::from_secs(20);

/// Ends a recording, and says what went wrong with it.
pub type StopRecording = Box<dyn FnOnce() -> Result<(), String>>;
/// Starts recording this machine into a file.
pub type StartRecording = dyn Fn(&Path) -> Result<StopRecording, String> + Sync;

/// What is run on this machine.
pub struct Host<'a> {
    /// The program `spry-runner`.
    pub runner: PathBuf,
    /// The scenario's file name; its ending says its format.
    pub file_name: &'static str,
    /// The scenario's text.
    pub text: String,
    /// How many CPUs the scenario gets; all if none is said.
    pub cpus: Option<u32>,
    /// How long the scenario runs, warm-up included.
    pub time: Duration,
    /// Where published schedulers are.
    pub peers: PathBuf,
    /// Records cells, if they are to be recorded.
    pub record: Option<&'a StartRecording>,
}

impl Machine for Host<'_> {
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
        let digest = digest_of_file(&self.runner).unwrap_or_default();
        [
            ("cpu", json!(model.map_or("unknown", |(_, name)| name.trim()))),
            ("kernel", json!(self.kernel())),
            ("scenario", json!(digest_of(self.text.as_bytes()))),
            ("spry-runner", json!(digest)),
            ("record", json!(self.record.is_some())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn cell_time(&self) -> Duration {
        self.time + Duration::from_secs(2)
    }

    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
        let scenario = Scenario::parse_with(&self.text, self.file_name, &cell.sets).map_err(failed)?;
        let setup = setup(cell, &scenario, &self.peers)?;
        let scratch = Scratch::make(None);
        let scratch =
            scratch.map_err(|error| failed(format!("cannot make a temporary directory: {error}")))?;
        let mut applied = Applied::new(&setup, scratch.path().join("scheduler.log")).map_err(failed)?;
        let record = match (trace, self.record) {
            (Some(trace), Some(start)) => Some(start(trace).map_err(CellError::Failed)?),
            _ => None,
        };
        let output = self.play(cell, &setup, scratch.path(), stop);
        let recorded = record.map_or(Ok(()), |stop| stop());
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

impl Host<'_> {
    /// Whether every scheduler of a plan can be had here at all; looks only.
    ///
    /// # Errors
    /// Why one cannot.
    pub fn check<'c>(&self, cells: impl IntoIterator<Item = &'c Cell>) -> Result<(), CellError> {
        for cell in cells {
            let setup = cell.scheduler.setup(&self.peers).map_err(failed)?;
            Applied::check(&setup).map_err(failed)?;
        }
        Ok(())
    }

    fn play(&self, cell: &Cell, setup: &Setup, scratch: &Path, stop: &Stop) -> Result<CellOutput, CellError> {
        let place = |name: &str| scratch.join(name);
        let scenario = place(self.file_name);
        let written = fs::write(&scenario, &self.text);
        written.map_err(|error| failed(format!("{}: {error}", scenario.display())))?;
        let errors = place("errors");
        let stderr = fs::File::create(&errors).map_err(failed)?;
        let out = place("runner.json");
        let mut command = Command::new(&self.runner);
        command.arg("run").arg("--scenario").arg(&scenario);
        for (key, value) in &cell.sets {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command.args(["--seed", &cell.seed.to_string(), "--work", "calibrated"]).arg("--out").arg(&out);
        if let Some(class) = setup.class {
            command.args(["--class", class.runner_argument()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        confine(&mut command, self.cpus)?;
        // It is asked to end, not killed: it cleans up.
        tie(&mut command, libc::SIGTERM);
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

/// Pins a command to so many of the CPUs that are there (the last ones: the first serve most interrupts).
fn confine(command: &mut Command, cpus: Option<u32>) -> Result<(), CellError> {
    // SAFETY: a CPU set is plain numbers, all of which may be zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as is said.
    let got = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if got != 0 {
        return Err(failed(format!("cannot tell which CPUs there are: {}", io::Error::last_os_error())));
    }
    let numbers = (0..libc::CPU_SETSIZE as usize).rev();
    // SAFETY: the numbers are below the set's size.
    let there: Vec<usize> = numbers.filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect();
    let wanted = cpus.map_or(there.len(), |cpus| cpus as usize);
    if wanted > there.len() {
        return Err(failed(format!(
            "the scenario wants {wanted} CPUs and this machine gives {}",
            there.len()
        )));
    }
    for &cpu in &there[wanted..] {
        // SAFETY: the numbers are below the set's size.
        unsafe { libc::CPU_CLR(cpu, &mut set) };
    }
    // SAFETY: the call takes numbers and a set that the closure owns, and may be made between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::sched_setaffinity(0, size_of_val(&set), &raw const set) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    };
    Ok(())
}

/// Waits for the runner's end; ends it when asked to stop, or when it takes too long.
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

/// Asks the runner to end and clean up; kills it, and what it started, if it does not.
fn end(child: &mut Child) {
    let id = child.id() as libc::pid_t;
    // SAFETY: kill only takes numbers, and a child that has not been waited for keeps its id.
    unsafe { libc::kill(id, libc::SIGTERM) };
    let began = Instant::now();
    while began.elapsed() < ENDING {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        thread::sleep(LOOK_EVERY / 4);
    }
    // SAFETY: as above; the group is the child's own.
    unsafe { libc::kill(-id, libc::SIGKILL) };
    _ = child.wait();
}

/// Tells how the runner ended from its status and its words.
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
    use super::*;

    const SCENARIO: &str = r#"
        name = "nothing"
        duration_s = 1
        measure = ["cpu_share"]
        [[task]]
        name = "a"
        kind = "stresser"
    "#;

    fn host(runner: &str, text: &str) -> Host<'static> {
        Host {
            runner: runner.into(),
            file_name: "scenario.toml",
            text: text.to_owned(),
            cpus: Some(1),
            time: Duration::from_secs(1),
            peers: "/nowhere".into(),
            record: None,
        }
    }

    fn cell(scheduler: &str) -> Cell {
        let scheduler: crate::scheduler::SchedulerSpec = scheduler.parse().unwrap();
        Cell { label: scheduler.label(), scheduler, sets: Vec::new(), seed: 1 }
    }

    #[test]
    fn a_runner_that_cannot_be_started_or_fails_is_told_apart() {
        let run = |runner: &str| {
            host(runner, SCENARIO).run(&cell("eevdf"), None, &Stop::new()).unwrap_err().to_string()
        };
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
