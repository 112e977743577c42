//! The person behind the number of a user: name spaces give one person many users' numbers, and bounds are
//! for a person. Also the user to which a process belongs.

use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use spry_policy::Tgid;

/// The file with the ranges of numbers that the system gave to each user, see subuid(5).
const FILE: &str = "/etc/subuid";
/// The pause between two reads of the file.
const LOOK: Duration = Duration::from_secs(60);

/// The ranges of numbers that people were given.
#[derive(Clone, Debug, Default)]
pub struct People {
    ranges: Vec<Range<u32>>,
    looked: Option<Instant>,
}

impl People {
    /// Reads the file again, if the last read was some time ago.
    pub fn refresh(&mut self, now: Instant) {
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK) {
            self.looked = Some(now);
            self.ranges = read(&fs::read_to_string(FILE).unwrap_or_default());
        }
    }

    /// A number for the person behind a user: the same for all users of a range. The person's own user counts
    /// as another person, since that user's number does not show the range.
    #[must_use]
    pub fn person(&self, uid: u32) -> u32 {
        self.ranges.iter().find(|range| range.contains(&uid)).map_or(uid, |range| range.start)
    }
}

/// Reads lines with a user, a first number and a count of numbers. Root's number is in no range, whatever
/// the file contains.
fn read(text: &str) -> Vec<Range<u32>> {
    let range = |line: &str| {
        let mut parts = line.trim().split(':').skip(1);
        let (first, count): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        (first > 0).then_some(first..first.saturating_add(count))
    };
    text.lines().filter_map(range).collect()
}

/// Whether all user numbers of a process (real, effective, saved, of files) are this user's.
#[must_use]
pub fn is_wholly_of(tgid: Tgid, uid: u32) -> bool {
    owner(tgid) == Some(uid)
}

/// The user that has all user numbers of a process (real, effective, saved, of files); `None` if they differ
/// or the process has exited.
#[must_use]
pub fn owner(tgid: Tgid) -> Option<u32> {
    let status = fs::read(format!("/proc/{}/status", tgid.0)).ok()?;
    let status = String::from_utf8_lossy(&status);
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut uids = uids.split_ascii_whitespace().map(|uid| uid.parse().ok());
    let first = uids.next()?;
    if uids.all(|uid| uid == first) { first } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_range_are_one_person_s() {
        let ranges = read("anna:100000:65536\n# no line\n\n1001:165536:65536\nbad:x:1\nroot:0:10\n");
        assert_eq!(ranges, [100_000..165_536, 165_536..231_072]);
        let people = People { ranges, looked: None };
        let numbers = [0, 1000, 100_000, 165_535, 165_536, 231_072];
        let persons = [0, 1000, 100_000, 100_000, 165_536, 231_072];
        assert_eq!(numbers.map(|uid| people.person(uid)), persons);
    }

    #[test]
    fn a_process_is_its_users() {
        let me = Tgid(std::process::id());
        let uid = rustix::process::geteuid().as_raw();
        assert!(is_wholly_of(me, uid) && !is_wholly_of(me, uid + 1));
        assert_eq!((owner(me), owner(Tgid(u32::MAX))), (Some(uid), None));
    }
}
