//! Feeds a trace's events to the time line and the chosen analyses, and gathers what they found.

use spry_timeline::{
    Idled, Interrupted, Migrated, Observer, Ran, Slept, Switched, TaskIndex, Ticked, Timeline, Waited,
    Waking, Window, Woken,
};
use spry_trace::event::{Event, TaskStat};
use spry_trace::{Header, Stamped, Tgid};

use crate::analysis::{ALL, About, Analysis, Closing, Hook, Setup};
use crate::batch::{Batch, Fill, Grouper, Run, Wait};
use crate::culprits::Culprits;
use crate::findings::{CpuFinding, Findings, TraceFinding};
use crate::select::{Root, Selection};
use crate::tasks::{Tasks, task_findings};

/// Choices beside the tasks and the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Names of the analyses to run; empty for all.
    pub analyses: Vec<String>,
    /// Tick rates to bill at, ticks a second. The machine's own is added if it is not among them.
    pub rates_hz: Vec<u32>,
    /// How many of the worst delays to keep.
    pub worst: usize,
    /// From which process to search the graph.
    pub root: Option<Root>,
}

impl Default for Options {
    fn default() -> Options {
        Options { analyses: Vec::new(), rates_hz: vec![100, 250, 1_000, 20_000], worst: 50, root: None }
    }
}

/// A choice that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No analysis of that name.
    #[error("there is no analysis {name:?}; there are {}", names())]
    UnknownAnalysis {
        /// The name.
        name: String,
    },
    /// A tick rate that no clock has.
    #[error("a tick rate of {hz} Hz cannot be billed at; choose 1 to 1000000")]
    Rate {
        /// The rate.
        hz: u32,
    },
    /// A window that ends before it starts.
    #[error("the window ends at {to_ns} ns, not after its start at {from_ns} ns")]
    Window {
        /// From.
        from_ns: u64,
        /// To.
        to_ns: u64,
    },
}

fn names() -> String {
    ALL.iter().map(|about| about.name).collect::<Vec<_>>().join(", ")
}

/// What is known of the whole trace once it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceTotals {
    /// Its size, bytes.
    pub bytes: u64,
    /// When recording ended, ns of the trace's clock; `None` for the last event's time.
    pub end_ns: Option<u64>,
    /// Events lost that no loss record tells of (cut or damaged blocks).
    pub unrecorded_lost: u64,
}

/// Whether more events are of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Yes.
    More,
    /// The window is over; later events change nothing but the count of events.
    Enough,
}

/// Runs analyses over one trace.
pub struct Engine {
    header: Header,
    selection: Selection,
    timeline: Timeline,
    fan: Fan,
    chosen: Vec<&'static About>,
    events: u64,
    window_end_ns: u64,
    is_over: bool,
    last_ns: u64,
}

/// The basic counts, and each analysis by what it wants to be told.
struct Fan {
    tasks: Tasks,
    /// Shared by the analyses that name culprits; `None` if none of them runs.
    culprits: Option<Culprits>,
    runs: Batch<Run>,
    waits: Batch<Wait>,
    grouper: Grouper,
    analyses: Vec<(&'static About, Box<dyn Analysis>)>,
    by_hook: [Vec<u8>; Hook::COUNT],
}

impl Engine {
    /// An engine for a trace with that header.
    ///
    /// # Errors
    /// Where a choice cannot be: see [`Error`].
    pub fn new(header: &Header, selection: Selection, mut options: Options) -> Result<Engine, Error> {
        let from_ns = header.start_ns.saturating_add(selection.from_ns);
        let to_ns = selection.to_ns.map_or(u64::MAX, |to_ns| header.start_ns.saturating_add(to_ns));
        if to_ns <= from_ns {
            return Err(Error::Window { from_ns: selection.from_ns, to_ns: to_ns - header.start_ns });
        }
        if let Some(&hz) = options.rates_hz.iter().find(|hz| !(1..=1_000_000).contains(*hz)) {
            return Err(Error::Rate { hz });
        }
        for name in &options.analyses {
            About::find(name).ok_or_else(|| Error::UnknownAnalysis { name: name.clone() })?;
        }
        let own = header.hz.filter(|hz| (1..=1_000_000).contains(hz) && !options.rates_hz.contains(hz));
        options.rates_hz.extend(own);
        let is_chosen = |about: &About| {
            options.analyses.is_empty() || options.analyses.iter().any(|name| name == about.name)
        };
        let has_groups = |about: &About| about.needs.iter().all(|&group| header.groups.contains(group));
        static LIST: &[About] = &ALL;
        let chosen: Vec<&'static About> = LIST.iter().filter(|about| is_chosen(about)).collect();
        let setup = Setup { header, selection: &selection, options: &options };
        let mut fan = Fan {
            tasks: Tasks::default(),
            culprits: None,
            runs: Batch::new(),
            waits: Batch::new(),
            grouper: Grouper::default(),
            analyses: Vec::new(),
            by_hook: Default::default(),
        };
        for about in chosen.iter().filter(|about| has_groups(about)) {
            for &hook in about.hooks {
                fan.by_hook[hook as usize].push(fan.analyses.len() as u8);
            }
            fan.analyses.push((about, (about.make)(&setup)));
            if about.names_culprits {
                fan.culprits = Some(Culprits::default());
            }
        }
        Ok(Engine {
            timeline: Timeline::new(header, Window { from_ns, to_ns }),
            header: header.clone(),
            selection,
            fan,
            chosen,
            events: 0,
            window_end_ns: to_ns,
            is_over: false,
            last_ns: header.start_ns,
        })
    }

    /// Takes the next event, in order of time over all CPUs.
    #[inline]
    pub fn push(&mut self, event: &Stamped) -> Progress {
        self.events += u64::from(!matches!(event.event, Event::Task(_) | Event::Lost(_)));
        if event.time_ns >= self.window_end_ns {
            return self.over(event);
        }
        self.timeline.push(event, &mut self.fan);
        Progress::More
    }

    #[cold]
    fn over(&mut self, event: &Stamped) -> Progress {
        self.last_ns = self.last_ns.max(event.time_ns);
        if !self.is_over {
            self.is_over = true;
            self.timeline.finish(self.window_end_ns, &mut self.fan);
        }
        Progress::Enough
    }

    /// Ends the trace and gives what was found.
    pub fn finish(mut self, totals: TraceTotals) -> Findings {
        let last_ns = self.last_ns.max(self.timeline.now_ns());
        let end_ns = totals.end_ns.unwrap_or(last_ns).max(last_ns);
        if !self.is_over {
            self.timeline.finish(end_ns.min(self.window_end_ns), &mut self.fan);
        }
        self.fan.tell_runs();
        self.fan.tell_waits();
        let start_ns = self.header.start_ns;
        let (from_ns, to_ns) = (self.timeline.window().from_ns, self.timeline.now_ns());
        let mut findings = Findings {
            trace: self.trace_finding(totals, end_ns),
            analyses: self.chosen.iter().map(|about| about.name).collect(),
            absent: self.chosen.iter().flat_map(|about| about.absent(self.header.groups)).collect(),
            cpus: (0..self.timeline.cpus().len())
                .map(|cpu| CpuFinding { cpu: cpu as u16, ..CpuFinding::default() })
                .collect(),
            ..Findings::default()
        };
        let Fan { tasks, culprits, mut grouper, analyses, .. } = self.fan;
        let mut culprits = culprits.unwrap_or_default();
        culprits.count(&mut grouper);
        drop(grouper);
        let rows = tasks.rows(&self.timeline, &self.selection, from_ns..to_ns);
        tasks.fill_cpus(&mut findings.cpus, to_ns.saturating_sub(from_ns));
        let mut closing = Closing {
            timeline: &self.timeline,
            groups: self.header.groups,
            start_ns,
            from_ns,
            to_ns,
            rows: &rows,
            process_runtime_ns: tasks.by_process(&self.timeline),
            culprits,
        };
        findings.tasks = task_findings(tasks, &closing);
        // Those that name culprits first, then those that find least: memory that one frees makes room for the next.
        let names_culprits = |about: &About| about.names_culprits;
        let (named, others): (Vec<_>, Vec<_>) =
            analyses.into_iter().partition(|(about, _)| names_culprits(about));
        named.into_iter().for_each(|(_, analysis)| analysis.finish(&closing, &mut findings));
        closing.culprits = Culprits::default();
        others.into_iter().rev().for_each(|(_, analysis)| analysis.finish(&closing, &mut findings));
        findings
    }

    fn trace_finding(&self, totals: TraceTotals, end_ns: u64) -> TraceFinding {
        let header = &self.header;
        let lost_by_cpu: Vec<u64> = self.timeline.cpus().iter().map(spry_timeline::Cpu::lost).collect();
        TraceFinding {
            events: self.events,
            lost: lost_by_cpu.iter().sum::<u64>() + totals.unrecorded_lost,
            lost_by_cpu,
            bytes: totals.bytes,
            duration_ns: end_ns - header.start_ns,
            from_ns: self.timeline.window().from_ns - header.start_ns,
            to_ns: self.timeline.now_ns() - header.start_ns,
            cpus: header.cpus,
            kernel: header.kernel.clone(),
            machine: header.machine.clone(),
            arch: header.arch.clone(),
            hz: header.hz,
            preemption: header.preemption.clone(),
            scheduler: header.scheduler.clone(),
            recorder_tgid: header.recorder_tgid.map(Tgid),
            start_unix_ns: header.start_unix_ns,
            command: header.command.clone(),
            groups: header.groups,
            oddities: self.timeline.oddities(),
        }
    }
}

impl Fan {
    #[inline]
    fn each(&mut self, hook: Hook, mut tell: impl FnMut(&mut dyn Analysis)) {
        for &at in &self.by_hook[hook as usize] {
            tell(&mut *self.analyses[usize::from(at)].1);
        }
    }
}

impl Fan {
    #[cold]
    fn tell_runs(&mut self) {
        let runs = self.runs.take(&mut self.grouper);
        for &at in &self.by_hook[Hook::Runs as usize] {
            self.analyses[usize::from(at)].1.runs(runs);
        }
    }

    #[cold]
    fn tell_waits(&mut self) {
        let waits = self.waits.take(&mut self.grouper);
        for &at in &self.by_hook[Hook::Waits as usize] {
            self.analyses[usize::from(at)].1.waits(waits);
        }
    }
}

impl Observer for Fan {
    #[inline]
    fn switched(&mut self, now: &Timeline, switched: &Switched) {
        self.tasks.switched(now, switched);
        self.each(Hook::Switched, |analysis| analysis.switched(now, switched));
    }

    #[inline]
    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        self.tasks.ran(now, ran);
        self.each(Hook::Ran, |analysis| analysis.ran(now, ran));
        if self.runs.put(ran.into()) == Fill::Full {
            self.tell_runs();
        }
    }

    #[inline]
    fn idled(&mut self, now: &Timeline, idled: &Idled) {
        self.tasks.idled(now, idled);
        self.each(Hook::Idled, |analysis| analysis.idled(now, idled));
    }

    #[inline]
    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        self.tasks.waited(now, waited);
        if let Some(culprits) = &mut self.culprits {
            culprits.waited(now, waited, &mut self.grouper);
        }
        self.each(Hook::Waited, |analysis| analysis.waited(now, waited));
        if self.waits.put(waited.into()) == Fill::Full {
            self.tell_waits();
        }
    }

    #[inline]
    fn slept(&mut self, now: &Timeline, slept: &Slept) {
        self.tasks.slept(now, slept);
        self.each(Hook::Slept, |analysis| analysis.slept(now, slept));
    }

    #[inline]
    fn waking(&mut self, now: &Timeline, waking: &Waking) {
        self.each(Hook::Waking, |analysis| analysis.waking(now, waking));
    }

    #[inline]
    fn woken(&mut self, now: &Timeline, woken: &Woken) {
        self.tasks.woken(now, woken);
        self.each(Hook::Woken, |analysis| analysis.woken(now, woken));
    }

    fn migrated(&mut self, now: &Timeline, migrated: &Migrated) {
        self.tasks.migrated(now, migrated);
        self.each(Hook::Migrated, |analysis| analysis.migrated(now, migrated));
    }

    fn ticked(&mut self, now: &Timeline, ticked: &Ticked) {
        self.each(Hook::Ticked, |analysis| analysis.ticked(now, ticked));
    }

    fn interrupted(&mut self, now: &Timeline, interrupted: &Interrupted) {
        self.each(Hook::Interrupted, |analysis| analysis.interrupted(now, interrupted));
    }

    fn ended(&mut self, now: &Timeline, task: TaskIndex) {
        self.each(Hook::Ended, |analysis| analysis.ended(now, task));
    }

    fn accounted(&mut self, now: &Timeline, task: TaskIndex, stat: &TaskStat) {
        self.tasks.accounted(now, task, stat);
        self.each(Hook::Accounted, |analysis| analysis.accounted(now, task, stat));
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        self.each(Hook::Other, |analysis| analysis.other(now, event));
    }
}
