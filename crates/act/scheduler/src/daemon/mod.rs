//! The daemon's main loop: it waits for the end of the second, devices, requests and signals, and
//! handles each of them.

mod acting;
mod answers;
mod by_hand;
mod devices;
mod front;
mod knobs;
mod privacy;
pub(crate) mod process;
mod reserve;
mod retry;
mod rounds;
mod second;
mod senses;
mod server;
mod shares;
mod slack;
mod system;
mod ticks;
mod views;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use spry_control::{Answer, CeilingsArg, Done, PolicyArg, Refusal, RefusalKind, Request, RunArgs};
use spry_policy::{Constants, Due, Policy};
use spry_reservations::Enforcer;
use spry_sys::clock::monotonic_ns;
use spry_sys::poll::{self, PollFd, Waker};

use self::acting::ActuatorManager;
use self::by_hand::ManualOverrides;
use self::front::Front;
use self::reserve::{Asker, Reservations};
use self::rounds::Rounds;
use self::second::Second;
use self::senses::Senses;
use self::server::{Caller, Question, Server};
use self::shares::{Audience, Shares};
use self::slack::DaemonSlack;
pub use self::system::say;
use self::system::{DaemonLock, own_cpu_ns};
use self::ticks::TickMeter;
use crate::deadline::{self, Deadline};

/// The file that the acting daemon of this machine holds locked, wherever its socket is.
const ACTING_LOCK: &str = "/run/spry/acting.lock";

/// The state of the daemon.
struct Daemon {
    began_ns: u64,
    began_cpu_ns: u64,
    /// Number of changes of the actuator when the enforcer of reservations was chosen.
    changes: u64,
    /// Whether display servers get ceilings (`reserve/ceilings.rs`).
    lifts_displays: bool,
    /// Warnings from the daemon's start, for the user.
    warnings: Vec<String>,
    rounds: Rounds,
    /// When the daemon ends, this field is dropped before the fields below it. So tasks return to the
    /// kernel's scheduler first.
    acting: ActuatorManager,
    /// The reservations. They end next, before anything else of the daemon.
    reservations: Reservations,
    /// Timer slack by class, if an option asks for it.
    slack: DaemonSlack,
    senses: Senses,
    by_hand: ManualOverrides,
    shares: Shares,
    /// What the tick costs.
    ticks: TickMeter,
    /// The data from which requests of ordinary users are answered.
    second: Second,
    /// The process that answers on the system bus, if enabled.
    front: Option<Front>,
}

/// The daemon's next step after it has answered a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
enum Continuation {
    GoOn,
    Stop,
}

/// Runs the daemon until a request or a signal stops it. Afterwards the kernel schedules all tasks again.
///
/// # Errors
/// If it cannot start: privilege is missing, another daemon runs, or the requested actuator is not available.
pub fn run(args: &RunArgs) -> Result<()> {
    system::need_root()?;
    let socket = spry_control::socket(args.socket.clone());
    let _only = DaemonLock::take(&lock_of(&socket))?;
    let _acting = if args.observe_only { None } else { Some(DaemonLock::take(Path::new(ACTING_LOCK))?) };
    // Signals are caught before any thread starts, so that a signal during the start also ends
    // the daemon in order.
    let mut signals = signals().context("cannot listen to signals")?;
    let bell = Arc::new(Waker::new().context("cannot make an eventfd")?);
    let mut daemon = Daemon::start(args, &bell)?;
    // The socket exists only while a daemon runs.
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

/// The constants of the policy that the arguments select.
fn constants(args: &RunArgs) -> Result<Constants> {
    let constants = match args.policy {
        PolicyArg::Default => Constants::default(),
        PolicyArg::Thesis => Constants::thesis(),
    };
    args.as_thesis.iter().try_fold(constants, |constants, name| {
        constants.with_thesis(name).with_context(|| {
            let known: Vec<&str> = Constants::departures().collect();
            format!("--as-thesis {name}: the constants that depart from the thesis are {}", known.join(", "))
        })
    })
}

impl Daemon {
    fn start(args: &RunArgs, bell: &Arc<Waker>) -> Result<Daemon> {
        let constants = constants(args)?;
        let mut warnings = system::hold_fast();
        let front = args.rtkit.as_deref().map(Front::of).transpose()?;
        let senses = Senses::open(args, &constants, bell)?;
        let began_ns = monotonic_ns();
        let acting = ActuatorManager::start(args, &constants, senses.collector(), began_ns)?;
        let enforcer = match args.observe_only {
            true => None,
            false => Some(enforcer(&acting, &mut warnings)),
        };
        Ok(Daemon {
            began_ns,
            began_cpu_ns: own_cpu_ns(),
            changes: 0,
            lifts_displays: args.ceilings == CeilingsArg::Displays,
            warnings,
            // The first round is due a second after this moment, since no round was due while the programs
            // were loaded.
            second: Second::new(constants.clone()),
            rounds: Rounds::new(Policy::new(constants), monotonic_ns()),
            senses,
            acting,
            reservations: Reservations::new(args, enforcer),
            slack: DaemonSlack::new(args),
            by_hand: ManualOverrides::default(),
            shares: Shares::default(),
            ticks: TickMeter::default(),
            front,
        })
    }

    fn introduction(&self) -> String {
        match self.acting.name() {
            "none" => "looking only, nothing is changed".to_owned(),
            name => format!("in charge through {name}"),
        }
    }

    fn serve(&mut self, server: &mut Server, bell: &Waker, signals: &mut UnixStream) -> Result<()> {
        'serving: loop {
            self.wait(server, bell, signals)?;
            if matches!(signals.read(&mut [0; 64]), Ok(1..)) {
                break;
            }
            self.reservations.end_of_tasks();
            let now_ns = monotonic_ns();
            self.reservations.look(now_ns);
            self.reservations.read_run_times(now_ns);
            if bell.clear() {
                self.rounds.ask(now_ns);
            }
            if now_ns >= self.rounds.due_ns() && self.round() == Due::Regular {
                self.second(server);
            }
            self.hear_front(server, now_ns);
            for question in server.questions(now_ns) {
                if self.answer(server, question) == Continuation::Stop {
                    break 'serving;
                }
            }
        }
        system::end_in_time();
        self.end_reservations();
        Ok(())
    }

    /// Sleeps until a round is due, or until a device, a client, the end of a reserved task or a signal
    /// needs the daemon.
    fn wait(&self, server: &Server, bell: &Waker, signals: &UnixStream) -> Result<()> {
        let own = [poll::readable(bell), poll::readable(signals)];
        let mut polls: Vec<PollFd<'_>> = own.into_iter().chain(server.polls(monotonic_ns())).collect();
        polls.extend(self.reservations.polls());
        polls.extend(self.front.as_ref().and_then(|front| front.poll(monotonic_ns())));
        let dues = [
            self.reservations.next_look_ns(),
            self.reservations.next_reading_ns(),
            self.front.as_ref().map(Front::due_ns),
        ];
        let due_ns = dues.into_iter().flatten().fold(self.rounds.due_ns(), u64::min);
        let pause = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
        poll::wait(&mut polls, Some(pause)).context("cannot wait")?;
        Ok(())
    }

    /// Starts the process that answers on the system bus if that is due, and handles its next request. The
    /// time counts as the requesting user's. Limits on the requests of each person and of all bound it.
    fn hear_front(&mut self, server: &mut Server, now_ns: u64) {
        let Some(front) = &mut self.front else { return };
        let Some(asked) = front.turn(now_ns) else { return };
        let uid = asked.uid;
        front.answer(&self.reservations.asked_by_bus(asked, server.person(uid), now_ns));
        server.spent(uid, monotonic_ns().saturating_sub(now_ns), now_ns);
    }

    fn end_reservations(&mut self) {
        if let Some(line) = self.reservations.close_all() {
            say(&line);
        }
    }

    fn round(&mut self) -> Due {
        let due = self.rounds.round(&mut self.senses, &mut self.acting, &mut self.second);
        for line in self.acting.check(self.senses.collector(), &self.by_hand, monotonic_ns()) {
            say(&line);
        }
        // The reservations end, since a reserved task may have made the kernel remove the scheduler.
        if std::mem::replace(&mut self.changes, self.acting.changes()) != self.acting.changes() {
            self.end_reservations();
            self.reservations.enforce_by(enforcer(&self.acting, &mut self.warnings));
        }
        self.give_slack(due);
        due
    }

    /// Does all work that is due once a second besides the policy's round.
    fn second(&mut self, server: &mut Server) {
        for tgid in self.by_hand.prune() {
            self.acting.forget_hand(tgid);
        }
        self.reservations.prune();
        self.reservations.follow_by_bus(monotonic_ns());
        let displays = if self.lifts_displays { self.rounds.displays() } else { Vec::new() };
        for line in self.reservations.rank_servers(self.second.graph(), &displays) {
            say(&line);
        }
        let watchers = server.watchers();
        let now = monotonic_ns();
        self.ticks.measure(&self.acting, now);
        let watched = if watchers.iter().any(|&(_, uid)| uid == 0) { Audience::Yes } else { Audience::No };
        self.shares.measure(self.rounds.standings().keys().copied(), now);
        self.shares.census(watched, now, monotonic_ns);
        let (askers, each_ns) = self.second.measure(now, monotonic_ns);
        for uid in askers {
            server.spent(uid, each_ns, now);
        }
        for (caller, uid) in watchers {
            if server.has_time_for(uid, now) {
                let began_ns = monotonic_ns();
                let status = self.status(uid);
                server.answer(caller, &Answer::Status(Box::new(status)));
                server.spent(uid, monotonic_ns() - began_ns, now);
            }
        }
    }

    fn answer(&mut self, server: &mut Server, question: Question) -> Continuation {
        let Question { caller, uid, request } = question;
        let began_ns = monotonic_ns();
        let (answer, then) = match request {
            Request::Status => (Answer::Status(Box::new(self.status(uid))), Continuation::GoOn),
            Request::Watch => {
                server.watch(caller);
                (Answer::Status(Box::new(self.status(uid))), Continuation::GoOn)
            }
            Request::Explain { tgid } => {
                let explained = self.explain(uid, tgid).map(|found| Answer::Explanation(Box::new(found)));
                (explained.unwrap_or_else(Answer::Error), Continuation::GoOn)
            }
            Request::Reserve { covers, terms, cpu } => {
                let asker = Asker { uid, person: server.person(uid) };
                let opened = self.reservations.reserve(asker, covers, terms, cpu).map(Answer::Opened);
                (opened.unwrap_or_else(Answer::Error), Continuation::GoOn)
            }
            Request::RealRate { covers, on_exhaustion, pipe, cpu } => {
                let asker = Asker { uid, person: server.person(uid) };
                let opened = self.reservations.reserve_real_rate(asker, covers, on_exhaustion, pipe, cpu);
                (opened.map_or_else(Answer::Error, Answer::Opened), Continuation::GoOn)
            }
            Request::Release { which } => (done(self.reservations.release(uid, which)), Continuation::GoOn),
            Request::Serve { covers, bound_ns } => {
                (done(self.reservations.serve(uid, covers, bound_ns)), Continuation::GoOn)
            }
            Request::ServeNoMore { number } => {
                (done(self.reservations.serve_no_more(uid, number)), Continuation::GoOn)
            }
            Request::Reservations => (Answer::Reservations(self.reservations.list(uid)), Continuation::GoOn),
            Request::Set { tgid, class } => (self.set(uid, tgid, class), Continuation::GoOn),
            Request::Tune { tuning } => (done(self.tune(uid, tuning)), Continuation::GoOn),
            Request::TuneClass { class, quantum_us } => {
                (done(self.tune_class(uid, class, quantum_us)), Continuation::GoOn)
            }
            Request::Stop => return self.stop(server, caller, uid),
        };
        server.answer(caller, &answer);
        server.spent(uid, monotonic_ns() - began_ns, began_ns);
        then
    }

    fn set(&mut self, uid: u32, tid: u32, class: spry_control::HandClass) -> Answer {
        let change = match self.by_hand.decide(uid, tid, class) {
            Ok(change) => change,
            Err(refusal) => return Answer::Error(refusal),
        };
        if let Err(error) = self.acting.set_by_hand(change.tgid, change.class) {
            return Answer::Error(unable(error));
        }
        let number = change.tgid.0;
        let text = match change.class {
            Some(class) => {
                format!("process {number} is {} now, by hand", format!("{class:?}").to_lowercase())
            }
            None => format!("process {number} is where the policy puts it again"),
        };
        self.by_hand.keep(change);
        Answer::Done(Done { text })
    }

    fn stop(&mut self, server: &mut Server, caller: Caller, uid: u32) -> Continuation {
        if uid != 0 {
            let text = "only root stops the scheduler".to_owned();
            server.answer(caller, &Answer::Error(Refusal { kind: RefusalKind::Denied, text }));
            return Continuation::GoOn;
        }
        let text = "stopping: everything goes back to the kernel's scheduler".to_owned();
        server.answer(caller, &Answer::Done(Done { text }));
        Continuation::Stop
    }
}

/// The refusal of a request that the actuator cannot carry out.
fn unable(error: anyhow::Error) -> Refusal {
    Refusal { kind: RefusalKind::Unable, text: format!("{error:#}") }
}

/// The answer for a request that was done or refused.
fn done(result: Result<String, Refusal>) -> Answer {
    result.map_or_else(Answer::Error, |text| Answer::Done(Done { text }))
}

/// The enforcer of reservations: the actuator's own, or else SCHED_DEADLINE.
fn enforcer(acting: &ActuatorManager, warnings: &mut Vec<String>) -> Box<dyn Enforcer> {
    if let Some(enforcer) = acting.enforcer() {
        return enforcer;
    }
    let (deadline, left) = Deadline::start(deadline::JOURNAL.into());
    let threads = left.restored + left.theirs;
    if threads > 0 {
        warnings.push(format!(
            "an earlier daemon and its guardian were both killed: {threads} reserved threads are scheduled \
             as before"
        ));
    }
    Box::new(deadline)
}
