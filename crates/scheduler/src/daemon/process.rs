//! What the kernel tells of a process besides its scheduling.

use std::fs;
use std::os::unix::fs::MetadataExt;

use spry_control::TaskClass;
use spry_kernel::PF_KTHREAD;
use spry_policy::Tgid;

/// A process as `/proc` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its name.
    pub comm: String,
    /// Since the start of the machine, in the kernel's ticks: with the number it names a process for good.
    pub start_ticks: u64,
    nice: i64,
    flags: u64,
    policy: u64,
}

impl Process {
    /// The process of that number, if there is one.
    pub fn of(tgid: Tgid) -> Option<Process> {
        // Names need not be UTF-8.
        let bytes = fs::read(format!("/proc/{}/stat", tgid.0)).ok()?;
        Process::parse(&String::from_utf8_lossy(&bytes))
    }

    /// From `7 (name) S 1 ...`; the name may hold anything.
    fn parse(stat: &str) -> Option<Process> {
        let (head, rest) = stat.rsplit_once(") ")?;
        let (_, comm) = head.split_once(" (")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Process {
            comm: comm.to_owned(),
            flags: number(6)?,
            nice: fields.get(16)?.parse().ok()?,
            start_ticks: number(19)?,
            policy: number(38)?,
        })
    }

    /// Whether it is a thread of the kernel.
    pub const fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// The class that its own nature gives it.
    pub fn class(&self) -> TaskClass {
        let is_idle = self.policy == u64::from(libc::SCHED_IDLE.unsigned_abs());
        match self.is_kernel() {
            true if self.nice <= 0 => TaskClass::Kthread,
            false if is_idle => TaskClass::Idle,
            _ => TaskClass::Other,
        }
    }
}

/// Whose a process is, for what others may see of it: what the kernel protects from its own user is root's.
pub fn owner(tgid: Tgid) -> Option<u32> {
    fs::metadata(format!("/proc/{}", tgid.0)).map(|data| data.uid()).ok()
}

/// Whether a process is that user's in every respect, so that it could signal it and be stopped by it.
pub fn is_wholly_of(tgid: Tgid, uid: u32) -> bool {
    let status = fs::read(format!("/proc/{}/status", tgid.0)).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let Some(uids) = status.lines().find_map(|line| line.strip_prefix("Uid:")) else { return false };
    let mut uids = uids.split_ascii_whitespace().map(str::parse::<u32>).peekable();
    uids.peek().is_some() && uids.all(|found| found == Ok(uid))
}

/// The process that a thread is of; a process' own number is its first thread's.
pub fn of_thread(tid: u32) -> Option<Tgid> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok().map(Tgid)
}

/// Every process there is.
pub fn all() -> Vec<Tgid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Tgid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses() {
        let rest =
            "S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 -5 1 0 1234 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 5 0 0";
        let process = Process::parse(&format!("7 (a) b) c) {rest}")).unwrap();
        assert_eq!((process.comm.as_str(), process.start_ticks, process.nice), ("a) b) c", 1234, -5));
        assert_eq!(process.class(), TaskClass::Idle);
    }

    #[test]
    fn this_process_is_an_ordinary_one_of_its_user() {
        let me = Tgid(std::process::id());
        let process = Process::of(me).unwrap();
        assert_eq!(process.class(), TaskClass::Other);
        let uid = owner(me).unwrap();
        assert!(is_wholly_of(me, uid) && !is_wholly_of(me, uid + 1));
        assert!(all().contains(&me));
        assert_eq!(Process::of(Tgid(u32::MAX)), None);
    }
}
