//! What kind of process serves a display: whether there is a screen that somebody can see.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use spry_policy::Tgid;

/// What a process that shows something to a person, or hears one, has open.
const SEATS: [&str; 6] =
    ["/dev/dri/card", "/dev/fb", "/dev/nvidia", "/dev/input/event", "/dev/tty0", "/dev/vga_arbiter"];
/// So far up is looked for the compositor behind a nested server.
const PARENTS_MAX: usize = 3;

/// Whether a display's server has a screen or a keyboard of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Screen {
    /// It has.
    Seat,
    /// It has not: what is drawn there is seen by nobody here.
    Virtual,
    /// We may not look.
    Unknown,
}

/// What a process was started with.
pub(super) fn arguments(tgid: Tgid) -> Vec<Vec<u8>> {
    let bytes = fs::read(format!("/proc/{}/cmdline", tgid.0)).unwrap_or_default();
    bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

fn command_name(tgid: Tgid) -> String {
    fs::read_to_string(format!("/proc/{}/comm", tgid.0)).unwrap_or_default().trim_end().to_owned()
}

/// Whether the server draws no root window but hands each window to a compositor of Wayland.
pub(super) fn is_rootless(tgid: Tgid) -> bool {
    command_name(tgid) == "Xwayland" && arguments(tgid).iter().any(|argument| argument == b"-rootless")
}

/// The file of cookies that a server was started with.
pub(super) fn authority_file(tgid: Tgid) -> Option<PathBuf> {
    let arguments = arguments(tgid);
    let at = arguments.iter().position(|argument| argument == b"-auth")?;
    let path = Path::new(OsStr::from_bytes(arguments.get(at + 1)?));
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    // As the server sees it.
    Some(PathBuf::from(format!("/proc/{}/cwd", tgid.0)).join(path))
}

/// Behind a socket that a compositor listens at for its server, that server.
pub(super) fn nested_server(listener: Tgid, number: u32) -> Option<Tgid> {
    let display = format!(":{number}");
    let children = fs::read_dir(format!("/proc/{}/task", listener.0)).ok()?.flatten().flat_map(|thread| {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        list.split_whitespace().filter_map(|child| child.parse().ok().map(Tgid)).collect::<Vec<Tgid>>()
    });
    children.into_iter().find(|&child| {
        command_name(child).starts_with('X')
            && arguments(child).iter().any(|argument| argument == display.as_bytes())
    })
}

/// Looks for a screen behind a server.
pub(super) fn screen(server: Tgid) -> Screen {
    let mut process = server;
    for _ in 0..PARENTS_MAX {
        match has_seat(process) {
            Some(true) => return Screen::Seat,
            Some(false) => {}
            None => return Screen::Unknown,
        }
        // A server inside a compositor has its screen.
        if command_name(process) != "Xwayland" && process == server {
            return Screen::Virtual;
        }
        match parent(process) {
            Some(parent) if parent.0 > 1 => process = parent,
            _ => return Screen::Virtual,
        }
    }
    Screen::Virtual
}

fn has_seat(tgid: Tgid) -> Option<bool> {
    let mut entries = fs::read_dir(format!("/proc/{}/fd", tgid.0)).ok()?.flatten();
    Some(entries.any(|entry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        SEATS.iter().any(|seat| target.as_os_str().as_bytes().starts_with(seat.as_bytes()))
    }))
}

fn parent(tgid: Tgid) -> Option<Tgid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", tgid.0)).ok()?;
    // After the name, which may hold anything, come the state and the parent.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_whitespace().nth(1)?.parse().ok().map(Tgid)
}

/// Whether a process counts its processes as we do: else the numbers that the server knows mean others here.
pub(super) fn shares_numbers(tgid: Tgid) -> bool {
    let space = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid"));
    match (space("self"), space(&tgid.0.to_string())) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        // Where we may not look, the usual case is assumed.
        _ => true,
    }
}
