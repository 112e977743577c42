//! The flight recorder: the latest seconds of a trace in memory, and the event after which they are kept.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spry_sys::clock;
use spry_trace::event::{Comm, Event, Stamped, TaskInfo, WakeupKind};
use spry_trace::flight::{ClockReadings, Flight, KeepError};
use spry_trace::writer::Written;
use spry_trace::{Options, Tgid, Tid};

use crate::error::{Error, Result};
use crate::queue::Destination;

/// The number of parts of the kept trace within the window. A part reaches from one restart to the next, and
/// is dropped as a whole once it is older than the window.
const PARTS: u64 = 8;

/// The limit of the tasks with stored names. At the limit all names are dropped and collected anew.
const NAMES_MAX: usize = 1 << 20;

/// The event that a flight recorder waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct When {
    /// A task waits longer than this from its wake-up until it runs, ns.
    pub latency_ns: u64,
    /// Only a task of this name counts; a name that ends in `*` stands for all names that
    /// begin with the rest.
    pub task: Option<String>,
}

/// An event that a flight recorder waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlightEvent {
    /// The task that waited.
    pub tid: Tid,
    /// The task's name, if it is known.
    pub comm: Option<Comm>,
    /// The CPU that the task got.
    pub cpu: u16,
    /// The time at which the task got the CPU, ns of the kernel's own monotonic clock.
    pub time_ns: u64,
    /// The time for which the task had waited, ns.
    pub latency_ns: u64,
}

impl When {
    fn is_of(&self, comm: Option<Comm>) -> bool {
        let Some(pattern) = &self.task else { return true };
        let name = comm.map(|comm| comm.to_string()).unwrap_or_default();
        match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *pattern,
        }
    }
}

/// Looks for the event that [`When`] describes among all events that are written.
pub(crate) struct Lookout {
    when: When,
    woken_ns: HashMap<Tid, u64>,
    names: HashMap<Tid, Comm>,
    own_tgid: Tgid,
    /// The recorder's own threads, which do not count.
    own: HashSet<Tid>,
    happened: Arc<Mutex<Option<FlightEvent>>>,
}

impl Lookout {
    /// Looks for `when` among the tasks of all processes but the recorder's, which has the number `own_tgid`.
    pub(crate) fn new(when: When, own_tgid: Tgid, happened: Arc<Mutex<Option<FlightEvent>>>) -> Lookout {
        let (woken_ns, names, own) = (HashMap::new(), HashMap::new(), HashSet::new());
        Lookout { when, woken_ns, names, own_tgid, own, happened }
    }

    pub(crate) fn name(&mut self, info: TaskInfo) {
        if info.tgid == self.own_tgid {
            self.own.insert(info.tid);
        }
        self.rename(info.tid, info.comm);
    }

    fn rename(&mut self, tid: Tid, comm: Comm) {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        self.names.insert(tid, comm);
    }

    pub(crate) fn see(&mut self, stamped: &Stamped) {
        match stamped.event {
            // A wait begins at the wake-up, not at the waking, which the waker's CPU begins earlier. Where a
            // task is woken again before it runs, the first wake-up counts.
            Event::Wakeup(wakeup) => {
                if let Entry::Vacant(entry) = self.woken_ns.entry(wakeup.tid) {
                    entry.insert(stamped.time_ns);
                } else if wakeup.kind == WakeupKind::New {
                    self.woken_ns.insert(wakeup.tid, stamped.time_ns);
                }
            }
            Event::Switch(switch) => {
                // A task that was still running when it was woken never waited.
                self.woken_ns.remove(&switch.prev);
                if let Some(woken_ns) = self.woken_ns.remove(&switch.next) {
                    self.ran(stamped, switch.next, woken_ns);
                }
            }
            Event::Comm(renamed) => self.rename(renamed.tid, renamed.comm),
            Event::Fork(fork) => self.name(TaskInfo::new(fork.child, fork.child_tgid, fork.comm)),
            Event::Exit(exit) => drop(self.names.remove(&exit.tid)),
            Event::Lost(_) => self.woken_ns.clear(),
            _ => {}
        }
    }

    fn ran(&mut self, stamped: &Stamped, tid: Tid, woken_ns: u64) {
        let latency_ns = stamped.time_ns.saturating_sub(woken_ns);
        if latency_ns <= self.when.latency_ns || self.own.contains(&tid) {
            return;
        }
        let comm = self.names.get(&tid).copied();
        if self.when.is_of(comm) {
            let happened = FlightEvent { tid, comm, cpu: stamped.cpu, time_ns: stamped.time_ns, latency_ns };
            self.happened.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(happened);
        }
    }
}

/// The kept trace, shared by the thread that adds to it and the threads that write it into a file.
#[derive(Clone)]
pub(crate) struct Hold(Arc<Mutex<Flight>>);

impl Hold {
    pub(crate) fn new(window: Duration, bytes_max: usize) -> Hold {
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        Hold(Arc::new(Mutex::new(Flight::new(window_ns, bytes_max))))
    }

    /// Changes the options so that the trace restarts often enough for old parts to be forgotten.
    pub(crate) fn options(window: Duration, options: Options) -> Options {
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        Options { block_ns: (window_ns / PARTS).max(1), ..options }
    }

    /// Writes the kept frames into a file, as a trace.
    pub(crate) fn keep(&self, path: &Path, file: File, options: Options) -> Result<Written> {
        // A copy is written, so that recording goes on meanwhile.
        let flight = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = ClockReadings { trace_ns: clock::kernel_ns(), unix_ns: clock::unix_ns() };
        let mut sink = io::BufWriter::with_capacity(1 << 20, file);
        let (_, written) = flight.write(&mut sink, options, now).map_err(|error| match error {
            KeepError::Write(error) => Error::Write(error),
            error => Error::Keep(path.to_owned(), error),
        })?;
        sink.flush().map_err(Error::Write)?;
        Ok(written)
    }
}

impl Destination for Hold {
    fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(piece, clock::kernel_ns());
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spry_trace::event::{PrevState, Switch, Wakeup};

    fn seen(when: When, events: Vec<(u64, Event)>) -> Option<FlightEvent> {
        let happened = Arc::new(Mutex::new(None));
        let mut lookout = Lookout::new(when, Tgid(1), Arc::clone(&happened));
        lookout.name(TaskInfo::new(Tid(7), Tgid(7), Comm::new(b"player")));
        for (time_ns, event) in events {
            lookout.see(&Stamped { time_ns, cpu: 1, event });
        }
        *happened.lock().expect("nobody panicked")
    }

    fn wakeup(tid: u32) -> Event {
        Event::Wakeup(Wakeup { tid: Tid(tid), target_cpu: 1, kind: WakeupKind::Again })
    }

    fn switch(prev: u32, next: u32) -> Event {
        Event::Switch(Switch {
            prev: Tid(prev),
            next: Tid(next),
            prev_state: PrevState::Runnable,
            prev_prio: 120,
            next_prio: 120,
            stolen_ns: 0,
        })
    }

    fn when(task: Option<&str>) -> When {
        When { latency_ns: 100, task: task.map(str::to_owned) }
    }

    #[test]
    fn a_wait_above_the_limit_is_found_with_name_and_time() {
        let found = seen(when(None), vec![(1000, wakeup(7)), (1050, wakeup(7)), (1101, switch(9, 7))]);
        let expected = FlightEvent {
            tid: Tid(7),
            comm: Some(Comm::new(b"player")),
            cpu: 1,
            time_ns: 1101,
            latency_ns: 101,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(seen(when(None), vec![(1000, wakeup(7)), (1100, switch(9, 7))]), None);
    }

    #[test]
    fn only_tasks_of_the_name_count() {
        let events = vec![(1000, wakeup(7)), (2000, switch(9, 7))];
        assert!(seen(when(Some("pla*")), events.clone()).is_some());
        assert!(seen(when(Some("player")), events.clone()).is_some());
        assert!(seen(when(Some("play")), events).is_none());
    }

    #[test]
    fn a_task_woken_while_it_ran_did_not_wait() {
        assert_eq!(seen(when(None), vec![(0, wakeup(7)), (50, switch(7, 9)), (900, switch(9, 7))]), None);
    }
}
