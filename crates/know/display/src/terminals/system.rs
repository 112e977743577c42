//! The machine's facts about terminals: the remote sessions, and the size and the owner of a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use spry_policy::Tgid;
use spry_sys::process::parent_and_begin;

use super::{CONSOLE_MAJOR, CONSOLES, Device, PTY_MAJOR, Size, World};

/// The state of an established connection in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// An IPv6 address that begins with this stands for an IPv4 address.
const OLDER: &str = "0000000000000000FFFF0000";

/// At most so many answers are kept; asking again costs a millisecond at most.
const KEPT_MAX: usize = 256;

/// This machine, as `/proc` and `/dev` show it.
#[derive(Debug, Default)]
pub struct System {
    /// Whether a process is a remote session, by its number and the time when it began: the number
    /// may be used again.
    remote: BTreeMap<(Tgid, u64), bool>,
}

impl System {
    /// A state without any answers yet.
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
        // Serial lines are not opened: opening one raises its signals.
        let is_known = device.major == PTY_MAJOR || device.major == CONSOLE_MAJOR && device.minor < CONSOLES;
        let path = is_known.then(|| format!("/dev/{device}"))?;
        // The flags keep the terminal from becoming this session's own terminal, and the call from waiting.
        let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
        let terminal = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        window(&terminal)
    }

    fn owner(&mut self, device: Device) -> Option<u32> {
        owner(device)
    }
}

/// The user that a terminal belongs to: at the login, this user is made the owner of the terminal's node.
pub fn owner(device: Device) -> Option<u32> {
    fs::metadata(format!("/dev/{device}")).ok().map(|node| node.uid())
}

fn window(terminal: &File) -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    let is_told = size.ws_row > 0 && size.ws_col > 0;
    is_told.then_some(Size { rows: size.ws_row, columns: size.ws_col })
}

struct Process {
    parent: Tgid,
    /// The start time of the process, in clock ticks after boot.
    began: u64,
}

impl Process {
    fn read(tgid: Tgid) -> Option<Process> {
        let line = fs::read(format!("/proc/{}/stat", tgid.0)).ok()?;
        let (parent, began) = parent_and_begin(&line)?;
        Some(Process { parent: Tgid(parent), began })
    }
}

/// Whether a process is a remote session's. Such a process has a connection with another machine that only
/// root can have given to it: the process is root's own, or its parent is root's and has the connection, too
/// (sshd's monitor, and the part of sshd that runs as the user). Programs that a user starts with more rights
/// keep the user's real number, so they do not count as root's.
fn is_remote(holder: Tgid, process: &Process) -> bool {
    let connections: BTreeSet<u64> = sockets(holder).intersection(&from_elsewhere(holder)).copied().collect();
    if connections.is_empty() {
        return false;
    }
    is_root(holder) || (is_root(process.parent) && !sockets(process.parent).is_disjoint(&connections))
}

/// Whether all of a process' user numbers are root's, the real one too.
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

/// The inodes of connections with other machines, as a process sees them. A connection with a socket of this
/// same machine does not count: any user can type through such a connection.
fn from_elsewhere(tgid: Tgid) -> BTreeSet<u64> {
    let tables = ["tcp", "tcp6"].map(|name| format!("/proc/{}/net/{name}", tgid.0));
    elsewhere(&tables.iter().filter_map(|path| fs::read_to_string(path).ok()).collect::<String>())
}

fn elsewhere(text: &str) -> BTreeSet<u64> {
    let connections: Vec<Connection<'_>> = text.lines().filter_map(Connection::read).collect();
    let ends: BTreeSet<_> = connections.iter().map(|one| (one.local, one.remote)).collect();
    let is_elsewhere = |one: &&Connection<'_>| one.is_open && !ends.contains(&(one.remote, one.local));
    connections.iter().filter(is_elsewhere).map(|one| one.inode).collect()
}

/// A line of `/proc/net/tcp` or `/proc/net/tcp6`.
struct Connection<'t> {
    local: &'t str,
    remote: &'t str,
    is_open: bool,
    inode: u64,
}

impl<'t> Connection<'t> {
    fn read(line: &'t str) -> Option<Connection<'t>> {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (plain(fields.next()?), plain(fields.next()?));
        let is_open = fields.next()? == ESTABLISHED;
        Some(Connection { local, remote, is_open, inode: fields.nth(5)?.parse().ok()? })
    }
}

/// An IPv6 address that stands for an IPv4 address is given back as that IPv4 address.
fn plain(address: &str) -> &str {
    address.strip_prefix(OLDER).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(local: &str, remote: &str, state: &str, inode: u64) -> String {
        format!(
            "   0: {local} {remote} {state} 00000000:00000000 02:000A0000 \
             00000000     0        0 {inode} 2 0\n"
        )
    }

    #[test]
    fn a_connection_with_another_machine_is_from_elsewhere() {
        let head =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  inode\n";
        let text = [
            head.to_owned(),
            line("0500000A:0016", "0700000A:9C40", "01", 10),
            line("0500000A:0016", "0700000A:9C42", "08", 11),
            line("00000000:0016", "00000000:0000", "0A", 12),
        ];
        assert_eq!(elsewhere(&text.concat()), BTreeSet::from([10]));
    }

    #[test]
    fn a_connection_with_its_other_end_here_is_not() {
        let client = line("0200007F:9C40", "0100007F:0016", "01", 20);
        let server = line("0100007F:0016", "0200007F:9C40", "01", 21);
        assert_eq!(elsewhere(&format!("{client}{server}")), BTreeSet::new());
        // One end is a server that listens at an IPv6 address, the other a client that is closing its end.
        let client = line("0500000A:9C40", "0500000A:0016", "05", 22);
        let newer = "0000000000000000FFFF0000";
        let server = line(&format!("{newer}0500000A:0016"), &format!("{newer}0500000A:9C40"), "01", 23);
        assert_eq!(elsewhere(&format!("{client}{server}")), BTreeSet::new());
    }
}
