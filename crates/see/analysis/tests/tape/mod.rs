//! Hand-made traces, for tests with a known answer.

use spry_analysis::findings::TaskFinding;
use spry_analysis::{Engine, Findings, Options, Selection, TraceTotals};
use spry_trace::event::{Comm, Context, Event, PrevState, Switch, TaskInfo, Wakeup, WakeupKind, Waking};
use spry_trace::{Group, Groups, Header, Stamped, Tgid, Tid};

pub const START_NS: u64 = 7_000_000_000;
pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;

/// A hand-made trace; times count from its start.
pub struct Tape {
    pub header: Header,
    pub events: Vec<Stamped>,
    pub selection: Selection,
    pub options: Options,
}

impl Tape {
    pub fn new(groups: &[Group]) -> Tape {
        let header = Header {
            cpus: 2,
            hz: Some(250),
            tick_phase_ns: vec![Some(START_NS % (4 * MS)); 2],
            start_ns: START_NS,
            groups: groups.iter().copied().collect::<Groups>().with(Group::Sched),
            ..Header::default()
        };
        Tape { header, events: Vec::new(), selection: Selection::default(), options: Options::default() }
    }

    pub fn at(&mut self, time_ns: u64, cpu: u16, event: Event) -> &mut Tape {
        self.events.push(Stamped { time_ns: START_NS + time_ns, cpu, event });
        self
    }

    pub fn findings(&self, end_ns: u64) -> Findings {
        let mut engine = Engine::new(&self.header, self.selection.clone(), self.options.clone()).unwrap();
        for event in &self.events {
            engine.push(event);
        }
        engine.finish(TraceTotals { bytes: 99, end_ns: Some(START_NS + end_ns), ..TraceTotals::default() })
    }
}

pub fn switch(prev: u32, next: u32, prev_state: PrevState) -> Event {
    let (prev, next) = (Tid(prev), Tid(next));
    Event::Switch(Switch { prev, next, prev_state, prev_prio: 120, next_prio: 120, stolen_ns: 0 })
}

pub fn waking(waker: u32, wakee: u32, context: Context) -> Event {
    Event::Waking(Waking { waker: Tid(waker), wakee: Tid(wakee), context })
}

pub fn wakeup(tid: u32) -> Event {
    Event::Wakeup(Wakeup { tid: Tid(tid), target_cpu: 0, kind: WakeupKind::Again })
}

pub fn named(tid: u32, tgid: u32, name: &str) -> Event {
    Event::Task(TaskInfo::new(Tid(tid), Tgid(tgid), Comm::new(name.as_bytes())))
}

pub fn task(findings: &Findings, tid: u32) -> &TaskFinding {
    findings.tasks.iter().find(|task| task.who.tid == Tid(tid)).unwrap()
}
