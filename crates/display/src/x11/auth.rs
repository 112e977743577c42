//! The cookies that X servers ask for.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No cookies' file is longer.
const FILE_MAX: u64 = 1 << 20;
/// The only kind of authority that local servers use.
const KIND: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// What a server is told at the door.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Authority {
    pub(super) name: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// What to try, in order: the cookie of the file that the server was started with, the usual file's, and none.
pub(super) fn authorities(number: u32, server_file: Option<PathBuf>) -> Vec<Authority> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".Xauthority"));
    let usual = env::var_os("XAUTHORITY").map(PathBuf::from).or_else(home);
    let files = server_file.into_iter().chain(usual);
    let mut list: Vec<Authority> = files.filter_map(|file| cookie(&file, number)).collect();
    list.push(Authority::default());
    list.dedup();
    list
}

/// The cookie of a display in a file of cookies.
fn cookie(file: &Path, number: u32) -> Option<Authority> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    find(&bytes, &number.to_string())
}

/// Finds the entry that names the display, or else one for any display.
fn find(mut bytes: &[u8], number: &str) -> Option<Authority> {
    let mut any = None;
    while let Some((entry, rest)) = entry(bytes) {
        bytes = rest;
        let [_address, display, name, data] = entry;
        if name != KIND {
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
    fn a_file_that_is_cut_has_its_whole_entries() {
        let mut file = [written("1", KIND, b"one"), written("2", KIND, b"two")].concat();
        file.pop();
        assert_eq!(find(&file, "1").unwrap().data, b"one");
        assert_eq!(find(&file, "2"), None);
    }
}
