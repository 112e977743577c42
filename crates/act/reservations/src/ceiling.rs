//! Ceilings: the clients that give a shared server its rank, and the CPU time that it may take by this rank.
//!
//! A server has the highest rank of the tasks that can ask it for service. In each of the shortest of their
//! periods it has a budget, which bounds the time for which reserved tasks wait for the server. Beyond its
//! budget, the server runs in the class that it would have without a ceiling.

use std::collections::VecDeque;

use crate::{OnExhaustion, Terms};

/// The most clients by which a server is ranked.
pub const CLIENTS_MAX: usize = 8;

/// The largest part of a period that a server is given by measurement alone, percent.
pub const MEASURED_PERCENT: u64 = 10;
/// The smallest budget that a server is given by measurement, ns.
const MEASURED_MIN_NS: u64 = 20_000;
/// How many seconds with requests are measured before the budget depends on them.
const SECONDS_MIN: usize = 3;
/// How many seconds are remembered.
const SECONDS_MAX: usize = 10;
/// The margin above the most that was measured, percent.
const MARGIN_PERCENT: u64 = 25;
/// A budget is lowered only if the measured budget is below this part of it, percent.
const SHRINK_PERCENT: u64 = 75;

/// A reservation of a task that can ask a server for service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// The reservation's slot.
    pub slot: u32,
    /// The CPU that admitted the reservation.
    pub cpu: u32,
    /// The length of the reservation's period, ns.
    pub period_ns: u64,
}

/// The clients by which a server is ranked: the clients with the shortest periods, the shortest first.
pub fn ranked(clients: impl IntoIterator<Item = Client>) -> Vec<Client> {
    let mut all: Vec<Client> = clients.into_iter().collect();
    all.sort_unstable_by_key(|client| (client.period_ns, client.slot));
    all.truncate(CLIENTS_MAX);
    all
}

/// The measurement of a server since the previous measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerUsage {
    /// How many requests the server completed.
    pub requests: u64,
    /// The longest CPU time of one request, ns.
    pub longest_ns: u64,
    /// The longest CPU time of all requests in one period, ns.
    pub most_ns: u64,
}

/// How much CPU time a server may take by its rank in each period.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// A fixed bound, however much the server takes.
    Given {
        /// The bound in each period, ns.
        most_ns: u64,
    },
    /// A little more than the server was measured to take, and at most a tenth of the period.
    Measured {
        /// The most CPU time in one period, ns, for each of the latest seconds in which there were requests.
        seconds: VecDeque<u64>,
    },
}

impl Bound {
    /// A bound that was given, or a measured bound without a measurement yet.
    pub fn new(given_ns: Option<u64>) -> Bound {
        match given_ns {
            Some(most_ns) => Bound::Given { most_ns },
            None => Bound::Measured { seconds: VecDeque::new() },
        }
    }

    /// Takes the measurement of one second.
    pub fn note(&mut self, served: ServerUsage) {
        let Bound::Measured { seconds } = self else { return };
        if served.requests == 0 {
            return;
        }
        if seconds.len() == SECONDS_MAX {
            seconds.pop_front();
        }
        seconds.push_back(served.most_ns);
    }

    /// The server's terms in each of the shortest of its clients' periods. `now_ns` is its present budget,
    /// ns; 0 for none.
    pub fn terms(&self, period_ns: u64, now_ns: u64) -> Terms {
        let budget_ns = match self {
            Bound::Given { most_ns } => (*most_ns).min(period_ns),
            Bound::Measured { seconds } => {
                let most_ns = period_ns / 100 * MEASURED_PERCENT;
                let wanted_ns = match seconds.iter().max() {
                    Some(&of_one_ns) if seconds.len() >= SECONDS_MIN => {
                        let with_margin_ns = of_one_ns.saturating_mul(100 + MARGIN_PERCENT) / 100;
                        with_margin_ns.clamp(MEASURED_MIN_NS.min(most_ns), most_ns)
                    }
                    _ => most_ns,
                };
                let is_near = wanted_ns <= now_ns && wanted_ns >= now_ns / 100 * SHRINK_PERCENT;
                if is_near { now_ns.min(most_ns) } else { wanted_ns }
            }
        };
        Terms { budget_ns, period_ns, on_exhaustion: OnExhaustion::Demote }
    }
}

/// The terms, then budgets that are halved again and again, for a CPU on which the terms do not fit. A given
/// bound is not halved.
pub fn tries(bound: &Bound, terms: Terms) -> impl Iterator<Item = Terms> + use<> {
    let count = match bound {
        Bound::Given { .. } => 1,
        Bound::Measured { .. } => 4,
    };
    (0..count).map(move |halved| Terms { budget_ns: terms.budget_ns >> halved, ..terms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn served(most_ns: u64) -> ServerUsage {
        ServerUsage { requests: 10, longest_ns: most_ns / 2, most_ns }
    }

    #[test]
    fn a_server_is_ranked_by_the_clients_with_the_shortest_periods() {
        let client = |slot: u32, period_ns| Client { slot, cpu: 0, period_ns };
        let all = (0..20).map(|slot| client(slot, 100 - u64::from(slot % 10)));
        let slots: Vec<u32> = ranked(all).iter().map(|client| client.slot).collect();
        assert_eq!(slots, [9, 19, 8, 18, 7, 17, 6, 16]);
        assert!(ranked([]).is_empty());
    }

    #[test]
    fn a_given_bound_is_what_it_is_and_at_most_the_period() {
        let mut bound = Bound::new(Some(3 * MS));
        (0..10).for_each(|_| bound.note(served(9 * MS)));
        assert_eq!(bound.terms(10 * MS, 0).budget_ns, 3 * MS);
        assert_eq!(bound.terms(2 * MS, 0).budget_ns, 2 * MS);
        assert_eq!(bound.terms(2 * MS, 0).on_exhaustion, OnExhaustion::Demote);
        assert_eq!(tries(&bound, bound.terms(10 * MS, 0)).count(), 1);
    }

    #[test]
    fn a_measured_bound_goes_from_a_tenth_to_the_use_and_a_quarter() {
        let mut bound = Bound::new(None);
        assert_eq!(bound.terms(10 * MS, 0).budget_ns, MS);
        bound.note(served(200_000));
        bound.note(ServerUsage::default());
        bound.note(served(400_000));
        assert_eq!(bound.terms(10 * MS, MS).budget_ns, MS);
        bound.note(served(300_000));
        assert_eq!(bound.terms(10 * MS, MS).budget_ns, 500_000);
        // The longest time is forgotten after ten seconds; small changes do not change the budget.
        (0..9).for_each(|_| bound.note(served(310_000)));
        assert_eq!(bound.terms(10 * MS, 500_000).budget_ns, 500_000);
        (0..10).for_each(|_| bound.note(served(200_000)));
        assert_eq!(bound.terms(10 * MS, 500_000).budget_ns, 250_000);
    }

    #[test]
    fn a_measured_bound_never_exceeds_a_tenth_of_the_period() {
        let mut bound = Bound::new(None);
        for longest_ns in [1, MS, 50 * MS, u64::MAX] {
            (0..12).for_each(|_| bound.note(served(longest_ns)));
            for period_ns in [100_000, 10 * MS, 4_000 * MS] {
                for now_ns in [0, MS / 2, MS, period_ns] {
                    let budget_ns = bound.terms(period_ns, now_ns).budget_ns;
                    assert!(budget_ns > 0 && budget_ns <= period_ns / 10, "{budget_ns} of {period_ns}");
                }
            }
        }
    }

    #[test]
    fn a_measured_bound_that_does_not_fit_is_halved_and_tried_again() {
        let bound = Bound::new(None);
        let budgets: Vec<u64> = tries(&bound, bound.terms(10 * MS, 0)).map(|terms| terms.budget_ns).collect();
        assert_eq!(budgets, [1_000_000, 500_000, 250_000, 125_000]);
    }
}
