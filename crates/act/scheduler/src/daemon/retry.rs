//! The times at which a removed actuator is started again: exponential back-off with three tries.

/// The pause before each try, ns.
const PAUSES_NS: [u64; 3] = [1_000_000_000, 5_000_000_000, 25_000_000_000];
/// After an actuator has worked for this time, ns, all tries are available again.
const CALM_NS: u64 = 600_000_000_000;

/// The number of tries that were used, and the time at which the next try is due, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retry {
    used: usize,
    due_ns: Option<u64>,
}

/// The step after an actuator has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum NextStep {
    /// Try the actuator again at that time.
    TryAt(u64),
    /// Do not try again: the actuator has failed too often.
    GiveUp,
}

impl Retry {
    /// Records that the actuator failed, after it had worked since `since_ns`; if it could not even start,
    /// `since_ns` is `now_ns`.
    pub fn failed(&mut self, since_ns: u64, now_ns: u64) -> NextStep {
        if now_ns.saturating_sub(since_ns) >= CALM_NS {
            self.used = 0;
        }
        self.due_ns = PAUSES_NS.get(self.used).map(|pause_ns| now_ns + pause_ns);
        self.used += 1;
        self.due_ns.map_or(NextStep::GiveUp, NextStep::TryAt)
    }

    /// The time at which the next try is due, if a try is planned, ns.
    pub const fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Whether a try is due now. If it is, it is no longer planned afterwards.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.due_ns.is_some_and(|due_ns| now_ns >= due_ns);
        if is_due {
            self.due_ns = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn three_tries_with_growing_pauses_then_no_more() {
        let mut retry = Retry::default();
        assert_eq!(retry.failed(0, 10 * S), NextStep::TryAt(11 * S));
        assert!(!retry.is_due(10 * S) && retry.is_due(11 * S) && !retry.is_due(12 * S));
        assert_eq!(retry.failed(11 * S, 12 * S), NextStep::TryAt(17 * S));
        assert_eq!(retry.failed(17 * S, 18 * S), NextStep::TryAt(43 * S));
        assert_eq!(retry.failed(43 * S, 44 * S), NextStep::GiveUp);
        assert_eq!(retry.due_ns(), None);
    }

    #[test]
    fn ten_calm_minutes_give_the_tries_back() {
        let mut retry = Retry::default();
        for at in 0..3 {
            assert_ne!(retry.failed(at * S, at * S), NextStep::GiveUp);
        }
        assert_eq!(retry.failed(3 * S, 603 * S), NextStep::TryAt(604 * S));
    }
}
