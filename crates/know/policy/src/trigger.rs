//! The times of rounds: each second, and earlier for a process that is newly in use, but not too often.

use crate::constants::Constants;

/// The clock of rounds. Times are nanoseconds of any one clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    regular_ns: u64,
    latest_ns: u64,
    /// The time of the first request for an early round since the latest round.
    asked_ns: Option<u64>,
}

impl Trigger {
    /// The first round is due a period from now.
    pub fn new(now_ns: u64, constants: &Constants) -> Trigger {
        Trigger { regular_ns: now_ns + constants.period_ns, latest_ns: now_ns, asked_ns: None }
    }

    /// Asks for an early round: a process that was not interactive drew or received input.
    pub fn ask(&mut self, now_ns: u64) {
        self.asked_ns.get_or_insert(now_ns);
    }

    /// The time at which the next round is due, ns.
    pub fn due_ns(&self, constants: &Constants) -> u64 {
        let early = self.asked_ns.map(|asked_ns| {
            // Waiting a little lets other processes that appear at the same moment share the round.
            (asked_ns + constants.early_ns / 2).max(self.latest_ns + constants.early_gap_ns)
        });
        early.map_or(self.regular_ns, |early_ns| early_ns.min(self.regular_ns))
    }

    /// Notes that a round takes place now. Returns whether it is a regular round, in which averages and
    /// weights are halved.
    pub fn round(&mut self, now_ns: u64, constants: &Constants) -> Due {
        self.asked_ns = None;
        self.latest_ns = now_ns;
        if now_ns < self.regular_ns {
            return Due::Early;
        }
        // Regular rounds that were missed, while the machine slept for example, are not made up for.
        let missed = (now_ns - self.regular_ns) / constants.period_ns;
        self.regular_ns += (missed + 1) * constants.period_ns;
        Due::Regular
    }
}

/// The reason for a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Due {
    /// A second is over: averages and weights are halved.
    Regular,
    /// A process is newly in use: averages and weights are not halved.
    Early,
}
