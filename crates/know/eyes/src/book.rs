//! The eyes' observations since their last report to the daemon, and the processes that were active lately.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::write;
use spry_display::wire::{AT_ONCE, RECORD, Record};
use spry_policy::{Changes, Tgid};

/// A process that did nothing for this long is new when it does something: the policy's period.
const LATELY: Duration = Duration::from_secs(1);

/// The most moments of a process in one report: as many as there are between two looks.
const MOMENTS_MAX: u32 = 16;

/// The book: the input and the drawing of processes that are not reported yet, and the time of each process'
/// latest activity.
#[derive(Debug)]
pub(crate) struct Book {
    line: OwnedFd,
    untold: BTreeMap<Tgid, Changes>,
    /// The number of moments of a process' unreported drawing, if it is more than 1.
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

    /// Adds input and drawing of a process.
    pub(crate) fn credit(&mut self, tgid: Tgid, changes: Changes) {
        self.untold.entry(tgid).or_default().add(changes);
        self.latest.insert(tgid, Instant::now());
    }

    /// Notes that a process made its credited drawing at so many moments: each moment is reported by itself,
    /// since the daemon counts them.
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

    /// Reports to the daemon, in as few writes as possible: the daemon reads the first write at once, and the
    /// next write later.
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

    /// Sends one record to the daemon.
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

/// Splits changes into `count` parts that together are the whole. The first part has the input.
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
