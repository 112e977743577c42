//! Manual overrides: the processes that users have put into a class, and the users' permissions for that.

use std::collections::BTreeMap;

use spry_control::{HandClass, Refusal, RefusalKind};
use spry_policy::Tgid;

use super::answers::{is_of, no_process};
use super::process::{self, Process};
use crate::actuator::Class;

/// The greatest number of manual overrides: of all users together, and of one user other than root.
const ALL_MAX: usize = 4096;
const OF_ONE_MAX: usize = 256;

/// A manual override of a process' class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManualOverride {
    /// The class into which the user put the process.
    pub class: Class,
    /// The user that set the override.
    pub uid: u32,
    start_ticks: u64,
}

/// All manual overrides.
#[derive(Clone, Debug, Default)]
pub struct ManualOverrides {
    by_tgid: BTreeMap<Tgid, ManualOverride>,
}

/// A permitted change of a manual override.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Change {
    /// The process that the override is about.
    pub tgid: Tgid,
    /// The new class; `None`: the override is removed.
    pub class: Option<Class>,
    uid: u32,
    start_ticks: u64,
}

/// The facts that decide whether a user may override a process' class: whether it is a kernel thread, and the
/// user of the present override.
#[derive(Clone, Copy, Debug)]
struct OverrideFacts {
    is_kernel: bool,
    set_by: Option<u32>,
}

impl ManualOverrides {
    /// Decides whether a user may set a manual override, and returns the change.
    ///
    /// # Errors
    /// The reason why the user may not.
    pub fn decide(&self, uid: u32, tid: u32, class: HandClass) -> Result<Change, Refusal> {
        let gone = || no_process(uid, tid);
        let tgid = process::of_thread(tid).ok_or_else(gone)?;
        // An ordinary user must not learn whether another user has a process with this number.
        if !is_of(tgid, uid) {
            return Err(gone());
        }
        let found = Process::of(tgid).ok_or_else(gone)?;
        if tgid.0 == std::process::id() {
            return Err(no(
                RefusalKind::Unable,
                "the scheduler's own daemon has a class of its own".to_owned(),
            ));
        }
        let moved =
            OverrideFacts { is_kernel: found.is_kernel(), set_by: self.of(tgid).map(|hand| hand.uid) };
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

    /// Stores a change of a manual override that has taken effect.
    pub fn keep(&mut self, change: Change) {
        let Change { tgid, class, uid, start_ticks } = change;
        match class {
            Some(class) => drop(self.by_tgid.insert(tgid, ManualOverride { class, uid, start_ticks })),
            None => drop(self.by_tgid.remove(&tgid)),
        }
    }

    /// Removes the overrides of processes that have exited, and returns these processes. Their numbers may
    /// belong to other processes now.
    #[must_use]
    pub fn prune(&mut self) -> Vec<Tgid> {
        let lives = |tgid: Tgid, hand: &ManualOverride| {
            Process::of(tgid).is_some_and(|found| found.start_ticks == hand.start_ticks)
        };
        let gone: Vec<Tgid> =
            self.all().filter(|(tgid, hand)| !lives(*tgid, hand)).map(|(tgid, _)| tgid).collect();
        self.by_tgid.retain(|tgid, _| !gone.contains(tgid));
        gone
    }

    /// The manual override of a process, if there is one.
    pub fn of(&self, tgid: Tgid) -> Option<ManualOverride> {
        self.by_tgid.get(&tgid).copied()
    }

    /// All manual overrides, by number of the process.
    pub fn all(&self) -> impl Iterator<Item = (Tgid, ManualOverride)> {
        self.by_tgid.iter().map(|(&tgid, &hand)| (tgid, hand))
    }
}

/// Checks whether a user may override a process' class.
fn may(uid: u32, tgid: Tgid, class: HandClass, moved: OverrideFacts) -> Result<(), Refusal> {
    let denied = |why: String| Err(no(RefusalKind::Denied, why));
    if moved.is_kernel {
        return Err(no(RefusalKind::Unable, "threads of the kernel keep their class".to_owned()));
    }
    if uid == 0 {
        return Ok(());
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

    const MINE: OverrideFacts = OverrideFacts { is_kernel: false, set_by: None };

    fn kind(uid: u32, class: HandClass, moved: OverrideFacts) -> Option<RefusalKind> {
        may(uid, Tgid(7), class, moved).err().map(|refusal| refusal.kind)
    }

    #[test]
    fn a_user_lowers_their_own_processes_and_raises_none() {
        assert_eq!(kind(1000, HandClass::Idle, MINE), None);
        assert_eq!(kind(1000, HandClass::Other, MINE), None);
        assert_eq!(kind(1000, HandClass::Interactive, MINE), Some(RefusalKind::Denied));
        assert_eq!(kind(0, HandClass::Interactive, MINE), None);
    }

    #[test]
    fn another_user_s_process_is_refused_like_a_missing_one() {
        let by_hand = ManualOverrides::default();
        let refused = |tid: u32| {
            let refusal = by_hand.decide(4_000_000_007, tid, HandClass::Idle).unwrap_err();
            (refusal.kind, refusal.text.replace(&tid.to_string(), "N"))
        };
        let nobody = refused(4_194_305);
        assert_eq!(refused(std::process::id()), nobody);
        assert_eq!(refused(1), nobody);
        assert_eq!(nobody.0, RefusalKind::NoProcess);
    }

    #[test]
    fn a_user_cannot_take_back_an_override_of_root() {
        let roots = OverrideFacts { set_by: Some(0), ..MINE };
        assert_eq!(kind(1000, HandClass::Auto, roots), Some(RefusalKind::Denied));
        assert_eq!(kind(1000, HandClass::Auto, OverrideFacts { set_by: Some(1000), ..MINE }), None);
        assert_eq!(kind(0, HandClass::Auto, roots), None);
    }

    #[test]
    fn threads_of_the_kernel_cannot_be_moved() {
        assert_eq!(
            kind(0, HandClass::Idle, OverrideFacts { is_kernel: true, ..MINE }),
            Some(RefusalKind::Unable)
        );
    }

    #[test]
    fn an_exited_process_is_forgotten() {
        let mut by_hand = ManualOverrides::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tgid = Tgid(child.id());
        by_hand.keep(by_hand.decide(0, child.id(), HandClass::Idle).unwrap());
        assert_eq!(by_hand.prune(), []);
        assert_eq!(by_hand.of(tgid).map(|hand| hand.class), Some(Class::Idle));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(by_hand.prune(), [tgid]);
        assert_eq!(by_hand.of(tgid), None);
        assert_eq!(by_hand.decide(0, child.id(), HandClass::Idle).unwrap_err().kind, RefusalKind::NoProcess);
    }
}
