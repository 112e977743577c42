//! The cookies that X servers ask for.

use std::env;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::session;

/// A file of cookies is read up to this length, bytes; no usual file is longer.
const FILE_MAX: u64 = 1 << 20;
/// The longest data of a cookie, bytes; a cookie of the only kind here has 16.
const COOKIE_MAX: usize = 256;
/// At most so many cookies are tried: each takes a connection.
const COOKIES_MAX: usize = 12;
/// The only kind of authority that local servers use.
const KIND: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// The name and the data that a client gives to a server so that the server lets it in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Authority {
    pub(super) name: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// The authorities to try, in this order: the cookie of the file that the server was started with, the cookie
/// of the usual file, the cookies of files that the session's programs name, and no cookie.
pub(super) fn authorities(number: u32, server_file: Option<PathBuf>, home: &Path) -> Vec<Authority> {
    let in_home = || Some(home.join(".Xauthority"));
    let usual = env::var_os("XAUTHORITY").map(PathBuf::from).or_else(in_home);
    distinct(server_file.into_iter().chain(usual).chain(session::files(number)), number)
}

fn distinct(files: impl Iterator<Item = PathBuf>, number: u32) -> Vec<Authority> {
    let mut list: Vec<Authority> = Vec::new();
    for authority in files.filter_map(|file| cookie(&file, number)) {
        if list.len() == COOKIES_MAX {
            break;
        }
        if !list.contains(&authority) {
            list.push(authority);
        }
    }
    list.push(Authority::default());
    list
}

/// The cookie of a display in a file of cookies.
fn cookie(file: &Path, number: u32) -> Option<Authority> {
    // The kernel's own files, some of which take long to read, have no length.
    let file = regular(file).filter(|file| file.metadata().is_ok_and(|found| found.len() > 0))?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    find(&bytes, &number.to_string())
}

/// Opens a regular file for reading. A file of any other kind is not even opened: that could wait, or
/// change something.
pub(super) fn regular(path: &Path) -> Option<File> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    if FileType::from_raw_mode(fstat(&found).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    // Without waiting: another process may have a lease of the file, which is broken only after a while.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    Some(File::from(open(same, flags, Mode::empty()).ok()?))
}

/// Finds the entry that names the display, or else an entry for any display.
fn find(mut bytes: &[u8], number: &str) -> Option<Authority> {
    let mut any = None;
    while let Some((entry, rest)) = entry(bytes) {
        bytes = rest;
        let [_address, display, name, data] = entry;
        if name != KIND || data.len() > COOKIE_MAX {
            continue;
        }
        let authority = Authority { name: name.to_vec(), data: data.to_vec() };
        if display == number.as_bytes() {
            return Some(authority);
        }
        if display.is_empty() {
            any = any.or(Some(authority));
        }
    }
    any
}

/// One entry: a family, then address, display, name and data, each after its length.
fn entry(bytes: &[u8]) -> Option<([&[u8]; 4], &[u8])> {
    let mut rest = bytes.get(2..)?;
    let mut fields = [&[][..]; 4];
    for field in &mut fields {
        let length = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
        *field = rest.get(2..2 + length)?;
        rest = &rest[2 + length..];
    }
    Some((fields, rest))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, mknodat};

    use super::*;

    fn written(display: &str, name: &[u8], data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1, 0];
        for field in [b"host", display.as_bytes(), name, data] {
            bytes.extend(u16::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend(field);
        }
        bytes
    }

    #[test]
    fn the_display_s_own_cookie_goes_before_one_for_any() {
        let file =
            [written("", KIND, b"any"), written("7", b"OTHER", b"other"), written("7", KIND, b"seven")]
                .concat();
        assert_eq!(find(&file, "7").unwrap().data, b"seven");
        assert_eq!(find(&file, "8").unwrap().data, b"any");
    }

    #[test]
    fn a_text_that_is_too_long_is_no_cookie() {
        let file = [written("7", KIND, &[0; COOKIE_MAX + 1]), written("7", KIND, b"seven")].concat();
        assert_eq!(find(&file, "7").unwrap().data, b"seven");
    }

    #[test]
    fn only_regular_files_are_read_and_few_different_cookies_tried() {
        let place = std::env::temp_dir().join(format!("spry-cookies-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let (fifo, file) = (place.join("fifo"), |number: u32| place.join(number.to_string()));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        for number in 0..100 {
            // Two files each have the same cookie.
            fs::write(file(number), written("7", KIND, &(number / 2).to_be_bytes())).unwrap();
        }
        let none = [fifo, place.clone(), "/dev/null".into(), "/proc/self/stat".into(), "/missing".into()];
        let found = distinct(none.into_iter().chain((0..100).map(file)), 7);
        fs::remove_dir_all(&place).unwrap();
        let data = (0..COOKIES_MAX as u32).map(|cookie| cookie.to_be_bytes().to_vec());
        assert!(found.into_iter().map(|authority| authority.data).eq(data.chain([Vec::new()])));
    }

    #[test]
    fn a_file_that_is_cut_has_its_whole_entries() {
        let mut file = [written("1", KIND, b"one"), written("2", KIND, b"two")].concat();
        file.pop();
        assert_eq!(find(&file, "1").unwrap().data, b"one");
        assert_eq!(find(&file, "2"), None);
    }
}
