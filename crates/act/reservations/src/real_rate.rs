//! Real rate: a controller that finds out how much of a CPU a task needs from the fill level of a queue that
//! it serves, and keeps the queue half full (Steere and others 1999, in the paper's words "real-rate").
//!
//! The queue sums up what the task is behind or ahead of its partner. So the controller is a PI controller of
//! the share's logarithm: how far the queue is from half full changes the share at a rate (the integral
//! part), how far it has moved changes the share at once (the proportional part, which damps). Of the
//! logarithm, since then the gains hold for a task that needs 1 % and for one that needs 50 %.
//!
//! Within a period the queue moves as fast as its partner works, and as the task works: the pace, which is
//! seen. The period is so short that this is a small part of the queue. If the queue swings nevertheless, the
//! gains are made smaller until it does not.

use crate::{OnExhaustion, PERIOD_MIN_NS, Terms};

/// The shares that the controller gives, of a CPU.
const SHARE_MIN: f64 = 0.005;
const SHARE_MAX: f64 = 0.9;
/// The share that it begins with.
const SHARE_FIRST: f64 = 0.1;
/// The periods that it gives, ns.
const PERIOD_SHORTEST_NS: u64 = 2_000_000;
const PERIOD_LONGEST_NS: u64 = 50_000_000;
const PERIOD_FIRST_NS: u64 = 20_000_000;
/// The gains: what a move of the queue from empty to full changes of the share's logarithm at once, and what
/// a full queue changes in a second.
const GAIN_MOVE: f64 = 4.0;
const GAIN_RATE: f64 = 4.0;
/// The gains are made smaller down to this part.
const GAIN_LEAST: f64 = 1.0 / 32.0;
/// The queue swings if it goes from more than this above half full to as much below within `SWING_S`.
const SWING: f64 = 0.15;
const SWING_S: f64 = 1.0;
/// After so long without a swing the gains become larger by a tenth.
const CALM_S: f64 = 2.0;
/// The part of the queue that may come or go within a period.
const MOVES: f64 = 0.08;
/// The pace is forgotten by half in this time.
const PACE_HALF_S: f64 = 2.0;
/// The period in force is changed when it differs from the wanted one by more than this factor.
const PERIOD_DIFFERS: f64 = 1.3;
/// A step in time that is longer than this counts as this: the daemon did not run.
const STEP_MOST_S: f64 = 0.2;
/// A new share is asked for when it differs from the one in force by more than this.
const DIFFERS: f64 = 0.03;
/// A task that has less than half full a queue and takes less than this of its budget needs no more than it
/// takes.
const TAKES: f64 = 0.7;

/// Which end of a queue a task has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It takes from the queue: the fuller, the more CPU time it needs.
    Consumer,
    /// It puts into the queue: the fuller, the less it needs.
    Producer,
}

impl End {
    /// How much the task is behind, from 0 to 1, if the queue is so full.
    pub fn behind(self, fill: f64) -> f64 {
        let fill = if fill.is_finite() { fill.clamp(0.0, 1.0) } else { 0.5 };
        match self {
            End::Consumer => fill,
            End::Producer => 1.0 - fill,
        }
    }
}

/// What is known at a moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Look {
    /// How much the task is behind, from 0 to 1: see [`End::behind`]; of several queues the mean.
    pub behind: f64,
    /// The CPU time that the task has had so far, ns.
    pub ran_ns: u64,
    /// The time, ns.
    pub now_ns: u64,
}

/// The controller of one task.
#[derive(Clone, Debug)]
pub struct RealRate {
    on_exhaustion: OnExhaustion,
    /// The share that is wanted, and the terms that are in force.
    share: f64,
    in_force: Terms,
    period_ns: u64,
    /// How much of the queue comes or goes in a second, at most.
    pace: f64,
    /// How much the task is behind, without what comes and goes within a period.
    behind: f64,
    /// The part of the gains that is used.
    gain: f64,
    last: Option<Look>,
    /// At which side of half full the queue was last far off, and how long ago; and for how long it has not
    /// swung.
    far: Option<(Side, f64)>,
    calm_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Above,
    Below,
}

impl RealRate {
    /// A controller that knows nothing of its task yet.
    pub fn new(on_exhaustion: OnExhaustion) -> RealRate {
        let mut new = RealRate {
            on_exhaustion,
            share: SHARE_FIRST,
            in_force: Terms { budget_ns: 0, period_ns: PERIOD_FIRST_NS, on_exhaustion },
            period_ns: PERIOD_FIRST_NS,
            pace: 0.0,
            behind: 0.5,
            gain: 1.0,
            last: None,
            far: None,
            calm_s: 0.0,
        };
        new.in_force = new.wanted();
        new
    }

    /// The terms that are in force, or are to be asked for first.
    pub const fn terms(&self) -> Terms {
        self.in_force
    }

    /// Looks at the queue. Returns the terms that are to be asked for, if they differ from those in force.
    pub fn look(&mut self, look: Look) -> Option<Terms> {
        let last = self.last.replace(look)?;
        let step_s = look.now_ns.saturating_sub(last.now_ns) as f64 / 1e9;
        if step_s <= 0.0 {
            return None;
        }
        let taken = look.ran_ns.saturating_sub(last.ran_ns) as f64 / 1e9 / step_s;
        let pace = (look.behind - last.behind).abs() / step_s;
        let step_s = step_s.min(STEP_MOST_S);
        self.follow(pace, step_s);
        let before = self.behind;
        self.behind += (look.behind - before) * step_s / (step_s + self.period_ns as f64 / 1e9);
        self.watch_swings(self.behind - 0.5, step_s);
        let moved = self.gain * GAIN_MOVE * (self.behind - before);
        let held = self.gain * GAIN_RATE * (self.behind - 0.5) * step_s;
        self.share *= (moved + held).exp();
        if self.behind < 0.5 && taken < self.share * TAKES {
            // Its partner holds it up: what it does not take need not be kept for it.
            self.share -= (self.share - taken / TAKES) * (step_s * GAIN_RATE).min(1.0);
        }
        self.share = self.share.clamp(SHARE_MIN, SHARE_MAX);
        let wanted = self.wanted();
        let differs = (wanted.budget_ns as f64 / self.in_force.budget_ns.max(1) as f64 - 1.0).abs() > DIFFERS;
        (differs || wanted.period_ns != self.in_force.period_ns).then_some(wanted)
    }

    /// The terms are in force now.
    pub const fn granted(&mut self, terms: Terms) {
        self.in_force = terms;
    }

    /// The terms were refused, and those in force stay. What was wanted beyond them is forgotten: otherwise
    /// it would go on growing, and be wanted long after it is needed.
    pub fn refused(&mut self) {
        self.share = self.in_force.budget_ns as f64 / self.in_force.period_ns as f64;
        self.period_ns = self.in_force.period_ns;
    }

    fn wanted(&self) -> Terms {
        let budget_ns = (self.share * self.period_ns as f64) as u64;
        Terms {
            budget_ns: budget_ns.clamp(PERIOD_MIN_NS / 10, self.period_ns),
            period_ns: self.period_ns,
            on_exhaustion: self.on_exhaustion,
        }
    }

    /// Follows the queue's pace, and makes the period as long as the pace allows.
    fn follow(&mut self, pace: f64, step_s: f64) {
        self.pace = pace.max(self.pace * (-step_s / PACE_HALF_S * std::f64::consts::LN_2).exp());
        let wanted_ns =
            ((MOVES / self.pace.max(1e-3) * 1e9) as u64).clamp(PERIOD_SHORTEST_NS, PERIOD_LONGEST_NS);
        let ratio = wanted_ns as f64 / self.period_ns as f64;
        if !(1.0 / PERIOD_DIFFERS..=PERIOD_DIFFERS).contains(&ratio) {
            self.period_ns = wanted_ns;
        }
    }

    /// Makes gains smaller when the queue swings, and larger when it has long been calm.
    fn watch_swings(&mut self, off: f64, step_s: f64) {
        let side = match off {
            off if off > SWING => Some(Side::Above),
            off if off < -SWING => Some(Side::Below),
            _ => None,
        };
        self.calm_s += step_s;
        self.far = self.far.map(|(side, ago_s)| (side, ago_s + step_s));
        if let (Some(now), Some((before, ago_s))) = (side, self.far) {
            if now != before && ago_s < SWING_S {
                self.gain = (self.gain * 0.7).max(GAIN_LEAST);
                self.calm_s = 0.0;
            }
        }
        if let Some(now) = side {
            self.far = Some((now, 0.0));
        }
        if self.calm_s > CALM_S {
            self.calm_s = 0.0;
            self.gain = (self.gain * 1.1).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests;
