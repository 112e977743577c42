//! Where X servers can be found: their sockets, and being told of new ones.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where servers of this machine listen.
const DIRECTORY: &str = "/tmp/.X11-unix";
/// So many displays are watched: anybody can make sockets there.
pub(super) const SOCKETS_MAX: usize = 32;
/// `struct inotify_event` without its name.
const HEAD: usize = 16;

/// The number of a display's name: `:0`, `:0.0` or `unix:0`.
pub(super) fn number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("unix").unwrap_or(name).strip_prefix(':')?;
    number.split('.').next()?.parse().ok()
}

/// The socket of a display.
pub(super) fn path(number: u32) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("X{number}"))
}

fn of_socket(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix('X')?.parse().ok()
}

/// The displays that have sockets, by number.
pub(super) fn present() -> Vec<u32> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else { return Vec::new() };
    let mut numbers: Vec<u32> = entries.flatten().filter_map(|entry| of_socket(&entry.file_name())).collect();
    numbers.sort_unstable();
    numbers
}

/// The place of sockets, watched.
#[derive(Debug)]
pub(super) struct Place(OwnedFd);

impl AsRawFd for Place {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Place {
    /// Watches the place, if it is there.
    pub(super) fn watch() -> Option<Place> {
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: a fresh descriptor of ours.
        let place = Place(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let path = std::ffi::CString::new(DIRECTORY).ok()?;
        let wanted = libc::IN_CREATE
            | libc::IN_MOVED_TO
            | libc::IN_DELETE_SELF
            | libc::IN_MOVE_SELF
            | libc::IN_ONLYDIR;
        // SAFETY: the path is a C string.
        let watch = unsafe { libc::inotify_add_watch(descriptor, path.as_ptr(), wanted) };
        (watch >= 0).then_some(place)
    }

    /// The displays that got sockets since this was last asked; nothing if the place itself is gone.
    pub(super) fn appeared(&mut self) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        let mut bytes = [0_u8; 4096];
        loop {
            // SAFETY: the buffer is as long as said.
            let count = unsafe { libc::read(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
            let Ok(count) = usize::try_from(count) else {
                let error = io::Error::last_os_error();
                return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
                    .then_some(numbers);
            };
            let mut rest = &bytes[..count];
            while rest.len() >= HEAD {
                let word =
                    |at: usize| u32::from_ne_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
                let (mask, length) = (word(4), word(12) as usize);
                if mask & (libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_IGNORED) != 0 {
                    return None;
                }
                if mask & libc::IN_Q_OVERFLOW != 0 {
                    numbers.extend(present());
                }
                let name = rest.get(HEAD..HEAD + length)?;
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                numbers.extend(of_socket(OsStr::from_bytes(&name[..end])));
                rest = &rest[HEAD + length..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_is_called_by_its_number() {
        let names = [":0", ":12.1", "unix:3", "12", "far.away:0", ":", ":x"];
        let numbers = [Some(0), Some(12), Some(3), None, None, None, None];
        assert_eq!(names.map(number), numbers);
    }

    #[test]
    fn only_sockets_of_displays_are_displays() {
        assert_eq!(
            ["X0", "X42", "X", "Y1", "X1_"].map(|name| of_socket(OsStr::new(name))),
            [Some(0), Some(42), None, None, None]
        );
    }
}
