//! The daemon's relation to the system: its memory, its messages, and the lock against a second daemon.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use spry_sys::clock::monotonic_ns;
pub use spry_sys::clock::own_cpu_ns;
use spry_sys::memory::{self, Locked};
use spry_sys::schedule::{Children, Policy, set_policy};

/// The daemon's `oom_score_adj`: it is nearly the last process to be killed when memory runs out. If it takes
/// all memory itself, it is still killed.
const OOM_SCORE: i32 = -900;
/// The longest wait for the end of a killed daemon's guardian, ns, and the time between two checks.
const LEAVING_NS: u64 = 5_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Prints a message to standard error. If that fails, the daemon goes on.
pub fn say(text: &str) {
    let line = text.split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    _ = writeln!(std::io::stderr(), "spry-sched: {line}");
}

/// Checks that the daemon runs as root, which is needed to observe the scheduler and to act on it.
///
/// # Errors
/// If it does not.
pub fn need_root() -> Result<()> {
    ensure!(
        spry_sys::process::is_root(),
        "the daemon needs root: start it with sudo, or enable spry-sched.service"
    );
    Ok(())
}

/// Locks the daemon's memory against swapping, and protects the daemon from being killed when memory runs
/// out. Returns a warning for each of these that fails.
pub fn hold_fast() -> Vec<String> {
    let mut warnings = Vec::new();
    if let Err(error) = memory::lock(Locked::InUse) {
        warnings.push(format!(
            "the daemon's memory cannot be locked ({error}): it may be late when memory is short"
        ));
    }
    let path = "/proc/self/oom_score_adj";
    let now = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if now.is_none_or(|score| score > OOM_SCORE) {
        if let Err(error) = fs::write(path, OOM_SCORE.to_string()) {
            warnings.push(format!("the daemon may be killed when memory is short ({path}: {error})"));
        }
    }
    warnings
}

/// Makes the daemon's threads real-time, so that the daemon ends in time however many tasks want a CPU.
/// Programs that use the socket spin when it closes. With a thousand of them the last milliseconds of work
/// took up to two seconds. If the kernel refuses, the end takes longer.
pub fn end_in_time() {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for tid in threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()) {
        _ = set_policy(tid, Policy::RoundRobin(1), Children::Ordinary);
    }
}

/// A lock that only one daemon can hold, until it is dropped. The kernel releases it however
/// the process ends.
#[derive(Debug)]
pub struct DaemonLock {
    _file: File,
}

impl DaemonLock {
    /// Takes the lock at a path.
    ///
    /// # Errors
    /// If another daemon holds it, or the file cannot be made.
    pub fn take(path: &Path) -> Result<DaemonLock> {
        let cannot = || format!("cannot make {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(cannot)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path).with_context(cannot)?;
        let until_ns = monotonic_ns() + LEAVING_NS;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let holder = fs::read_to_string(path).unwrap_or_default();
            let holder = holder.trim();
            // The guardian of a killed daemon holds the lock until it has undone all changes.
            let is_leaving = !holder.is_empty() && !Path::new("/proc").join(holder).exists();
            if !is_leaving || monotonic_ns() >= until_ns {
                bail!(
                    "another spry-sched ({}) is running: stop it first with `spry sched stop`",
                    if holder.is_empty() { "?" } else { holder }
                );
            }
            thread::sleep(LOOK_EVERY);
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).with_context(cannot)?;
        Ok(DaemonLock { _file: file })
    }
}

/// Reports a state to systemd, if systemd started the daemon: `READY=1`, `STOPPING=1`, `STATUS=...`.
pub fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let sent = address
        .and_then(|address| Ok((UnixDatagram::unbound()?, address)))
        .and_then(|(socket, address)| socket.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        say(&format!("cannot tell systemd {state}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_only_one() {
        let dir = env::temp_dir().join(format!("spry-only-{}", std::process::id()));
        let path = dir.join("lock");
        let first = DaemonLock::take(&path).unwrap();
        let error = DaemonLock::take(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("({})", std::process::id())), "{error}");
        drop(first);
        drop(DaemonLock::take(&path).unwrap());
        fs::remove_dir_all(dir).unwrap();
    }
}
