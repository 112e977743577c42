//! The idle state of a CPU at the start of a wait.

use std::collections::VecDeque;

use crate::findings::IdleReason;

/// The most stays in idle states that are kept for one CPU.
const STAYS_MAX: usize = 256;

/// A stay of a CPU in an idle state.
#[derive(Debug)]
struct Stay {
    state: u32,
    start_ns: u64,
    /// `None` while the CPU is in the state.
    end_ns: Option<u64>,
}

/// The latest stays of a CPU in idle states.
#[derive(Debug, Default)]
pub(crate) struct IdleStates {
    /// The stays in order of time, the oldest first.
    stays: VecDeque<Stay>,
    /// The start of the time in which all stays are known, ns; `None` until the CPU's first event.
    known_ns: Option<u64>,
}

impl IdleStates {
    /// The CPU enters a state, or leaves the state that it is in (`None`).
    pub(crate) fn push(&mut self, time_ns: u64, state: Option<u32>) {
        let is_known = match self.stays.back_mut().filter(|stay| stay.end_ns.is_none()) {
            Some(stay) => {
                stay.end_ns = Some(time_ns);
                true
            }
            None => state.is_some(),
        };
        if !is_known {
            // The state that the CPU leaves is not known, nor are its earlier states.
            self.known_ns = Some(time_ns);
        }
        let known_ns = self.known_ns.get_or_insert(0);
        let Some(state) = state else { return };
        if self.stays.len() == STAYS_MAX {
            let forgotten = self.stays.pop_front().and_then(|stay| stay.end_ns);
            *known_ns = forgotten.map_or(*known_ns, |end_ns| end_ns.max(*known_ns));
        }
        self.stays.push_back(Stay { state, start_ns: time_ns, end_ns: None });
    }

    /// Events of the CPU are missing before this time.
    pub(crate) fn lose(&mut self, time_ns: u64) {
        self.stays.clear();
        self.known_ns = Some(time_ns);
    }

    /// Why the CPU, which was idle from `start_ns` to `end_ns`, did not take up a task that waited
    /// from `start_ns` on.
    pub(crate) fn reason(&self, start_ns: u64, end_ns: u64) -> IdleReason {
        if self.known_ns.is_none_or(|known_ns| start_ns < known_ns) {
            return IdleReason::Unknown;
        }
        let last = self.stays.iter().rev().find(|stay| stay.start_ns <= start_ns);
        match last.map(|stay| (stay.state, stay.end_ns.unwrap_or(u64::MAX).min(end_ns))) {
            Some((state, left_ns)) if left_ns > start_ns => {
                IdleReason::State { state, leaving_ns: left_ns - start_ns }
            }
            Some(_) | None => IdleReason::NoState,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(events: &[(u64, Option<u32>)]) -> IdleStates {
        let mut states = IdleStates::default();
        events.iter().for_each(|&(time_ns, state)| states.push(time_ns, state));
        states
    }

    const fn state(state: u32, leaving_ns: u64) -> IdleReason {
        IdleReason::State { state, leaving_ns }
    }

    #[test]
    fn the_state_at_the_beginning_counts_until_it_is_left() {
        let states = states(&[(10, Some(3)), (20, None), (25, Some(1)), (40, None)]);
        assert_eq!(states.reason(12, 50), state(3, 8));
        assert_eq!(states.reason(10, 15), state(3, 5), "the wait ended first");
        assert_eq!(states.reason(25, 50), state(1, 15));
        assert_eq!(states.reason(20, 50), IdleReason::NoState);
        assert_eq!(states.reason(5, 50), IdleReason::NoState, "the CPU had not entered a state yet");
        assert_eq!(states.reason(40, 50), IdleReason::NoState);
    }

    #[test]
    fn a_state_that_is_not_left_takes_the_whole_wait() {
        assert_eq!(states(&[(10, Some(2))]).reason(12, 50), state(2, 38));
    }

    #[test]
    fn the_state_before_a_missing_entry_is_unknown() {
        assert_eq!(states(&[]).reason(12, 50), IdleReason::Unknown);
        let states = states(&[(10, Some(3)), (20, None), (30, None)]);
        assert_eq!(states.reason(29, 50), IdleReason::Unknown);
        assert_eq!(states.reason(30, 50), IdleReason::NoState);
    }

    #[test]
    fn the_state_before_a_loss_is_unknown() {
        let mut states = states(&[(10, Some(3))]);
        states.lose(20);
        states.push(30, Some(1));
        assert_eq!(states.reason(12, 50), IdleReason::Unknown);
        assert_eq!(states.reason(25, 50), IdleReason::NoState);
        assert_eq!(states.reason(31, 50), state(1, 19));
    }

    #[test]
    fn stays_that_are_forgotten_are_unknown() {
        let stays = STAYS_MAX as u64 + 5;
        let events: Vec<_> = (0..stays).flat_map(|at| [(10 * at, Some(1)), (10 * at + 5, None)]).collect();
        let states = states(&events);
        assert_eq!(states.stays.len(), STAYS_MAX);
        assert_eq!(states.reason(42, 50), IdleReason::Unknown);
        assert_eq!(states.reason(52, 60), state(1, 3));
    }
}
