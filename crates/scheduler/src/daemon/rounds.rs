//! The rounds of the policy: what was learnt goes in, everybody's place comes out.

use std::collections::BTreeMap;

use spry_control::Rounds as Counts;
use spry_policy::{Due, Graph, Policy, Standing, Tgid, Trigger};

use super::acting::Acting;
use super::senses::Senses;
use crate::actuator::Verdict;
use crate::guardian::watch::now_ns;

/// A round so late, in periods, means that the daemon did not run.
const LATE_PERIODS: u64 = 2;

/// The policy at work.
pub struct Rounds {
    me: Tgid,
    policy: Policy,
    graph: Graph,
    trigger: Trigger,
    /// Who is in use since the latest round.
    standings: BTreeMap<Tgid, Standing>,
    counts: Counts,
    latest_ns: Option<u64>,
    /// The latest time that the daemon did not run for: when that ended, and how long it was.
    pause: Option<(u64, u64)>,
}

impl Rounds {
    /// The first is due in a second, or when a device tells of somebody.
    pub fn new(policy: Policy, now_ns: u64) -> Rounds {
        let trigger = Trigger::new(now_ns, policy.constants());
        Rounds {
            me: Tgid(std::process::id()),
            policy,
            graph: Graph::new(),
            trigger,
            standings: BTreeMap::new(),
            counts: Counts::default(),
            latest_ns: None,
            pause: None,
        }
    }

    /// Somebody drew or received input who did not lately.
    pub fn ask(&mut self, now_ns: u64) {
        self.trigger.ask(now_ns);
    }

    /// When the next one is due.
    pub fn due_ns(&self) -> u64 {
        self.trigger.due_ns(self.policy.constants())
    }

    /// One round, from reading the maps to the last write.
    pub fn round(&mut self, senses: &mut Senses, acting: &mut Acting) -> Due {
        let began_ns = now_ns();
        let late_ns = began_ns.saturating_sub(self.due_ns());
        let due = self.trigger.round(began_ns, self.policy.constants());
        let learnt = senses.learn(&mut self.graph);
        for tgid in learnt.gone {
            self.policy.forget(tgid);
        }
        // The daemon itself is left out: it waits for servers and they for it, which is nobody's use of anything.
        self.graph.remove(self.me);
        let mut samples = learnt.samples;
        samples.retain(|sample| sample.tgid != self.me);
        let standings = self.policy.round(&mut self.graph, &learnt.servers, &samples, due);
        let verdicts: Vec<Verdict> = standings.iter().map(Verdict::from).collect();
        acting.apply(&verdicts);
        let ended_ns = now_ns();
        self.standings = standings.into_iter().map(|standing| (standing.tgid, standing)).collect();
        senses.note(|tgid| self.standings.contains_key(&tgid));
        self.count(due, late_ns, began_ns, ended_ns);
        due
    }

    fn count(&mut self, due: Due, late_ns: u64, began_ns: u64, ended_ns: u64) {
        match due {
            Due::Regular => self.counts.regular += 1,
            Due::Early => self.counts.early += 1,
        }
        let missed = late_ns / self.policy.constants().period_ns;
        if missed >= LATE_PERIODS {
            self.counts.missed += missed;
            self.pause = Some((began_ns, late_ns));
        }
        let took_ns = ended_ns - began_ns;
        self.counts.longest_ns = self.counts.longest_ns.max(took_ns);
        self.latest_ns = Some(took_ns);
    }

    /// Who is in use, by number.
    pub const fn standings(&self) -> &BTreeMap<Tgid, Standing> {
        &self.standings
    }

    /// Who depends on whom.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How many there were.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// What the latest took, ns.
    pub const fn latest_ns(&self) -> Option<u64> {
        self.latest_ns
    }

    /// What the user should know.
    pub fn warnings(&self, now_ns: u64) -> Vec<String> {
        let pause = self.pause.map(|(ended_ns, length_ns)| {
            format!(
                "the daemon did not run for {:.1} s (stopped, or without a CPU) until {:.0} s ago; its last policy went on meanwhile",
                length_ns as f64 / 1e9,
                now_ns.saturating_sub(ended_ns) as f64 / 1e9
            )
        });
        pause.into_iter().collect()
    }
}
