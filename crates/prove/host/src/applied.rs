//! Puts a scheduler in force on this machine, until the value is dropped.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use spry_experiment::scheduler::{EXT_STATE, Program, Setting, Setup, Sign};
use spry_sys::settle::tie;
use spry_sys::{Signal, signal};

/// How long a sched_ext scheduler may take to load, and to leave. The slowest published scheduler
/// needs 17 s to load.
const LOADING: Duration = Duration::from_secs(60);
const LEAVING: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The reason why a scheduler cannot be put in force on this machine.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The kernel refused a setting.
    #[error("cannot set {path} to {value}: {error}{}", hint(.error))]
    Setting {
        /// The file of the setting.
        path: String,
        /// The value that was written.
        value: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The kernel has no sched_ext.
    #[error("this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT), so {} cannot run \
             on it: try --on lab", .0.display())]
    NoSchedExt(PathBuf),
    /// Another scheduler is in charge.
    #[error(
        "another scheduler is in charge of this machine: stop it first (`spry sched stop` if it is Spry's)"
    )]
    Taken,
    /// The scheduler's program cannot be started.
    #[error("cannot start {}: {error}", file.display())]
    Start {
        /// The path of the program.
        file: PathBuf,
        /// The reason why the program cannot be started.
        error: io::Error,
    },
    /// The program ended, or was not in charge in time.
    #[error("{} failed to load: {reason}", file.display())]
    Load {
        /// The path of the program.
        file: PathBuf,
        /// The end of the program's output.
        reason: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (it needs root, and a kernel that is not locked down)",
        io::ErrorKind::NotFound => " (this kernel has no such setting, or debugfs is not mounted)",
        _ => "",
    }
}

/// A scheduler that is in force on this machine. When this value is dropped, the old state is restored.
#[derive(Debug)]
pub struct AppliedScheduler {
    /// The settings that restore the old state, in the order in which they are written.
    before: Vec<Setting>,
    program: Option<RunningProgram>,
}

#[derive(Debug)]
struct RunningProgram {
    child: Child,
    file: PathBuf,
    sign: Sign,
    log: PathBuf,
}

impl AppliedScheduler {
    /// Checks whether this machine can run under a setup. Changes nothing.
    ///
    /// # Errors
    /// If the setup needs sched_ext and the kernel does not have it.
    pub fn check(setup: &Setup) -> Result<(), ApplyError> {
        match &setup.program {
            Some(program) if program.sign == Sign::SchedExt && !fs::exists(EXT_STATE).unwrap_or(false) => {
                Err(ApplyError::NoSchedExt(program.file.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Writes the settings, starts the program and waits until it is in charge. The program's output goes to
    /// the file `log`.
    ///
    /// # Errors
    /// If the kernel refuses a setting, or the program fails. The settings changed until then are restored.
    pub fn new(setup: &Setup, log: PathBuf) -> Result<AppliedScheduler, ApplyError> {
        AppliedScheduler::check(setup)?;
        let mut applied = AppliedScheduler { before: Vec::new(), program: None };
        for setting in &setup.settings {
            let refused = |error| ApplyError::Setting {
                path: setting.path.clone(),
                value: setting.value.clone(),
                error,
            };
            let before = setting.in_force().map_err(refused)?;
            setting.write().map_err(refused)?;
            applied.before.insert(0, before);
        }
        if let Some(program) = &setup.program {
            applied.program = Some(RunningProgram::start(program, log)?);
        }
        Ok(applied)
    }

    /// The reason why the scheduler is no longer in charge; `None` if it is still in charge.
    pub fn ejected(&mut self) -> Option<String> {
        let running = self.program.as_mut()?;
        let ended = matches!(running.child.try_wait(), Ok(Some(_)));
        (ended || !running.sign.is_seen()).then(|| running.last_words())
    }
}

impl Drop for AppliedScheduler {
    fn drop(&mut self) {
        // The program ends first. When it leaves, every task is again under the kernel's own scheduler.
        self.program = None;
        for setting in &self.before {
            if let Err(error) = setting.write() {
                eprintln!("spry: cannot set {} back to {}: {error}", setting.path, setting.value);
            }
        }
    }
}

impl RunningProgram {
    fn start(program: &Program, log: PathBuf) -> Result<RunningProgram, ApplyError> {
        let failed = |error| ApplyError::Start { file: program.file.clone(), error };
        if program.sign.is_seen() {
            return Err(ApplyError::Taken);
        }
        let output = fs::File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut command = Command::new(&program.file);
        command.args(&program.args).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = tie(&mut command, Signal::INT).spawn().map_err(failed)?;
        let mut running = RunningProgram { child, file: program.file.clone(), sign: program.sign, log };
        let began = Instant::now();
        while !program.sign.is_seen() {
            let load = |reason| ApplyError::Load { file: program.file.clone(), reason };
            if matches!(running.child.try_wait(), Ok(Some(_))) {
                return Err(load(running.last_words()));
            }
            if began.elapsed() > LOADING {
                return Err(load(format!("not in charge after {} s", LOADING.as_secs())));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(running)
    }

    /// The end of the program's output.
    fn last_words(&self) -> String {
        let said = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let said = said.unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        match &lines[lines.len().saturating_sub(5)..] {
            [] => format!("{} said nothing", self.file.display()),
            last => last.join("; "),
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // A child that was not waited for keeps its process id.
        _ = signal::send(self.child.id(), Signal::INT);
        let began = Instant::now();
        while began.elapsed() < LEAVING {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("base_slice_ns");
        fs::write(&file, "1400000\n").unwrap();
        let path = file.to_string_lossy().into_owned();
        let settings = vec![Setting { path, value: "3000000".to_owned() }];
        let setup = Setup { settings, ..Setup::default() };
        let applied = AppliedScheduler::new(&setup, dir.path().join("log")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "3000000");
        drop(applied);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1400000");
    }
}
