//! One round: ratings, shortcuts, search, levels, quanta (thesis, 8.3.2 and 8.3.3).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Tgid;
use crate::constants::{Constants, InputRank};
use crate::device::{Device, DeviceBook, Sample, Server};
use crate::graph::Graph;
use crate::quanta::quantum_us;
use crate::rating::{Changes, Rating};
use crate::search::{Reach, Via, search};
use crate::trigger::Due;

/// The decision of the policy about a process, until the next round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standing {
    /// The number of the process.
    pub tgid: Tgid,
    /// The level: 0 is the display server's. A process of a lower level is served first.
    pub level: u8,
    /// The distance of the process from the device, in half edges.
    pub distance: u16,
    /// The shortcut of the process, in half edges.
    pub shortcut: u16,
    /// The CPU time that the threads of the process have together in an epoch, us.
    pub quantum_us: u32,
    /// The averages of the process' own input and drawing.
    pub rating: Rating,
    /// The way by which the search reached the process.
    pub via: Via,
    /// The device that reported the process itself; `None` if no device did.
    pub device: Option<Device>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ProcessHistory {
    average: Rating,
    /// Input and drawing since the last regular round.
    current: Changes,
    /// Input and drawing in the second before the last regular round.
    before: Changes,
    /// The number of seconds in a row, up to the latest regular round, in which the process drew nothing.
    still_s: u8,
}

/// The state of a process that a device reported, in one round.
#[derive(Clone, Copy, Debug)]
struct RatedProcess {
    rating: Rating,
    current: Changes,
    /// The number by which the process is ranked by input; a larger number goes first.
    input_rank: u64,
    /// See [`ProcessHistory::still_s`].
    still_s: u8,
}

impl RatedProcess {
    /// Whether the input of the process shows that the user uses it: its rank is at least `least`.
    const fn receives(&self, least: u64) -> bool {
        self.input_rank >= least
    }

    /// Whether the drawing of the process shows that the user uses it. If the process also receives input,
    /// any drawing counts, such as the echo of typed characters.
    fn shows(&self, least_input: u64, constants: &Constants) -> bool {
        let output = self.rating.output();
        let is_noticed = output >= constants.output_least && self.still_s < constants.output_memory_s;
        output > 0 && (is_noticed || self.receives(least_input))
    }
}

/// The policy: finds the processes in use, as far as devices and the edges of the graph show them.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    constants: Constants,
    known: BTreeMap<Tgid, ProcessHistory>,
    told: DeviceBook,
}

impl Policy {
    /// A policy without any process in use.
    pub fn new(constants: Constants) -> Policy {
        Policy { constants, known: BTreeMap::new(), told: DeviceBook::default() }
    }

    /// The constants of this policy.
    pub const fn constants(&self) -> &Constants {
        &self.constants
    }

    /// Forgets the input and the drawing of a process that has exited, or has become another program by exec.
    pub fn forget(&mut self, tgid: Tgid) {
        self.known.remove(&tgid);
        self.told.forget(tgid);
    }

    /// A copy of the policy with only the processes that `is_among` admits, as if no other processes were
    /// there to be ranked.
    #[must_use]
    pub fn among(&self, mut is_among: impl FnMut(Tgid) -> bool) -> Policy {
        let mut policy = self.clone();
        policy.known.retain(|&tgid, _| is_among(tgid));
        policy.told.retain(is_among);
        policy
    }

    /// The processes that themselves received input or drew lately, in order of their numbers.
    pub fn known(&self) -> impl Iterator<Item = Tgid> + '_ {
        self.known.keys().copied()
    }

    /// The device that reported a process; `None` if no device did lately.
    pub fn device(&self, tgid: Tgid) -> Option<Device> {
        self.told.of(tgid)
    }

    /// The devices that reported processes lately, once for each process.
    pub fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.told.devices()
    }

    /// Decides the standings: computes the ratings and then searches the graph. A regular round ends a
    /// second: after its search the weights of edges are halved, so that an event in this second counts once.
    /// The standings are in order of level, then of the process' number.
    pub fn round(
        &mut self,
        graph: &mut Graph,
        servers: &[Server],
        samples: &[Sample],
        due: Due,
    ) -> Vec<Standing> {
        self.told.note(servers, samples);
        let servers = &processes(servers);
        self.add(servers, samples);
        let ratings = self.rate(servers, due);
        let shortcuts = self.shortcuts(&ratings);
        let reached = search(graph, servers, &shortcuts, &self.constants);
        if due == Due::Regular {
            self.end_second(servers, &ratings);
            graph.halve();
        }
        self.standings(&reached, &ratings)
    }

    /// Takes in the samples of a second without deciding anything: they become part of the averages.
    pub fn learn(&mut self, servers: &[Server], samples: &[Sample]) {
        self.told.note(servers, samples);
        let servers = &processes(servers);
        self.add(servers, samples);
        let ratings = self.rate(servers, Due::Regular);
        self.end_second(servers, &ratings);
    }

    fn add(&mut self, servers: &[Tgid], samples: &[Sample]) {
        // A display server's own samples are left out: the server draws for its clients.
        for sample in samples.iter().filter(|sample| !servers.contains(&sample.tgid)) {
            self.known.entry(sample.tgid).or_default().current.add(sample.changes);
        }
    }

    fn rate(&self, servers: &[Tgid], due: Due) -> BTreeMap<Tgid, RatedProcess> {
        // An early round sees only a part of a second, so it counts the input of the second before, too.
        let latest = |known: &ProcessHistory| match due {
            Due::Regular => known.current.input,
            Due::Early => known.current.input.saturating_add(known.before.input),
        };
        let most = self.known.values().map(latest).max().unwrap_or(0);
        let by_latest = self.constants.input_rank == InputRank::LatestSecond && most > 0;
        // The process that the user has just turned to had less time to receive input than the process that
        // the user turned from.
        let is_turned_to = |known: &ProcessHistory| known.before.input == 0 && known.current.input > 0;
        let rated = |known: &ProcessHistory| {
            let rating = known.average.after(known.current, &self.constants);
            let input_rank = match by_latest {
                true if is_turned_to(known) => u64::from(most),
                true => u64::from(latest(known)),
                false => rating.input(),
            };
            let still_s = match (known.current.output_ppm, due) {
                (0, Due::Regular) => known.still_s.saturating_add(1),
                (0, Due::Early) => known.still_s,
                _ => 0,
            };
            RatedProcess { rating, current: known.current, input_rank, still_s }
        };
        let clients = self.known.iter().filter(|(tgid, _)| !servers.contains(tgid));
        clients.map(|(&tgid, known)| (tgid, rated(known))).collect()
    }

    /// Ends a second: each process' input and drawing in it become part of its averages.
    fn end_second(&mut self, servers: &[Tgid], ratings: &BTreeMap<Tgid, RatedProcess>) {
        let explicit = ratings.iter().filter(|(_, rated)| rated.rating.is_explicit());
        let known = |(&tgid, rated): (&Tgid, &RatedProcess)| {
            let current = Changes::default();
            (
                tgid,
                ProcessHistory {
                    average: rated.rating,
                    current,
                    before: rated.current,
                    still_s: rated.still_s,
                },
            )
        };
        self.known = explicit.map(known).collect();
        self.told.retain(|tgid| self.known.contains_key(&tgid) || servers.contains(&tgid));
    }

    /// The shortcuts of processes that receive input or draw themselves. A process gets the sum of all rules
    /// that apply to it.
    fn shortcuts(&self, ratings: &BTreeMap<Tgid, RatedProcess>) -> BTreeMap<Tgid, u16> {
        let constants = &self.constants;
        let best_input = ratings.values().map(|rated| rated.input_rank).max().unwrap_or(0);
        let least_input = (best_input * u64::from(constants.input_least_percent)).div_ceil(100).max(1);
        let mut shortcuts: BTreeMap<Tgid, u16> = BTreeMap::new();
        for (&tgid, rated) in ratings {
            let shows = rated.shows(least_input, constants);
            if shows || rated.rating.input() > 0 {
                let output = if shows { constants.output_shortcut } else { 0 };
                let input = if rated.receives(least_input) { constants.input_shortcut } else { 0 };
                shortcuts.insert(tgid, output + input);
            }
        }
        let output = |rated: &RatedProcess| match rated.shows(least_input, constants) {
            true => (rated.rating.output(), rated.current.output_ppm),
            false => (0, 0),
        };
        let input = |rated: &RatedProcess| (rated.input_rank, u64::from(rated.current.input));
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

    fn standings(&self, reached: &Reach, ratings: &BTreeMap<Tgid, RatedProcess>) -> Vec<Standing> {
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
                device: self.told.of(tgid),
            })
            .collect();
        standings.sort_unstable_by_key(|standing| (standing.level, standing.tgid));
        let mut rank = 0;
        for at in 0..standings.len() {
            rank += usize::from(at > 0 && standings[at].level != standings[at - 1].level);
            let standing = &mut standings[at];
            standing.quantum_us = quantum_us(standing.level, rank, &self.constants);
            // Only a process that a device reported has a rating of its own.
            if let (Via::Direct, Some(rated)) = (standing.via, ratings.get(&standing.tgid)) {
                standing.rating = rated.rating;
            }
        }
        standings
    }
}

fn processes(servers: &[Server]) -> Vec<Tgid> {
    servers.iter().map(|server| server.tgid).collect()
}

/// The processes with the largest first number, each with `least` at least. Of processes with equal first
/// numbers, the process with the larger second number goes first, then the process with the lower number.
fn top(
    ratings: &BTreeMap<Tgid, RatedProcess>,
    most: usize,
    of: impl Fn(&RatedProcess) -> (u64, u64),
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
