//! Who was put into a class by hand, and who may do that.

use std::collections::BTreeMap;

use spry_control::{HandClass, Refusal, RefusalKind};
use spry_policy::Tgid;

use super::process::{self, Process};
use crate::actuator::Class;

/// Processes that can be in a class by hand at once; those of one user who is not root.
const ALL_MAX: usize = 4096;
const OF_ONE_MAX: usize = 256;

/// A process in a class by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hand {
    /// The class.
    pub class: Class,
    /// Who said so.
    pub uid: u32,
    start_ticks: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Hands {
    by_tgid: BTreeMap<Tgid, Hand>,
}

/// What is to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Change {
    /// Whose class.
    pub tgid: Tgid,
    /// To what; `None`: as the policy says.
    pub class: Option<Class>,
    uid: u32,
    start_ticks: u64,
}

/// The process as far as it matters who may move it.
#[derive(Clone, Copy, Debug)]
struct Moved {
    is_kernel: bool,
    is_callers: bool,
    set_by: Option<u32>,
}

impl Hands {
    /// Whether a user may have a process in a class, and what that changes.
    ///
    /// # Errors
    /// Why not.
    pub fn decide(&self, uid: u32, tid: u32, class: HandClass) -> Result<Change, Refusal> {
        let gone = || no(RefusalKind::NoProcess, format!("there is no process {tid}"));
        let tgid = process::of_thread(tid).ok_or_else(gone)?;
        let found = Process::of(tgid).ok_or_else(gone)?;
        if tgid.0 == std::process::id() {
            return Err(no(
                RefusalKind::Unable,
                "the scheduler's own daemon has a class of its own".to_owned(),
            ));
        }
        let moved = Moved {
            is_kernel: found.is_kernel(),
            is_callers: process::is_wholly_of(tgid, uid),
            set_by: self.of(tgid).map(|hand| hand.uid),
        };
        may(uid, tgid, class, moved)?;
        let of_one = self.by_tgid.values().filter(|hand| hand.uid == uid).count();
        if self.by_tgid.len() >= ALL_MAX || (uid != 0 && of_one >= OF_ONE_MAX) {
            return Err(no(
                RefusalKind::Unable,
                "too many processes have a class by hand: give some back with `--class auto`".to_owned(),
            ));
        }
        let class = match class {
            HandClass::Interactive => Some(Class::Interactive),
            HandClass::Other => Some(Class::Other),
            HandClass::Idle => Some(Class::Idle),
            HandClass::Auto => None,
        };
        Ok(Change { tgid, class, uid, start_ticks: found.start_ticks })
    }

    /// Remembers a change.
    pub fn keep(&mut self, change: Change) {
        let Change { tgid, class, uid, start_ticks } = change;
        match class {
            Some(class) => drop(self.by_tgid.insert(tgid, Hand { class, uid, start_ticks })),
            None => drop(self.by_tgid.remove(&tgid)),
        }
    }

    /// Forgets who is no more.
    pub fn prune(&mut self) {
        self.by_tgid.retain(|&tgid, hand| {
            Process::of(tgid).is_some_and(|found| found.start_ticks == hand.start_ticks)
        });
    }

    /// What was said of a process.
    pub fn of(&self, tgid: Tgid) -> Option<Hand> {
        self.by_tgid.get(&tgid).copied()
    }

    /// Everybody, by number.
    pub fn all(&self) -> impl Iterator<Item = (Tgid, Hand)> {
        self.by_tgid.iter().map(|(&tgid, &hand)| (tgid, hand))
    }
}

fn may(uid: u32, tgid: Tgid, class: HandClass, moved: Moved) -> Result<(), Refusal> {
    let denied = |why: String| Err(no(RefusalKind::Denied, why));
    if moved.is_kernel {
        return Err(no(RefusalKind::Unable, "threads of the kernel keep their class".to_owned()));
    }
    if uid == 0 {
        return Ok(());
    }
    if !moved.is_callers {
        return denied(format!("process {} is not yours: ask as root", tgid.0));
    }
    if class == HandClass::Interactive {
        return denied("only root raises by hand: whatever you use is found by itself".to_owned());
    }
    if moved.set_by.is_some_and(|by| by != uid) {
        return denied(format!("somebody else gave process {} its class: ask as root", tgid.0));
    }
    Ok(())
}

fn no(kind: RefusalKind, text: String) -> Refusal {
    Refusal { kind, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Moved = Moved { is_kernel: false, is_callers: true, set_by: None };

    fn kind(uid: u32, class: HandClass, moved: Moved) -> Option<RefusalKind> {
        may(uid, Tgid(7), class, moved).err().map(|refusal| refusal.kind)
    }

    #[test]
    fn a_user_lowers_their_own_processes_and_raises_none() {
        assert_eq!(kind(1000, HandClass::Idle, MINE), None);
        assert_eq!(kind(1000, HandClass::Other, MINE), None);
        assert_eq!(kind(1000, HandClass::Interactive, MINE), Some(RefusalKind::Denied));
        let theirs = Moved { is_callers: false, ..MINE };
        assert_eq!(kind(1000, HandClass::Idle, theirs), Some(RefusalKind::Denied));
        assert_eq!(kind(0, HandClass::Interactive, theirs), None);
    }

    #[test]
    fn what_root_said_a_user_does_not_take_back() {
        let roots = Moved { set_by: Some(0), ..MINE };
        assert_eq!(kind(1000, HandClass::Auto, roots), Some(RefusalKind::Denied));
        assert_eq!(kind(1000, HandClass::Auto, Moved { set_by: Some(1000), ..MINE }), None);
        assert_eq!(kind(0, HandClass::Auto, roots), None);
    }

    #[test]
    fn threads_of_the_kernel_are_nobodys_to_move() {
        assert_eq!(kind(0, HandClass::Idle, Moved { is_kernel: true, ..MINE }), Some(RefusalKind::Unable));
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut hands = Hands::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tgid = Tgid(child.id());
        hands.keep(hands.decide(0, child.id(), HandClass::Idle).unwrap());
        hands.prune();
        assert_eq!(hands.of(tgid).map(|hand| hand.class), Some(Class::Idle));
        child.kill().unwrap();
        child.wait().unwrap();
        hands.prune();
        assert_eq!(hands.of(tgid), None);
        assert_eq!(hands.decide(0, child.id(), HandClass::Idle).unwrap_err().kind, RefusalKind::NoProcess);
    }
}
