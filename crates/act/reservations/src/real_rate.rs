//! Real rate: a controller that finds how much of a CPU a task needs, from the fill level of its queue. It
//! keeps the queue half full (Steere and others 1999, in the paper's words "real-rate").
//!
//! The fill level sums up how far the task is behind or ahead of its partner. So the controller is a PI
//! controller of the share's logarithm. The distance from half full changes the share at a rate (the integral
//! part). A move of the queue changes the share at once (the proportional part, which damps). The logarithm
//! makes the same gains hold for a task that needs 1 % and for a task that needs 50 %.
//!
//! Within a period the queue moves with the work of its partner and of the task; the speed of these moves,
//! the pace, is measured. The period is chosen so short that the queue moves by a small part of its length.
//! If the queue oscillates nevertheless, the gains are lowered until it does not.

use crate::{OnExhaustion, PERIOD_MIN_NS, Terms};

/// The limits of the share, of a CPU.
const SHARE_MIN: f64 = 0.005;
const SHARE_MAX: f64 = 0.9;
/// The share at the start, of a CPU.
const SHARE_FIRST: f64 = 0.1;
/// The limits of the period and the period at the start, ns.
const PERIOD_SHORTEST_NS: u64 = 2_000_000;
const PERIOD_LONGEST_NS: u64 = 50_000_000;
const PERIOD_FIRST_NS: u64 = 20_000_000;
/// The gains. `GAIN_MOVE` is the change of the share's logarithm, at once, for a move from empty to
/// full. `GAIN_RATE` is its change in a second for each unit of distance from half full, where 1 is
/// the whole queue.
const GAIN_MOVE: f64 = 4.0;
const GAIN_RATE: f64 = 4.0;
/// The smallest factor to which the gains are lowered.
const GAIN_LEAST: f64 = 1.0 / 32.0;
/// A swing is a move of the queue from more than `SWING` on one side of half full to as much on the other
/// side, within `SWING_S` seconds. The queue oscillates if it swings.
const SWING: f64 = 0.15;
const SWING_S: f64 = 1.0;
/// If the queue makes no swing for this time, the gains grow by a tenth, s.
const CALM_S: f64 = 2.0;
/// The part of the queue by which it may move within a period.
const MOVES: f64 = 0.08;
/// The half-life of the pace, s.
const PACE_HALF_S: f64 = 2.0;
/// The period in force is changed when the ratio of the wanted period to it exceeds this factor, either way.
const PERIOD_DIFFERS: f64 = 1.3;
/// The longest step in time that counts, s. A longer one means that the daemon did not run.
const STEP_MOST_S: f64 = 0.2;
/// A new share is asked for when its ratio to that in force differs from 1 by more than this.
const DIFFERS: f64 = 0.03;
/// A task that is less than half behind and takes less than this part of its share needs no
/// more than it takes.
const TAKES: f64 = 0.7;

/// The end of a queue that a task has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The task takes from the queue: the fuller the queue, the more CPU time the task needs.
    Consumer,
    /// The task puts into the queue: the fuller the queue, the less CPU time the task needs.
    Producer,
}

impl End {
    /// How far the task is behind, from 0 to 1, at a fill level from 0 to 1. A level that is no
    /// number counts as 0.5.
    pub fn behind(self, fill: f64) -> f64 {
        let fill = if fill.is_finite() { fill.clamp(0.0, 1.0) } else { 0.5 };
        match self {
            End::Consumer => fill,
            End::Producer => 1.0 - fill,
        }
    }
}

/// An observation of the task and its queues.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Look {
    /// How far the task is behind, from 0 to 1: see [`End::behind`]; the mean if there are several queues.
    pub behind: f64,
    /// The CPU time that the task has had so far, ns.
    pub ran_ns: u64,
    /// The time of the observation, ns.
    pub now_ns: u64,
}

/// The controller of one task.
#[derive(Clone, Debug)]
pub struct RealRate {
    on_exhaustion: OnExhaustion,
    /// The wanted share, of a CPU, and the terms that are in force.
    share: f64,
    in_force: Terms,
    period_ns: u64,
    /// The fastest move of the queue lately, in parts of the queue per second.
    pace: f64,
    /// How far the task is behind, from 0 to 1, smoothed over about a period.
    behind: f64,
    /// The factor on both gains, `GAIN_LEAST` to 1.
    gain: f64,
    last: Option<Look>,
    /// The side of half full on which the queue was last far off, with the seconds since then; and the
    /// seconds without a swing.
    far: Option<(Side, f64)>,
    calm_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Above,
    Below,
}

impl RealRate {
    /// A controller without any observation yet.
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

    /// Takes an observation. Returns the terms that are to be asked for, if they differ from those in force.
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
            // The partner delays the task: time that the task does not take need not be kept for it.
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

    /// The terms were refused, and those in force stay. The share falls back to that in force: otherwise it
    /// would go on growing, and stay large long after the task needs it.
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

    /// Lowers the gains when the queue swings, and raises them after a long time without a swing.
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
