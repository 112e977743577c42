//! The daemon and the system it runs on: its memory, its notices, its being the only one.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::guardian::watch::now_ns;

/// Nearly the last to be killed for want of memory; a daemon that eats all of it still is.
const OOM_SCORE: i32 = -900;
/// How long what a killed daemon left behind may take to leave, ns, and how often to look.
const LEAVING_NS: u64 = 5_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Says something on standard error; nobody reading it is no reason to end.
pub fn say(text: &str) {
    let line = text.split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    _ = writeln!(std::io::stderr(), "spry-sched: {line}");
}

/// That this is root, which reading the scheduler and acting on it takes.
///
/// # Errors
/// Where it is not.
pub fn need_root() -> Result<()> {
    // SAFETY: geteuid reads no memory and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    ensure!(is_root, "the daemon needs root: start it with sudo, or enable spry-sched.service");
    Ok(())
}

/// Keeps the daemon's memory in memory, and it from being killed for others' appetite. What cannot be had is said.
pub fn hold_fast() -> Vec<String> {
    let mut warnings = Vec::new();
    // SAFETY: mlockall only takes flags. Pages are locked as they come into use, so stacks cost what they use.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0 {
        let error = std::io::Error::last_os_error();
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

/// That no other daemon is: held until dropped, and let go by the kernel however the process ends.
#[derive(Debug)]
pub struct Only {
    _file: File,
}

impl Only {
    /// Takes the place.
    ///
    /// # Errors
    /// Where another has it, or the file cannot be made.
    pub fn take(path: &Path) -> Result<Only> {
        let cannot = || format!("cannot make {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(cannot)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path).with_context(cannot)?;
        let until_ns = now_ns() + LEAVING_NS;
        // SAFETY: flock only takes a descriptor, which is open.
        while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let holder = fs::read_to_string(path).unwrap_or_default();
            let holder = holder.trim();
            // The guardian of a daemon that was killed holds the place until it has restored everything.
            let is_leaving = !holder.is_empty() && !Path::new("/proc").join(holder).exists();
            if !is_leaving || now_ns() >= until_ns {
                bail!(
                    "another spry-sched ({}) is running: stop it first with `spry sched stop`",
                    if holder.is_empty() { "?" } else { holder }
                );
            }
            thread::sleep(LOOK_EVERY);
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).with_context(cannot)?;
        Ok(Only { _file: file })
    }
}

/// Tells systemd, if that started the daemon: `READY=1`, `STOPPING=1`, `STATUS=...`.
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

/// The kernel's account of this process' CPU time so far, all threads, ns.
pub fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes into `time`, which outlives the call; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_only_one() {
        let dir = env::temp_dir().join(format!("spry-only-{}", std::process::id()));
        let path = dir.join("lock");
        let first = Only::take(&path).unwrap();
        let error = Only::take(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("({})", std::process::id())), "{error}");
        drop(first);
        drop(Only::take(&path).unwrap());
        fs::remove_dir_all(dir).unwrap();
    }
}
