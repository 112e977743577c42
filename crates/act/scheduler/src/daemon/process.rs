//! Facts about a process from `/proc`, besides its scheduling.

use std::fs;

use spry_control::TaskClass;
pub use spry_display::{is_wholly_of, owner};
use spry_kernel::PF_KTHREAD;
use spry_policy::Tgid;
use spry_sys::process::{stat_fields, stat_name};

/// A process as `/proc` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// The process' name.
    pub comm: String,
    /// The start of the process, in the kernel's ticks since boot. Together with the number it identifies a
    /// process even after its exit.
    pub start_ticks: u64,
    /// The CPU on which the process runs, or ran last.
    pub cpu: Option<u32>,
    nice: i64,
    flags: u64,
    policy: u64,
}

impl Process {
    /// The process with a number, if there is one.
    pub fn of(tgid: Tgid) -> Option<Process> {
        Process::parse(&fs::read(format!("/proc/{}/stat", tgid.0)).ok()?)
    }

    /// Reads a process from a line of `/proc/N/stat`.
    fn parse(line: &[u8]) -> Option<Process> {
        let fields: Vec<&str> = stat_fields(line)?.collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Process {
            // A process' name need not be UTF-8.
            comm: String::from_utf8_lossy(stat_name(line)?).into_owned(),
            flags: number(6)?,
            nice: fields.get(16)?.parse().ok()?,
            start_ticks: number(19)?,
            cpu: fields.get(36).and_then(|field| field.parse().ok()),
            policy: number(38)?,
        })
    }

    /// Whether the process is a kernel thread.
    pub const fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// The class that the process has by its own nature, without a verdict.
    pub fn class(&self) -> TaskClass {
        let is_idle = self.policy == u64::from(libc::SCHED_IDLE.unsigned_abs());
        match self.is_kernel() {
            true if self.nice <= 0 => TaskClass::Kthread,
            false if is_idle => TaskClass::Idle,
            _ => TaskClass::Other,
        }
    }
}

/// The process of a thread. A process has the number of its first thread.
pub fn of_thread(tid: u32) -> Option<Tgid> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok().map(Tgid)
}

/// The numbers of all processes, from `/proc`.
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
        let process = Process::parse(format!("7 (a) b) c) {rest}").as_bytes()).unwrap();
        assert_eq!((process.comm.as_str(), process.start_ticks, process.nice), ("a) b) c", 1234, -5));
        assert_eq!((process.class(), process.cpu), (TaskClass::Idle, Some(1)));
    }

    #[test]
    fn this_process_is_an_ordinary_one_of_its_user() {
        let me = Tgid(std::process::id());
        let process = Process::of(me).unwrap();
        assert_eq!(process.class(), TaskClass::Other);
        let uid = rustix::process::geteuid().as_raw();
        assert!(is_wholly_of(me, uid) && !is_wholly_of(me, uid + 1));
        assert!(all().contains(&me));
        assert_eq!(Process::of(Tgid(u32::MAX)), None);
    }
}
