//! One round: ratings, shortcuts, search, levels, quanta (thesis, 8.3.2 and 8.3.3).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Tgid;
use crate::constants::{Constants, InputRank};
use crate::graph::Graph;
use crate::quanta::quantum_us;
use crate::rating::{Changes, Rating};
use crate::search::{Reached, Via, search};
use crate::trigger::Due;

/// What a device tells of one process since the latest round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Who.
    pub tgid: Tgid,
    /// What it received and drew.
    pub changes: Changes,
}

/// What a process is worth to the user until the next round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standing {
    /// Who.
    pub tgid: Tgid,
    /// 0 is the display server's; the lowest is served first.
    pub level: u8,
    /// From the device, in half edges.
    pub distance: u16,
    /// In half edges.
    pub shortcut: u16,
    /// CPU time of an epoch, us, for each of its threads.
    pub quantum_us: u32,
    /// What it receives and draws itself.
    pub rating: Rating,
    /// The way to the device.
    pub via: Via,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    average: Rating,
    /// Since the last regular round.
    current: Changes,
    /// In the second before that.
    before: Changes,
}

/// What a round knows of a process that a device told of.
#[derive(Clone, Copy, Debug)]
struct Rated {
    rating: Rating,
    current: Changes,
    /// What its input is ranked by; more goes first.
    input_rank: u64,
}

/// Who is in use, as far as known.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    constants: Constants,
    known: BTreeMap<Tgid, Known>,
}

impl Policy {
    /// Nobody is in use.
    pub fn new(constants: Constants) -> Policy {
        Policy { constants, known: BTreeMap::new() }
    }

    /// Its numbers.
    pub const fn constants(&self) -> &Constants {
        &self.constants
    }

    /// A process is no more, or has become another program by exec: it has not been used.
    pub fn forget(&mut self, tgid: Tgid) {
        self.known.remove(&tgid);
    }

    /// Decides: ratings first, then the search, and if the second is over the edges' decay, so that what happened once in
    /// it counts once. The standings are in order of level, then of number.
    pub fn round(
        &mut self,
        graph: &mut Graph,
        servers: &[Tgid],
        samples: &[Sample],
        due: Due,
    ) -> Vec<Standing> {
        // The server draws for others.
        for sample in samples.iter().filter(|sample| !servers.contains(&sample.tgid)) {
            self.known.entry(sample.tgid).or_default().current.add(sample.changes);
        }
        let ratings = self.rate(servers, due);
        let shortcuts = self.shortcuts(&ratings);
        let reached = search(graph, servers, &shortcuts, &self.constants);
        if due == Due::Regular {
            self.end_second(&ratings);
            graph.halve();
        }
        self.standings(&reached, &ratings)
    }

    fn rate(&self, servers: &[Tgid], due: Due) -> BTreeMap<Tgid, Rated> {
        // An early round sees a part of a second, and so the one before it too.
        let latest = |known: &Known| match due {
            Due::Regular => known.current.input,
            Due::Early => known.current.input.saturating_add(known.before.input),
        };
        let most = self.known.values().map(latest).max().unwrap_or(0);
        let by_latest = self.constants.input_rank == InputRank::LatestSecond && most > 0;
        // Whom the user has just turned to had no time to receive as much as the one they turn from.
        let is_turned_to = |known: &Known| known.before.input == 0 && known.current.input > 0;
        let rated = |known: &Known| {
            let rating = known.average.after(known.current, &self.constants);
            let input_rank = match by_latest {
                true if is_turned_to(known) => u64::from(most),
                true => u64::from(latest(known)),
                false => rating.input(),
            };
            Rated { rating, current: known.current, input_rank }
        };
        let clients = self.known.iter().filter(|(tgid, _)| !servers.contains(tgid));
        clients.map(|(&tgid, known)| (tgid, rated(known))).collect()
    }

    /// What the second brought becomes part of the averages.
    fn end_second(&mut self, ratings: &BTreeMap<Tgid, Rated>) {
        let explicit = ratings.iter().filter(|(_, rated)| rated.rating.is_explicit());
        let known = |(&tgid, rated): (&Tgid, &Rated)| {
            (tgid, Known { average: rated.rating, current: Changes::default(), before: rated.current })
        };
        self.known = explicit.map(known).collect();
    }

    /// The shortcuts of those who receive or draw themselves. All rules that apply add up.
    fn shortcuts(&self, ratings: &BTreeMap<Tgid, Rated>) -> BTreeMap<Tgid, u16> {
        let constants = &self.constants;
        let best_input = ratings.values().map(|rated| rated.input_rank).max().unwrap_or(0);
        let least_input = (best_input * u64::from(constants.input_least_percent)).div_ceil(100).max(1);
        let mut shortcuts: BTreeMap<Tgid, u16> = BTreeMap::new();
        for (&tgid, rated) in ratings.iter().filter(|(_, rated)| rated.rating.is_explicit()) {
            let output = if rated.rating.output() > 0 { constants.output_shortcut } else { 0 };
            let input = if rated.input_rank >= least_input { constants.input_shortcut } else { 0 };
            shortcuts.insert(tgid, output + input);
        }
        let output = |rated: &Rated| (rated.rating.output(), rated.current.output_ppm);
        let input = |rated: &Rated| (rated.input_rank, u64::from(rated.current.input));
        let top_output = top(ratings, constants.top_output, output, 1);
        let top_input = top(ratings, constants.top_input, input, least_input);
        for (tops, more) in
            [(top_output, constants.top_output_shortcut), (top_input, constants.top_input_shortcut)]
        {
            for tgid in tops {
                *shortcuts.entry(tgid).or_default() += more;
            }
        }
        shortcuts
    }

    fn standings(&self, reached: &Reached, ratings: &BTreeMap<Tgid, Rated>) -> Vec<Standing> {
        let level = |distance: u16, shortcut: u16, via: Via| match via {
            Via::Device => 0,
            _ => u8::try_from((distance + self.constants.level_shift()).saturating_sub(shortcut).max(1))
                .unwrap_or(u8::MAX),
        };
        let mut standings: Vec<Standing> = reached
            .iter()
            .map(|&(tgid, found)| Standing {
                tgid,
                level: level(found.distance, found.shortcut, found.via),
                distance: found.distance,
                shortcut: found.shortcut,
                quantum_us: 0,
                rating: Rating::default(),
                via: found.via,
            })
            .collect();
        standings.sort_unstable_by_key(|standing| (standing.level, standing.tgid));
        let mut rank = 0;
        for at in 0..standings.len() {
            rank += usize::from(at > 0 && standings[at].level != standings[at - 1].level);
            let standing = &mut standings[at];
            standing.quantum_us = quantum_us(standing.level, rank, &self.constants);
            // Only those that a device told of have any.
            if let (Via::Direct, Some(rated)) = (standing.via, ratings.get(&standing.tgid)) {
                standing.rating = rated.rating;
            }
        }
        standings
    }
}

/// Those with the most of something, `least` at least; ties go by the second number, then to the lower process.
fn top(
    ratings: &BTreeMap<Tgid, Rated>,
    most: usize,
    of: impl Fn(&Rated) -> (u64, u64),
    least: u64,
) -> Vec<Tgid> {
    let mut list: Vec<(Reverse<(u64, u64)>, Tgid)> = ratings
        .iter()
        .filter(|(_, rated)| of(rated).0 >= least.max(1))
        .map(|(&tgid, rated)| (Reverse(of(rated)), tgid))
        .collect();
    list.sort_unstable();
    list.truncate(most);
    list.into_iter().map(|(_, tgid)| tgid).collect()
}
