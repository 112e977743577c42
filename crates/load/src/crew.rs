//! The crew: the first process of the loads' namespaces. It starts the loads, looks after what they take, tells how they are, and
//! ends them; when it ends, however that may be, the kernel ends all others.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::ptr;
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::compile::{self, LOG};
use crate::confine::{self, Settled, User};
use crate::cpus::CpuList;
use crate::error::{LoadError, at, checked, of};
use crate::message::{Message, State};
use crate::nfs;
use crate::options::Share;
use crate::stress;
use crate::suite::{Load, Mount, Program, Stress};
use crate::usage;

/// How often it is looked what the loads take.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long stress-ng may take to end in order and leave its figures.
const FAREWELL: Duration = Duration::from_secs(10);
/// How likely the kernel ends loads first where memory runs out, -1000 to 1000.
const EXPENDABLE: &str = "900";

/// What is to be run.
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
    /// Whether the kernel's NFS server is among what is to be run.
    pub(crate) fn has_nfs(&self) -> bool {
        self.loads.iter().any(|(load, _)| load.program == Program::Compile(Mount::Nfs))
    }
}

/// A load that has been started.
struct Member {
    load: &'static Load,
    directory: PathBuf,
    processes: Vec<libc::pid_t>,
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

/// The crew's life; the status that it ends with. `guardian` is a pipe that is closed when the guardian ends.
pub(crate) fn run(plan: &Plan, line: UnixStream, guardian: &OwnedFd) -> libc::c_int {
    // SAFETY: the call takes only numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut crew = Crew { plan, line, members: Vec::new(), memory_bytes_max: 0, disk_bytes_max: 0 };
    match crew.start().and_then(|signals| crew.watch(&signals, guardian)) {
        Ok(()) => 0,
        Err(error) => {
            crew.tell(&Message::Failed(error.to_string()));
            1
        }
    }
}

impl Crew<'_> {
    fn tell(&mut self, message: &Message) {
        // Nobody listens where the caller has ended; then the guardian ends this process.
        _ = self.line.write_all(message.line().as_bytes());
    }

    fn start(&mut self) -> Result<OwnedFd, LoadError> {
        confine::inside()?;
        let signals = signals().map_err(of("listening to signals"))?;
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
        // Any file may be as long as its load may take disk space, and the figures and the output a little longer.
        let settled = Settled { nice: self.plan.nice, file_bytes: share.disk_bytes.max(1 << 20), user };
        let board = member.board;
        match member.load.program {
            Program::Stress(stress) => {
                let mut command = stress::command(stress, share);
                command.env("TMPDIR", ".").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
                // SAFETY: the closure makes system calls alone.
                unsafe { command.pre_exec(move || settled.apply()) };
                member.processes.push(command.spawn()?.id() as libc::pid_t);
                // What stress-ng prepares is not seen.
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

    /// Forks a process of a load, which works until something fails and then writes why.
    fn fork(
        &self,
        log: &File,
        settled: Settled,
        name: &CStr,
        work: impl FnOnce() -> io::Error,
    ) -> io::Result<libc::pid_t> {
        let life = || {
            // SAFETY: these calls take numbers and a text that ends with 0; the descriptors are open, and what is closed
            // is used no more. A load must not hold the line to the caller.
            unsafe {
                libc::prctl(libc::PR_SET_NAME, name.as_ptr());
                libc::dup2(log.as_raw_fd(), 1);
                libc::dup2(log.as_raw_fd(), 2);
                libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
            }
            let error = settled.apply().err().unwrap_or_else(work);
            eprintln!("{error}");
            1
        };
        // SAFETY: this process has one thread.
        unsafe { spry_outlive::fork(life) }
    }

    /// Until the caller says stop, or is gone, or the loads take more than they may.
    fn watch(&mut self, signals: &OwnedFd, guardian: &OwnedFd) -> Result<(), LoadError> {
        self.line.set_nonblocking(true).map_err(of("listening to the caller"))?;
        let mut look_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look_at {
                self.look();
                // However much there is to look at, it takes a fiftieth of the time at most.
                look_at = Instant::now() + LOOK_EVERY.max(now.elapsed() * 50);
            }
            let wait = look_at.saturating_duration_since(Instant::now());
            let ready = wait_for([signals.as_raw_fd(), self.line.as_raw_fd(), guardian.as_raw_fd()], wait);
            if ready[0] {
                drain(signals);
                self.note_running();
                self.reap();
            }
            if ready[2]
                || (ready[1]
                    && !matches!(self.line.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock))
            {
                break;
            }
        }
        self.finish(signals);
        Ok(())
    }

    /// What the loads take now; those that take too much are ended.
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
        // SAFETY: the call takes only numbers; everybody else in this namespace is a load's.
        unsafe { libc::kill(-1, libc::SIGKILL) };
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

    /// Takes leave of whoever has ended: a load's own processes are to be told of.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: the status is ours.
            let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if ended <= 0 {
                return;
            }
            let Some(load) = self.members.iter().position(|member| member.processes.contains(&ended)) else {
                continue;
            };
            self.members[load].processes.retain(|&process| process != ended);
            let words = compile::last_words(&self.members[load].directory);
            self.set(load, State::Ended(words.unwrap_or_else(|| end_in_words(status))));
        }
    }

    fn finish(&mut self, signals: &OwnedFd) {
        self.look();
        for load in 0..self.members.len() {
            self.set(load, State::Stopped);
        }
        for member in &self.members {
            let is_stress = matches!(member.load.program, Program::Stress(_));
            for &process in &member.processes {
                // SAFETY: the call takes only numbers: a process of ours that has not been waited for, or its group.
                unsafe {
                    if is_stress {
                        libc::kill(process, libc::SIGINT)
                    } else {
                        libc::kill(-process, libc::SIGKILL)
                    }
                };
            }
        }
        let until = Instant::now() + FAREWELL;
        while self.members.iter().any(|member| !member.processes.is_empty()) && Instant::now() < until {
            wait_for([signals.as_raw_fd(); 3], until.saturating_duration_since(Instant::now()));
            drain(signals);
            self.reap();
        }
        if self.plan.has_nfs() {
            // What is left of it, the guardian ends.
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

fn end_in_words(status: libc::c_int) -> String {
    use std::os::unix::process::ExitStatusExt;
    std::process::ExitStatus::from_raw(status).to_string()
}

/// Children that end, and loads that are ready, are told by a descriptor.
fn signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is filled before it is read; the descriptor is new and nobody else's.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGCHLD, libc::SIGUSR1] {
            libc::sigaddset(&raw mut set, signal);
        }
        checked(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()))?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        Ok(OwnedFd::from_raw_fd(checked(libc::signalfd(-1, &raw const set, flags))?))
    }
}

fn drain(signals: &OwnedFd) {
    let mut buffer = [0_u8; mem::size_of::<libc::signalfd_siginfo>() * 8];
    // SAFETY: the buffer is as long as is said.
    while unsafe { libc::read(signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
}

/// Waits until one of them can be read or is closed, or the time is up; which.
pub(crate) fn wait_for<const N: usize>(descriptors: [libc::c_int; N], wait: Duration) -> [bool; N] {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let wait_ms = libc::c_int::try_from(wait.as_millis() + 1).unwrap_or(libc::c_int::MAX);
    // SAFETY: the array is as long as is said.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, wait_ms) };
    polled.map(|polled| polled.revents != 0)
}
