//! The cookie files that the programs of the user's session name in their environments.
//!
//! A display manager may start a server with a file that only root reads, and put the user's copy anywhere.
//! Then only XAUTHORITY in the environments of the session's programs gives its path. The session's leader
//! itself often belongs to root; the first programs below it have the environment of the session. Any program
//! of the user may have a false environment, so the processes nearest to the leader come first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use spry_display::places;
use spry_policy::Tgid;
use spry_sys::process::parent_and_begin;

use super::auth;

/// The directory with the files of the system's session manager (logind, elogind): a user's sessions, and a
/// session's leader. Only root writes these files, and every process may read them.
const KEPT: &str = "/run/systemd";
/// The most sessions of this user that are looked at, and the most bytes that are read of each
/// of these files.
const SESSIONS_MAX: usize = 128;
const SESSION_MAX: u64 = 4 << 10;
/// The most processes of this user that are looked at: the processes with the lowest numbers. Each takes some
/// microseconds. Other users' processes do not count, so that no user can crowd out another's.
const PROCESSES_MAX: usize = 8192;
/// The longest line about a process, bytes.
const STAT_MAX: u64 = 1 << 10;
/// A process with more processes than this between itself and a leader does not count as the leader's.
const DEPTH_MAX: usize = 64;
/// The most environments that are read, and the most bytes of each: the kernel takes no longer string.
const ENVIRONMENTS_MAX: usize = 256;
const ENVIRONMENT_MAX: u64 = 128 << 10;
/// The most different files that are named.
const FILES_MAX: usize = 32;

/// The files that this user's programs on a display name. The files of programs near the leader of a session
/// of this user come first. Empty for root: with sudo(8) a user chooses environments of root's.
pub(super) fn files(number: u32) -> Vec<PathBuf> {
    let uid = geteuid();
    if uid.is_root() {
        return Vec::new();
    }
    let uid = uid.as_raw();
    let processes = processes(uid);
    let order = order(&processes, &leaders(Path::new(KEPT), uid), uid);
    let environments = order.into_iter().filter_map(environment).take(ENVIRONMENTS_MAX);
    let mut files = Vec::new();
    for file in environments.filter_map(|environment| named(&environment, number)) {
        if !files.contains(&file) {
            files.push(file);
        }
        if files.len() == FILES_MAX {
            break;
        }
    }
    files
}

/// The leaders of a user's sessions.
fn leaders(kept: &Path, uid: u32) -> BTreeSet<Tgid> {
    let text = |path: PathBuf| {
        let bytes = begin(auth::regular(&path)?, SESSION_MAX)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let user = text(kept.join("users").join(uid.to_string())).unwrap_or_default();
    let sessions = user.lines().find_map(|line| line.strip_prefix("SESSIONS=")).unwrap_or_default();
    let sessions = sessions.split_ascii_whitespace().filter(|name| !name.contains('/')).take(SESSIONS_MAX);
    sessions.filter_map(|name| leader(&text(kept.join("sessions").join(name))?, uid)).collect()
}

/// The leader that the file of a session names, if the session is this user's.
fn leader(text: &str, uid: u32) -> Option<Tgid> {
    let number = |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
    number("LEADER=").filter(|_| number("UID=") == Some(uid)).map(Tgid)
}

/// The kernel's facts about a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Process {
    parent: Tgid,
    /// The user that may look into the process; root if no other user may.
    owner: u32,
    /// The start time of the process, in clock ticks since boot.
    began: u64,
}

/// The processes that a user may look into, and the processes above them up to the first of all.
fn processes(uid: u32) -> BTreeMap<Tgid, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let owners = entries.filter_map(|entry| {
        Some((Tgid(entry.file_name().to_str()?.parse().ok()?), entry.metadata().ok()?.uid()))
    });
    let mut left: Vec<Tgid> = owned(owners, uid).collect();
    let mut processes = BTreeMap::new();
    while let Some(tgid) = left.pop() {
        let Entry::Vacant(place) = processes.entry(tgid) else { continue };
        let Some(process) = process(tgid) else { continue };
        left.push(place.insert(process).parent);
    }
    processes
}

/// The processes among all that a user owns, at most [`PROCESSES_MAX`].
fn owned(owners: impl Iterator<Item = (Tgid, u32)>, uid: u32) -> impl Iterator<Item = Tgid> {
    owners.filter(move |&(_, owner)| owner == uid).map(|(tgid, _)| tgid).take(PROCESSES_MAX)
}

fn process(tgid: Tgid) -> Option<Process> {
    let file = File::open(format!("/proc/{}/stat", tgid.0)).ok()?;
    let owner = file.metadata().ok()?.uid();
    let (parent, began) = parent_and_begin(&begin(file, STAT_MAX)?)?;
    Some(Process { parent: Tgid(parent), owner, began })
}

/// The processes that a user may look into: first the processes below a leader, the nearest first, then the
/// others; the oldest first.
fn order(processes: &BTreeMap<Tgid, Process>, leaders: &BTreeSet<Tgid>, uid: u32) -> Vec<Tgid> {
    let depth = |tgid: Tgid| {
        let parent = |tgid: &Tgid| processes.get(tgid).map(|process| process.parent);
        std::iter::successors(Some(tgid), parent).take(DEPTH_MAX).position(|tgid| leaders.contains(&tgid))
    };
    let own = processes.iter().filter(|(_, process)| process.owner == uid);
    let rank = |(&tgid, process): (&Tgid, &Process)| (depth(tgid).unwrap_or(DEPTH_MAX), process.began, tgid);
    let mut ranked: Vec<_> = own.map(rank).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(.., tgid)| tgid).collect()
}

fn environment(tgid: Tgid) -> Option<Vec<u8>> {
    begin(File::open(format!("/proc/{}/environ", tgid.0)).ok()?, ENVIRONMENT_MAX)
}

/// The file that XAUTHORITY names in an environment with this DISPLAY.
fn named(environment: &[u8], number: u32) -> Option<PathBuf> {
    let value = |name: &[u8]| environment.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(name));
    let display = std::str::from_utf8(value(b"DISPLAY=")?).ok()?;
    let file = Path::new(OsStr::from_bytes(value(b"XAUTHORITY=")?));
    (places::number(display) == Some(number) && file.is_absolute()).then(|| file.to_owned())
}

/// The first bytes of a file, at most `most`.
fn begin(file: File, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_to_a_leader_go_first_and_then_the_oldest() {
        let own = |parent, began| Process { parent: Tgid(parent), owner: 1000, began };
        let of_root = |parent| Process { owner: 0, ..own(parent, 1) };
        let processes = BTreeMap::from([
            (Tgid(1), of_root(0)),
            (Tgid(10), of_root(1)),
            (Tgid(11), own(10, 20)),
            (Tgid(12), own(11, 30)),
            // The numbers have wrapped: process 13 began before process 12 and after process 20.
            (Tgid(13), own(11, 25)),
            (Tgid(20), own(1, 9)),
            (Tgid(21), own(1, 5)),
            (Tgid(30), Process { owner: 1001, ..own(10, 1) }),
        ]);
        let order = |leaders: &[u32]| order(&processes, &leaders.iter().copied().map(Tgid).collect(), 1000);
        assert_eq!(order(&[10]), [11, 13, 12, 21, 20].map(Tgid));
        assert_eq!(order(&[]), [21, 20, 11, 13, 12].map(Tgid));
        // A leader of the user's own goes first, and a leader that is not there changes nothing.
        assert_eq!(order(&[13, 9]), [13, 21, 20, 11, 12].map(Tgid));
    }

    #[test]
    fn a_ring_of_parents_has_an_end() {
        let of = |parent| Process { parent: Tgid(parent), owner: 1000, began: 0 };
        let processes = BTreeMap::from([(Tgid(1), of(2)), (Tgid(2), of(1))]);
        assert_eq!(order(&processes, &BTreeSet::new(), 1000).len(), 2);
    }

    #[test]
    fn another_user_s_many_processes_hide_none_of_this_user_s() {
        let others = (1..100_000).map(|number| (Tgid(number), 1001));
        let own = (100_000..120_000).map(|number| (Tgid(number), 1000));
        let found: Vec<Tgid> = owned(others.chain(own), 1000).collect();
        assert_eq!((found.len(), found[0]), (PROCESSES_MAX, Tgid(100_000)));
    }

    #[test]
    fn this_process_is_found_with_those_above_it() {
        let me = Tgid(std::process::id());
        let found = processes(geteuid().as_raw());
        assert_eq!(found[&me].parent, Tgid(std::os::unix::process::parent_id()));
        assert!(found.contains_key(&Tgid(1)));
    }

    #[test]
    fn the_leaders_are_those_of_the_user_s_own_sessions() {
        let kept = std::env::temp_dir().join(format!("spry-sessions-{}", std::process::id()));
        for (name, text) in [
            ("users/1000", "STATE=active\nSESSIONS=2 c1 gone ../users/1000\nSEATS=seat0\n"),
            ("sessions/2", "UID=1000\nLEADER=812\n"),
            ("sessions/c1", "UID=1000\nLEADER=900\n"),
            ("sessions/3", "UID=1000\nLEADER=901\n"),
        ] {
            let path = kept.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = [leaders(&kept, 1000), leaders(&kept, 1001), leaders(&kept.join("none"), 1000)];
        fs::remove_dir_all(&kept).unwrap();
        assert_eq!(found, [[812, 900].map(Tgid).into(), BTreeSet::new(), BTreeSet::new()]);
    }

    #[test]
    fn a_session_has_a_leader_and_a_user() {
        let text = "# This is private data. Do not parse.\nUID=1000\nSCOPE=session-2.scope\nLEADER=812\n";
        assert_eq!(leader(text, 1000), Some(Tgid(812)));
        assert_eq!((leader(text, 100), leader("UID=1000\n", 1000), leader("", 0)), (None, None, None));
    }

    #[test]
    fn only_an_environment_of_the_display_names_a_file() {
        let named = |text: &str| named(text.replace(' ', "\0").as_bytes(), 7);
        assert_eq!(named("A=1 DISPLAY=:7.0 XAUTHORITY=/tmp/a XAUTHORITY=/tmp/b "), Some("/tmp/a".into()));
        for other in [
            "DISPLAY=:8 XAUTHORITY=/tmp/a",
            "DISPLAY=:8 DISPLAY=:7 XAUTHORITY=/tmp/a",
            "XAUTHORITY=/tmp/a",
            "DISPLAY=:7 XXAUTHORITY=/tmp/a",
            "DISPLAY=:7 XAUTHORITY=a",
            "DISPLAY=:7 XAUTHORITY=",
            "DISPLAY=:7",
            "",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
