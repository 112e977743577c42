//! When a round is due: each second, and early for somebody new, but not too often.

use crate::constants::Constants;

/// The clock of rounds. Times are nanoseconds of any one clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    regular_ns: u64,
    latest_ns: u64,
    /// When an early round was asked for first since the latest.
    asked_ns: Option<u64>,
}

impl Trigger {
    /// The first round is due a period from now.
    pub fn new(now_ns: u64, constants: &Constants) -> Trigger {
        Trigger { regular_ns: now_ns + constants.period_ns, latest_ns: now_ns, asked_ns: None }
    }

    /// Somebody drew, or received input, who was not interactive.
    pub fn ask(&mut self, now_ns: u64) {
        self.asked_ns.get_or_insert(now_ns);
    }

    /// When the next round is due.
    pub fn due_ns(&self, constants: &Constants) -> u64 {
        let early = self.asked_ns.map(|asked_ns| {
            // Waiting a little lets others who appear at the same moment share the round.
            (asked_ns + constants.early_ns / 2).max(self.latest_ns + constants.early_gap_ns)
        });
        early.map_or(self.regular_ns, |early_ns| early_ns.min(self.regular_ns))
    }

    /// A round takes place. Whether it is the second's own, in which averages and weights are halved.
    pub fn round(&mut self, now_ns: u64, constants: &Constants) -> Due {
        self.asked_ns = None;
        self.latest_ns = now_ns;
        if now_ns < self.regular_ns {
            return Due::Early;
        }
        // Rounds that were slept through are not made up for.
        let missed = (now_ns - self.regular_ns) / constants.period_ns;
        self.regular_ns += (missed + 1) * constants.period_ns;
        Due::Regular
    }
}

/// Why a round takes place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Due {
    /// A second is over.
    Regular,
    /// Somebody is new: nothing is halved.
    Early,
}
