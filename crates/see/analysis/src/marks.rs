//! Programs' own events, in order.

use spry_timeline::{Observer, TaskIndex, Timeline};
use spry_trace::event::Event;
use spry_trace::{Group, Stamped, Tgid, Tid};

use crate::analysis::{About, Analysis, Closing, Hook, Parts, Setup};
use crate::findings::{Findings, MarkFinding, Marks, Who};
use crate::select::Selection;

pub(crate) const ABOUT: About = About {
    name: "marks",
    tells: "programs' own events in order of time",
    needs: &[Group::Mark],
    uses: &[],
    hooks: &[Hook::Other],
    names_culprits: false,
    make: |setup| Parts::observing(List::new(setup)),
};

struct Entry {
    time_ns: u64,
    cpu: u16,
    tid: Tid,
    task: Option<TaskIndex>,
    text: Box<str>,
}

struct List {
    selection: Selection,
    entries: Vec<Entry>,
    count: u64,
}

impl List {
    fn new(setup: &Setup<'_>) -> List {
        List { selection: setup.selection.clone(), entries: Vec::new(), count: 0 }
    }
}

impl Observer for List {
    fn other(&mut self, now: &Timeline, event: &Stamped) {
        let Event::Mark(mark) = &event.event else { return };
        let task = now.find(mark.tid);
        let is_selected = task.is_none_or(|index| self.selection.matches(now, index));
        if !is_selected {
            return;
        }
        self.count += 1;
        if self.entries.len() < Marks::MAX {
            let (time_ns, cpu, tid) = (now.now_ns(), event.cpu, mark.tid);
            self.entries.push(Entry { time_ns, cpu, tid, task, text: mark.text.clone() });
        }
    }
}

impl Analysis for List {
    fn finish(self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        let unnamed = |tid: Tid| Who { tid, tgid: Tgid(tid.0), comm: Default::default() };
        let list = self.entries.into_iter().map(|entry| MarkFinding {
            time_ns: closing.since_start_ns(entry.time_ns),
            cpu: entry.cpu,
            who: entry.task.map_or_else(|| unnamed(entry.tid), |task| closing.who(task)),
            text: entry.text,
        });
        findings.marks = Some(Marks { list: list.collect(), count: self.count });
    }
}
