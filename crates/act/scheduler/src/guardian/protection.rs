//! A journal together with its guardian: both must exist before a part of the daemon changes threads.

use std::io;
use std::path::Path;

use super::Guardian;
use super::journal::Journal;
use super::settings::{base_slice_ns, stat_of};

/// A journal and its guardian. If this is dropped while the journal has entries, the guardian undoes them
/// when the daemon ends.
#[derive(Debug)]
pub struct Protection {
    guardian: Guardian,
    /// The journal, into which each change is written first.
    pub journal: Journal,
    /// The slice of threads that have requested none, ns.
    pub base_slice_ns: u64,
}

impl Protection {
    /// Opens the journal at a path and starts its guardian.
    ///
    /// # Errors
    /// If another daemon or its guardian has locked the journal, it cannot be made, or no guardian
    /// can be started.
    pub fn start(path: &Path) -> io::Result<Protection> {
        let mut journal = Journal::open(path)?;
        let (own, base_slice_ns) = (std::process::id(), base_slice_ns());
        journal.begin(base_slice_ns, stat_of(own, own)?.start);
        Ok(Protection { guardian: Guardian::start(&mut journal)?, journal, base_slice_ns })
    }

    /// The number of the guardian's process.
    pub const fn guardian_tgid(&self) -> u32 {
        self.guardian.tgid()
    }

    /// Starts another guardian if the last one was killed: nothing may be changed without a guardian.
    ///
    /// # Errors
    /// If no guardian can be started.
    pub fn guard(&mut self) -> io::Result<()> {
        if !self.guardian.is_alive() {
            self.guardian = Guardian::start(&mut self.journal)?;
        }
        Ok(())
    }
}
