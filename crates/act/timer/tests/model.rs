//! Tests the queue against a naive model: a list that is searched from end to end.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use spry_timer::{Handle, Refused, SOFT, Terms, Timers, Trigger};

/// A timer of the model.
#[derive(Clone, Copy, Debug)]
struct Model {
    handle: Handle,
    value: u32,
    deadline_ns: u64,
    overshoot_ns: u64,
    period_ns: Option<u64>,
    order: u64,
}

impl Model {
    fn limit_ns(&self) -> u64 {
        self.deadline_ns.saturating_add(self.overshoot_ns)
    }
}

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    Arm {
        delay_ns: u64,
        overshoot_ns: u64,
        period_ns: Option<u64>,
    },
    /// The timer is chosen by its place in the model.
    Rearm {
        which: usize,
        delay_ns: u64,
        overshoot_ns: u64,
    },
    Cancel {
        which: usize,
    },
    Pass {
        time_ns: u64,
    },
    Backstop,
}

/// Times of all magnitudes below 2^bits ns.
fn time(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, any::<u64>()).prop_map(|(bit, random)| random & ((2 << bit) - 1))
}

fn overshoot() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 1 => Just(SOFT), 5 => time(44)]
}

fn step() -> impl Strategy<Value = Step> {
    // A short period would fire without end when much time passes.
    let period = prop_oneof![3 => Just(None), 1 => (38u32..50).prop_map(|bit| Some(1 << bit))];
    prop_oneof![
        6 => (time(56), overshoot(), period).prop_map(|(delay_ns, overshoot_ns, period_ns)| {
            Step::Arm { delay_ns, overshoot_ns, period_ns }
        }),
        3 => (any::<usize>(), time(56), overshoot())
            .prop_map(|(which, delay_ns, overshoot_ns)| Step::Rearm { which, delay_ns, overshoot_ns }),
        2 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        5 => time(40).prop_map(|time_ns| Step::Pass { time_ns }),
        2 => Just(Step::Backstop),
    ]
}

/// The queue and its model side by side.
struct Pair {
    now_ns: u64,
    timers: Timers<u32>,
    models: Vec<Model>,
    ended: Vec<Handle>,
    armed: u64,
}

impl Pair {
    fn new(now_ns: u64) -> Pair {
        Pair { now_ns, timers: Timers::new(), models: Vec::new(), ended: Vec::new(), armed: 0 }
    }

    fn play(&mut self, step: &Step) {
        match *step {
            Step::Arm { delay_ns, overshoot_ns, period_ns } => self.arm(delay_ns, overshoot_ns, period_ns),
            Step::Rearm { which, delay_ns, overshoot_ns } if !self.models.is_empty() => {
                let at = which % self.models.len();
                let deadline_ns = self.now_ns + delay_ns;
                let terms = Terms::firm(deadline_ns, overshoot_ns);
                self.timers.rearm(self.now_ns, self.models[at].handle, terms).expect("it can be kept");
                let order = self.next_order();
                let old = self.models[at];
                self.models[at] = Model { deadline_ns, overshoot_ns, period_ns: None, order, ..old };
            }
            Step::Cancel { which } if !self.models.is_empty() => {
                let model = self.models.remove(which % self.models.len());
                assert_eq!(self.timers.cancel(model.handle), Some(model.value));
                self.ended.push(model.handle);
            }
            Step::Rearm { .. } | Step::Cancel { .. } => {}
            Step::Pass { time_ns } => self.pass(time_ns),
            Step::Backstop => {
                let limit_ns = self.models.iter().map(Model::limit_ns).min().filter(|&it| it != SOFT);
                assert_eq!(self.timers.backstop_ns(), limit_ns);
            }
        }
        assert_eq!(self.timers.len(), self.models.len());
        for &handle in &self.ended {
            assert_eq!(self.timers.deadline_ns(handle), None);
        }
    }

    fn next_order(&mut self) -> u64 {
        self.armed += 1;
        self.armed
    }

    fn arm(&mut self, delay_ns: u64, overshoot_ns: u64, period_ns: Option<u64>) {
        let deadline_ns = self.now_ns + delay_ns;
        let order = self.next_order();
        let value = order as u32;
        let mut terms = Terms::firm(deadline_ns, overshoot_ns);
        if let Some(period_ns) = period_ns {
            terms = terms.every(period_ns);
        }
        match self.timers.arm(self.now_ns, terms, value) {
            Ok(handle) => {
                let model = Model { handle, value, deadline_ns, overshoot_ns, period_ns, order };
                self.models.push(model);
            }
            Err(Refused::Overshoot { .. }) => assert!(overshoot_ns > period_ns.expect("it has a period")),
            Err(other) => panic!("{other}"),
        }
    }

    /// Lets time pass, and takes every timer that is due.
    fn pass(&mut self, time_ns: u64) {
        self.now_ns += time_ns;
        let is_due = |model: &&Model| model.deadline_ns <= self.now_ns;
        if !self.timers.poll(self.now_ns) {
            assert_eq!(self.models.iter().filter(is_due).count(), 0);
        }
        loop {
            let due = (0..self.models.len()).filter(|&at| self.models[at].deadline_ns <= self.now_ns);
            let first = due.min_by_key(|&at| (self.models[at].deadline_ns, self.models[at].order));
            let fired = self.timers.take(self.now_ns, Trigger::Check);
            let (Some(at), Some(fired)) = (first, fired) else {
                assert_eq!((first, fired), (None, None));
                return;
            };
            let model = self.models[at];
            assert_eq!((fired.handle, fired.value), (model.handle, model.value));
            assert_eq!(fired.deadline_ns, model.deadline_ns);
            assert_eq!(fired.late_ns, self.now_ns - model.deadline_ns);
            if let Some(period_ns) = model.period_ns {
                let (deadline_ns, order) = (model.deadline_ns + period_ns, self.next_order());
                self.models[at] = Model { deadline_ns, order, ..model };
            } else {
                self.models.remove(at);
                self.ended.push(model.handle);
            }
        }
    }
}

/// The same cases in each run.
fn fixed() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(20021211);
    ProptestConfig { cases: 1000, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(fixed())]

    #[test]
    fn the_queue_does_what_a_list_would_do(
        start_ns in time(62),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut pair = Pair::new(start_ns);
        for step in &steps {
            pair.play(step);
        }
    }
}

proptest! {
    #![proptest_config(fixed())]

    #[test]
    fn no_timer_is_late_if_the_backstop_alone_wakes(
        terms in prop::collection::vec((time(34), time(24)), 1..60),
    ) {
        let mut timers = Timers::new();
        for &(deadline_ns, overshoot_ns) in &terms {
            timers.arm(0, Terms::firm(deadline_ns, overshoot_ns), overshoot_ns).expect("it can be kept");
        }
        let mut fired_count = 0;
        while let Some(now_ns) = timers.backstop_ns() {
            let before = fired_count;
            while let Some(fired) = timers.take(now_ns, Trigger::Backstop) {
                prop_assert!(fired.late_ns <= fired.value);
                fired_count += 1;
            }
            prop_assert!(fired_count > before, "a wake-up for nothing at {now_ns}");
        }
        prop_assert_eq!(fired_count, terms.len());
    }
}
