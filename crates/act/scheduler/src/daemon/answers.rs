//! Answers to requests for the status and for explanations, from root and from ordinary users.

use spry_control::{
    Explanation, GraphSize, Knobs, PolicyName, Refusal, RefusalKind, Scope, Status, TaskStatus,
};
use spry_policy::{Constants, Tgid};
use spry_sys::clock::monotonic_ns;

use super::Daemon;
use super::devices::DeviceData;
use super::front::Front;
use super::privacy::{self, Ownership as _};
use super::process;
use super::second::Belongings;
use super::shares::Audience;
use super::system::own_cpu_ns;
use super::views::Sight;

impl Daemon {
    /// The status, reduced to the data that the user `uid` may see.
    pub(super) fn status(&mut self, uid: u32) -> Status {
        if uid != 0 {
            return self.status_of_own(uid);
        }
        let now = monotonic_ns();
        self.shares.census(Audience::Yes, now, monotonic_ns);
        let tasks = self.sight().tasks(|_| true);
        self.whole(tasks)
    }

    /// The whole status, for root, with the given processes.
    fn whole(&self, tasks: Vec<TaskStatus>) -> Status {
        let now_ns = monotonic_ns();
        let uptime_ns = now_ns.saturating_sub(self.began_ns);
        let cpu_ns = own_cpu_ns().saturating_sub(self.began_cpu_ns);
        let mut warnings = self.warnings.clone();
        warnings.extend(self.acting.warnings());
        warnings.extend(self.slack.warnings());
        warnings.extend(self.senses.warnings());
        warnings.extend(self.rounds.warnings(now_ns));
        warnings.extend(self.front.as_ref().and_then(Front::warning));
        let graph = self.rounds.graph();
        let Knobs { tuning, quanta } = self.acting.knobs();
        Status {
            scope: Scope::All,
            actuator: self.acting.name().to_owned(),
            uptime_s: uptime_ns as f64 / 1e9,
            policy_ns_last: self.rounds.latest_ns(),
            tuning,
            quanta,
            ticks: self.ticks.cost().cloned(),
            timer_slack: self.slack.told(),
            housekeeping_ns_longest: self.acting.housekeeping_ns_longest(),
            tasks,
            lost_edges: Some(self.senses.lost_edges()),
            tgid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: if *self.rounds.policy().constants() == Constants::thesis() {
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
            devices: self.senses.devices().into_iter().map(|(device, _)| device).collect(),
            daemon_cpu_share: Some(cpu_ns as f64 / uptime_ns.max(1) as f64),
            warnings,
        }
    }

    fn status_of_own(&mut self, uid: u32) -> Status {
        let own = self.own_of(uid);
        let tasks = self.sight_of(uid).tasks(|tgid| own.has_process(tgid.0));
        let status = Status { devices: self.second.devices(), ..self.whole(tasks) };
        let for_all = self.warnings.iter().chain(self.senses.warnings_for_all()).cloned().collect();
        privacy::status(status, for_all, &own)
    }

    /// The reasons why a process is in use or is not, reduced to the data that the user `uid` may see.
    pub(super) fn explain(&mut self, uid: u32, tid: u32) -> Result<Explanation, Refusal> {
        let no_process = || no_process(uid, tid);
        let tgid = process::of_thread(tid).ok_or_else(no_process)?;
        if uid == 0 {
            return self.sight().explain(tgid).ok_or_else(no_process);
        }
        let own = self.own_of(uid);
        if !own.has_process(tgid.0) {
            return Err(no_process());
        }
        let explanation = self.sight_of(uid).explain(tgid).ok_or_else(no_process)?;
        privacy::explanation(explanation, &own).ok_or_else(no_process)
    }

    fn own_of(&mut self, uid: u32) -> Belongings {
        let own = self.second.asked(uid, monotonic_ns());
        self.second.make_part(&own);
        own
    }

    /// The data for root's requests: all processes and devices, as they are now.
    fn sight(&mut self) -> Sight<'_> {
        Sight {
            constants: self.rounds.policy().constants(),
            standings: self.rounds.standings(),
            graph: self.senses.collector().map(|_| self.rounds.graph()),
            telling: DeviceData { servers: self.rounds.servers(), frames_per_s: self.senses.frames_per_s() },
            shares: &mut self.shares,
            by_hand: &self.by_hand,
            acting: &self.acting,
        }
    }

    /// The data for one user's requests: the user's own part, as of the end of the latest second.
    fn sight_of(&mut self, uid: u32) -> Sight<'_> {
        let part = self.second.part(uid);
        Sight {
            constants: self.rounds.policy().constants(),
            standings: part.standings,
            graph: self.senses.collector().map(|_| part.graph),
            telling: part.telling,
            shares: part.shares,
            by_hand: &self.by_hand,
            acting: &self.acting,
        }
    }
}

/// The refusal that there is no process with this number. Ordinary users get it, too, if another user
/// has such a process.
pub(super) fn no_process(uid: u32, tid: u32) -> Refusal {
    let text = if uid == 0 {
        format!("there is no process {tid} (see `spry top` for those in use)")
    } else {
        format!("there is no process {tid} of yours (others' are root's to see and to move: `sudo`)")
    };
    Refusal { kind: RefusalKind::NoProcess, text }
}

/// Whether a process is a user's own; for root, all are.
pub(super) fn is_of(tgid: Tgid, uid: u32) -> bool {
    uid == 0 || process::is_wholly_of(tgid, uid)
}
