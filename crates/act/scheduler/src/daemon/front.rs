//! The process that answers on the system bus for the daemon (`spry-rtkit`): its start, its messages, and
//! its restarts with exponential back-off. The daemon reads messages of 20 bytes from it, a bounded
//! number each second.

use std::env;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use spry_control::rtkit::{DaemonAnswer, ExitReason, FrontRequest, REQUEST, RequestKind};
use spry_display::pause_after;
use spry_sys::poll::{self, PollFd};

/// The name of its program.
const NAME: &str = "spry-rtkit";
/// The file with the system's users, which only root can write.
const USERS: &str = "/etc/passwd";
/// The environment variable that names another bus than the system's.
const ADDRESS: &str = "DBUS_SYSTEM_BUS_ADDRESS";
/// The first and the longest pause before a restart. Each pause is twice the last one.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(60);
/// After a run of this length, ns, the next pause is as short as the first.
const CALM_NS: u64 = 60_000_000_000;
/// The most messages that are read in a second.
const MESSAGES_A_SECOND: u32 = 50;
const SECOND_NS: u64 = 1_000_000_000;

/// The running process.
#[derive(Debug)]
struct FrontProcess {
    child: Child,
    line: OwnedFd,
    since_ns: u64,
}

/// The process that answers on the bus, and the time of its next start.
#[derive(Debug)]
pub struct Front {
    uid: u32,
    gid: u32,
    program: PathBuf,
    running: Option<FrontProcess>,
    /// A process that was killed and has not been reaped yet.
    ending: Option<Child>,
    due_ns: u64,
    ends: u32,
    heard: (u64, u32),
    /// The reason why no process answers, as a text for root.
    trouble: Option<String>,
}

impl Front {
    /// Prepares a process that runs as this user, given by name or number. The first
    /// [`Front::turn`] starts it.
    ///
    /// # Errors
    /// If there is no such user, if it is root, or if the program is missing.
    pub fn of(user: &str) -> Result<Front> {
        let (uid, gid) = user_of(&fs::read_to_string(USERS).context(USERS)?, user).with_context(|| {
            format!("--rtkit: there is no user `{user}` but root: make one (packaging/sysusers.d/spry.conf)")
        })?;
        let program = env::current_exe()?.with_file_name(NAME);
        anyhow::ensure!(program.exists(), "--rtkit: {NAME} is not beside this program: install it");
        let (running, ending, trouble) = (None, None, None);
        Ok(Front { uid, gid, program, running, ending, due_ns: 0, ends: 0, heard: (0, 0), trouble })
    }

    /// The descriptor for its next message; `None` if it does not run, or sent too many in this second.
    pub fn poll(&self, now_ns: u64) -> Option<PollFd<'_>> {
        let may_hear = self.may_hear(now_ns);
        self.running.as_ref().filter(|_| may_hear).map(|running| poll::readable(&running.line))
    }

    /// The time of its next start, on the monotonic clock, ns; `u64::MAX` while it runs.
    pub fn due_ns(&self) -> u64 {
        if self.running.is_some() { u64::MAX } else { self.due_ns }
    }

    /// If the process does not answer, a warning with the reason.
    pub fn warning(&self) -> Option<String> {
        self.trouble.as_ref().map(|why| format!("org.freedesktop.RealtimeKit1 is not answered: {why}"))
    }

    fn may_hear(&self, now_ns: u64) -> bool {
        let (second, count) = self.heard;
        second != now_ns / SECOND_NS || count < MESSAGES_A_SECOND
    }

    /// Starts the process if its start is due, and returns its next request. Does not wait.
    pub fn turn(&mut self, now_ns: u64) -> Option<FrontRequest> {
        if self.running.is_none() && now_ns >= self.due_ns {
            self.begin(now_ns);
        }
        if !self.may_hear(now_ns) {
            return None;
        }
        let running = self.running.as_ref()?;
        // One byte more than a message has, so that a longer message is recognised as malformed.
        let mut bytes = [0; REQUEST + 1];
        let count = match recv(&running.line, &mut bytes[..], RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return None,
            Ok((count, _)) => count,
            Err(_) => 0,
        };
        let second = now_ns / SECOND_NS;
        self.heard = (second, if self.heard.0 == second { self.heard.1 + 1 } else { 1 });
        match FrontRequest::try_from(&bytes[..count]) {
            Ok(FrontRequest { what: RequestKind::End, tid, .. }) => {
                self.trouble = Some(told(ExitReason::of(tid)).to_owned());
                self.end(now_ns);
                None
            }
            Ok(asked) => {
                self.trouble = None;
                Some(asked)
            }
            Err(_) => {
                self.trouble.get_or_insert_with(|| format!("{NAME} has ended"));
                self.end(now_ns);
                None
            }
        }
    }

    /// Sends the answer to the latest request.
    pub fn answer(&self, answered: &DaemonAnswer) {
        if let Some(running) = &self.running {
            // If the process has ended, the next turn detects it.
            _ = send(&running.line, &answered.bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    fn begin(&mut self, now_ns: u64) {
        if let Some(child) = &mut self.ending {
            if matches!(child.try_wait(), Ok(None)) {
                self.due_ns = now_ns + pause_ns(1);
                return;
            }
            self.ending = None;
        }
        match self.start() {
            Ok((child, line)) => {
                self.trouble = None;
                self.running = Some(FrontProcess { child, line, since_ns: now_ns });
            }
            Err(error) => {
                self.trouble = Some(format!("{NAME} cannot be started: {error:#}"));
                self.pause(0, now_ns);
            }
        }
    }

    /// Starts the program as root, so that no user can trace it before it has given up its rights.
    fn start(&self) -> Result<(Child, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(&self.program);
        command.arg0(NAME).args([self.uid, self.gid].map(|number| number.to_string()));
        command.current_dir("/").env_clear();
        if let Some(address) = env::var_os(ADDRESS) {
            command.env(ADDRESS, address);
        }
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        Ok((command.spawn()?, ours))
    }

    fn end(&mut self, now_ns: u64) {
        let Some(FrontProcess { mut child, since_ns, .. }) = self.running.take() else { return };
        // The process may have ended already.
        _ = child.kill();
        if matches!(child.try_wait(), Ok(None)) {
            self.ending = Some(child);
        }
        self.pause(now_ns.saturating_sub(since_ns), now_ns);
    }

    fn pause(&mut self, lived_ns: u64, now_ns: u64) {
        self.ends = if lived_ns >= CALM_NS { 0 } else { self.ends.saturating_add(1) };
        self.due_ns = now_ns + pause_ns(self.ends);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(FrontProcess { child, .. }) = &mut self.running {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// The pause before a restart, ns, after `ends` ends in a row.
fn pause_ns(ends: u32) -> u64 {
    pause_after(PAUSE, ends, PAUSE_MOST).as_nanos() as u64
}

fn told(ended: ExitReason) -> &'static str {
    match ended {
        ExitReason::NoBus => "the system bus does not let it in",
        ExitReason::Taken => "another program answers (stop it: `systemctl mask --now rtkit-daemon`)",
        ExitReason::Denied => "the bus' rules do not give it the name (packaging/dbus-1/spry-rtkit.conf)",
        ExitReason::Broken => "the system bus has ended",
    }
}

/// The numbers of a user and of the user's group; `None` for root and for unknown users.
fn user_of(list: &str, user: &str) -> Option<(u32, u32)> {
    let entry = |line: &str| {
        let mut parts = line.split(':');
        let (name, uid, gid) = (parts.next()?, parts.nth(1)?, parts.next()?);
        (name == user || uid == user).then_some((uid.parse().ok()?, gid.parse().ok()?))
    };
    list.lines().find_map(entry).filter(|&(uid, gid)| uid != 0 && gid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_or_number_and_is_never_root() {
        let list = "root:x:0:0::/root:/bin/sh\nspry-rtkit:x:997:996::/:/bin/false\nbad\nadmin:x:5:0::/:\n";
        assert_eq!(user_of(list, "spry-rtkit"), Some((997, 996)));
        assert_eq!(user_of(list, "997"), Some((997, 996)));
        assert_eq!([user_of(list, "root"), user_of(list, "0"), user_of(list, "admin")], [None; 3]);
        assert_eq!(user_of(list, "bad"), None);
    }

    #[test]
    fn pauses_grow_to_a_minute() {
        assert_eq!([1, 2, 3].map(pause_ns), [250_000_000, 500_000_000, SECOND_NS]);
        assert_eq!([9, u32::MAX].map(pause_ns), [60_000_000_000; 2]);
    }
}
