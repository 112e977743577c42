//! The daemon: waits for the second's end, for devices, for questions and for signals, and does what each asks for.

mod acting;
mod hands;
mod process;
mod retry;
mod rounds;
mod senses;
mod server;
mod shares;
mod system;
mod views;

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use spry_control::{Answer, Done, PolicyArg, Refusal, RefusalKind, Request, RunArgs, Status};
use spry_display::Waker;
use spry_policy::{Constants, Due, Policy};

use self::acting::Acting;
use self::hands::Hands;
use self::rounds::Rounds;
use self::senses::Senses;
use self::server::{Caller, Question, Server};
use self::shares::{Shares, Watched};
pub use self::system::say;
use self::system::{Only, own_cpu_ns};
use crate::guardian::watch::now_ns;

/// Held by whoever acts on this machine, wherever its socket is.
const ACTING_LOCK: &str = "/run/spry/acting.lock";

/// Everything that the daemon has.
struct Daemon {
    began_ns: u64,
    began_cpu_ns: u64,
    /// What cannot be had since the start.
    warnings: Vec<String>,
    rounds: Rounds,
    senses: Senses,
    acting: Acting,
    hands: Hands,
    shares: Shares,
}

/// What is to happen after a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
enum Then {
    GoOn,
    Stop,
}

/// Runs until it is told to stop; everything is with the kernel's scheduler again then.
///
/// # Errors
/// Where it cannot start: no privilege, another daemon, or no way to do what was asked for.
pub fn run(args: &RunArgs) -> Result<()> {
    system::need_root()?;
    let socket = spry_control::socket(args.socket.clone());
    let _only = Only::take(&lock_of(&socket))?;
    let _acting = if args.observe_only { None } else { Some(Only::take(Path::new(ACTING_LOCK))?) };
    // Before any thread is made, so that a signal during the start ends in order, too.
    let mut signals = signals().context("cannot listen to signals")?;
    let bell = Arc::new(Waker::new().context("cannot make an eventfd")?);
    let mut daemon = Daemon::start(args, &bell)?;
    // The socket is there only while somebody is in charge.
    let mut server = Server::listen(&socket)?;
    system::notify("READY=1");
    say(&format!("{}; ask at {}", daemon.introduction(), socket.display()));
    let served = daemon.serve(&mut server, &bell, &mut signals);
    system::notify("STOPPING=1");
    served
}

fn lock_of(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn signals() -> Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    reader.set_nonblocking(true)?;
    Ok(reader)
}

impl Daemon {
    fn start(args: &RunArgs, bell: &Arc<Waker>) -> Result<Daemon> {
        let constants = match args.policy {
            PolicyArg::Default => Constants::default(),
            PolicyArg::Thesis => Constants::thesis(),
        };
        let warnings = system::hold_fast();
        let senses = Senses::open(args, &constants, bell)?;
        let began_ns = now_ns();
        let acting = Acting::start(args, &constants, senses.collector(), began_ns)?;
        Ok(Daemon {
            began_ns,
            began_cpu_ns: own_cpu_ns(),
            warnings,
            // Loading takes its time, in which no round is due.
            rounds: Rounds::new(Policy::new(constants), now_ns()),
            senses,
            acting,
            hands: Hands::default(),
            shares: Shares::default(),
        })
    }

    fn introduction(&self) -> String {
        match self.acting.name() {
            "none" => "looking only, nothing is changed".to_owned(),
            name => format!("in charge through {name}"),
        }
    }

    fn serve(&mut self, server: &mut Server, bell: &Waker, signals: &mut UnixStream) -> Result<()> {
        loop {
            wait(self.rounds.due_ns(), server, bell, signals)?;
            if matches!(signals.read(&mut [0; 64]), Ok(1..)) {
                return Ok(());
            }
            let now_ns = now_ns();
            if bell.clear() {
                self.rounds.ask(now_ns);
            }
            if now_ns >= self.rounds.due_ns() && self.round() == Due::Regular {
                self.second(server);
            }
            for question in server.questions(now_ns) {
                if self.answer(server, question) == Then::Stop {
                    return Ok(());
                }
            }
        }
    }

    fn round(&mut self) -> Due {
        let due = self.rounds.round(&mut self.senses, &mut self.acting);
        for line in self.acting.check(self.senses.collector(), &self.hands, now_ns()) {
            say(&line);
        }
        due
    }

    /// What is done once a second besides.
    fn second(&mut self, server: &mut Server) {
        self.hands.prune();
        let watchers = server.watchers();
        let now = now_ns();
        let watched = if watchers.is_empty() { Watched::No } else { Watched::Yes };
        self.shares.measure(self.rounds.standings().keys().copied(), now);
        self.shares.census(watched, now, now_ns);
        if watchers.is_empty() {
            return;
        }
        let status = self.status();
        let made_ns = now_ns() - now;
        for (caller, uid) in watchers {
            if server.has_time_for(uid, now) {
                server.spent(uid, made_ns, now);
                server.answer(caller, &Answer::Status(Box::new(for_user(status.clone(), uid))));
            }
        }
    }

    fn answer(&mut self, server: &mut Server, question: Question) -> Then {
        let Question { caller, uid, request } = question;
        let began_ns = now_ns();
        let (answer, then) = match request {
            Request::Status => (self.status_for(uid), Then::GoOn),
            Request::Watch => {
                server.watch(caller);
                (self.status_for(uid), Then::GoOn)
            }
            Request::Explain { tgid } => match self.explain(tgid) {
                Ok(mut explanation) => {
                    views::redact(&mut explanation.task, uid);
                    (Answer::Explanation(Box::new(explanation)), Then::GoOn)
                }
                Err(refusal) => (Answer::Error(refusal), Then::GoOn),
            },
            Request::Set { tgid, class } => (self.set(uid, tgid, class), Then::GoOn),
            Request::Stop => return self.stop(server, caller, uid),
        };
        server.answer(caller, &answer);
        server.spent(uid, now_ns() - began_ns, began_ns);
        then
    }

    fn status_for(&mut self, uid: u32) -> Answer {
        let now = now_ns();
        self.shares.census(Watched::Yes, now, now_ns);
        Answer::Status(Box::new(for_user(self.status(), uid)))
    }

    fn set(&mut self, uid: u32, tid: u32, class: spry_control::HandClass) -> Answer {
        let change = match self.hands.decide(uid, tid, class) {
            Ok(change) => change,
            Err(refusal) => return Answer::Error(refusal),
        };
        if let Err(error) = self.acting.set_by_hand(change.tgid, change.class) {
            return Answer::Error(Refusal { kind: RefusalKind::Unable, text: format!("{error:#}") });
        }
        let number = change.tgid.0;
        let text = match change.class {
            Some(class) => {
                format!("process {number} is {} now, by hand", format!("{class:?}").to_lowercase())
            }
            None => format!("process {number} is where the policy puts it again"),
        };
        self.hands.keep(change);
        Answer::Done(Done { text })
    }

    fn stop(&mut self, server: &mut Server, caller: Caller, uid: u32) -> Then {
        if uid != 0 {
            let text = "only root stops the scheduler".to_owned();
            server.answer(caller, &Answer::Error(Refusal { kind: RefusalKind::Denied, text }));
            return Then::GoOn;
        }
        let text = "stopping: everything goes back to the kernel's scheduler".to_owned();
        server.answer(caller, &Answer::Done(Done { text }));
        Then::Stop
    }
}

fn for_user(mut status: Status, uid: u32) -> Status {
    for task in &mut status.tasks {
        views::redact(task, uid);
    }
    status
}

/// Sleeps until a round is due, or somebody wants something.
fn wait(due_ns: u64, server: &Server, bell: &Waker, signals: &UnixStream) -> Result<()> {
    let own = [bell.as_fd().as_raw_fd(), signals.as_raw_fd()].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let mut polls: Vec<libc::pollfd> = own.into_iter().chain(server.polls()).collect();
    let pause_ns = due_ns.saturating_sub(now_ns());
    let timeout = libc::timespec {
        tv_sec: (pause_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (pause_ns % 1_000_000_000) as libc::c_long,
    };
    let count = polls.len() as libc::nfds_t;
    // SAFETY: the array has `count` entries, and it and the time outlive the call; no signal mask is given.
    let woken = unsafe { libc::ppoll(polls.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
    let error = std::io::Error::last_os_error();
    if woken < 0 && error.kind() != std::io::ErrorKind::Interrupted {
        return Err(error).context("cannot wait");
    }
    Ok(())
}
