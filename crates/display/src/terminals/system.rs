//! What the machine tells about terminals: whose session is a remote one, how large a terminal is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use spry_policy::Tgid;

use super::{CONSOLE_MAJOR, CONSOLES, Device, PTY_MAJOR, Size, World};

/// Established connections have this state in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// Answers kept at a time; asking again costs a millisecond at most.
const KEPT_MAX: usize = 256;

/// This machine, as `/proc` and `/dev` tell of it.
#[derive(Debug, Default)]
pub struct System {
    /// By process and when it began, for a number may be used again.
    remote: BTreeMap<(Tgid, u64), bool>,
}

impl System {
    /// Nothing has been asked yet.
    pub fn new() -> System {
        System::default()
    }
}

impl World for System {
    fn is_remote_session(&mut self, holder: Tgid) -> bool {
        let Some(process) = Process::read(holder) else { return false };
        if self.remote.len() >= KEPT_MAX {
            self.remote.clear();
        }
        *self.remote.entry((holder, process.began)).or_insert_with(|| is_remote(holder, &process))
    }

    fn size(&mut self, device: Device) -> Option<Size> {
        // Serial lines are left alone: opening one raises its signals.
        let is_known = device.major == PTY_MAJOR || device.major == CONSOLE_MAJOR && device.minor < CONSOLES;
        let path = is_known.then(|| format!("/dev/{device}"))?;
        // Not to become its session's own terminal, nor to wait.
        let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
        let terminal = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        window(&terminal)
    }
}

fn window(terminal: &File) -> Option<Size> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: an open terminal, and a place for its size.
    let status = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    let is_told = status == 0 && size.ws_row > 0 && size.ws_col > 0;
    is_told.then_some(Size { rows: size.ws_row, columns: size.ws_col })
}

struct Process {
    parent: Tgid,
    /// Clock ticks after boot.
    began: u64,
}

impl Process {
    fn read(tgid: Tgid) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", tgid.0)).ok()?;
        // The name may hold anything, brackets too.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let parent = Tgid(fields.nth(1)?.parse().ok()?);
        let began = fields.nth(17)?.parse().ok()?;
        Some(Process { parent, began })
    }
}

/// A session's process has a connection that only root can have given it: it is root's own, or the one that its parent, which
/// is root's, has too (sshd's monitor and the user's part of it). Programs that a user starts with more rights keep
/// the user's real number.
fn is_remote(holder: Tgid, process: &Process) -> bool {
    let connections: BTreeSet<u64> = sockets(holder).intersection(&established(holder)).copied().collect();
    if connections.is_empty() {
        return false;
    }
    is_root(holder) || (is_root(process.parent) && !sockets(process.parent).is_disjoint(&connections))
}

/// Whether a process' numbers of user are all root's, the real one too.
fn is_root(tgid: Tgid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", tgid.0)).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_ascii_whitespace().all(|user| user == "0"))
}

/// The inodes of the sockets that a process has open.
fn sockets(tgid: Tgid) -> BTreeSet<u64> {
    let open = fs::read_dir(format!("/proc/{}/fd", tgid.0)).into_iter().flatten().flatten();
    let socket = |target: &str| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    open.filter_map(|entry| socket(fs::read_link(entry.path()).ok()?.to_str()?)).collect()
}

/// The inodes of established internet connections, as a process sees them.
fn established(tgid: Tgid) -> BTreeSet<u64> {
    let tables = ["tcp", "tcp6"].map(|name| format!("/proc/{}/net/{name}", tgid.0));
    let text: String = tables.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let inode = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let is_open = fields.nth(3)? == ESTABLISHED;
        is_open.then(|| fields.nth(5)?.parse().ok())?
    };
    text.lines().filter_map(inode).collect()
}
