//! One display: the start of its eyes, and the next try after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use spry_sys::poll::{self, PollFd};

use super::child::{Looker, PipeContent, Program};
use super::keeper::Keeper;
use super::listener::Listener;
use super::seat::{self, ShownUsers};
use super::watched::{Claims, WatchedDisplay};
use super::{Shared, Slot, lock};
use crate::rate::{Allowance, pause_after};
use crate::wire::{End, Record, Seat};
use crate::{DeviceState, Synthetic, places};

/// The pause between two tries to connect to a server that is just starting.
const RETRY: Duration = Duration::from_millis(50);
/// A socket that has not answered for this time is tried no more: a new server makes a new socket.
const STARTING: Duration = Duration::from_secs(10);
/// The pause between two tries at a server that does not let eyes in.
const REFUSED: Duration = Duration::from_secs(5);
/// Eyes that ran for less than this time count as having seen nothing: the next try is later.
const SEEN: Duration = Duration::from_secs(1);
/// The pause before the next try, if a person has had all tries of this second, or has too many processes
/// that do not end.
const LATER: Duration = Duration::from_millis(100);
/// The time limit of the process that looks at a server's open files; it needs a moment only. After this time
/// the look counts as failed.
const LOOKING: Duration = Duration::from_secs(5);
/// The first and the longest pause before eyes that something ended are started again; the pause
/// doubles each time.
const ENDED: Duration = Duration::from_millis(250);
const ENDED_MOST: Duration = Duration::from_secs(60);
/// The number of times a second that reports of eyes are read without a pause; eyes look less often than
/// that. Eyes that report more often are read only after the pause `HEARING` each time.
const HEARINGS_A_SECOND: u32 = 100;
const HEARING: Duration = Duration::from_millis(10);

/// The reason that is shown for a display with a server that lets no eyes in.
const NOT_LET_IN: &str = "the server does not let its user in: none of the user's cookies opens it (of its \
                          -auth file, of ~/.Xauthority, of XAUTHORITY in the user's \
                          programs on this display)";

/// The result of a call of [`Station::turn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum Turn {
    /// The station stays: it waits for its eyes, for its time, or for a new socket.
    Waits,
    /// The display has no socket any more. If a display of that number comes again, its new socket shows it.
    IsGone,
}

/// A display: its socket's person, the process that looks at it, and the time of the next try.
#[derive(Debug)]
pub(super) struct Station {
    slot: Arc<Slot>,
    /// The person behind the user that made the socket.
    person: u32,
    stage: Stage,
    /// The time of the next try; `None` if the display is tried only after a new socket is made.
    due: Option<Instant>,
    /// The start of the time in which the server has not answered.
    since: Instant,
    /// The number of times in a row that the eyes were ended.
    deaths: u32,
    /// The number of times in a row that the server had no seat.
    looks: u32,
    /// The time at which the process that looks is read from next.
    heard_from: Instant,
    /// The reads without a pause that are left.
    hearings: Allowance,
}

/// The present step for the display.
#[derive(Debug)]
enum Stage {
    /// Nothing is being done.
    Idle,
    /// A process looks at the server's open files; the last value is the time at which it began.
    Looking(Looker, Listener, Instant),
    /// Eyes look at the display.
    Watched(WatchedDisplay),
}

/// The reasons why no eyes are started.
enum Obstacle {
    Later,
    Nobody,
    Ignored(&'static str),
    Failed(String),
}

/// The user as which eyes look at a server, or the reason for which they do not.
fn user_for(server_uid: u32, named: Trust, shown: &ShownUsers) -> Result<u32, Obstacle> {
    match (geteuid().as_raw(), server_uid, named) {
        (0, uid, Trust::Yes) => Ok(uid),
        // Eyes look at a server that runs as root as the user of the session that is shown.
        (0, 0, Trust::No) => Ok(shown.first.unwrap_or(0)),
        (0, uid, Trust::No) if shown.all.contains(&uid) => Ok(uid),
        (0, _, Trust::No) if shown.all.is_empty() => {
            Err(Obstacle::Ignored("whose session is shown here cannot be told; name it to watch it"))
        }
        (0, _, Trust::No) => {
            Err(Obstacle::Ignored("its server is of another user than the one whose session is shown"))
        }
        (own, ..) => Ok(own),
    }
}

/// Whether root named the display, or trusts all displays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    Yes,
    No,
}

impl Trust {
    fn of(shared: &Shared) -> Trust {
        if shared.only.is_some() || shared.synthetic == Synthetic::Trusted { Trust::Yes } else { Trust::No }
    }
}

fn program(shared: &Shared) -> Result<&Program, Obstacle> {
    shared.program.as_ref().ok_or_else(|| {
        Obstacle::Failed(
            "spry-eyes, which looks at displays, is not beside this program: install it, and start again"
                .to_owned(),
        )
    })
}

impl Station {
    pub(super) fn new(slot: Arc<Slot>, person: u32, now: Instant) -> Station {
        Station {
            slot,
            person,
            stage: Stage::Idle,
            due: Some(now),
            since: now,
            deaths: 0,
            looks: 0,
            heard_from: now,
            hearings: Allowance::of(HEARINGS_A_SECOND, now),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.slot.number
    }

    pub(super) fn person(&self) -> u32 {
        self.person
    }

    fn looker(&self) -> Option<&Looker> {
        match &self.stage {
            Stage::Idle => None,
            Stage::Looking(looker, ..) => Some(looker),
            Stage::Watched(watched) => Some(&watched.eyes),
        }
    }

    /// The pipe of the process that looks, if it is to be read from now.
    pub(super) fn line(&self, now: Instant) -> Option<PollFd<'_>> {
        self.looker().filter(|_| self.heard_from <= now).map(poll::readable)
    }

    /// The next time at which the station has something to do.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        match &self.stage {
            Stage::Idle => self.due,
            Stage::Looking(_, _, since) => Some(*since + LOOKING),
            Stage::Watched(_) => Some(self.heard_from).filter(|&from| from > now),
        }
    }

    /// A new socket has been made by `person`: an idle display is tried now.
    pub(super) fn try_now(&mut self, person: u32, now: Instant) {
        if matches!(self.stage, Stage::Idle) {
            (self.person, self.since, self.due, self.looks) = (person, now, Some(now), 0);
        }
    }

    /// Whether input that the display's eyes report is limited by the devices' movements.
    pub(super) fn is_held_to_devices(&self) -> bool {
        matches!(&self.stage, Stage::Watched(watched) if watched.claims == Claims::Devices)
    }

    /// Whether the display has a socket, or a process that looks at it.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || places::owner(self.slot.number).is_some()
    }

    /// Another session is shown: eyes that look as the wrong user are ended, and the display is tried anew.
    pub(super) fn judge_anew(&mut self, keeper: &mut Keeper<'_>, now: Instant) {
        let is_right = match &self.stage {
            Stage::Watched(watched) => {
                user_for(watched.listener.uid, Trust::of(keeper.shared), &keeper.shown)
                    .is_ok_and(|uid| uid == watched.uid)
            }
            Stage::Idle | Stage::Looking(..) => false,
        };
        if !is_right {
            self.close(keeper, now);
            (self.since, self.due, self.looks) = (now, Some(now), 0);
        }
    }

    /// Takes the next step if it is due, and reads the eyes' reports.
    pub(super) fn turn(&mut self, keeper: &mut Keeper<'_>, now: Instant) -> Turn {
        let started = match &self.stage {
            Stage::Idle if self.due.is_some_and(|due| due <= now) => {
                self.due = None;
                self.begin(keeper, now)
            }
            Stage::Looking(looker, listener, since) => match looker.answer() {
                None if now < *since + LOOKING => return Turn::Waits,
                None => {
                    Err(Obstacle::Failed("what its server has open could not be seen within 5 s".to_owned()))
                }
                Some(seat) => {
                    let listener = listener.clone();
                    self.close(keeper, now);
                    self.judge(keeper, seat, listener, now)
                }
            },
            Stage::Idle | Stage::Watched(_) => return self.hear(keeper, now),
        };
        match started {
            Ok(stage) => {
                self.stage = stage;
                let mut public = lock(&self.slot.public);
                public.eyes = self.looker().map(Looker::tgid);
                if let Stage::Watched(watched) = &self.stage {
                    public.owner_uid = Some(watched.uid);
                }
                drop(public);
                // The scheduler is notified, so that it considers the new process from the next round on.
                (keeper.shared.notify)();
                Turn::Waits
            }
            Err(Obstacle::Later) => {
                self.due = Some(now + LATER);
                Turn::Waits
            }
            Err(Obstacle::Nobody) => self.nobody(now),
            Err(Obstacle::Ignored(why)) => {
                self.set(DeviceState::Ignored(why.to_owned()));
                Turn::Waits
            }
            Err(Obstacle::Failed(why)) => {
                self.close(keeper, now);
                self.deaths = self.deaths.saturating_add(1);
                self.fail(why, now, pause_after(REFUSED, self.deaths, ENDED_MOST));
                Turn::Waits
            }
        }
    }

    /// Finds the server that listens, and starts a process that looks at the server's open files,
    /// if that matters.
    fn begin(&mut self, keeper: &mut Keeper<'_>, now: Instant) -> Result<Stage, Obstacle> {
        let Ok(listener) = Listener::of(self.slot.number) else { return Err(Obstacle::Nobody) };
        if !keeper.may_start(self.person, listener.uid, now) {
            return Err(Obstacle::Later);
        }
        if !seat::shares_numbers(listener.tgid) {
            return Err(Obstacle::Ignored(
                "its server numbers processes otherwise than this system (a container)",
            ));
        }
        let named = Trust::of(keeper.shared);
        let uid = user_for(listener.uid, named, &keeper.shown)?;
        match named {
            Trust::Yes => self.open_eyes(keeper, uid, listener, Claims::Free, now),
            Trust::No => {
                let program = program(keeper.shared)?;
                let looker = listener
                    .process()
                    .and_then(|process| Looker::seat(program, process, listener.tgid))
                    .map_err(|error| Obstacle::Failed(format!("its server cannot be seen: {error}")))?;
                Ok(Stage::Looking(looker, listener, now))
            }
        }
    }

    /// Starts eyes if the server has a keyboard or a screen that a person sits at.
    fn judge(
        &mut self,
        keeper: &mut Keeper<'_>,
        seat: Seat,
        listener: Listener,
        now: Instant,
    ) -> Result<Stage, Obstacle> {
        match seat {
            Seat::Real => {
                self.looks = 0;
                let uid = user_for(listener.uid, Trust::of(keeper.shared), &keeper.shown)?;
                // The devices are opened before the eyes start, so that each movement is counted before eyes
                // report it.
                keeper.inputs.look();
                self.open_eyes(keeper, uid, listener, Claims::Devices, now)
            }
            // The display is tried again later: a server listens before it opens its devices, and may open
            // them late.
            Seat::None => {
                self.looks = self.looks.saturating_add(1);
                self.due = Some(now + pause_after(ENDED, self.looks, ENDED_MOST));
                Err(Obstacle::Ignored("it has no screen or keyboard of this machine; name it to watch it"))
            }
            Seat::Unknown => Err(Obstacle::Ignored(
                "whether it has a screen cannot be seen without root; name it to watch it",
            )),
        }
    }

    fn open_eyes(
        &mut self,
        keeper: &mut Keeper<'_>,
        uid: u32,
        listener: Listener,
        claims: Claims,
        now: Instant,
    ) -> Result<Stage, Obstacle> {
        let shared = keeper.shared;
        let pen = keeper.pens.of_display(self.slot.number);
        let number = self.slot.number;
        let eyes = Looker::eyes(program(shared)?, uid, number, listener.tgid, shared.synthetic, pen)
            .map_err(|error| Obstacle::Failed(format!("its eyes cannot be started: {error}")))?;
        Ok(Stage::Watched(WatchedDisplay::new(eyes, uid, listener, claims, now)))
    }

    fn hear(&mut self, keeper: &mut Keeper<'_>, now: Instant) -> Turn {
        let Stage::Watched(watched) = &mut self.stage else { return Turn::Waits };
        if now < self.heard_from {
            return Turn::Waits;
        }
        let records = match watched.eyes.hear() {
            PipeContent::Nothing => return Turn::Waits,
            PipeContent::Over => return self.died(keeper, now),
            PipeContent::Told(records) => records,
        };
        if !self.hearings.take(now) {
            self.heard_from = now + HEARING;
        }
        for record in records {
            match record {
                Record::Watched(server) if watched.is_theirs(server) => {
                    self.slot.is_watched(server, watched.claims)
                }
                Record::Watched(_) => {}
                Record::Changes(tgid, claimed) => {
                    let changes = watched.within(tgid, claimed, &mut keeper.inputs, now);
                    if claimed.input > 0 && watched.is_unexplained(changes.input) {
                        self.slot.is_unexplained();
                    }
                    self.slot.ledger.credit(tgid, changes);
                }
                Record::Ended(end) => return self.ended(end, keeper, now),
            }
        }
        Turn::Waits
    }

    /// Handles the end of the eyes, after they have reported the reason.
    fn ended(&mut self, end: End, keeper: &mut Keeper<'_>, now: Instant) -> Turn {
        let was_watching = lock(&self.slot.public).server.is_some();
        let lived = self.close(keeper, now);
        if was_watching {
            self.since = now;
        }
        self.deaths = if lived >= SEEN { 0 } else { self.deaths.saturating_add(1) };
        match end {
            End::NoServer | End::Broken => {
                let turn = self.nobody(now);
                // The pause grows: a server that lets eyes in and then ends must not cause a new process at
                // each moment.
                let pause = pause_after(RETRY, self.deaths, REFUSED);
                self.due = self.due.map(|due| due.max(now + pause));
                turn
            }
            End::Refused => {
                self.fail(NOT_LET_IN.to_owned(), now, REFUSED);
                Turn::Waits
            }
            End::NoExtension(extension) => {
                let why = format!("the server has no {} extension", extension.name());
                self.fail(why, now, REFUSED);
                Turn::Waits
            }
        }
    }

    /// Something ended the eyes, or they sent bytes that are no record. They are started again after
    /// growing pauses.
    fn died(&mut self, keeper: &mut Keeper<'_>, now: Instant) -> Turn {
        let lived = self.close(keeper, now);
        self.deaths = if lived >= ENDED_MOST { 1 } else { self.deaths.saturating_add(1) };
        let pause = pause_after(ENDED, self.deaths, ENDED_MOST);
        let why = format!(
            "its eyes (spry-eyes, a process of its user) were ended {} times in a row: \
             they look again after {:.2} s",
            self.deaths,
            pause.as_secs_f64()
        );
        self.fail(why, now, pause);
        Turn::Waits
    }

    fn nobody(&mut self, now: Instant) -> Turn {
        if places::owner(self.slot.number).is_none() {
            return Turn::IsGone;
        }
        self.set(DeviceState::Waiting);
        self.due = (now - self.since < STARTING).then_some(now + RETRY);
        Turn::Waits
    }

    fn fail(&mut self, why: String, now: Instant, pause: Duration) {
        self.set(DeviceState::Failed(why));
        self.due = Some(now + pause);
    }

    fn set(&self, state: DeviceState) {
        let mut public = lock(&self.slot.public);
        // The owner stays known if the display's eyes have failed, and is forgotten in any other of these
        // states.
        public.owner_uid = public.owner_uid.filter(|_| matches!(state, DeviceState::Failed(_)));
        public.state = state;
    }

    /// Ends the process that looks at this display. Returns for how long eyes of this display ran; 0 if none
    /// did. Does not wait.
    pub(super) fn close(&mut self, keeper: &mut Keeper<'_>, now: Instant) -> Duration {
        let lived = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => Duration::ZERO,
            Stage::Looking(looker, listener, _) => {
                keeper.end(listener.uid, looker);
                Duration::ZERO
            }
            Stage::Watched(watched) => {
                keeper.end(watched.listener.uid, watched.eyes);
                now - watched.started
            }
        };
        self.slot.is_left();
        lived
    }
}
