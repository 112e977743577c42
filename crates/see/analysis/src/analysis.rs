//! The traits and the description of an analysis, and the list of all analyses.

use spry_timeline::{Holder, Observer, ProcessIndex, TaskIndex, Ticked, Timeline};
use spry_trace::{Group, Groups, Header};

use crate::batch::{Run, Wait};
use crate::culprits::Culprits;
use crate::engine::Options;
use crate::findings::{Absent, Findings, Party, Who};
use crate::select::Selection;
use crate::{billing, cpu, delays, dispatch, graph, ipc, marks, quanta, reasons, stolen, timers, wakeup};

/// An analysis, or a part of an analysis, that observes the time line and adds its results to the findings.
pub trait Analysis: Observer {
    /// Adds the results. `findings.tasks` and `findings.cpus` have their rows already, and the analysis'
    /// counter has finished.
    fn finish(self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings);
}

/// An analysis, or a part of an analysis, that need not see the time line's state. It takes intervals many at
/// once and some time after they ended, perhaps on another thread than the time line's. The intervals of one
/// task come in order and, if there are many tasks, together. Work on one task after another in one go waits
/// for memory far less than the same work spread over the events.
#[allow(unused_variables)]
pub trait Counter: Send {
    /// Takes stays on CPUs ([`Hook::Runs`]).
    fn runs(&mut self, runs: &[Run]) {}

    /// Takes waits ([`Hook::Waits`]).
    fn waits(&mut self, waits: &[Wait]) {}

    /// Takes clock ticks, in order of time on each CPU ([`Hook::Ticks`]).
    fn ticks(&mut self, ticks: &[Ticked]) {}

    /// Adds the counts, as [`Analysis::finish`] does.
    fn finish(self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings);
}

/// The parts of a running analysis.
pub struct Parts {
    pub observer: Option<Box<dyn Analysis>>,
    pub counter: Option<Box<dyn Counter>>,
}

impl Parts {
    /// An analysis that only observes.
    pub fn observing(observer: impl Analysis + 'static) -> Parts {
        Parts { observer: Some(Box::new(observer)), counter: None }
    }

    /// An analysis that only counts.
    pub fn counting(counter: impl Counter + 'static) -> Parts {
        Parts { observer: None, counter: Some(Box::new(counter)) }
    }
}

/// A method of [`Observer`] or [`Counter`] that the engine calls for an analysis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    Switched,
    Ran,
    Runs,
    Idled,
    Waited,
    Waits,
    Slept,
    Waking,
    Woken,
    Migrated,
    Ticked,
    Ticks,
    Interrupted,
    Ended,
    Accounted,
    Other,
}

impl Hook {
    /// How many hooks there are.
    pub(crate) const COUNT: usize = Hook::Other as usize + 1;
}

/// An analysis by name.
#[derive(Debug)]
pub struct About {
    /// The analysis' name on the command line.
    pub name: &'static str,
    /// A description of its results, in one line.
    pub tells: &'static str,
    /// Groups without which the analysis has no results.
    pub needs: &'static [Group],
    /// Groups that complete the results, each with the part that is `null` without the group.
    pub uses: &'static [(Group, &'static str)],
    /// The hooks that the analysis needs.
    pub hooks: &'static [Hook],
    /// Whether the analysis needs the culprits of every wait.
    pub(crate) names_culprits: bool,
    /// Makes the analysis.
    pub make: fn(&Setup<'_>) -> Parts,
}

/// The data that an analysis gets at the start.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The trace's header.
    pub header: &'a Header,
    /// The chosen tasks and window.
    pub selection: &'a Selection,
    /// The other choices.
    pub options: &'a Options,
}

/// Every analysis, in the order of the report.
pub const ALL: [About; 12] = [
    delays::ABOUT,
    dispatch::ABOUT,
    quanta::ABOUT,
    billing::ABOUT,
    reasons::ABOUT,
    cpu::ABOUT,
    wakeup::ABOUT,
    stolen::ABOUT,
    graph::ABOUT,
    timers::ABOUT,
    ipc::ABOUT,
    marks::ABOUT,
];

impl About {
    /// The analysis of that name.
    pub fn find(name: &str) -> Option<&'static About> {
        const LIST: &[About] = &ALL;
        LIST.iter().find(|about| about.name == name)
    }

    /// The parts that a trace with those groups cannot give.
    pub fn absent(&self, groups: Groups) -> impl Iterator<Item = Absent> {
        let whole = self.needs.iter().map(|&group| (group, "all"));
        let parts = self.uses.iter().copied();
        whole.chain(parts).filter(move |(group, _)| !groups.contains(*group)).map(|(group, part)| Absent {
            analysis: self.name,
            part,
            group,
        })
    }
}

/// The data that an analysis gets at the end, to finish with.
pub struct Closing<'a> {
    /// The time line after its end.
    pub timeline: &'a Timeline,
    /// Groups in the trace.
    pub groups: Groups,
    /// The start of the trace, ns of its clock.
    pub start_ns: u64,
    /// The start of the window, ns of the trace's clock.
    pub from_ns: u64,
    /// The end of the window, ns of the trace's clock.
    pub to_ns: u64,
    /// The task of each row of `findings.tasks`.
    pub rows: &'a [TaskIndex],
    /// Run time of all threads of each process, by index.
    pub(crate) process_runtime_ns: Vec<u64>,
    pub(crate) culprits: Culprits,
}

impl Closing<'_> {
    /// A time of the trace's clock since the trace's start, ns.
    pub fn since_start_ns(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns)
    }

    /// A task's numbers and name.
    pub fn who(&self, task: TaskIndex) -> Who {
        who(self.timeline, task)
    }

    /// The holder of a CPU by name.
    pub fn party(&self, holder: Holder) -> Party {
        match holder {
            Holder::Task(task) => Party::Task(self.who(task)),
            Holder::Idle => Party::Idle,
            Holder::Unknown => Party::Unknown,
        }
    }

    /// A process's number and its leader's name.
    pub fn process(&self, process: ProcessIndex) -> Who {
        let found = self.timeline.processes()[process.at()];
        Who { tgid: found.tgid, ..self.who(found.leader) }
    }
}

pub(crate) fn who(timeline: &Timeline, task: TaskIndex) -> Who {
    let found = timeline.task(task);
    Who { tid: found.tid(), tgid: timeline.tgid(task), comm: found.comm() }
}

/// A value for each task, made when first used.
#[derive(Debug)]
pub(crate) struct PerTask<T> {
    list: Vec<T>,
}

impl<T> Default for PerTask<T> {
    fn default() -> PerTask<T> {
        PerTask { list: Vec::new() }
    }
}

impl<T: Default> PerTask<T> {
    #[inline]
    pub(crate) fn at(&mut self, task: TaskIndex) -> &mut T {
        self.at_position(task.at())
    }

    /// The value of the task at a position in the time line's list.
    #[inline]
    pub(crate) fn at_position(&mut self, at: usize) -> &mut T {
        if at >= self.list.len() {
            self.grow(at + 1);
        }
        &mut self.list[at]
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        if len > self.list.capacity() {
            // The table does not grow by doubling: half of a large table would be unused.
            self.list.reserve_exact(len - self.list.len() + len / 16 + 64);
        }
        self.list.resize_with(len, T::default);
    }

    /// The task's value, if it was ever used.
    pub(crate) fn get(&self, task: TaskIndex) -> Option<&T> {
        self.list.get(task.at())
    }

    /// Takes the task's value out, and leaves a new one.
    pub(crate) fn take(&mut self, task: TaskIndex) -> T {
        self.list.get_mut(task.at()).map(std::mem::take).unwrap_or_default()
    }
}
