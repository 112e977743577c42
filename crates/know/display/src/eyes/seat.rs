//! The seats of this machine, and the users of the sessions that the seats show.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use spry_policy::Tgid;
use spry_sys::poll::{PollFd, PollFlags};

/// The directory in which the system's session manager (logind, elogind) keeps the session that each seat
/// shows, in files that only root writes. The function sd_seat_get_active(3) reads the same files. Over D-Bus
/// root would have to parse the replies of a bus instead.
const SEATS: &str = "/run/systemd/seats";
/// The seat that has the virtual terminals.
const FIRST: &str = "seat0";
/// At most so many seats are looked at.
const SEATS_MAX: usize = 64;
/// The file with the name of the virtual terminal that is shown.
const SHOWN: &str = "/sys/class/tty/tty0/active";

/// The users of the sessions that are shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ShownUsers {
    /// The user of the session that is shown on the seat with the virtual terminals.
    pub(super) first: Option<u32>,
    /// The users of the sessions that are shown on any seat.
    pub(super) all: BTreeSet<u32>,
}

/// The seats of this machine.
#[derive(Debug)]
pub(super) struct Seats {
    shown: Option<File>,
}

impl Seats {
    pub(super) fn open() -> Seats {
        Seats { shown: File::open(SHOWN).ok() }
    }

    /// The users of the sessions that are shown, by the files of the session manager, or else the owner of
    /// the terminal that is shown.
    pub(super) fn users(&self) -> ShownUsers {
        // The terminal is read in any case: only after a read does the descriptor report the next change.
        let owner = self.terminal();
        let mut shown = shown_in(Path::new(SEATS));
        if shown.first.is_none() {
            shown.first = owner;
            shown.all.extend(owner);
        }
        shown
    }

    fn terminal(&self) -> Option<u32> {
        let mut bytes = [0; 32];
        let count = self.shown.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let name = std::str::from_utf8(&bytes[..count]).ok()?;
        let number: u32 = name.trim().strip_prefix("tty")?.parse().ok()?;
        Some(fs::metadata(format!("/dev/tty{number}")).ok()?.uid())
    }

    /// The descriptor that reports when another terminal is shown, once [`Seats::users`] has read the present
    /// terminal; `None` where there are no terminals.
    pub(super) fn poll(&self) -> Option<PollFd<'_>> {
        self.shown.as_ref().map(|shown| PollFd::new(shown, PollFlags::PRI))
    }
}

fn shown_in(seats: &Path) -> ShownUsers {
    let mut shown = ShownUsers::default();
    for seat in fs::read_dir(seats).into_iter().flatten().flatten().take(SEATS_MAX) {
        let user = fs::read_to_string(seat.path()).ok().and_then(|text| active(&text));
        if seat.file_name() == FIRST {
            shown.first = user;
        }
        shown.all.extend(user);
    }
    shown
}

fn active(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("ACTIVE_UID="))?.trim().parse().ok()
}

/// Whether a process is in our name space of process numbers: if not, the server's numbers mean other
/// processes here.
pub(super) fn shares_numbers(tgid: Tgid) -> bool {
    let space = |process: &str| -> io::Result<_> { fs::read_link(format!("/proc/{process}/ns/pid")) };
    match (space("self"), space(&tgid.0.to_string())) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        // If the name space may not be read, the usual case is assumed: that it is the same.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seat_gives_the_user_of_its_shown_session() {
        let place = std::env::temp_dir().join(format!("spry-seats-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let head = "# This is private data. Do not parse.\n";
        for (seat, text) in [
            ("seat0", "IS_SEAT0=1\nACTIVE=2\nACTIVE_UID=1000\nSESSIONS=2 c1\n"),
            ("seat-usb", "IS_SEAT0=0\nACTIVE=c5\nACTIVE_UID=1001\n"),
            ("seat-empty", "IS_SEAT0=0\nCAN_TTY=0\n"),
        ] {
            fs::write(place.join(seat), format!("{head}{text}")).unwrap();
        }
        let shown = shown_in(&place);
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(shown, ShownUsers { first: Some(1000), all: BTreeSet::from([1000, 1001]) });
        assert_eq!(shown_in(&place), ShownUsers::default());
    }
}
