//! The rounds of the policy. Input is the reports of devices and of the collection; output is a verdict on
//! each process in use.

use std::collections::BTreeMap;

use spry_control::Rounds as Counts;
use spry_policy::{Device, Due, Graph, Place, Policy, Server, Standing, Tgid, Trigger};
use spry_sys::clock::monotonic_ns;

use super::acting::ActuatorManager;
use super::second::Second;
use super::senses::Senses;
use crate::actuator::Verdict;

/// If a round is late by this many periods, the daemon counts as having been stopped.
const LATE_PERIODS: u64 = 2;

/// The policy with its state between rounds.
pub struct Rounds {
    me: Tgid,
    policy: Policy,
    graph: Graph,
    trigger: Trigger,
    /// The processes in use since the latest round.
    standings: BTreeMap<Tgid, Standing>,
    /// The server processes of devices at the latest round.
    servers: Vec<Server>,
    regular: u64,
    early: u64,
    missed: u64,
    longest_ns: u64,
    latest_ns: Option<u64>,
    /// The latest time during which the daemon was stopped: its end and its length, ns.
    pause: Option<(u64, u64)>,
}

impl Rounds {
    /// Starts without state. The first round is due in a second, or earlier when a device reports a process.
    pub fn new(policy: Policy, now_ns: u64) -> Rounds {
        let trigger = Trigger::new(now_ns, policy.constants());
        Rounds {
            me: Tgid(std::process::id()),
            policy,
            graph: Graph::new(),
            trigger,
            standings: BTreeMap::new(),
            servers: Vec::new(),
            regular: 0,
            early: 0,
            missed: 0,
            longest_ns: 0,
            latest_ns: None,
            pause: None,
        }
    }

    /// Requests an early round, because a process drew or received input after a pause.
    pub fn ask(&mut self, now_ns: u64) {
        self.trigger.ask(now_ns);
    }

    /// The time at which the next round is due, on the monotonic clock, ns.
    pub fn due_ns(&self) -> u64 {
        self.trigger.due_ns(self.policy.constants())
    }

    /// Does one round: reads the maps and devices, lets the policy decide, and applies the verdicts. At the
    /// end of a second, `second` gets the data of that second.
    pub fn round(&mut self, senses: &mut Senses, acting: &mut ActuatorManager, second: &mut Second) -> Due {
        let began_ns = monotonic_ns();
        let late_ns = began_ns.saturating_sub(self.due_ns());
        let due = self.trigger.round(began_ns, self.policy.constants());
        let learnt = senses.learn(&mut self.graph);
        for tgid in learnt.gone {
            self.policy.forget(tgid);
        }
        // The daemon and its helpers are removed from the graph. They and the servers wait for each other,
        // but these waits show no use by a person.
        let helpers = senses.helpers();
        let is_own = |tgid: Tgid| tgid == self.me || helpers.contains(&tgid);
        helpers.iter().chain([&self.me]).for_each(|&own| self.graph.remove(own));
        let mut samples = learnt.samples;
        samples.retain(|sample| !is_own(sample.tgid));
        // The graph is copied first, since the policy halves its weights in the round at the end of a second.
        let graph = (due == Due::Regular).then(|| self.graph.clone());
        let standings = self.policy.round(&mut self.graph, &learnt.servers, &samples, due);
        let mut verdicts: Vec<Verdict> = standings.iter().map(Verdict::from).collect();
        verdicts.extend(helpers.iter().map(|&tgid| Verdict::of_helper(tgid)));
        acting.apply(&verdicts);
        let ended_ns = monotonic_ns();
        self.standings = standings.into_iter().map(|standing| (standing.tgid, standing)).collect();
        self.servers = learnt.servers;
        if let Some(graph) = graph {
            second.end(senses, graph, is_own);
        }
        self.count(due, late_ns, began_ns, ended_ns);
        due
    }

    fn count(&mut self, due: Due, late_ns: u64, began_ns: u64, ended_ns: u64) {
        match due {
            Due::Regular => self.regular += 1,
            Due::Early => self.early += 1,
        }
        let missed = late_ns / self.policy.constants().period_ns;
        if missed >= LATE_PERIODS {
            self.missed += missed;
            self.pause = Some((began_ns, late_ns));
        }
        let took_ns = ended_ns - began_ns;
        self.longest_ns = self.longest_ns.max(took_ns);
        self.latest_ns = Some(took_ns);
    }

    /// The processes in use, by their numbers.
    pub const fn standings(&self) -> &BTreeMap<Tgid, Standing> {
        &self.standings
    }

    /// The server processes of devices at the latest round.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server processes of displays.
    pub fn displays(&self) -> Vec<Tgid> {
        let is_display = |device: Device| matches!(device.place, Place::Display(_));
        self.servers
            .iter()
            .filter(|server| server.device.is_some_and(is_display))
            .map(|one| one.tgid)
            .collect()
    }

    /// The graph of dependencies between processes.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The policy with its constants and its present state.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The numbers of rounds of each kind, and the duration of the longest round.
    pub const fn counts(&self) -> Counts {
        Counts {
            regular: self.regular,
            early: Some(self.early),
            missed: self.missed,
            longest_ns: Some(self.longest_ns),
        }
    }

    /// The duration of the latest round, ns.
    pub const fn latest_ns(&self) -> Option<u64> {
        self.latest_ns
    }

    /// Warnings for the user about rounds that were missed.
    pub fn warnings(&self, now_ns: u64) -> Vec<String> {
        let pause = self.pause.map(|(ended_ns, length_ns)| {
            format!(
                "the daemon did not run for {:.1} s (stopped, or without a CPU) until {:.0} s ago; \
                 its last policy went on meanwhile",
                length_ns as f64 / 1e9,
                now_ns.saturating_sub(ended_ns) as f64 / 1e9
            )
        });
        pause.into_iter().collect()
    }
}
