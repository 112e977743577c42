//! A display that eyes look at, and the part of their reports that counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use spry_policy::{Changes, Tgid};

use super::child::Looker;
use super::listener::Listener;
use crate::input::{Inputs, ReceivedMovements};
use crate::people::is_wholly_of;
use crate::rate::{Allowance, SCREENS_PPM};

/// After this time the kernel is asked again whether a process belongs to the display's user.
const KNOWN: Duration = Duration::from_secs(1);
/// For each display at most so many processes are known at once: as many as it may have clients, and more
/// than a person uses at a time.
const KNOWN_MAX: usize = 4096;
/// In a second the kernel is asked at most so many times for the user of a process: more than a person uses
/// at a time. Other processes do not count until the kernel can be asked about them.
const QUESTIONS_A_SECOND: u32 = 200;
/// If eyes report so many inputs in a row that no device of the user made, the daemon warns the user.
const UNEXPLAINED: u32 = 20;

/// A display that eyes look at.
#[derive(Debug)]
pub(super) struct WatchedDisplay {
    pub(super) eyes: Looker,
    /// The user as which the eyes run.
    pub(super) uid: u32,
    pub(super) listener: Listener,
    pub(super) started: Instant,
    known: BTreeMap<Tgid, KnownTask>,
    questions: Allowance,
    /// The limit of the input that the eyes can claim.
    pub(super) claims: Claims,
    unexplained: u32,
}

/// The bound of the input that eyes of a display can claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claims {
    /// No more input than the movements of the kernel's devices allow.
    Devices,
    /// No bound: root named the display, which may have no devices.
    Free,
}

#[derive(Clone, Copy, Debug)]
struct KnownTask {
    asked: Instant,
    is_theirs: bool,
    screens_ppm: Allowance,
    received: ReceivedMovements,
}

impl WatchedDisplay {
    pub(super) fn new(
        eyes: Looker,
        uid: u32,
        listener: Listener,
        claims: Claims,
        now: Instant,
    ) -> WatchedDisplay {
        let questions = Allowance::of(QUESTIONS_A_SECOND, now);
        WatchedDisplay {
            eyes,
            uid,
            listener,
            started: now,
            known: BTreeMap::new(),
            questions,
            claims,
            unexplained: 0,
        }
    }

    /// Whether a process belongs to the display's user, or is the display's server.
    pub(super) fn is_theirs(&self, tgid: Tgid) -> bool {
        if tgid == self.listener.tgid { self.listener.lives() } else { is_wholly_of(tgid, self.uid) }
    }

    /// The part of a claim that can be true: only processes of the display's user and the server count, with
    /// no more than 50 screens a second, and no more input than the devices' movements allow.
    pub(super) fn within(
        &mut self,
        tgid: Tgid,
        claimed: Changes,
        inputs: &mut Inputs,
        now: Instant,
    ) -> Changes {
        let known = self.known.get(&tgid).copied();
        let is_asked = known.is_some_and(|known| now.saturating_duration_since(known.asked) < KNOWN);
        if !is_asked && !self.ask(tgid, known, now) {
            return Changes::default();
        }
        let Some(known) = self.known.get_mut(&tgid).filter(|known| known.is_theirs) else {
            return Changes::default();
        };
        let output_ppm = known.screens_ppm.take_up_to(claimed.output_ppm, now);
        let input = match self.claims {
            Claims::Devices if claimed.input > 0 => {
                known.received.within(claimed.input, inputs.movements(now))
            }
            Claims::Devices | Claims::Free => claimed.input,
        };
        Changes { input, output_ppm }
    }

    /// Notes the amount of a claim's input that counted. Returns whether the user is to be warned now,
    /// because so many claims in a row did not count.
    pub(super) fn is_unexplained(&mut self, input: u32) -> bool {
        self.unexplained = if input > 0 { 0 } else { self.unexplained.saturating_add(1) };
        self.unexplained == UNEXPLAINED
    }

    /// Asks the kernel for the user of a process. Returns whether the kernel could be asked and
    /// the answer kept.
    fn ask(&mut self, tgid: Tgid, known: Option<KnownTask>, now: Instant) -> bool {
        if known.is_none() && self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, known| now.saturating_duration_since(known.asked) < KNOWN);
        }
        if (known.is_none() && self.known.len() >= KNOWN_MAX) || !self.questions.take(now) {
            return false;
        }
        let is_theirs = self.is_theirs(tgid);
        let fresh = || KnownTask {
            asked: now,
            is_theirs,
            screens_ppm: Allowance::of(SCREENS_PPM, now),
            received: ReceivedMovements::default(),
        };
        let known = known.map_or_else(fresh, |known| KnownTask { asked: now, is_theirs, ..known });
        self.known.insert(tgid, known);
        true
    }
}
