//! Tests the controller with a simulated queue. A partner fills the queue at some rate. A task runs its
//! budget at the beginning of each period, and drains the queue at some rate while it runs.

use super::*;

const MS: u64 = 1_000_000;
/// The simulation's step, and the interval of the controller's observations.
const STEP_NS: u64 = MS / 4;
const LOOK_NS: u64 = 10 * MS;

/// A queue with a consumer under control.
struct Plant {
    control: RealRate,
    fill: f64,
    now_ns: u64,
    ran_ns: u64,
    period_began_ns: u64,
    ran_in_period_ns: u64,
    /// The share that admission allows at most.
    room: f64,
}

/// The result of a stretch of time: the least and the highest fill level, and how often the level went across
/// half by more than a tenth on both sides.
#[derive(Debug)]
struct RunSummary {
    least: f64,
    most: f64,
    swings: u32,
    share_most: f64,
}

impl Plant {
    fn new() -> Plant {
        Plant {
            control: RealRate::new(OnExhaustion::Wait),
            fill: 0.0,
            now_ns: 0,
            ran_ns: 0,
            period_began_ns: 0,
            ran_in_period_ns: 0,
            room: 0.9,
        }
    }

    /// Runs for a time. `fills` is how many whole queues the partner fills in a second. `needs` is the share
    /// of a CPU with which the task keeps up with that.
    fn run(&mut self, seconds: f64, fills: f64, needs: f64) -> RunSummary {
        let until_ns = self.now_ns + (seconds * 1e9) as u64;
        let (step_s, drains) = (STEP_NS as f64 / 1e9, fills / needs);
        let mut seen = RunSummary { least: 1.0, most: 0.0, swings: 0, share_most: 0.0 };
        let mut side = 0;
        while self.now_ns < until_ns {
            self.now_ns += STEP_NS;
            let terms = self.control.terms();
            seen.share_most = seen.share_most.max(terms.budget_ns as f64 / terms.period_ns as f64);
            if self.now_ns - self.period_began_ns >= terms.period_ns {
                self.period_began_ns = self.now_ns;
                self.ran_in_period_ns = 0;
            }
            self.fill = (self.fill + fills * step_s).min(1.0);
            if self.fill > 0.0 && self.ran_in_period_ns < terms.budget_ns {
                let runs_ns = STEP_NS.min(terms.budget_ns - self.ran_in_period_ns);
                self.ran_in_period_ns += runs_ns;
                self.ran_ns += runs_ns;
                self.fill = (self.fill - drains * runs_ns as f64 / 1e9).max(0.0);
            }
            (seen.least, seen.most) = (seen.least.min(self.fill), seen.most.max(self.fill));
            let now = if self.fill > 0.6 { 1 } else { -i32::from(self.fill < 0.4) };
            if now != 0 && now != side {
                seen.swings += u32::from(side != 0);
                side = now;
            }
            if self.now_ns % LOOK_NS == 0 {
                self.look();
            }
        }
        seen
    }

    fn look(&mut self) {
        let behind = End::Consumer.behind(self.fill);
        let Some(terms) = self.control.look(Look { behind, ran_ns: self.ran_ns, now_ns: self.now_ns }) else {
            return;
        };
        if terms.budget_ns as f64 / terms.period_ns as f64 <= self.room {
            self.control.granted(terms);
        } else {
            self.control.refused();
        }
    }
}

#[test]
fn the_queue_stays_half_full_at_every_rate_and_need() {
    for fills in [0.5, 1.0, 3.0, 8.0, 16.0] {
        for needs in [0.02, 0.1, 0.3, 0.6] {
            let mut plant = Plant::new();
            plant.run(12.0, fills, needs);
            let seen = plant.run(10.0, fills, needs);
            assert!(seen.least >= 0.2 && seen.most <= 0.8, "{fills} a second, {needs}: {seen:?}");
        }
    }
}

#[test]
fn the_queue_settles_in_three_seconds_after_a_step_in_load() {
    for fills in [1.0, 3.0, 8.0, 16.0] {
        for (before, after) in [(0.1, 0.2), (0.3, 0.15), (0.2, 0.6)] {
            let mut plant = Plant::new();
            plant.run(15.0, fills, before);
            let during = plant.run(3.0, fills, after);
            assert!(during.swings <= 2, "{fills} a second, {before} to {after}: {during:?}");
            let seen = plant.run(6.0, fills, after);
            assert!(
                seen.least >= 0.2 && seen.most <= 0.8 && seen.swings <= 2,
                "{fills} a second, {before} to {after}: {seen:?}"
            );
        }
    }
}

#[test]
fn control_keeps_to_the_admitted_share_and_lowers_it_again() {
    let mut plant = Plant::new();
    plant.room = 0.25;
    let seen = plant.run(10.0, 3.0, 0.5);
    assert!(seen.share_most <= 0.25 && plant.fill > 0.9, "{seen:?} {}", plant.fill);
    // The task needs the whole room, so the share is near it. The share falls soon after the need falls.
    let share = plant.control.terms().budget_ns as f64 / plant.control.terms().period_ns as f64;
    assert!(share >= 0.2, "{share}");
    plant.run(4.0, 3.0, 0.1);
    let seen = plant.run(6.0, 3.0, 0.1);
    assert!(seen.least >= 0.2 && seen.most <= 0.8, "{seen:?}");
}

#[test]
fn a_task_with_a_stopped_partner_soon_keeps_little() {
    let mut plant = Plant::new();
    plant.run(10.0, 3.0, 0.4);
    plant.run(3.0, 1e-9, 1e-9 / 7.5);
    let terms = plant.control.terms();
    assert!((terms.budget_ns as f64) < terms.period_ns as f64 * 0.02, "{terms:?}");
}

#[test]
fn a_producer_is_behind_where_a_consumer_is_ahead() {
    assert_eq!((End::Consumer.behind(0.7), End::Producer.behind(0.75)), (0.7, 0.25));
    assert_eq!((End::Consumer.behind(7.0), End::Producer.behind(-1.0)), (1.0, 1.0));
    assert_eq!(End::Producer.behind(f64::NAN), 0.5);
}

#[test]
fn whatever_it_sees_its_terms_can_be() {
    let mut control = RealRate::new(OnExhaustion::Demote);
    let mut state = 0x9e37_79b9_u64;
    for at in 0..20_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let behind = End::Consumer.behind((state >> 40) as f64 / (1 << 23) as f64 - 0.5);
        let look = Look { behind, ran_ns: at * (state >> 58), now_ns: at * (state >> 50) };
        if let Some(terms) = control.look(look) {
            terms.check().expect("it can be");
            if state & 1 << 33 == 0 { control.granted(terms) } else { control.refused() }
        }
    }
}
