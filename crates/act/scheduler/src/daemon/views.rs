//! The view of processes for users: the processes in use, and the reasons.

use std::collections::{BTreeMap, BTreeSet};

use spry_control::{
    Credit, CreditKind, Explanation, Neighbour, QuantumUs, Scope, Step, TaskClass, TaskStatus,
};
use spry_policy::{Constants, Edge, Graph, Standing, Tgid, Via};
use spry_sys::clock::monotonic_ns;

use super::acting::ActuatorManager;
use super::by_hand::ManualOverrides;
use super::devices::{self, DeviceData};
use super::process::Process;
use super::shares::Shares;
use crate::actuator::Class;

/// Processes that are not in use are shown from this share of a CPU on, and at most this many of them.
const OTHERS_SHARE_LEAST: f64 = 0.01;
const OTHERS_MAX: usize = 40;
/// The most processes in use that are shown, by level. For the first WAITS_MAX of them the view includes
/// their waits for a CPU.
const IN_USE_MAX: usize = 1000;
const WAITS_MAX: usize = 32;
/// The most steps of a path that are shown.
const STEPS_MAX: usize = 40;

/// The data for answers: the data of all users, or one user's part.
pub(super) struct Sight<'a> {
    pub constants: &'a Constants,
    pub standings: &'a BTreeMap<Tgid, Standing>,
    /// The graph of dependencies; `None` if the collection could not be loaded.
    pub graph: Option<&'a Graph>,
    pub telling: DeviceData<'a>,
    pub shares: &'a mut Shares,
    pub by_hand: &'a ManualOverrides,
    pub acting: &'a ActuatorManager,
}

impl Sight<'_> {
    /// The processes that the caller may see, in this order: processes in use, by level; processes with a
    /// manual override; other processes that use CPU time.
    pub fn tasks(&mut self, is_among: impl Fn(Tgid) -> bool) -> Vec<TaskStatus> {
        let standings = self.standings.values().filter(|standing| is_among(standing.tgid));
        let mut in_use: Vec<(u8, Tgid)> = standings.map(|standing| (standing.level, standing.tgid)).collect();
        in_use.sort_unstable();
        in_use.truncate(IN_USE_MAX);
        let mut shown: Vec<Tgid> = in_use.into_iter().map(|(_, tgid)| tgid).collect();
        self.shares.measure_waits(shown.iter().copied().take(WAITS_MAX));
        let mut seen: BTreeSet<Tgid> = shown.iter().copied().collect();
        let by_hand: Vec<Tgid> =
            self.by_hand.all().map(|(tgid, _)| tgid).filter(|&tgid| is_among(tgid)).collect();
        let others = self.shares.most(OTHERS_SHARE_LEAST).into_iter().filter(|&tgid| is_among(tgid));
        shown.extend(by_hand.into_iter().filter(|&tgid| seen.insert(tgid)));
        shown.extend(others.filter(|&tgid| seen.insert(tgid)).take(OTHERS_MAX));
        // A process that has exited since the round is left out.
        shown.into_iter().filter_map(|tgid| self.task(tgid)).collect()
    }

    /// The view of a process; `None` if it has exited.
    fn task(&self, tgid: Tgid) -> Option<TaskStatus> {
        let found = Process::of(tgid)?;
        let standing = self.standings.get(&tgid);
        let hand = self.by_hand.of(tgid);
        let class = match hand.map(|hand| hand.class) {
            Some(Class::Interactive) => TaskClass::Interactive,
            Some(Class::Idle) => TaskClass::Idle,
            Some(_) => TaskClass::Other,
            None if tgid.0 == std::process::id() => TaskClass::Daemon,
            None if standing.is_some() && !found.is_kernel() => TaskClass::Interactive,
            None => found.class(),
        };
        let rating = standing.map(|standing| standing.rating);
        // A quantum that is set for the class replaces the level's.
        let set_us = self.acting.knobs().quanta.interactive_us.map(QuantumUs::get);
        let quantum_ms = |standing: &Standing| f64::from(set_us.unwrap_or(standing.quantum_us)) / 1_000.0;
        Some(TaskStatus {
            tgid: tgid.0,
            comm: found.comm,
            class,
            level: standing.map(|standing| standing.level),
            distance: standing.map(|standing| standing.distance),
            shortcut: standing.map(|standing| standing.shortcut),
            input_per_s: rating.map(|rating| rating.input_per_s(self.constants)),
            output_per_s: rating.map(|rating| rating.output_per_s()),
            quantum_ms: standing.map(quantum_ms),
            cpu_share: self.shares.share(tgid),
            frames_per_s: self.telling.frames_per_s.get(&tgid).copied(),
            dispatch_us: self.shares.dispatch_us(tgid),
            by_hand: hand.is_some(),
            path: standing.map(|standing| self.path(standing)).unwrap_or_default(),
        })
    }

    /// The path from the device to the process, both included.
    fn path(&self, standing: &Standing) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = standing;
        let mut visited = BTreeSet::new();
        while visited.insert(at.tgid) && steps.len() < STEPS_MAX {
            let weight = match at.via {
                Via::Process(_, weight) => Some(weight),
                Via::Device | Via::Direct => None,
            };
            steps.push(self.step(at, weight));
            match at.via {
                Via::Process(before, _) => match self.standings.get(&before) {
                    Some(before) => at = before,
                    None => break,
                },
                Via::Direct => {
                    // A device reported the process. The device's server, if any, is a step between them.
                    let server = at.device.and_then(|device| self.telling.server(device.place));
                    let server = server.filter(|&server| server != at.tgid);
                    let server = server.and_then(|server| self.standings.get(&server));
                    steps.extend(server.map(|server| self.step(server, None)));
                    steps.extend(device_step(at));
                    break;
                }
                Via::Device => {
                    steps.extend(device_step(at));
                    break;
                }
            }
        }
        steps.reverse();
        steps
    }

    fn step(&self, standing: &Standing, weight: Option<u32>) -> Step {
        let name = Process::of(standing.tgid).map_or_else(|| "?".to_owned(), |found| found.comm);
        let rating = standing.rating;
        Step {
            tgid: Some(standing.tgid.0),
            name,
            level: Some(standing.level),
            weight,
            input_per_s: Some(rating.input_per_s(self.constants)),
            output_per_s: Some(rating.output_per_s()),
        }
    }

    /// The reasons why a process is in use, or is not.
    pub fn explain(&mut self, tgid: Tgid) -> Option<Explanation> {
        self.shares.measure([tgid], monotonic_ns());
        self.shares.measure_waits([tgid]);
        let task = self.task(tgid)?;
        let standing = self.standings.get(&tgid);
        let (credits_of, credits) = standing.map(|standing| self.credits(standing)).unwrap_or_default();
        let edges = |edges: fn(&Graph, Tgid) -> Vec<Edge>| {
            Some(edges(self.graph?, tgid).into_iter().filter_map(|edge| self.neighbour(edge)).collect())
        };
        Some(Explanation {
            scope: Scope::All,
            task,
            in_use: standing.is_some(),
            credits,
            credits_of,
            depends_on: edges(Graph::outgoing),
            needed_by: edges(Graph::incoming),
            edge_length: self.constants.edge_length,
            set_by_uid: self.by_hand.of(tgid).map(|hand| hand.uid),
            state: self.acting.state(),
            actuator: self.acting.name().to_owned(),
        })
    }

    fn neighbour(&self, edge: Edge) -> Option<Neighbour> {
        let standing = self.standings.get(&edge.on);
        Some(Neighbour {
            tgid: edge.on.0,
            comm: Process::of(edge.on)?.comm,
            weight: edge.weight,
            level: standing.map(|standing| standing.level),
        })
    }

    /// The process that earned a process' shortcut, and the credits of which the shortcut consists.
    fn credits(&self, standing: &Standing) -> (Option<u32>, Vec<Credit>) {
        let mut earner = standing;
        let mut visited = BTreeSet::new();
        while let Via::Process(before, _) = earner.via {
            match self.standings.get(&before) {
                Some(found) if visited.insert(before) => earner = found,
                _ => break,
            }
        }
        if standing.shortcut == 0 || earner.via == Via::Device {
            return (None, Vec::new());
        }
        let draws = earner.rating.output() > 0;
        (Some(earner.tgid.0), parts(standing.shortcut, draws, self.constants))
    }
}

fn device_step(standing: &Standing) -> Option<Step> {
    let name = devices::name(standing.device?.place);
    Some(Step { tgid: None, name, level: None, weight: None, input_per_s: None, output_per_s: None })
}

/// The credits that add up to a shortcut.
fn parts(shortcut: u16, draws: bool, constants: &Constants) -> Vec<Credit> {
    let all = [
        (CreditKind::Draws, constants.output_shortcut),
        (CreditKind::DrawsMost, constants.top_output_shortcut),
        (CreditKind::ReceivesInput, constants.input_shortcut),
        (CreditKind::ReceivesMost, constants.top_input_shortcut),
    ];
    let chosen = |set: usize| {
        let members = all.into_iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0);
        members.map(|(_, (kind, half_edges))| Credit { kind, half_edges })
    };
    // Only a process that draws can be among the processes that draw most, and a process that draws always
    // has the credit for drawing. The same holds for input.
    let is_possible = |set: &usize| {
        (set & 1 != 0) == draws
            && (set & 2 == 0 || set & 1 != 0)
            && (set & 8 == 0 || set & 4 != 0)
            && chosen(*set).map(|credit| credit.half_edges).sum::<u16>() == shortcut
    };
    (0..1 << all.len()).find(is_possible).map(|set| chosen(set).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shortcut_has_its_parts() {
        use CreditKind::{Draws, DrawsMost, ReceivesInput, ReceivesMost};
        let constants = Constants::default();
        let kinds = |shortcut, draws| -> Vec<CreditKind> {
            parts(shortcut, draws, &constants).iter().map(|credit| credit.kind).collect()
        };
        assert_eq!(kinds(1, true), [Draws]);
        assert_eq!(kinds(2, true), [Draws, DrawsMost]);
        assert_eq!(kinds(2, false), [ReceivesInput]);
        assert_eq!(kinds(6, false), [ReceivesInput, ReceivesMost]);
        assert_eq!(kinds(8, true), [Draws, DrawsMost, ReceivesInput, ReceivesMost]);
        assert_eq!(kinds(0, false), []);
    }
}
