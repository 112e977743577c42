//! Running loads, from the view of the process that started them.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use spry_sys::{poll, process};

use crate::crew::Plan;
use crate::error::{LoadError, at, of};
use crate::guardian::{End, Guardian};
use crate::journal::{self, Journal};
use crate::message::{Message, State};
use crate::options::Options;
use crate::suite::{Load, Program};

/// How long it may take until the namespaces have been made.
const BIRTH: Duration = Duration::from_secs(30);
/// How long the loads may take to end, and then their guardian.
const FAREWELL: Duration = Duration::from_secs(30);

/// The state of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadState {
    /// The load's name.
    pub name: &'static str,
    /// The progress of the load.
    #[serde(flatten)]
    pub state: State,
}

/// The work of a load during its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadSummary {
    /// The load's name and its last state.
    #[serde(flatten)]
    pub state: LoadState,
    /// How many operations the load has done; `None` if the load was killed.
    pub operations: Option<u64>,
    /// The name of the operations that the load counts.
    pub counts: &'static str,
}

/// The summary of all loads of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Each load, in the order of the request.
    pub loads: Vec<LoadSummary>,
    /// How long the loads existed, including their preparations, ns.
    pub duration_ns: u64,
    /// The greatest amount of memory that all loads took together, bytes. It is measured once a second.
    pub memory_bytes_max: u64,
    /// The greatest amount of disk space that all loads took together, bytes. It is measured once a second.
    pub disk_bytes_max: u64,
}

/// Running loads. When this value is dropped, the loads end and all their files are removed.
/// [`RunningLoads::stop`] does the same and also returns the work of the loads.
#[derive(Debug)]
pub struct RunningLoads {
    guardian: Guardian,
    line: UnixStream,
    /// The bytes of a message that has not yet come in full.
    pending: Vec<u8>,
    journal: Journal,
    loads: Vec<&'static Load>,
    states: Vec<LoadState>,
    operations: Vec<Option<u64>>,
    memory_bytes_max: u64,
    disk_bytes_max: u64,
    began: Instant,
    phase: Phase,
}

/// The progress of the run as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Neither the crew nor the guardian has sent a message.
    Starting,
    /// The namespaces, or the loads in them, could not be made; the text has the reason.
    Failed(String),
    /// The namespaces have been made.
    Confined,
    /// The crew has sent its last message.
    Done,
    /// All files of the loads have been removed.
    Over,
}

/// Starts loads. First it removes the remains of earlier loads that were killed. It returns when the loads
/// are confined and started; [`RunningLoads::wait_until_running`] waits for their preparations. The loads
/// inherit the CPUs and the nice value of the calling thread, but no real-time class.
///
/// # Errors
/// If a load cannot run here, if memory or disk space is too small, or if the kernel refuses a request.
pub fn start(loads: &[&'static Load], options: &Options) -> Result<RunningLoads, LoadError> {
    for load in loads {
        load.check(options)?;
    }
    let shares = options.shares(loads)?;
    let home = options.home()?;
    let source = options.source.as_ref().map(|path| path.canonicalize().map_err(at(path))).transpose()?;
    journal::clean(&options.state)?;
    let journal = Journal::create(&options.state, &home)?;
    let plan = Plan {
        directory: journal.directory().to_owned(),
        loads: loads.iter().copied().zip(shares).collect(),
        memory_bytes: options.memory_bytes,
        disk_bytes: options.disk_bytes,
        cpus: options.cpus.clone(),
        nice: options.nice,
        source,
        is_root: process::is_root(),
    };
    let (guardian, line) = Guardian::start(&journal, &plan).inspect_err(|_| _ = journal.finish())?;
    let state = |load: &&'static Load| LoadState { name: load.name(), state: State::Preparing };
    let mut running = RunningLoads {
        guardian,
        line,
        pending: Vec::new(),
        journal,
        loads: loads.to_vec(),
        states: loads.iter().map(state).collect(),
        operations: vec![None; loads.len()],
        memory_bytes_max: 0,
        disk_bytes_max: 0,
        began: Instant::now(),
        phase: Phase::Starting,
    };
    running.line.set_nonblocking(true).map_err(of("listening to the loads"))?;
    running.listen_until(BIRTH, |running| running.phase != Phase::Starting)?;
    running.check()?;
    Ok(running)
}

impl RunningLoads {
    /// Checks whether a load has ended by itself. Does not wait.
    ///
    /// # Errors
    /// If a load has ended, or all loads were killed; the error has the reason.
    pub fn check(&mut self) -> Result<(), LoadError> {
        self.listen()?;
        if let Phase::Failed(why) = &self.phase {
            return Err(LoadError::Start(why.clone()));
        }
        let ended = self.states.iter().find_map(|load| match &load.state {
            State::Ended(why) => Some((load.name.to_owned(), why.clone())),
            _ => None,
        });
        ended.map_or(Ok(()), |(load, why)| Err(LoadError::Ended { load, why }))
    }

    /// The state of each load at the latest [`RunningLoads::check`], in the order in which the loads
    /// were requested.
    pub fn states(&self) -> &[LoadState] {
        &self.states
    }

    /// Whether all preparations of the loads were over at the latest [`RunningLoads::check`].
    pub fn is_running(&self) -> bool {
        self.states.iter().all(|load| load.state == State::Running)
    }

    /// Waits for at most this long until all preparations are over. Returns whether they are.
    ///
    /// # Errors
    /// As [`RunningLoads::check`].
    pub fn wait_until_running(&mut self, patience: Duration) -> Result<bool, LoadError> {
        self.listen_until(patience, |running| {
            running.is_running() || running.states.iter().any(|load| matches!(load.state, State::Ended(_)))
        })?;
        self.check()?;
        Ok(self.is_running())
    }

    /// The directory in which the loads work.
    pub fn directory(&self) -> &Path {
        self.journal.directory()
    }

    /// Ends the loads, removes all their files, and returns the work that they have done.
    ///
    /// # Errors
    /// If the loads were killed meanwhile, if they did not end and were killed now, or if a file could
    /// not be removed.
    pub fn stop(mut self) -> Result<Summary, LoadError> {
        let ended = self.end();
        let duration_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        ended?;
        let states = self.states.iter().zip(&self.loads).zip(&self.operations);
        let loads = states.map(|((state, load), &operations)| LoadSummary {
            state: state.clone(),
            operations,
            counts: counts(load),
        });
        let loads = loads.collect();
        let (memory_bytes_max, disk_bytes_max) = (self.memory_bytes_max, self.disk_bytes_max);
        Ok(Summary { loads, duration_ns, memory_bytes_max, disk_bytes_max })
    }

    fn end(&mut self) -> Result<(), LoadError> {
        if self.phase == Phase::Over {
            return Ok(());
        }
        // If this write fails, the listening below finds the reason.
        _ = self.line.write_all(b"s");
        let told =
            self.listen_until(FAREWELL, |running| matches!(running.phase, Phase::Done | Phase::Failed(_)));
        let is_stuck = told.is_ok() && !matches!(self.phase, Phase::Done | Phase::Failed(_));
        self.clean_up()?;
        told?;
        if is_stuck { Err(LoadError::Stuck) } else { Ok(()) }
    }

    /// Waits until the guardian has cleaned up. If the guardian failed to do so, cleans up here.
    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.phase = Phase::Over;
        if self.guardian.wait(FAREWELL) == Some(End::Well) {
            return Ok(());
        }
        self.guardian.kill();
        self.journal.finish()
    }

    /// Reads the messages that have come. If the line is closed too early, the crew or the guardian was
    /// killed; then all remains are removed here.
    fn listen(&mut self) -> Result<(), LoadError> {
        let mut bytes = [0; 4096];
        loop {
            match self.line.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => self.pending.extend(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.take_messages();
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.take_messages();
        match self.phase {
            Phase::Done | Phase::Failed(_) | Phase::Over => Ok(()),
            Phase::Starting | Phase::Confined => {
                let is_guarded = self.guardian.wait(FAREWELL) == Some(End::Well);
                self.clean_up()?;
                Err(if is_guarded { LoadError::Killed } else { LoadError::GuardianKilled })
            }
        }
    }

    fn listen_until(
        &mut self,
        patience: Duration,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<(), LoadError> {
        let until = Instant::now() + patience;
        loop {
            self.listen()?;
            let left = until.saturating_duration_since(Instant::now());
            if is_enough(self) || left.is_zero() {
                return Ok(());
            }
            poll::any([self.line.as_fd()], left);
        }
    }

    fn take_messages(&mut self) {
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            // Both ends of the line run the same program, so every message can be read.
            let Ok(message) = serde_json::from_slice(&line) else { continue };
            match message {
                Message::Confined => self.phase = Phase::Confined,
                Message::Failed(why) => self.phase = Phase::Failed(why),
                Message::State { load, state } => self.states[load].state = state,
                Message::Count { load, operations } => self.operations[load] = Some(operations),
                Message::Taken { memory_bytes, disk_bytes } => {
                    (self.memory_bytes_max, self.disk_bytes_max) = (memory_bytes, disk_bytes);
                }
                Message::Done => self.phase = Phase::Done,
            }
        }
    }
}

impl Drop for RunningLoads {
    fn drop(&mut self) {
        // Files that could not be removed are in the journal, and the next run removes them.
        _ = self.end();
    }
}

/// The name of a load's operations.
fn counts(load: &Load) -> &'static str {
    match load.program {
        Program::Stress(_) => "bogo operations of stress-ng",
        Program::Own(own) => own.counts(),
        Program::Compile(_) => "whole compilations",
    }
}
