//! What the daemon shows of itself and of everybody: the status and the explanations.

use std::collections::BTreeSet;

use spry_control::{
    Credit, CreditKind, Explanation, GraphSize, Neighbour, PolicyName, Refusal, RefusalKind, Status, Step,
    Task, TaskClass,
};
use spry_policy::{Constants, Edge, Standing, Tgid, Via};

use super::Daemon;
use super::process::{self, Process};
use super::system::own_cpu_ns;
use crate::actuator::Class;
use crate::guardian::watch::now_ns;

/// Others than those in use are shown from this share of a CPU on, and at most so many.
const OTHERS_SHARE_LEAST: f64 = 0.01;
const OTHERS_MAX: usize = 40;
/// Of those in use so many are shown, by level, and of so many how long they wait.
const IN_USE_MAX: usize = 1000;
const WAITS_MAX: usize = 32;
/// Steps of a way that are shown.
const STEPS_MAX: usize = 40;

impl Daemon {
    /// The whole status, as root may see it.
    pub(super) fn status(&mut self) -> Status {
        let now_ns = now_ns();
        let uptime_ns = now_ns.saturating_sub(self.began_ns);
        let tasks = self.tasks();
        let mut warnings = self.warnings.clone();
        warnings.extend(self.acting.warnings());
        warnings.extend(self.senses.warnings());
        warnings.extend(self.rounds.warnings(now_ns));
        let graph = self.rounds.graph();
        Status {
            actuator: self.acting.name().to_owned(),
            uptime_s: uptime_ns as f64 / 1e9,
            policy_ns_last: self.rounds.latest_ns(),
            tasks,
            lost_edges: self.senses.lost_edges(),
            tgid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: if *self.constants() == Constants::thesis() {
                PolicyName::Thesis
            } else {
                PolicyName::Default
            },
            acting: self.acting.account(now_ns),
            rounds: self.rounds.counts(),
            graph: self
                .senses
                .collector()
                .map(|_| GraphSize { processes: graph.len() as u64, recycled: graph.recycled() }),
            devices: self.senses.devices(),
            daemon_cpu_share: own_cpu_ns().saturating_sub(self.began_cpu_ns) as f64 / uptime_ns.max(1) as f64,
            warnings,
        }
    }

    fn constants(&self) -> &Constants {
        self.rounds.policy().constants()
    }

    fn tasks(&mut self) -> Vec<Task> {
        let mut in_use: Vec<(u8, Tgid)> =
            self.rounds.standings().values().map(|standing| (standing.level, standing.tgid)).collect();
        in_use.sort_unstable();
        in_use.truncate(IN_USE_MAX);
        let mut shown: Vec<Tgid> = in_use.into_iter().map(|(_, tgid)| tgid).collect();
        self.shares.measure_waits(shown.iter().copied().take(WAITS_MAX));
        let mut seen: BTreeSet<Tgid> = shown.iter().copied().collect();
        let by_hand: Vec<Tgid> = self.hands.all().map(|(tgid, _)| tgid).collect();
        let others = self.shares.most(OTHERS_SHARE_LEAST);
        shown.extend(by_hand.into_iter().filter(|&tgid| seen.insert(tgid)));
        shown.extend(others.into_iter().filter(|&tgid| seen.insert(tgid)).take(OTHERS_MAX));
        // Who ended since the round is left out.
        shown.into_iter().filter_map(|tgid| self.task(tgid)).collect()
    }

    /// A process, if it still is.
    fn task(&self, tgid: Tgid) -> Option<Task> {
        let found = Process::of(tgid)?;
        let standing = self.rounds.standings().get(&tgid);
        let hand = self.hands.of(tgid);
        let class = match hand.map(|hand| hand.class) {
            Some(Class::Interactive) => TaskClass::Interactive,
            Some(Class::Idle) => TaskClass::Idle,
            Some(_) => TaskClass::Other,
            None if tgid.0 == std::process::id() => TaskClass::Daemon,
            None if standing.is_some() && !found.is_kernel() => TaskClass::Interactive,
            None => found.class(),
        };
        let rating = standing.map(|standing| standing.rating);
        Some(Task {
            tgid: tgid.0,
            comm: found.comm,
            class,
            level: standing.map(|standing| standing.level),
            distance: standing.map(|standing| standing.distance),
            shortcut: standing.map(|standing| standing.shortcut),
            input_per_s: rating.map(|rating| rating.input_per_s(self.constants())),
            output_per_s: rating.map(|rating| rating.output_per_s()),
            quantum_ms: standing.map(|standing| f64::from(standing.quantum_us) / 1_000.0),
            cpu_share: self.shares.share(tgid),
            frames_per_s: self.senses.frames_per_s(tgid),
            dispatch_us: self.shares.dispatch_us(tgid),
            by_hand: hand.is_some(),
            path: standing.map(|standing| self.path(standing)).unwrap_or_default(),
        })
    }

    /// The way from the device, whose end is the process itself.
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
                Via::Process(before, _) => match self.rounds.standings().get(&before) {
                    Some(before) => at = before,
                    None => break,
                },
                Via::Direct => {
                    // The device told of it, through its server where it has one.
                    let server = self.senses.server_of(at.tgid).filter(|&server| server != at.tgid);
                    let server = server.and_then(|server| self.rounds.standings().get(&server));
                    steps.extend(server.map(|server| self.step(server, None)));
                    steps.extend(self.device_step(at.tgid));
                    break;
                }
                Via::Device => {
                    steps.extend(self.device_step(at.tgid));
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
            input_per_s: Some(rating.input_per_s(self.constants())),
            output_per_s: Some(rating.output_per_s()),
        }
    }

    fn device_step(&self, tgid: Tgid) -> Option<Step> {
        let name = self.senses.device_of(tgid)?.to_owned();
        Some(Step { tgid: None, name, level: None, weight: None, input_per_s: None, output_per_s: None })
    }

    /// Why a process is in use, or why not, as root may see it.
    pub(super) fn explain(&mut self, tid: u32) -> Result<Explanation, Refusal> {
        let no_process = || Refusal {
            kind: RefusalKind::NoProcess,
            text: format!("there is no process {tid} (see `spry top` for those in use)"),
        };
        let tgid = process::of_thread(tid).ok_or_else(no_process)?;
        self.shares.measure([tgid], now_ns());
        self.shares.measure_waits([tgid]);
        let task = self.task(tgid).ok_or_else(no_process)?;
        let standing = self.rounds.standings().get(&tgid);
        let (credits_of, credits) = standing.map(|standing| self.credits(standing)).unwrap_or_default();
        let edges = |edges: fn(&spry_policy::Graph, Tgid) -> Vec<Edge>| {
            let graph = self.senses.collector().map(|_| self.rounds.graph())?;
            Some(edges(graph, tgid).into_iter().filter_map(|edge| self.neighbour(edge)).collect())
        };
        Ok(Explanation {
            task,
            in_use: standing.is_some(),
            credits,
            credits_of,
            depends_on: edges(spry_policy::Graph::outgoing),
            needed_by: edges(spry_policy::Graph::incoming),
            edge_length: self.constants().edge_length,
            set_by_uid: self.hands.of(tgid).map(|hand| hand.uid),
            state: self.acting.state(),
            actuator: self.acting.name().to_owned(),
        })
    }

    fn neighbour(&self, edge: Edge) -> Option<Neighbour> {
        let standing = self.rounds.standings().get(&edge.on);
        Some(Neighbour {
            tgid: edge.on.0,
            comm: Process::of(edge.on)?.comm,
            weight: edge.weight,
            level: standing.map(|standing| standing.level),
        })
    }

    /// Who earned the shortcut of a process, and what for.
    fn credits(&self, standing: &Standing) -> (Option<u32>, Vec<Credit>) {
        let mut earner = standing;
        let mut visited = BTreeSet::new();
        while let Via::Process(before, _) = earner.via {
            match self.rounds.standings().get(&before) {
                Some(found) if visited.insert(before) => earner = found,
                _ => break,
            }
        }
        if standing.shortcut == 0 || earner.via == Via::Device {
            return (None, Vec::new());
        }
        let draws = earner.rating.output() > 0;
        (Some(earner.tgid.0), parts(standing.shortcut, draws, self.constants()))
    }
}

/// The parts that a shortcut is the sum of.
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
    // The best of a rating has it; who draws gets something for it.
    let is_possible = |set: &usize| {
        (set & 1 != 0) == draws
            && (set & 2 == 0 || set & 1 != 0)
            && (set & 8 == 0 || set & 4 != 0)
            && chosen(*set).map(|credit| credit.half_edges).sum::<u16>() == shortcut
    };
    (0..1 << all.len()).find(is_possible).map(|set| chosen(set).collect()).unwrap_or_default()
}

/// What a user who is not root may see: how much others type and draw is theirs.
pub(super) fn redact(task: &mut Task, uid: u32) {
    if uid == 0 {
        return;
    }
    let is_own = |tgid: u32| process::owner(Tgid(tgid)) == Some(uid);
    if !is_own(task.tgid) {
        (task.input_per_s, task.output_per_s, task.frames_per_s) = (None, None, None);
    }
    for step in &mut task.path {
        if step.tgid.is_some_and(|tgid| !is_own(tgid)) {
            (step.input_per_s, step.output_per_s) = (None, None);
        }
    }
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
