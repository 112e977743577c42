//! Input that a process passes on (by XTEST or by sending an event) does not count as its own input.
//!
//! A program can take the focus, receive a key, give the focus back and ask XTEST for the same key. Then the
//! person types into one program, but another program received the key from the device. So while any process
//! makes input, and for a minute after, received input is held for a moment before it counts. If the process
//! that received it makes input of the same kind in that time, the device's movement counts for the receiver
//! of the new input instead. That receiver may pass it on again. The very first movement that a relay passes
//! on has counted by then: that is one movement a minute at most.
//!
//! Each movement counts once. If a process makes more keys or clicks than it received, none of them counts
//! for any process: else it could pass a key both to an accomplice and to the program that the person means.
//! If a process makes input without having received any, the process that received a movement just before may
//! be its accomplice: the movement counts for no process. So a program can keep the input of its own display
//! from counting; it cannot draw that input to itself.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use spry_policy::Tgid;

use super::hands::{APART_MS, MOTION, PRESS};
use super::record::{Delivery, FakeInput};

/// The kind of a press of a button, and how much larger the kind of a release is than the kind of its press,
/// in XInput's numbers.
const BUTTON_PRESS: u8 = 4;
const RELEASE_AFTER_PRESS: u8 = 1;
/// A process passes input on within this time after it was received, ms: a person would notice later keys.
const PASSED_MS: u32 = 500;
/// The input that a process made may be read by this time before the input that it received.
const PATIENCE: Duration = Duration::from_millis(100);
/// Received input is held for this time. Whether another process passed it on is decided [`PATIENCE`] after
/// that process made its input.
pub(super) const HELD: Duration = Duration::from_millis(PASSED_MS as u64 + 2 * PATIENCE.as_millis() as u64);
/// For this time after it made input, a process is taken for a relay.
const LATELY: Duration = Duration::from_secs(60);
/// At most so many received events are held, and at most so many events that relays made are kept.
const HELD_MAX: usize = 1024;
const MADE_MAX: usize = 1024;

/// Whether a delivery of input counts for the process that received it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worth {
    /// The delivery counts for the process, unless the process passes it on.
    Own,
    /// The delivery does not count for the process, but the process may pass it on: a person cannot see the
    /// window, or the window is another client's.
    Passage,
}

/// The way by which the movement came to the process that received it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    FromHand,
    PassedOn,
}

/// A delivery that a movement of a real device explains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExplainedDelivery {
    pub(super) tgid: Tgid,
    pub(super) delivered: Delivery,
    pub(super) worth: Worth,
    pub(super) way: Way,
    /// The number of the device's movement.
    pub(super) serial: u64,
}

#[derive(Debug)]
struct HeldDelivery {
    since: Instant,
    explained: ExplainedDelivery,
    is_passed_on: bool,
}

/// Input that a process made.
#[derive(Debug)]
struct MadeInput {
    since: Instant,
    tgid: Tgid,
    faked: FakeInput,
    /// The process that the input was sent to. `None` for input by XTEST: only its delivery shows which
    /// process receives it.
    receiver: Option<Tgid>,
}

/// A device's movement that was passed on, and the input that a process made of it.
#[derive(Debug)]
struct PassedMovement {
    made: MadeInput,
    serial: u64,
}

/// The origin of delivered input that no movement of a real device explains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// Another process passed the movement with this number on to this process.
    PassedOn(u64),
    /// The process made the input for itself.
    OwnMaking,
    /// The origin is not known, or not known yet.
    Unknown,
}

#[derive(Debug)]
struct Relay {
    /// The time at which the process last made input.
    made: Instant,
    /// The time at which the process made more input than it had received.
    sprayed: Option<Instant>,
}

impl Relay {
    /// Whether the process made input in the last minute.
    fn made_lately(&self) -> bool {
        self.made.elapsed() < LATELY
    }
}

/// Processes that make input, and the input that they received.
#[derive(Debug, Default)]
pub(super) struct Relays {
    known: HashMap<Tgid, Relay>,
    held: VecDeque<HeldDelivery>,
    made: VecDeque<MadeInput>,
    /// Movements that were passed on, and that no process has received yet.
    passed: VecDeque<PassedMovement>,
    /// The time at which input that relays made was last dropped because too much was kept. Input received
    /// just before counts for no process, as it may have been passed on.
    lost: Option<Instant>,
    /// Releases that do not count for the relay, because it passed the press on: each by
    /// process, kind and key.
    releases: BTreeSet<(Tgid, u8, u32)>,
}

/// Whether the first time is the same as the second, or follows it within the time for passing on.
fn is_soon_after(later_ms: u32, earlier_ms: u32) -> bool {
    later_ms.wrapping_sub(earlier_ms).wrapping_add(APART_MS) <= PASSED_MS
}

impl Relays {
    /// Whether a process made input lately.
    pub(super) fn is_one(&self, tgid: Tgid) -> bool {
        self.known.get(&tgid).is_some_and(Relay::made_lately)
    }

    /// Whether any process made input lately.
    fn is_any(&self) -> bool {
        self.known.values().any(Relay::made_lately)
    }

    /// Whether any received input is held, so that only time decides whether it counts.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Notes that a process made input by XTEST, or sent an event to a receiver.
    pub(super) fn made(&mut self, tgid: Tgid, faked: FakeInput, receiver: Option<Tgid>) {
        let now = Instant::now();
        self.known.entry(tgid).or_insert(Relay { made: now, sprayed: None }).made = now;
        if self.made.len() >= MADE_MAX {
            self.made.pop_front();
            self.lost = Some(now);
        }
        self.made.push_back(MadeInput { since: now, tgid, faked, receiver });
    }

    /// Takes a delivery that a movement of a device explains. The delivery counts at once, or is held if any
    /// process makes input.
    pub(super) fn received(&mut self, explained: ExplainedDelivery, credit: &mut impl FnMut(Tgid)) {
        if !self.is_any() {
            if explained.worth == Worth::Own {
                credit(explained.tgid);
            }
        } else if self.held.len() < HELD_MAX {
            self.held.push_back(HeldDelivery { since: Instant::now(), explained, is_passed_on: false });
        }
    }

    /// Finds which movements were passed on, and credits the receivers of events that were sent.
    /// `is_another_s` returns whether another process is credited with a movement.
    pub(super) fn pair(
        &mut self,
        is_another_s: impl Fn(&ExplainedDelivery) -> bool,
        credit: &mut impl FnMut(Tgid),
    ) {
        for made in std::mem::take(&mut self.made) {
            let held = self.held.iter_mut().find(|held| !held.is_passed_on && may_be_passed_on(held, &made));
            let Some(held) = held else {
                if made.since.elapsed() < PATIENCE {
                    self.made.push_back(made);
                } else if self.is_too_much(&made) {
                    self.known.entry(made.tgid).and_modify(|relay| relay.sprayed = Some(Instant::now()));
                } else {
                    self.take_from_accomplices(&made);
                }
                continue;
            };
            held.is_passed_on = true;
            let ExplainedDelivery { tgid, delivered, worth, way, serial } = held.explained;
            if [PRESS, BUTTON_PRESS].contains(&delivered.kind) && self.releases.len() < HELD_MAX {
                self.releases.insert((tgid, delivered.kind + RELEASE_AFTER_PRESS, delivered.detail));
            }
            let sprayed = self.known.get(&tgid).and_then(|relay| relay.sprayed);
            let is_spraying = sprayed.is_some_and(|sprayed| sprayed.elapsed() < LATELY);
            let is_listener = worth == Worth::Passage && way == Way::FromHand;
            let is_counted = is_listener && is_another_s(&held.explained);
            if is_counted {
                // The process that the person means is unknown: the listener may be an accomplice.
                self.take_all(serial);
            }
            if is_spraying || is_counted {
                continue;
            }
            match (made.faked.to, made.receiver) {
                (None, _) => self.passed.push_back(PassedMovement { made, serial }),
                (Some(_), Some(receiver)) => credit(receiver),
                (Some(_), None) => {}
            }
        }
    }

    /// A process made input of a kind of which it had received none: the movement that another process
    /// received just before counts for no process.
    fn take_from_accomplices(&mut self, made: &MadeInput) {
        let is_it = |held: &&HeldDelivery| !held.is_passed_on && may_come_of(held, made);
        let Some(serial) = self.held.iter().find(is_it).map(|held| held.explained.serial) else { return };
        self.take_all(serial);
    }

    /// From now on a movement counts for none of the processes that received it.
    fn take_all(&mut self, serial: u64) {
        for held in self.held.iter_mut().filter(|held| held.explained.serial == serial) {
            held.is_passed_on = true;
        }
    }

    /// Whether a process made a key or a click once more, although it has passed on each one
    /// that it received.
    fn is_too_much(&self, made: &MadeInput) -> bool {
        [PRESS, BUTTON_PRESS].contains(&made.faked.kind)
            && self.held.iter().any(|held| may_be_passed_on(held, made))
    }

    /// The origin of input that a process received and that no real device made. Input that was passed on is
    /// used up by this: it counts once.
    pub(super) fn origin(&mut self, tgid: Tgid, delivered: &Delivery) -> Origin {
        let own = self.made.iter().position(|made| made.tgid == tgid && may_arrive_as(made, delivered));
        if own.is_some_and(|at| self.made.remove(at).is_some()) {
            return Origin::OwnMaking;
        }
        let arrives = |passed: &PassedMovement| may_arrive_as(&passed.made, delivered);
        let Some(at) = self.passed.iter().position(arrives) else { return Origin::Unknown };
        match self.passed.remove(at) {
            Some(PassedMovement { made, serial }) if made.tgid == tgid => {
                self.take_back(tgid, delivered, serial);
                Origin::OwnMaking
            }
            Some(PassedMovement { serial, .. }) => Origin::PassedOn(serial),
            None => Origin::Unknown,
        }
    }

    /// The input that a process made came back to the process itself, so the movement that it had received
    /// was not passed on.
    fn take_back(&mut self, tgid: Tgid, delivered: &Delivery, serial: u64) {
        let held = self.held.iter_mut().find(|held| {
            let of = &held.explained;
            held.is_passed_on && (of.tgid, of.serial, of.delivered.kind) == (tgid, serial, delivered.kind)
        });
        if let Some(held) = held {
            held.is_passed_on = false;
            let Delivery { kind, detail, .. } = held.explained.delivered;
            self.releases.remove(&(tgid, kind + RELEASE_AFTER_PRESS, detail));
        }
    }

    /// Credits the deliveries that were held long enough and were not passed on.
    pub(super) fn settle(&mut self, credit: &mut impl FnMut(Tgid)) {
        while self.held.front().is_some_and(|held| held.since.elapsed() >= HELD) {
            let Some(held) = self.held.pop_front() else { break };
            let ExplainedDelivery { tgid, delivered, worth, .. } = held.explained;
            let is_of_press = self.releases.remove(&(tgid, delivered.kind, delivered.detail));
            let is_unsure = self.lost.is_some_and(|lost| lost + PATIENCE >= held.since);
            if worth == Worth::Own && !held.is_passed_on && !is_of_press && !is_unsure {
                credit(tgid);
            }
        }
        self.passed.retain(|passed| passed.made.since.elapsed() < HELD);
        self.known.retain(|_, relay| relay.made_lately());
    }
}

/// Whether the input that a process made may have arrived as this delivery.
fn may_arrive_as(made: &MadeInput, delivered: &Delivery) -> bool {
    let FakeInput { kind, detail, time_ms, .. } = made.faked;
    kind == delivered.kind
        && (kind == MOTION || detail == delivered.detail)
        && is_soon_after(delivered.time_ms, time_ms)
}

/// Whether the process that received a delivery may have made this input from it.
fn may_be_passed_on(held: &HeldDelivery, made: &MadeInput) -> bool {
    held.explained.tgid == made.tgid && may_come_of(held, made)
}

/// Whether any process may have made this input of the delivery.
fn may_come_of(held: &HeldDelivery, made: &MadeInput) -> bool {
    let Delivery { kind, time_ms, .. } = held.explained.delivered;
    kind == made.faked.kind && is_soon_after(made.faked.time_ms, time_ms)
}
