//! Processes that were killed, kept until they have ended; no thread waits for them.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// The most processes, in all and of one person, that have been killed and have not ended. No new process is
/// started beyond that. A process ends late if its last call waits for a file system in user space.
const MOST: usize = 32;
const MOST_OF_ONE: usize = 4;
/// The longest time for which the keeper waits for all these processes when it ends itself.
const LAST: Duration = Duration::from_millis(200);

/// The processes that were killed, each with the person that its display server belongs to.
#[derive(Debug, Default)]
pub(super) struct KilledProcesses {
    children: Vec<(u32, Child)>,
}

impl KilledProcesses {
    /// Kills a process of a person, and keeps it until it has ended.
    pub(super) fn end(&mut self, person: u32, mut child: Child) {
        // If the process has ended already, the kill fails, and the process only has to be waited for.
        let _ = child.kill();
        self.children.push((person, child));
        self.reap();
    }

    /// Removes the processes that have ended. Returns whether there were any.
    pub(super) fn reap(&mut self) -> bool {
        let before = self.children.len();
        self.children.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        self.children.len() < before
    }

    /// Whether all these processes have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether another process may be started for this person.
    pub(super) fn has_room(&self, person: u32) -> bool {
        let of_one = self.children.iter().filter(|(whose, _)| *whose == person).count();
        self.children.len() < MOST && of_one < MOST_OF_ONE
    }
}

impl Drop for KilledProcesses {
    fn drop(&mut self) {
        let until = Instant::now() + LAST;
        while !self.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
            self.reap();
        }
    }
}
