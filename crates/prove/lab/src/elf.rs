//! The needs of a dynamically linked program: its shared libraries in the image, and the version
//! of its C library.

use std::fs;
use std::io;
use std::path::Path;

/// The needs of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The names of the shared libraries.
    pub libraries: Vec<String>,
    /// The newest version of the C library that the program names, as (2, minor); `None` for a
    /// static program.
    pub glibc: Option<(u32, u32)>,
    /// The path of the program's dynamic linker.
    pub interpreter: Option<String>,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;
const TAG_STRINGS_SIZE: u64 = 10;

/// Reads the needs of a program; `None` if the file is not a 64-bit ELF file (a script, for example).
///
/// # Errors
/// If the file cannot be read.
pub fn needs(path: &Path) -> io::Result<Option<Needs>> {
    Ok(parse(&fs::read(path)?))
}

fn parse(bytes: &[u8]) -> Option<Needs> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let segments = segments(bytes)?;
    let mut found = Needs::default();
    if let Some(segment) = segments.iter().find(|segment| segment.kind == INTERPRETER) {
        found.interpreter = text_at(bytes, segment.offset);
    }
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) else { return Some(found) };
    let table = bytes.get(dynamic.offset..dynamic.offset.checked_add(dynamic.size)?)?;
    let tags: Vec<(u64, u64)> =
        table.chunks_exact(16).filter_map(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?))).collect();
    let value = |wanted| tags.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let strings = file_offset(&segments, value(TAG_STRINGS)?)?;
    let size = value(TAG_STRINGS_SIZE)? as usize;
    let needed = tags.iter().filter(|(tag, _)| *tag == TAG_NEEDED);
    found.libraries =
        needed.filter_map(|(_, at)| text_at(bytes, strings.checked_add(*at as usize)?)).collect();
    found.glibc = newest_glibc(bytes.get(strings..strings.checked_add(size)?)?);
    Some(found)
}

struct Segment {
    kind: u32,
    offset: usize,
    address: u64,
    size: usize,
}

fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    let start = u64_at(bytes, 32)? as usize;
    let (size, count) = (u16_at(bytes, 54)? as usize, u16_at(bytes, 56)? as usize);
    (0..count)
        .map(|number| {
            let header = bytes.get(start.checked_add(number * size)?..)?;
            Some(Segment {
                kind: u32_at(header, 0)?,
                offset: u64_at(header, 8)? as usize,
                address: u64_at(header, 16)?,
                size: u64_at(header, 32)? as usize,
            })
        })
        .collect()
}

fn file_offset(segments: &[Segment], address: u64) -> Option<usize> {
    let holds = |segment: &&Segment| {
        segment.kind == LOAD && (segment.address..segment.address + segment.size as u64).contains(&address)
    };
    let segment = segments.iter().find(holds)?;
    Some(segment.offset + (address - segment.address) as usize)
}

/// The newest version `GLIBC_2.x` among the names of a string table.
fn newest_glibc(strings: &[u8]) -> Option<(u32, u32)> {
    let names = strings.split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let versions = names.filter_map(|name| {
        let mut parts = name.strip_prefix("GLIBC_")?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

fn text_at(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_needs_the_c_library() {
        let own = std::env::current_exe().expect("this program has a path");
        let needs = needs(&own).expect("it can be read").expect("it is an ELF file");
        assert!(needs.libraries.iter().any(|name| name == "libc.so.6"), "{needs:?}");
        assert!(needs.glibc.expect("it names versions") >= (2, 14));
        assert!(needs.interpreter.expect("it is dynamic").contains("ld-linux"));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.9\0GLIBC_2.36\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), Some((2, 36)));
    }

    #[test]
    fn a_cut_or_foreign_file_is_no_program() {
        let own = fs::read(std::env::current_exe().expect("a path")).expect("it can be read");
        assert_eq!(parse(b"#!/bin/sh\n"), None);
        for len in [6, 60, 100, 400] {
            assert!(parse(&own[..len]).is_none_or(|needs| needs.libraries.is_empty()));
        }
    }
}
