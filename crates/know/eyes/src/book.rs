//! What the eyes saw since they last told the daemon, and which processes they told it of lately.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::write;
use spry_display::wire::{AT_ONCE, RECORD, Record};
use spry_policy::{Changes, Tgid};

/// A process that did nothing for that long is new when it does something: the policy's period.
const LATELY: Duration = Duration::from_secs(1);

/// At most so many moments are told of a process at once: as many as there are between two looks.
const MOMENTS_MAX: u32 = 16;

/// The book: what processes did and the daemon has not been told yet, and when each process did something
/// last.
#[derive(Debug)]
pub(crate) struct Book {
    line: OwnedFd,
    untold: BTreeMap<Tgid, Changes>,
    /// At how many moments a process drew what is untold, if at more than one.
    moments: BTreeMap<Tgid, u32>,
    latest: BTreeMap<Tgid, Instant>,
}

impl AsFd for Book {
    /// The pipe to the daemon: waiting at it shows when the daemon has closed its end.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Book {
    pub(crate) fn new(line: OwnedFd) -> Book {
        Book { line, untold: BTreeMap::new(), moments: BTreeMap::new(), latest: BTreeMap::new() }
    }

    /// Adds what a process did.
    pub(crate) fn credit(&mut self, tgid: Tgid, changes: Changes) {
        self.untold.entry(tgid).or_default().add(changes);
        self.latest.insert(tgid, Instant::now());
    }

    /// What a process was credited with it drew at so many moments: each is told by itself, since the daemon
    /// counts them.
    pub(crate) fn drew_at(&mut self, tgid: Tgid, moments: u32) {
        if moments > 1 {
            let so_far = self.moments.entry(tgid).or_default();
            *so_far = so_far.saturating_add(moments).min(MOMENTS_MAX);
        }
    }

    /// Whether a process did something lately.
    pub(crate) fn is_active(&self, tgid: Tgid) -> bool {
        self.latest.get(&tgid).is_some_and(|latest| latest.elapsed() <= LATELY)
    }

    /// Tells the daemon what was seen, in as few writes as possible: the daemon hears the first write at
    /// once, and the next one later.
    ///
    /// # Errors
    /// If the daemon has closed its end of the pipe.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let moments = std::mem::take(&mut self.moments);
        let changes = std::mem::take(&mut self.untold).into_iter().flat_map(|(tgid, changes)| {
            parts(changes, moments.get(&tgid).copied().unwrap_or(1)).map(move |part| (tgid, part))
        });
        let changes = changes.filter(|(_, changes)| !changes.is_none());
        let records: Vec<[u8; RECORD]> =
            changes.map(|(tgid, changes)| Record::Changes(tgid, changes).into()).collect();
        for records in records.chunks(AT_ONCE) {
            self.write(records.as_flattened())?;
        }
        self.latest.retain(|_, latest| latest.elapsed() <= LATELY);
        Ok(())
    }

    /// Tells the daemon one record.
    ///
    /// # Errors
    /// If the daemon has closed its end of the pipe, as for [`Book::flush`].
    pub(crate) fn tell(&self, record: Record) -> io::Result<()> {
        let bytes: [u8; RECORD] = record.into();
        self.write(&bytes)
    }

    /// Writes to the pipe. A pipe takes so few bytes whole or not at all.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write(&self.line, bytes)?;
        Ok(())
    }
}

/// What a process did, in so many parts that together are the whole. Input is in the first.
fn parts(changes: Changes, count: u32) -> impl Iterator<Item = Changes> {
    let count = u64::from(count.max(1));
    (0..count).map(move |part| Changes {
        input: if part == 0 { changes.input } else { 0 },
        output_ppm: changes.output_ppm * (part + 1) / count - changes.output_ppm * part / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_of_a_film_are_together_what_was_drawn() {
        for (output_ppm, count) in [(1_000_003, 5), (0, 3), (7, 1), (2, 16)] {
            let whole = Changes { input: 3, output_ppm };
            let mut sum = Changes::default();
            parts(whole, count).for_each(|part| sum.add(part));
            assert_eq!(sum, whole);
        }
        assert!(parts(Changes { input: 0, output_ppm: 1_000 }, 5).all(|part| part.output_ppm == 200));
    }
}
