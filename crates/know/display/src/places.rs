//! The sockets of X servers: their places, and a watch for new sockets.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

/// The directory in which the X servers of this machine make their sockets.
const DIRECTORY: &str = "/tmp/.X11-unix";
/// The length of `struct inotify_event` without the name.
const HEAD: usize = 16;
/// The usual numbers of displays are tried one by one, so that they are found among any number of other
/// files. The first range has the sessions that display managers start, the second range has the server
/// of a compositor.
const USUAL: [std::ops::Range<u32>; 2] = [0..256, 1024..1040];
/// Of the directory's files, which any user can make, at most so many are looked at beside the usual numbers.
const FILES_MAX: usize = 1024;
/// At most so many bytes of notices are read at once. If there are more, the rest is dropped, and the
/// directory is read anew.
const NEWS_MAX: usize = 64 << 10;

/// The number of a display's name: `:0`, `:0.0` or `unix:0`.
pub fn number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("unix").unwrap_or(name).strip_prefix(':')?;
    number.split('.').next()?.parse().ok()
}

/// The socket of a display.
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("X{number}"))
}

fn of_socket(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix('X')?.parse().ok()
}

/// The socket of a display; a link in its place is not followed.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    pub(crate) fn open(number: u32) -> io::Result<Socket> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = open(path(number), flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::Socket => Ok(Socket(found)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The owner of a display's socket; `None` if there is no socket.
pub fn owner(number: u32) -> Option<u32> {
    let found = fs::symlink_metadata(path(number)).ok()?;
    found.file_type().is_socket().then(|| found.uid())
}

/// The displays that have sockets, in order of their numbers.
pub fn present() -> Vec<u32> {
    let usual = USUAL.into_iter().flatten().filter(|&number| owner(number).is_some());
    let files = fs::read_dir(DIRECTORY).into_iter().flatten().flatten().take(FILES_MAX);
    let mut numbers: Vec<u32> =
        files.filter_map(|entry| of_socket(&entry.file_name())).chain(usual).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// A watch over the directory of sockets.
#[derive(Debug)]
pub struct Place(OwnedFd);

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Place {
    /// Begins to watch the directory, if it is there.
    pub fn watch() -> Option<Place> {
        let place = Place(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?);
        let wanted = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&place, DIRECTORY, wanted).ok()?;
        Some(place)
    }

    /// The displays that got sockets since the last call. `None` if the directory itself was removed, or if
    /// so much happened there that the watch has to begin anew.
    pub fn appeared(&mut self) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        let mut bytes = [0_u8; 4096];
        for _ in 0..NEWS_MAX / bytes.len() {
            let count = match rustix::io::read(&*self, &mut bytes) {
                Ok(count) => count,
                Err(Errno::AGAIN | Errno::INTR) => return Some(numbers),
                Err(_) => return None,
            };
            let mut rest = &bytes[..count];
            while rest.len() >= HEAD {
                let word =
                    |at: usize| u32::from_ne_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
                let (mask, length) = (word(4), word(12) as usize);
                let ends = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_IGNORED | libc::IN_Q_OVERFLOW;
                if mask & ends != 0 {
                    return None;
                }
                let name = rest.get(HEAD..HEAD + length)?;
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                numbers.extend(of_socket(OsStr::from_bytes(&name[..end])));
                rest = &rest[HEAD + length..];
            }
        }
        None
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
