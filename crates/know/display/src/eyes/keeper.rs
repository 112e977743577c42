//! The thread that finds displays, both present and new, and reads the reports of their eyes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spry_sys::poll::{self, PollFd};

use super::child::Looker;
use super::ended::KilledProcesses;
use super::pen::Pens;
use super::seat::{Seats, ShownUsers};
use super::station::{Station, Turn};
use super::{Shared, Slot, lock};
use crate::People;
use crate::input::Inputs;
use crate::places::{self, Place};
use crate::rate::Allowance;

/// While the directory of sockets is not there, it is looked for after each pause of this length.
const PLACE_LOOK: Duration = Duration::from_millis(250);
/// After new sockets were found, further sockets are looked for after this time.
const SOON: Duration = Duration::from_millis(20);
/// If more sockets than this appear at once, no person made them: further sockets are looked for only after
/// this pause. Of so many sockets the lowest numbers are looked at.
const FEW: usize = 16;
const MANY_PAUSE: Duration = Duration::from_secs(1);
const NUMBERS_A_TURN: usize = 256;
/// The most displays that are known at a time, and the most of one person other than root: any user can make
/// sockets in the directory.
const DISPLAYS_MAX: usize = 128;
const DISPLAYS_OF_ONE: usize = 8;
/// In a second at most so many servers of one person are looked into.
const STARTS_A_SECOND: u32 = 2;
/// While any display is known, the keeper checks after each pause of this length which sockets are still
/// there and which session is shown. A switch of the terminal wakes the keeper at once.
const LOOK_AROUND: Duration = Duration::from_secs(2);
/// The pause between two checks whether the killed processes have ended.
const REAP: Duration = Duration::from_millis(100);

/// The keeper's state for all displays together.
pub(super) struct Keeper<'s> {
    pub(super) shared: &'s Shared,
    /// The users of the sessions that are shown.
    pub(super) shown: ShownUsers,
    people: People,
    /// The input devices of this machine, with the counts of their movements.
    pub(super) inputs: Inputs,
    /// The number of servers of each person that may still be looked into in this second.
    starts: BTreeMap<u32, Allowance>,
    ended: KilledProcesses,
    /// The cgroups that eyes run in; a cgroup is removed when its eyes have ended.
    pub(super) pens: Pens,
}

impl Keeper<'_> {
    /// Whether a server may be looked into now: the socket's owner and the server's user must both
    /// have starts left.
    pub(super) fn may_start(&mut self, socket_person: u32, server_uid: u32, now: Instant) -> bool {
        let server_person = self.people.person(server_uid);
        if !self.ended.has_room(server_person) {
            return false;
        }
        let mut may = |person: u32| {
            let allowance = self.starts.entry(person).or_insert_with(|| Allowance::of(STARTS_A_SECOND, now));
            person == 0 || allowance.take(now)
        };
        may(socket_person) && (socket_person == server_person || may(server_person))
    }

    /// Ends a process that looks at a server of the user `server_uid`.
    pub(super) fn end(&mut self, server_uid: u32, looker: Looker) {
        let person = self.people.person(server_uid);
        self.ended.end(person, looker.into_child());
    }
}

/// The search for new sockets.
#[derive(Default)]
struct Lookout {
    place: Option<Place>,
    /// New sockets are not looked for before this time.
    from: Option<Instant>,
}

impl Lookout {
    /// The displays that have got new sockets; of many, the displays with the lowest numbers.
    fn appeared(&mut self, now: Instant) -> Vec<u32> {
        if self.from.is_some_and(|from| now < from) {
            return Vec::new();
        }
        let numbers = match &mut self.place {
            None => {
                self.place = Place::watch();
                if self.place.is_some() { places::present() } else { Vec::new() }
            }
            Some(place) => place.appeared().unwrap_or_else(|| {
                self.place = None;
                Vec::new()
            }),
        };
        // The numbers are sorted, because a server takes the lowest number that is free.
        let numbers: BTreeSet<u32> = numbers.into_iter().collect();
        let pause = match (&self.place, numbers.len()) {
            (None, _) => Some(PLACE_LOOK),
            (Some(_), 0) => None,
            (Some(_), 1..=FEW) => Some(SOON),
            (Some(_), _) => Some(MANY_PAUSE),
        };
        self.from = pause.map(|pause| now + pause);
        numbers.into_iter().take(NUMBERS_A_TURN).collect()
    }

    /// The descriptor that is readable when new sockets appear, or else the time of the next search.
    fn waits(&self) -> (Option<PollFd<'_>>, Option<Instant>) {
        let place = self.place.as_ref().filter(|_| self.from.is_none());
        (place.map(poll::readable), self.from)
    }
}

/// Runs the keeper until the displays are dropped.
pub(super) fn keep(shared: &Shared) {
    let seats = Seats::open();
    let mut lookout = Lookout::default();
    let mut stations: Vec<Station> = Vec::new();
    let mut keeper = Keeper {
        shared,
        shown: seats.users(),
        people: People::default(),
        inputs: Inputs::default(),
        starts: BTreeMap::new(),
        ended: KilledProcesses::default(),
        pens: Pens::default(),
    };
    let mut looked_around = Instant::now();
    let mut is_switched = false;
    while !shared.is_over.load(Ordering::Acquire) {
        let now = Instant::now();
        keeper.people.refresh(now);
        for number in lookout.appeared(now) {
            appeared(&mut keeper, &mut stations, number, now);
        }
        let looks_around = now >= looked_around + LOOK_AROUND;
        if looks_around {
            looked_around = now;
            // The allowances are forgotten: by now each is whole again, or nearly.
            keeper.starts.clear();
            if stations.iter().any(Station::is_held_to_devices) {
                keeper.inputs.look();
                // The call makes old movements of the devices count as no longer recent.
                let _ = keeper.inputs.movements(now);
            }
        }
        if looks_around || is_switched {
            let shown = seats.users();
            if shown != keeper.shown {
                keeper.shown = shown;
                stations.iter_mut().for_each(|station| station.judge_anew(&mut keeper, now));
            }
        }
        stations.retain_mut(|station| {
            let is_there = !looks_around || station.is_there();
            if is_there && station.turn(&mut keeper, now) == Turn::Waits {
                return true;
            }
            lock(&shared.slots).retain(|slot| slot.number != station.number());
            false
        });
        if keeper.ended.reap() {
            keeper.pens.sweep();
        }
        let now = Instant::now();
        let (place, from) = lookout.waits();
        let own = poll::readable(&shared.keeper);
        let shown = seats.poll();
        let has_shown = shown.is_some();
        let lines = stations.iter().filter_map(|station| station.line(now));
        let mut polls: Vec<_> = shown.into_iter().chain([own]).chain(place).chain(lines).collect();
        let due = stations.iter().filter_map(|station| station.due(now)).chain(from);
        let due = due.chain((!stations.is_empty()).then_some(looked_around + LOOK_AROUND));
        let due = due.chain((!keeper.ended.is_empty()).then_some(now + REAP)).min();
        _ = poll::wait(&mut polls, due.map(|due| due.saturating_duration_since(now)));
        is_switched = has_shown && !polls[0].revents().is_empty();
        shared.keeper.clear();
    }
    let now = Instant::now();
    for mut station in stations {
        station.close(&mut keeper, now);
    }
}

/// Handles a new socket of a display: a known display is tried again, and a new display is tried for
/// the first time.
fn appeared(keeper: &mut Keeper<'_>, stations: &mut Vec<Station>, number: u32, now: Instant) {
    let shared = keeper.shared;
    if shared.only.is_some_and(|only| only != number) {
        return;
    }
    let Some(uid) = places::owner(number) else { return };
    let person = keeper.people.person(uid);
    if let Some(station) = stations.iter_mut().find(|station| station.number() == number) {
        station.try_now(person, now);
        return;
    }
    let of_one = stations.iter().filter(|station| station.person() == person).count();
    if stations.len() >= DISPLAYS_MAX || (person != 0 && of_one >= DISPLAYS_OF_ONE) {
        return;
    }
    let slot = Arc::new(Slot::new(number, Arc::clone(&shared.notify)));
    lock(&shared.slots).push(Arc::clone(&slot));
    stations.push(Station::new(slot, person, now));
}
