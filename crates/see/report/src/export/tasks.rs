//! The facts that an exporter has met so far: the names, processes and priorities of tasks, and the
//! kinds of events.

use std::borrow::Cow;
use std::collections::HashMap;

use spry_trace::event::{Comm, Event, Tgid, Tid};
use spry_trace::{Header, Kind as EventKind, Kinds};

/// The known names and priority of one task.
#[derive(Clone, Copy, Default)]
pub(super) struct KnownTask {
    pub(super) tgid: Option<Tgid>,
    pub(super) comm: Comm,
    pub(super) prio: Option<u8>,
}

/// Whether an event gave a name or process of a task that was not known before.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum News {
    /// The event gave a new name or process.
    Told,
    /// The event repeated what was known, or was about something else.
    Nothing,
}

/// Every task that is alive according to the events so far.
pub(super) struct Tasks {
    known: HashMap<Tid, KnownTask>,
    idle_names: Vec<String>,
    /// Kinds of events that the source may lack and that no event has shown yet.
    unseen: Kinds,
}

impl Tasks {
    /// No task is known before the first event.
    pub(super) fn new(header: &Header) -> Tasks {
        Tasks { known: HashMap::new(), idle_names: Vec::new(), unseen: header.unproven }
    }

    /// Takes the facts from an event before the event is exported.
    pub(super) fn learn(&mut self, cpu: u16, event: &Event) -> News {
        self.unseen = self.unseen.minus(Kinds::of(event));
        while self.idle_names.len() <= usize::from(cpu) {
            self.idle_names.push(format!("swapper/{}", self.idle_names.len()));
        }
        match event {
            Event::Task(info) => return self.restate(info.tid, info.tgid, info.comm),
            Event::Fork(fork) => {
                let prio = self.known.get(&fork.parent).and_then(|parent| parent.prio);
                let child = KnownTask { tgid: Some(fork.child_tgid), comm: fork.comm, prio };
                self.known.insert(fork.child, child);
            }
            Event::Comm(rename) => self.known.entry(rename.tid).or_default().comm = rename.comm,
            Event::Exec(exec) if exec.tid != exec.old_tid => {
                if let Some(old) = self.known.remove(&exec.old_tid) {
                    self.known.insert(exec.tid, old);
                }
            }
            Event::Prio(prio) => self.known.entry(prio.tid).or_default().prio = Some(prio.prio),
            Event::Switch(switch) => {
                for (tid, prio) in [(switch.prev, switch.prev_prio), (switch.next, switch.next_prio)] {
                    if !tid.is_idle() {
                        self.known.entry(tid).or_default().prio = Some(prio);
                    }
                }
            }
            _ => {}
        }
        News::Nothing
    }

    /// Forgets a task at its last event, so that a reused tid starts afresh.
    pub(super) fn forget(&mut self, event: &Event) {
        match event {
            Event::Switch(switch) if switch.prev_state.is_exit() => _ = self.known.remove(&switch.prev),
            _ => {}
        }
    }

    /// Whether events of a kind may be absent although they happened: no event has shown the kind yet.
    pub(super) fn may_lack(&self, kind: EventKind) -> bool {
        self.unseen.contains(kind)
    }

    /// The known facts of a task; `None` for idle tasks.
    pub(super) fn get(&self, tid: Tid) -> Option<&KnownTask> {
        self.known.get(&tid)
    }

    /// The task's name, as the kernel shows it for idle tasks; empty if no event gave it.
    pub(super) fn name(&self, cpu: u16, tid: Tid) -> Cow<'_, str> {
        if tid.is_idle() {
            return Cow::Borrowed(self.idle_names.get(usize::from(cpu)).map_or("swapper", String::as_str));
        }
        match self.known.get(&tid) {
            Some(known) => String::from_utf8_lossy(known.comm.as_bytes()),
            None => Cow::Borrowed(""),
        }
    }

    fn restate(&mut self, tid: Tid, tgid: Tgid, comm: Comm) -> News {
        let known = self.known.entry(tid).or_default();
        if known.tgid == Some(tgid) && known.comm == comm {
            return News::Nothing;
        }
        (known.tgid, known.comm) = (Some(tgid), comm);
        News::Told
    }
}
