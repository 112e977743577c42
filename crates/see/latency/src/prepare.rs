//! The settings of the machine that a measurement needs, and the rights that the user can grant for them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use spry_sys::memory::{self, Locked};
use spry_sys::schedule::real_time_limit;

use crate::error::Error;

/// A need of a measurement that the machine does not meet; the measurement goes on without it. Its text gives
/// the effect on the samples, and the rights that the user can grant.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Lack {
    /// Memory is not locked.
    Memory(String),
    /// Idle states are not held off.
    IdleStates(String),
    /// All real-time threads together may use less of each period than the kernel usually allows.
    Throttled {
        /// The time that they may use, us.
        runtime_us: u64,
        /// The period, us.
        period_us: u64,
    },
    /// The sampling threads are not real-time threads.
    NotRealTime,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Memory(error) => write!(
                f,
                "memory is not locked ({error}), so a page fault may count as latency: run as root, \
                 or raise `ulimit -l`"
            ),
            Lack::IdleStates(error) => write!(
                f,
                "idle states are not held off (/dev/cpu_dma_latency: {error}), so leaving one counts as \
                 latency: run as root, or grant writing to it"
            ),
            Lack::Throttled { runtime_us, period_us } => write!(
                f,
                "the real-time class is throttled: it may use {runtime_us} us of every {period_us} us, \
                 and what is over counts as latency; `sysctl kernel.sched_rt_runtime_us=950000` gives it \
                 what is usual, -1 everything"
            ),
            Lack::NotRealTime => {
                write!(
                    f,
                    "without real-time priority (--priority 0) this shows what ordinary threads get, \
                     not what the kernel can do"
                )
            }
        }
    }
}

/// The settings that are held while a measurement runs; a drop releases them.
#[derive(Debug)]
pub(crate) struct HeldSettings {
    _idle_states: Option<File>,
}

impl HeldSettings {
    /// Takes the settings that the machine allows, and returns the needs that it does not meet. The sampling
    /// threads must exist already, so that their stacks are locked too.
    pub(crate) fn take(priority: u8) -> (HeldSettings, Vec<Lack>) {
        let mut lacks = Vec::new();
        if let Err(error) = memory::lock(Locked::Now) {
            lacks.push(Lack::Memory(error.to_string()));
        }
        let idle_states = hold_idle_states_off();
        if let Err(error) = &idle_states {
            lacks.push(Lack::IdleStates(error.to_string()));
        }
        match priority {
            0 => lacks.push(Lack::NotRealTime),
            _ => lacks.extend(throttled(Path::new("/proc/sys/kernel"))),
        }
        (HeldSettings { _idle_states: idle_states.ok() }, lacks)
    }
}

impl Drop for HeldSettings {
    fn drop(&mut self) {
        memory::unlock();
    }
}

/// The share of each period that kernels give real-time threads by default, per cent.
const USUAL_SHARE_PERCENT: u64 = 95;

/// The throttling of real-time threads, if it is below the usual share.
fn throttled(settings: &Path) -> Option<Lack> {
    let number = |name: &str| fs::read_to_string(settings.join(name)).ok()?.trim().parse::<i64>().ok();
    // -1 is no limit.
    let runtime_us = u64::try_from(number("sched_rt_runtime_us")?).ok()?;
    let period_us = u64::try_from(number("sched_rt_period_us")?).ok()?;
    (runtime_us * 100 < period_us * USUAL_SHARE_PERCENT).then_some(Lack::Throttled { runtime_us, period_us })
}

/// The error for a thread to which the system refused this real-time priority.
pub(crate) fn refused(priority: u8, error: io::Error) -> Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Error::System { what: "run at real-time priority", error };
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match group_without_share(&groups, Path::new("/sys/fs/cgroup")) {
        Some(path) => Error::GroupNotRealTime(path),
        None => Error::NotRealTime { priority, allowed: real_time_limit() },
    }
}

/// The file with the real-time run time of this process' control group, if that time is 0.
fn group_without_share(groups: &str, mounted: &Path) -> Option<PathBuf> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        if !controllers.split(',').any(|controller| controller == "cpu") {
            return None;
        }
        let group = group.trim_start_matches('/');
        let file = mounted.join(controllers).join(group).join("cpu.rt_runtime_us");
        let alone = mounted.join("cpu").join(group).join("cpu.rt_runtime_us");
        [file, alone].into_iter().find(|path| fs::read_to_string(path).is_ok_and(|text| text.trim() == "0"))
    })
}

/// Holds the CPUs out of every idle state that takes time to leave, while the file is open.
fn hold_idle_states_off() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(file)
}

/// Touches enough of the calling thread's stack that sampling never meets an absent page.
#[inline(never)]
pub(crate) fn touch_stack() {
    let mut pages = [0u8; 32 * 1024];
    for byte in pages.iter_mut().step_by(1024) {
        *byte = 1;
    }
    // This keeps the compiler from leaving the writes out.
    black_box(&pages);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(runtime: &str, period: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sched_rt_runtime_us"), runtime).unwrap();
        fs::write(dir.path().join("sched_rt_period_us"), period).unwrap();
        dir
    }

    #[test]
    fn less_than_the_usual_share_is_throttled() {
        let lack = |runtime: &str| throttled(settings(runtime, "1000000\n").path());
        assert_eq!(lack("950000\n"), None);
        assert_eq!(lack("-1\n"), None);
        assert_eq!(lack("500000\n"), Some(Lack::Throttled { runtime_us: 500_000, period_us: 1_000_000 }));
        assert!(lack("0\n").unwrap().to_string().contains("0 us of every 1000000 us"));
    }

    #[test]
    fn a_group_without_a_share_is_named_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("cpu,cpuacct/users/a");
        fs::create_dir_all(&group).unwrap();
        let file = group.join("cpu.rt_runtime_us");
        let groups = "5:memory:/x\n4:cpu,cpuacct:/users/a\n0::/\n";
        fs::write(&file, "0\n").unwrap();
        assert_eq!(group_without_share(groups, dir.path()), Some(file.clone()));
        fs::write(&file, "950000\n").unwrap();
        assert_eq!(group_without_share(groups, dir.path()), None);
    }

    #[test]
    fn a_refusal_says_what_to_grant() {
        let words = Error::NotRealTime { priority: 80, allowed: 0 }.to_string();
        for word in ["root", "CAP_SYS_NICE", "ulimit -r 80", "limits.conf", "LimitRTPRIO=80", "--priority 0"]
        {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert!(!words.contains('\n'));
    }
}
