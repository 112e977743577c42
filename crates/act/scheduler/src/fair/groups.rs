//! Groups of tasks. If the kernel shares the CPU among groups first, a nice value counts only within a group.
//!
//! There are three cases. First, a manager (systemd) shares the CPU by control groups. Then no process is
//! moved. The groups on the path from the root to a process in use are raised, except groups in which other
//! processes use the CPU. Second, there is no such manager, and the kernel makes a group of each session
//! (autogroup). With control groups of version 1, processes in use are moved to a group of Spry's, which has
//! their weight. Third, with version 2 or without a hierarchy, their sessions are raised.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::guardian::journal::{GroupChange, GroupKind, Journal};
use crate::guardian::settings::TaskId;
use crate::guardian::{autogroup_of, number_in, undo_group};

/// The file with the processes of a control group, in both versions.
const PROCESSES: &str = "cgroup.procs";
/// The file with a group's real-time budget. It exists with version 1, on kernels that budget
/// real-time tasks by group.
const REAL_TIME: &str = "cpu.rt_runtime_us";
/// The least real-time budget that is of use, us in each second.
const LEAST_REAL_TIME_US: i64 = 10_000;
/// The number of requests for a real-time budget before Spry gives up its group, and the time
/// between two requests.
const BUDGETING: u32 = 25;
const BUDGETING_EVERY: Duration = Duration::from_millis(20);
/// The name of Spry's group. The daemon's process number is added, and a further number if
/// that name is taken.
const OWN: &str = "spry-in-use";
/// The file with a group's weight in version 2.
const WEIGHT: &str = "cpu.weight";
/// The file with a group's weight in version 1, where one ordinary task has 1024.
const SHARES: &str = "cpu.shares";
/// The greatest weight in version 2. The greatest weight in version 1 is more than Spry uses.
const WEIGHT_MAX: u64 = 10_000;
/// A managed group is raised if its processes in use had this part of the group's CPU time, percent.
const OWN_PERCENT: u64 = 50;
/// A managed group is also raised if it used less CPU time than this in a round, ns: then no other
/// process gains by it.
const LITTLE_NS: u64 = 20_000_000;

/// The two versions of control groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// Spry's treatment of groups on this machine.
#[derive(Debug)]
enum Manner {
    /// Nothing is changed: there are no groups that share the CPU, or Spry may not change them.
    None,
    /// Processes in use are moved to a group of Spry's.
    Own { directory: PathBuf, weight: u64 },
    /// The sessions of processes in use are raised.
    Sessions { nice: i32, raised: BTreeMap<String, u32> },
    /// The groups on the paths to processes in use are raised.
    Path { raised: BTreeMap<PathBuf, u32>, used: BTreeMap<PathBuf, u64> },
}

/// The data on a process in use that the handling of groups needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The number of the process.
    pub tgid: u32,
    /// Whether the process is real-time. It then needs no weight, and cannot be in a group without a
    /// real-time budget.
    pub is_real_time: bool,
    /// CPU time of the process in the last round, ns.
    pub used_ns: u64,
}

/// The groups of the processes in use, and Spry's treatment of groups.
#[derive(Debug)]
pub struct Groups {
    root: PathBuf,
    version: Version,
    manner: Manner,
    /// The factor by which a group with processes in use is raised, so that another group beside
    /// it has its share.
    factor: u64,
}

impl Groups {
    /// Determines the grouping of tasks on this machine. This makes Spry's group, if there shall be one, and
    /// changes nothing else.
    pub fn find(
        journal: &mut Journal,
        share_percent: u32,
        session_nice: i32,
        warnings: &mut Vec<String>,
    ) -> Groups {
        let factor = u64::from(100 / share_percent.clamp(1, 50)).saturating_sub(1).max(1);
        let autogroup = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
        let sessions = || match &autogroup {
            Ok(on) if on.trim() == "1" => Manner::Sessions { nice: session_nice, raised: BTreeMap::new() },
            _ => Manner::None,
        };
        let Some((root, version)) = hierarchy() else {
            return Groups { root: PathBuf::new(), version: Version::Two, manner: sessions(), factor };
        };
        let mut groups = Groups { root, version, manner: sessions(), factor };
        match groups.manager() {
            Manager::Weighing => {
                groups.manner = Manner::Path { raised: BTreeMap::new(), used: BTreeMap::new() };
            }
            Manager::Nobody if matches!(groups.manner, Manner::Sessions { .. }) => {
                match groups.make(journal) {
                    Ok(own) => groups.manner = own,
                    Err(error) => warnings.push(format!(
                        "no control group can be made here ({error}): sessions of programs in use are \
                         raised as a whole"
                    )),
                }
            }
            Manager::Nobody | Manager::Naming => {}
        }
        groups
    }

    /// Determines the kind of program that manages control groups here.
    fn manager(&self) -> Manager {
        match self.version {
            // Existing groups have weights already, and tasks in no group belong to no manager.
            Version::One => Manager::Nobody,
            Version::Two if has_cpu(&self.root.join("cgroup.subtree_control")) => Manager::Weighing,
            // Spry's group would be the first group with a weight among all processes of the hierarchy.
            Version::Two => Manager::Naming,
        }
    }

    /// Makes Spry's group under a free name. A group that is just being removed keeps its name for a while.
    fn make(&self, journal: &mut Journal) -> io::Result<Manner> {
        let name = format!("{OWN}-{}", std::process::id());
        let directory = (0..)
            .map(|again| self.root.join(if again == 0 { name.clone() } else { format!("{name}-{again}") }))
            .find(|directory| !directory.exists())
            .expect("there are more numbers than groups");
        let change = GroupChange {
            kind: GroupKind::Directory,
            path: directory.clone(),
            id: TaskId::default(),
            before: 0,
            ours: 0,
        };
        let create = || {
            fs::create_dir(&directory)?;
            // If no thread in the group could become real-time, its members would lose a
            // possibility that they had.
            budget_real_time(&self.root, &directory).inspect_err(|_| _ = fs::remove_dir(&directory))
        };
        make_or_fail(&change, create, journal)?;
        Ok(Manner::Own { directory, weight: 0 })
    }

    /// Gives the groups of processes in use their weight, as this machine needs it. `weight` is the weight of
    /// these processes together; one ordinary task has 1024.
    pub fn apply(&mut self, members: &[Member], weight: u64, journal: &mut Journal) {
        match &mut self.manner {
            Manner::None => {}
            Manner::Own { directory, weight: current } => {
                if *current != weight && fs::write(directory.join(SHARES), weight.to_string()).is_ok() {
                    *current = weight;
                }
                fill(&self.root, directory, members, self.version);
            }
            Manner::Sessions { nice, raised } => raise_sessions(members, *nice, raised, journal),
            Manner::Path { raised, used } => {
                let wanted = worthy(&self.root, self.version, members, used);
                raise_paths(&wanted, self.factor, raised, journal);
            }
        }
    }
}

/// The kind of program that manages control groups here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manager {
    /// No program manages control groups.
    Nobody,
    /// The manager uses control groups to name processes, not to share the CPU.
    Naming,
    /// The manager shares the CPU by control groups.
    Weighing,
}

/// Gives Spry's group a real-time budget, if the kernel budgets real-time tasks by group. It is half of all,
/// or a smaller part if other groups leave less. A group that was just removed keeps its budget until its
/// last task has exited.
fn budget_real_time(root: &Path, directory: &Path) -> io::Result<()> {
    let Some(all_us) = number_in(&root.join(REAL_TIME)) else { return Ok(()) };
    // -1 means no limit. A group with a period of one second can then have half of it.
    let half_us = if all_us < 0 { 1_000_000 } else { all_us } / 2;
    let budget = || {
        let mut budget_us = half_us;
        loop {
            match fs::write(directory.join(REAL_TIME), budget_us.to_string()) {
                Err(_) if budget_us > LEAST_REAL_TIME_US => budget_us /= 2,
                done => return done,
            }
        }
    };
    for _ in 1..BUDGETING {
        if budget().is_ok() {
            return Ok(());
        }
        sleep(BUDGETING_EVERY);
    }
    budget()
}

/// The mount point and version of the hierarchy of control groups that has the CPU controller.
fn hierarchy() -> Option<(PathBuf, Version)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => Some((at, Version::One)),
            "cgroup2" if has_cpu(&at.join("cgroup.controllers")) => Some((at, Version::Two)),
            _ => None,
        }
    })
}

fn has_cpu(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|word| word == "cpu"))
}

/// The group of a process in the hierarchy with the CPU controller, as a path from the root of the hierarchy.
fn group_of(tgid: u32, version: Version) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{tgid}/cgroup")).ok()?;
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let counts = match version {
            Version::One => controllers.split(',').any(|name| name == "cpu"),
            Version::Two => number == "0",
        };
        counts.then(|| path.to_owned())
    };
    text.lines().find_map(group)
}

/// Moves processes in use into Spry's group, and moves processes out that were forked in it
/// but are not in use.
fn fill(root: &Path, directory: &Path, members: &[Member], version: Version) {
    let wanted: BTreeSet<u32> =
        members.iter().filter(|member| !member.is_real_time).map(|member| member.tgid).collect();
    let text = fs::read_to_string(directory.join(PROCESSES)).unwrap_or_default();
    let there: BTreeSet<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    // A process that exits meanwhile is no error. The kernel may refuse a process with real-time threads,
    // which then stays where it is.
    for tgid in there.difference(&wanted) {
        _ = fs::write(root.join(PROCESSES), tgid.to_string());
    }
    for &tgid in wanted.difference(&there) {
        // A process is moved only from the root group, where its session is its only group.
        if group_of(tgid, version).is_some_and(|group| group == "/") {
            _ = fs::write(directory.join(PROCESSES), tgid.to_string());
        }
    }
}

/// Raises the sessions of processes in use, and restores the sessions without such processes.
fn raise_sessions(members: &[Member], nice: i32, raised: &mut BTreeMap<String, u32>, journal: &mut Journal) {
    let mut wanted: BTreeMap<String, (u32, i32)> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.is_real_time) {
        if let Some((name, now)) = autogroup_of(member.tgid) {
            wanted.entry(name).or_insert((member.tgid, now));
        }
    }
    give_back(raised, |name| wanted.contains_key(name), journal);
    for (name, (tgid, now)) in wanted {
        if raised.contains_key(&name) || now <= nice {
            continue;
        }
        let Ok(id) = TaskId::now(tgid, tgid) else { continue };
        let path = PathBuf::from(&name);
        let change =
            GroupChange { kind: GroupKind::Autogroup, path, id, before: now.into(), ours: nice.into() };
        let file = format!("/proc/{tgid}/autogroup");
        if let Ok(record) = make_or_fail(&change, || fs::write(file, nice.to_string()), journal) {
            raised.insert(name, record);
        }
    }
}

/// The groups on the paths to processes in use that shall be raised: groups in which no other process uses
/// much of the CPU.
fn worthy(
    root: &Path,
    version: Version,
    members: &[Member],
    used: &mut BTreeMap<PathBuf, u64>,
) -> BTreeSet<PathBuf> {
    let mut in_use: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.is_real_time) {
        let Some(group) = group_of(member.tgid, version) else { continue };
        let path = root.join(group.trim_start_matches('/'));
        for on_way in path.ancestors().take_while(|&on_way| on_way != root) {
            *in_use.entry(on_way.to_owned()).or_default() += member.used_ns;
        }
    }
    used.retain(|path, _| in_use.contains_key(path));
    let mut worthy = BTreeSet::new();
    for (path, in_use_ns) in in_use {
        let Some(now_ns) = usage_ns(&path) else { continue };
        let before_ns = used.insert(path.clone(), now_ns);
        let Some(group_ns) = before_ns.map(|before_ns| now_ns.saturating_sub(before_ns)) else { continue };
        if group_ns < LITTLE_NS || in_use_ns * 100 >= group_ns * OWN_PERCENT {
            worthy.insert(path);
        }
    }
    worthy
}

/// The CPU time that a group of version 2 has used, ns; `None` if the kernel does not report it.
fn usage_ns(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path.join("cpu.stat")).ok()?;
    let usage_us: u64 =
        text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()?;
    Some(usage_us * 1_000)
}

/// Raises the groups in `wanted`, and restores raised groups that are no longer in it.
fn raise_paths(
    wanted: &BTreeSet<PathBuf>,
    factor: u64,
    raised: &mut BTreeMap<PathBuf, u32>,
    journal: &mut Journal,
) {
    give_back(raised, |path| wanted.contains(path), journal);
    for group in wanted {
        let path = group.join(WEIGHT);
        let Some(before) = number_in(&path).filter(|_| !raised.contains_key(group)) else { continue };
        let ours = before.saturating_mul(factor as i64).min(WEIGHT_MAX as i64);
        let change =
            GroupChange { kind: GroupKind::Weight, path: path.clone(), id: TaskId::default(), before, ours };
        if let Ok(record) = make_or_fail(&change, || fs::write(path, ours.to_string()), journal) {
            raised.insert(group.clone(), record);
        }
    }
}

/// Writes a change into the journal and then makes it. Returns the record's number.
fn make_or_fail(
    change: &GroupChange,
    write: impl FnOnce() -> io::Result<()>,
    journal: &mut Journal,
) -> io::Result<u32> {
    let record = journal.group_begin(change).ok_or_else(|| io::Error::other("the journal is full"))?;
    write().inspect_err(|_| journal.group_end(record))?;
    Ok(record)
}

fn give_back<K: Ord>(raised: &mut BTreeMap<K, u32>, is_wanted: impl Fn(&K) -> bool, journal: &mut Journal) {
    raised.retain(|key, &mut record| {
        if is_wanted(key) {
            return true;
        }
        if let Some(change) = journal.group(record) {
            undo_group(&change);
        }
        journal.group_end(record);
        false
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_group_is_given_back_unless_another_process_set_it() {
        let root = std::env::temp_dir().join(format!("spry-groups-{}", std::process::id()));
        let group = root.join("app");
        let weight = || number_in(&group.join(WEIGHT));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join(WEIGHT), "100\n").unwrap();
        let mut journal = Journal::unnamed().unwrap();
        let mut raised = BTreeMap::new();
        let mut raise = |wanted: &[&PathBuf]| {
            let wanted = wanted.iter().map(|&path| path.clone()).collect();
            raise_paths(&wanted, 19, &mut raised, &mut journal);
            journal.is_empty()
        };
        assert!(!raise(&[&group]));
        assert_eq!(weight(), Some(1_900));
        assert!(raise(&[]));
        assert_eq!(weight(), Some(100));
        assert!(!raise(&[&group]));
        fs::write(group.join(WEIGHT), "300").unwrap();
        assert!(raise(&[]));
        assert_eq!(weight(), Some(300), "somebody else's by now");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_group_says_what_it_has_used() {
        let group = std::env::temp_dir().join(format!("spry-usage-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.stat"), "usage_usec 1000000\nuser_usec 1\n").unwrap();
        assert_eq!(usage_ns(&group), Some(1_000_000_000));
        fs::remove_dir_all(group).unwrap();
    }
}
