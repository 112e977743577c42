//! The crew: the first process in the namespaces of the loads. It starts the loads, checks their use of
//! memory and disk space, reports their state, and ends them. When the crew ends, for any reason, the kernel
//! ends all other processes of its namespace.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use spry_sys::outlive::keep_only;
use spry_sys::settle::{Setting, settle};
use spry_sys::signal::{self, Signals};
use spry_sys::{Signal, poll, process};

use crate::board::Board;
use crate::compile::{self, LOG};
use crate::confine::{self, ProcessSettings, User};
use crate::cpus::CpuList;
use crate::error::{LoadError, at, of};
use crate::message::{Message, State};
use crate::nfs;
use crate::options::Share;
use crate::stress;
use crate::suite::{Load, Mount, Program, Stress};
use crate::usage;

/// How often the crew checks how much memory and disk space the loads take.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long stress-ng may take to end and to write its metrics.
const FAREWELL: Duration = Duration::from_secs(10);
/// The loads' `oom_score_adj`, -1000 to 1000: if it is high, the kernel ends them first without memory.
const EXPENDABLE: &str = "900";

/// The loads of a run, with their limits and CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) directory: PathBuf,
    pub(crate) loads: Vec<(&'static Load, Share)>,
    pub(crate) memory_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) cpus: Option<CpuList>,
    pub(crate) nice: Option<i32>,
    pub(crate) source: Option<PathBuf>,
    pub(crate) is_root: bool,
}

impl Plan {
    /// Whether one of the loads needs the kernel's NFS server.
    pub(crate) fn has_nfs(&self) -> bool {
        self.loads.iter().any(|(load, _)| load.program == Program::Compile(Mount::Nfs))
    }
}

/// A load that has been started.
struct Member {
    load: &'static Load,
    directory: PathBuf,
    processes: Vec<u32>,
    board: Board,
    state: State,
}

struct Crew<'a> {
    plan: &'a Plan,
    line: UnixStream,
    members: Vec<Member>,
    memory_bytes_max: u64,
    disk_bytes_max: u64,
}

/// Runs the crew, and returns the exit status. `guardian` is a pipe that is closed when the guardian ends.
pub(crate) fn run(plan: &Plan, line: UnixStream, guardian: &OwnedFd) -> i32 {
    _ = Setting::EndsWithParent(Signal::KILL).apply();
    let mut crew = Crew { plan, line, members: Vec::new(), memory_bytes_max: 0, disk_bytes_max: 0 };
    match crew.start().and_then(|signals| crew.watch(&signals, guardian.as_fd())) {
        Ok(()) => 0,
        Err(error) => {
            crew.tell(&Message::Failed(error.to_string()));
            1
        }
    }
}

impl Crew<'_> {
    fn tell(&mut self, message: &Message) {
        // If the caller has ended, the messages are not read. The guardian then ends this process.
        _ = self.line.write_all(message.line().as_bytes());
    }

    fn start(&mut self) -> Result<Signals, LoadError> {
        confine::inside()?;
        let listening = Signals::of(&[Signal::CHILD, Signal::USR1]);
        let signals = listening.map_err(of("listening to signals"))?;
        if let Some(cpus) = &self.plan.cpus {
            cpus.pin().map_err(of("keeping the loads on their CPUs"))?;
        }
        let score = "/proc/self/oom_score_adj";
        fs::write(score, EXPENDABLE).map_err(at(score.as_ref()))?;
        self.tell(&Message::Confined);
        for (load, share) in &self.plan.loads {
            let directory = self.plan.directory.join(load.name());
            fs::create_dir(&directory).map_err(at(&directory))?;
            let board = Board::new().map_err(of("sharing memory with a load"))?;
            let mut member =
                Member { load, directory, processes: Vec::new(), board, state: State::Preparing };
            self.begin(&mut member, share)
                .map_err(|error| LoadError::Start(format!("{}: {error}", load.name())))?;
            self.members.push(member);
        }
        self.note_running();
        Ok(signals)
    }

    fn begin(&self, member: &mut Member, share: &Share) -> io::Result<()> {
        std::env::set_current_dir(&member.directory)?;
        let log = File::create(LOG)?;
        let user = match member.load.program {
            Program::Stress(Stress::RandomCode) if self.plan.is_root => User::Nobody,
            _ => User::Same,
        };
        confine::give(&member.directory, user)?;
        // Each file may be as long as the disk space of its load. The metrics and the output may be a little
        // longer.
        let settled =
            ProcessSettings { nice: self.plan.nice, file_bytes: share.disk_bytes.max(1 << 20), user };
        let board = member.board;
        match member.load.program {
            Program::Stress(stress) => {
                let mut command = stress::command(stress, share);
                command.env("TMPDIR", ".").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
                settle(&mut command, settled.all().collect::<Vec<_>>());
                member.processes.push(command.spawn()?.id());
                // The crew cannot see the end of stress-ng's preparations, so it counts them as over now.
                board.begin();
            }
            Program::Own(own) => {
                for worker in 0..own.processes(share) {
                    let work = || own.work(worker, share, &board);
                    member.processes.push(self.fork(&log, settled, c"spry-load-own", work)?);
                }
            }
            Program::Compile(kind) => {
                let source = self.plan.source.clone().unwrap_or_default();
                let work = || compile::work(kind, &source, share.workers, &board);
                member.processes.push(self.fork(&log, settled, c"spry-load-make", work)?);
            }
        }
        Ok(())
    }

    /// Forks a process of a load. The process works until a step fails, and then writes the reason.
    fn fork(
        &self,
        log: &File,
        settled: ProcessSettings,
        name: &CStr,
        work: impl FnOnce() -> io::Error,
    ) -> io::Result<u32> {
        let life = || {
            process::set_name(name);
            _ = rustix::stdio::dup2_stdout(log);
            _ = rustix::stdio::dup2_stderr(log);
            // A load must not hold the line to the caller.
            keep_only(&[]);
            let error = settled.apply().err().unwrap_or_else(work);
            eprintln!("{error}");
            1
        };
        process::fork(life)
    }

    /// Watches the loads until the caller requests their end or exits, or the guardian exits.
    fn watch(&mut self, signals: &Signals, guardian: BorrowedFd<'_>) -> Result<(), LoadError> {
        self.line.set_nonblocking(true).map_err(of("listening to the caller"))?;
        let mut look_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look_at {
                self.look();
                // A check takes at most a fiftieth of the time, even with many processes and files.
                look_at = Instant::now() + LOOK_EVERY.max(now.elapsed() * 50);
            }
            let wait = look_at.saturating_duration_since(Instant::now());
            let ready = poll::any([signals.as_fd(), self.line.as_fd(), guardian], wait);
            if ready[0] {
                signals.drain();
                self.note_running();
                self.reap();
            }
            let would_block =
                |said: io::Result<usize>| said.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            if ready[2] || (ready[1] && !would_block(self.line.read(&mut [0]))) {
                break;
            }
        }
        self.finish(signals);
        Ok(())
    }

    /// Measures how much memory and disk space the loads take now. Above the limit, the loads are ended.
    fn look(&mut self) {
        let (memory, disk) = (usage::memory_bytes(), usage::disk_bytes(&self.plan.directory));
        self.memory_bytes_max = self.memory_bytes_max.max(memory);
        self.disk_bytes_max = self.disk_bytes_max.max(disk);
        let figures = [("memory", memory, self.plan.memory_bytes), ("disk", disk, self.plan.disk_bytes)];
        let Some((what, taken, allowed)) = figures.into_iter().find(|(_, taken, allowed)| taken > allowed)
        else {
            return;
        };
        let why =
            format!("the loads took {} MiB of {what} and may take {} (--{what})", taken >> 20, allowed >> 20);
        // Every other process in this namespace belongs to a load.
        _ = signal::kill_namespace();
        for load in 0..self.members.len() {
            self.set(load, State::Ended(why.clone()));
        }
    }

    fn set(&mut self, load: usize, state: State) {
        let member = &mut self.members[load];
        let is_over = matches!(member.state, State::Ended(_) | State::Stopped);
        if member.state != state && !is_over {
            member.state = state.clone();
            self.tell(&Message::State { load, state });
        }
    }

    fn note_running(&mut self) {
        for load in 0..self.members.len() {
            let member = &self.members[load];
            if member.state == State::Preparing && member.board.is_running() {
                self.set(load, State::Running);
            }
        }
    }

    /// Reaps processes that have ended. The end of a load's own process is reported.
    fn reap(&mut self) {
        while let Some((ended, status)) = process::reap() {
            let Some(load) = self.members.iter().position(|member| member.processes.contains(&ended)) else {
                continue;
            };
            self.members[load].processes.retain(|&process| process != ended);
            let words = compile::last_words(&self.members[load].directory);
            self.set(load, State::Ended(words.unwrap_or_else(|| status.to_string())));
        }
    }

    fn finish(&mut self, signals: &Signals) {
        self.look();
        for load in 0..self.members.len() {
            self.set(load, State::Stopped);
        }
        for member in &self.members {
            let is_stress = matches!(member.load.program, Program::Stress(_));
            for &process in &member.processes {
                // The child was not waited for, so the process id, and the group's id, are still its own.
                _ = if is_stress {
                    signal::send(process, Signal::INT)
                } else {
                    signal::send_group(process, Signal::KILL)
                };
            }
        }
        let until = Instant::now() + FAREWELL;
        while self.members.iter().any(|member| !member.processes.is_empty()) && Instant::now() < until {
            poll::any([signals.as_fd()], until.saturating_duration_since(Instant::now()));
            signals.drain();
            self.reap();
        }
        if self.plan.has_nfs() {
            // If the server does not end here, the guardian ends it.
            _ = nfs::end();
        }
        for load in 0..self.members.len() {
            let member = &self.members[load];
            let operations = match member.load.program {
                Program::Stress(_) => stress::operations(&member.directory),
                Program::Own(_) | Program::Compile(_) => Some(member.board.done()),
            };
            if let Some(operations) = operations {
                self.tell(&Message::Count { load, operations });
            }
        }
        self.tell(&Message::Taken { memory_bytes: self.memory_bytes_max, disk_bytes: self.disk_bytes_max });
        self.tell(&Message::Done);
    }
}
