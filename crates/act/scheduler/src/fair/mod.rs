//! The fall-back actuator, which applies the policy's verdicts by means that every kernel has. They are nice
//! values, slices, weights of groups, timer slack and, for the display server, a low real-time priority. A
//! container has some of them.
//!
//! No task is lowered. The processes in use are raised, but only so much that the other tasks still have
//! their share. Every change is written into the [journal](crate::guardian::journal) first, and a guardian
//! undoes it if the daemon does not.

mod balance;
mod contention;
mod groups;
mod plan;
mod probe;
mod threads;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, bail};
use spry_policy::Tgid;
use spry_sys::clock::{monotonic_ns, process_cpu_ns};

use crate::actuator::{Actuator, Class, Health, Verdict};
use crate::guardian::journal::Journal;
use crate::guardian::settings::{TaskId, base_slice_ns, slack_ns, stat_of};
use crate::guardian::watch::PENANCE_NS;
use crate::guardian::{Guardian, RestoreCounts, numbers_in, restore_all};
use balance::{Balance, Machine, RoundMeasurement};
use contention::{Contention, runnable};
use groups::{Groups, Member};
use plan::{PermittedChanges, SERVER_LEVEL, WantedSettings, group_weight, nice_first, steps_most, want};
use threads::{Hand, Tally, Threads};

/// The default path of the journal.
pub const JOURNAL: &str = "/run/spry/fair.journal";
/// The most threads of which the state is read in a round, to count runnable threads in use.
const STATES_MAX: usize = 64;

/// The settings of the fall-back actuator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FairOptions {
    /// The path of the journal's file.
    pub journal: PathBuf,
    /// The share of a CPU that tasks which are not in use keep, percent, 1 to 50.
    pub background_share: u32,
}

impl Default for FairOptions {
    fn default() -> FairOptions {
        FairOptions { journal: JOURNAL.into(), background_share: 5 }
    }
}

/// A process that has a class from the policy or by a manual override.
#[derive(Debug, Default)]
struct Process {
    threads: Threads,
    /// CPU time of the process up to the latest round, ns.
    cpu_ns: Option<u64>,
    /// CPU time of the process between the latest two rounds, ns.
    used_ns: u64,
}

/// The fall-back actuator. Dropping it undoes all of its changes.
#[derive(Debug)]
pub struct Fair {
    guardian: Option<Guardian>,
    journal: Journal,
    options: FairOptions,
    allowed: PermittedChanges,
    base_slice_ns: u64,
    processes: BTreeMap<Tgid, Process>,
    groups: Groups,
    balance: Balance,
    /// The number of nice steps by which the processes in use are below the strongest setting.
    steps: u32,
    by_hand: BTreeMap<Tgid, (TaskId, Class)>,
    contention: Contention,
    cpus: u32,
    tally: Tally,
    lasting: Vec<String>,
    guardians_lost: u32,
}

impl Fair {
    /// Undoes changes that an earlier daemon may have left, starts the guardian, and probes the permissions
    /// of the kernel. Of all processes, only the daemon itself is raised yet.
    ///
    /// # Errors
    /// If another daemon or its guardian is active, or no guardian can be started.
    pub fn start(options: FairOptions) -> anyhow::Result<Fair> {
        let mut lasting = Vec::new();
        let (mut journal, left) = open_journal(&options.journal, &mut lasting)?;
        if left != RestoreCounts::default() {
            lasting.push(format!(
                "an earlier daemon and its guardian were both killed: {} threads and {} groups that they had \
                 changed were restored",
                left.restored + left.theirs,
                left.groups
            ));
        }
        let (allowed, warnings) = probe::probe();
        lasting.extend(warnings);
        let base_slice_ns = base_slice_ns();
        let own = std::process::id();
        journal.begin(base_slice_ns, stat_of(own, own).context("cannot read /proc")?.start);
        let guardian = Guardian::start(&mut journal).context("cannot start the guardian")?;
        let other = TaskId { tid: guardian.tgid(), tgid: guardian.tgid(), start: 0 };
        if slack_ns(other).is_err() {
            lasting.push(
                "timer slack cannot be set here (it takes CAP_SYS_NICE): \
                          timers of programs in use may be 50 us late"
                    .to_owned(),
            );
        }
        let share = options.background_share;
        let session_nice = nice_first(steps_most(1, share), &allowed);
        let groups = Groups::find(&mut journal, share, session_nice, &mut lasting);
        let mut fair = Fair {
            guardian: Some(guardian),
            journal,
            options,
            allowed,
            base_slice_ns,
            processes: BTreeMap::new(),
            groups,
            balance: Balance::default(),
            steps: 0,
            by_hand: BTreeMap::new(),
            contention: Contention::default(),
            cpus: thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            tally: Tally::default(),
            lasting,
            guardians_lost: 0,
        };
        // The daemon raises itself, since it must not wait for the tasks that it raises.
        fair.apply(&[])?;
        Ok(fair)
    }

    /// The process of the guardian.
    pub fn guardian_tgid(&self) -> Option<Tgid> {
        self.guardian.as_ref().map(|guardian| Tgid(guardian.tgid()))
    }

    /// The numbers of changes of the latest round that succeeded and failed.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Starts a new guardian if the old one was killed: nothing may be changed without a guardian.
    fn guarded(&mut self) -> anyhow::Result<()> {
        if self.guardian.as_ref().is_some_and(Guardian::is_alive) {
            return Ok(());
        }
        if self.guardian.take().is_some() {
            self.guardians_lost += 1;
        }
        let guardian = Guardian::start(&mut self.journal)
            .context("the guardian is gone, and no other can be started")?;
        self.guardian = Some(guardian);
        Ok(())
    }

    /// Whether a process may be real-time now: not while it is demoted, nor if the guardian can watch no more
    /// processes. The guardian watches it from now on.
    fn may_be_real_time(&self, tgid: Tgid) -> bool {
        let now_ns = monotonic_ns();
        let watched = self.journal.watched();
        if let Some(slot) = watched.iter().find(|slot| slot.tgid.load(Ordering::Acquire) == tgid.0) {
            let demoted_ns = slot.demoted_ns.load(Ordering::Acquire);
            if demoted_ns != 0 && now_ns.saturating_sub(demoted_ns) < PENANCE_NS {
                return false;
            }
            slot.demoted_ns.store(0, Ordering::Release);
            return true;
        }
        let Some(slot) = watched.iter().find(|slot| slot.tgid.load(Ordering::Acquire) == 0) else {
            return false;
        };
        slot.demoted_ns.store(0, Ordering::Release);
        slot.tgid.store(tgid.0, Ordering::Release);
        if let Some(guardian) = &self.guardian {
            guardian.look();
        }
        true
    }

    fn unwatch(&self, tgid: Tgid) {
        for slot in self.journal.watched().iter().filter(|slot| slot.tgid.load(Ordering::Acquire) == tgid.0) {
            slot.tgid.store(0, Ordering::Release);
        }
    }

    /// The settings for each process, by verdicts and manual overrides; the lowest level comes first.
    fn wants(&mut self, verdicts: &[Verdict]) -> Vec<(Tgid, WantedSettings)> {
        self.by_hand.retain(|_, (leader, _)| leader.is_alive());
        let by_policy = verdicts.iter().filter(|verdict| !self.by_hand.contains_key(&verdict.tgid)).copied();
        let mut placed: Vec<Verdict> = by_policy.collect();
        let best = best_level(&placed);
        let by_hand = self.by_hand.iter();
        placed.extend(by_hand.map(|(&tgid, &(_, class))| Verdict {
            tgid,
            class,
            level: best,
            quantum_us: 0,
        }));
        // The daemon must not wait for the processes on which it decides.
        let own = Tgid(std::process::id());
        placed.push(Verdict { tgid: own, class: Class::Daemon, level: SERVER_LEVEL, quantum_us: 0 });
        placed.sort_by_key(|verdict| (verdict.level, verdict.tgid));
        placed.dedup_by_key(|verdict| verdict.tgid);
        let first = nice_first(self.steps, &self.allowed);
        let mut wants = Vec::with_capacity(placed.len());
        for verdict in &placed {
            let mut wanted = want(verdict, best, first, &self.allowed);
            if wanted == Some(WantedSettings::RealTime) && !self.may_be_real_time(verdict.tgid) {
                wanted = want(&Verdict { level: best, ..*verdict }, best, first, &self.allowed);
            }
            wants.extend(wanted.map(|wanted| (verdict.tgid, wanted)));
        }
        wants
    }

    /// Measures the CPU time of the processes in use and of other tasks, and sets the strength with which the
    /// processes in use are raised.
    fn weigh(&mut self) {
        let (Some(all), Some(machine)) = (runnable(), Machine::now()) else { return };
        let mut left = STATES_MAX;
        let (mut running, mut in_use_ns) = (0, 0);
        for (tgid, process) in &mut self.processes {
            let (of_it, looked) = process.threads.runnable(left);
            running += of_it;
            left -= looked;
            let now_ns = process_cpu_ns(tgid.0).ok();
            let before_ns = process.cpu_ns.or(now_ns).unwrap_or(0);
            process.used_ns = now_ns.unwrap_or(0).saturating_sub(before_ns);
            process.cpu_ns = now_ns;
            in_use_ns += process.used_ns;
        }
        self.contention.add(all, running, self.cpus);
        let seen = RoundMeasurement { machine, in_use_ns, is_contended: self.contention.is_contended() };
        let share = self.options.background_share;
        self.steps = self.balance.round(seen, share, steps_most(self.contention.in_use(), share));
    }

    /// Gives all threads of a process the settings for `want`.
    fn give(&mut self, tgid: Tgid, want: WantedSettings, tally: &mut Tally) {
        let tids = numbers_in(&format!("/proc/{}/task", tgid.0));
        let mut hand = Hand { journal: &mut self.journal, base_slice_ns: self.base_slice_ns, tally: *tally };
        self.processes.entry(tgid).or_default().threads.give(tgid.0, &tids, want, &mut hand);
        *tally = hand.tally;
    }

    /// Gives the groups of processes in use their weights for this round.
    fn group(&mut self, wants: &[(Tgid, WantedSettings)]) {
        let in_use = wants.iter().filter(|(_, want)| *want != WantedSettings::Idle);
        let member = |&(tgid, want): &(Tgid, WantedSettings)| Member {
            tgid: tgid.0,
            is_real_time: want == WantedSettings::RealTime,
            used_ns: self.processes.get(&tgid).map_or(0, |process| process.used_ns),
        };
        let members: Vec<Member> = in_use.map(member).collect();
        // A group counts as one task, however many processes it has.
        let steps = self.steps.min(steps_most(1, self.options.background_share));
        self.groups.apply(&members, group_weight(steps), &mut self.journal);
    }

    fn take_back(&mut self, gone: &[Tgid]) {
        for tgid in gone {
            self.unwatch(*tgid);
            let Some(mut process) = self.processes.remove(tgid) else { continue };
            let mut hand = Hand {
                journal: &mut self.journal,
                base_slice_ns: self.base_slice_ns,
                tally: Tally::default(),
            };
            process.threads.take_back(&mut hand);
        }
    }
}

impl Actuator for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn apply(&mut self, verdicts: &[Verdict]) -> anyhow::Result<()> {
        self.guarded()?;
        self.weigh();
        let wants = self.wants(verdicts);
        let named: BTreeSet<Tgid> = wants.iter().map(|(tgid, _)| *tgid).collect();
        let gone: Vec<Tgid> = self.processes.keys().filter(|tgid| !named.contains(tgid)).copied().collect();
        self.take_back(&gone);
        // A real-time task must leave Spry's group first if the group has no real-time budget.
        self.group(&wants);
        let mut tally = Tally::default();
        for &(tgid, want) in &wants {
            self.give(tgid, want, &mut tally);
        }
        self.tally = tally;
        Ok(())
    }

    fn forget_hand(&mut self, tgid: Tgid) {
        self.by_hand.remove(&tgid);
    }

    fn set_by_hand(&mut self, tgid: Tgid, class: Option<Class>) -> anyhow::Result<()> {
        let Some(class) = class else {
            self.by_hand.remove(&tgid);
            return Ok(());
        };
        if matches!(class, Class::Kthread | Class::Daemon) {
            bail!("that class is not given by hand");
        }
        let leader =
            TaskId::now(tgid.0, tgid.0).with_context(|| format!("there is no process {}", tgid.0))?;
        self.by_hand.insert(tgid, (leader, class));
        // The process is changed now, without waiting for the next round.
        self.guarded()?;
        let first = nice_first(self.steps, &self.allowed);
        let verdict = Verdict { tgid, class, level: SERVER_LEVEL + 1, quantum_us: 0 };
        let Some(want) = want(&verdict, SERVER_LEVEL + 1, first, &self.allowed) else {
            self.take_back(&[tgid]);
            return Ok(());
        };
        let mut tally = self.tally;
        self.give(tgid, want, &mut tally);
        Ok(())
    }

    fn health(&mut self) -> Health {
        match self.guarded() {
            Ok(()) => Health::Acting,
            Err(error) => Health::Ejected(format!("{error:#}")),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.lasting.clone();
        let refused = self.tally.refused;
        if refused > 0 {
            warnings
                .push(format!("{refused} threads in use could not be raised: the kernel does not permit it"));
        }
        if self.tally.unjournaled > 0 {
            warnings.push(format!(
                "{} threads in use were left as they are: the journal is full",
                self.tally.unjournaled
            ));
        }
        if self.guardians_lost > 0 {
            warnings.push(format!("the guardian was killed and replaced, {} times", self.guardians_lost));
        }
        let demoted = self.journal.watched().iter().filter(|slot| {
            slot.tgid.load(Ordering::Acquire) != 0 && slot.demoted_ns.load(Ordering::Acquire) != 0
        });
        for slot in demoted {
            let tgid = slot.tgid.load(Ordering::Acquire);
            warnings.push(format!(
                "the display server (process {tgid}) took too much of the CPU as a real-time task, \
                 and is an ordinary one for {} s",
                PENANCE_NS / 1_000_000_000
            ));
        }
        warnings
    }
}

impl Drop for Fair {
    fn drop(&mut self) {
        _ = restore_all(&mut self.journal);
    }
}

/// The lowest level among the clients of displays, which excludes display servers.
fn best_level(verdicts: &[Verdict]) -> u8 {
    let clients =
        verdicts.iter().filter(|verdict| verdict.class == Class::Interactive && verdict.level > SERVER_LEVEL);
    clients.map(|verdict| verdict.level).min().unwrap_or(SERVER_LEVEL + 1)
}

/// Opens the journal, and undoes the changes in it. If no file can be made, the journal is in memory only.
fn open_journal(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<(Journal, RestoreCounts)> {
    match Journal::open(path) {
        Ok(mut journal) => {
            let left = if journal.is_empty() { RestoreCounts::default() } else { restore_all(&mut journal) };
            Ok((journal, left))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            bail!("another daemon, or its guardian, is at work: {} is locked", path.display())
        }
        Err(error) => {
            warnings.push(format!(
                "{}: {error}: what is changed is restored if the daemon is killed, \
                 but not if its guardian is killed too",
                path.display()
            ));
            Ok((Journal::unnamed().context("cannot make a journal")?, RestoreCounts::default()))
        }
    }
}
