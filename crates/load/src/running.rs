//! Loads that run, as whoever started them sees them.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::crew::{Plan, wait_for};
use crate::error::{LoadError, at, of};
use crate::guardian::Guardian;
use crate::journal::{self, Journal};
use crate::message::{Message, State};
use crate::needs;
use crate::options::Options;
use crate::suite::{Load, Program};

/// How long the namespaces may take to be there.
const BIRTH: Duration = Duration::from_secs(30);
/// How long the loads, and then their guardian, may take to end in order.
const FAREWELL: Duration = Duration::from_secs(30);

/// How a load is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadState {
    /// Its name.
    pub name: &'static str,
    /// How far it has come.
    #[serde(flatten)]
    pub state: State,
}

/// What a load has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadSummary {
    /// Its name, and how it was at the end.
    #[serde(flatten)]
    pub state: LoadState,
    /// How often it has done what it does; unknown where it was killed.
    pub operations: Option<u64>,
    /// What is counted.
    pub counts: &'static str,
}

/// What has been run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Each load, in the order in which they were asked for.
    pub loads: Vec<LoadSummary>,
    /// How long they were there, preparations included, ns.
    pub duration_ns: u64,
    /// The most that they took of memory together, looked up once a second, bytes.
    pub memory_bytes_max: u64,
    /// The most that they took of disk space together, looked up once a second, bytes.
    pub disk_bytes_max: u64,
}

/// Loads that run. Dropping it ends them and removes everything of them; [`Running::stop`] does so and says what they did.
#[derive(Debug)]
pub struct Running {
    guardian: Guardian,
    line: UnixStream,
    /// What has come over the line and is not a whole message yet.
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

/// How far the whole has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody has said anything.
    Starting,
    /// The namespaces could not be had, or something in them.
    Failed(String),
    /// They are there.
    Confined,
    /// Everything has been said.
    Done,
    /// Everything has been removed.
    Over,
}

/// Starts loads, after having removed what earlier ones have left that were killed. Returns when they are confined and started;
/// [`Running::wait_until_running`] waits for their preparations. They inherit the calling thread's CPUs and nice value, but no
/// real-time class.
///
/// # Errors
/// Where one of them cannot run here, memory or disk space is too little, or the kernel refuses something.
pub fn start(loads: &[&'static Load], options: &Options) -> Result<Running, LoadError> {
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
        is_root: needs::is_root(),
    };
    let (guardian, line) = Guardian::start(&journal, &plan).inspect_err(|_| _ = journal.finish())?;
    let state = |load: &&'static Load| LoadState { name: load.name(), state: State::Preparing };
    let mut running = Running {
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

impl Running {
    /// Says whether a load has ended by itself, and why. Does not wait.
    ///
    /// # Errors
    /// Where one has, or all were killed.
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

    /// How each load was at the latest [`Running::check`], in the order in which they were asked for.
    pub fn states(&self) -> &[LoadState] {
        &self.states
    }

    /// Whether all preparations were over at the latest [`Running::check`].
    pub fn is_running(&self) -> bool {
        self.states.iter().all(|load| load.state == State::Running)
    }

    /// Waits until all preparations are over, at most so long; whether they are.
    ///
    /// # Errors
    /// As [`Running::check`].
    pub fn wait_until_running(&mut self, patience: Duration) -> Result<bool, LoadError> {
        self.listen_until(patience, |running| {
            running.is_running() || running.states.iter().any(|load| matches!(load.state, State::Ended(_)))
        })?;
        self.check()?;
        Ok(self.is_running())
    }

    /// The directory in which they work.
    pub fn directory(&self) -> &Path {
        self.journal.directory()
    }

    /// Ends the loads, removes everything of them, and says what they have done.
    ///
    /// # Errors
    /// Where they were killed meanwhile, or would not end and were killed now, or something could not be removed.
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
        // Where nobody reads it, the listening tells why.
        _ = self.line.write_all(b"s");
        let told =
            self.listen_until(FAREWELL, |running| matches!(running.phase, Phase::Done | Phase::Failed(_)));
        let is_stuck = told.is_ok() && !matches!(self.phase, Phase::Done | Phase::Failed(_));
        self.clean_up()?;
        told?;
        if is_stuck { Err(LoadError::Stuck) } else { Ok(()) }
    }

    /// Waits for the guardian, and does its work if it has not.
    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.phase = Phase::Over;
        if self.guardian.wait(FAREWELL) == Some(0) {
            return Ok(());
        }
        self.guardian.kill();
        self.journal.finish()
    }

    /// Reads what has come. A line that is closed too soon means that somebody was killed; what is left then is removed here.
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
                let is_guarded = self.guardian.wait(FAREWELL) == Some(0);
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
            wait_for([self.line.as_raw_fd()], left);
        }
    }

    fn take_messages(&mut self) {
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            // Both ends are the same program.
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

impl Drop for Running {
    fn drop(&mut self) {
        // What could not be removed is written down for the next run.
        _ = self.end();
    }
}

/// What a load's operations are.
fn counts(load: &Load) -> &'static str {
    match load.program {
        Program::Stress(_) => "bogo operations of stress-ng",
        Program::Own(own) => own.counts(),
        Program::Compile(_) => "whole compilations",
    }
}
