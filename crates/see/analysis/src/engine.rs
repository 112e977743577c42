//! Feeds a trace's events to the time line and the chosen analyses, and gathers their findings.

use std::ops::Range;

use spry_timeline::{
    Idled, Interrupted, Migrated, Observer, Ran, Slept, Switched, TaskIndex, Ticked, Timeline, Waited,
    Waking, Window, Woken,
};
use spry_trace::event::TaskStat;
use spry_trace::{Header, Kinds, Stamped, Tgid};

use crate::analysis::{ALL, About, Analysis, Closing, Counter, Hook, Parts, Setup};
use crate::batch::{Batch, Fill, Run, Wait};
use crate::counting::{CounterSet, FullBatch, Items};
use crate::culprits::{Culprits, Stay, put_stays};
use crate::findings::{CpuFinding, Findings, TraceFinding};
use crate::select::{Root, Selection};
use crate::tasks::{Tasks, task_findings};
use crate::withheld::withhold;

/// Choices beside the tasks and the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Names of the analyses to run; empty for all.
    pub analyses: Vec<String>,
    /// Tick rates to bill at, ticks a second. The machine's own rate is added if it is not among them.
    pub rates_hz: Vec<u32>,
    /// How many of the worst delays to keep.
    pub worst: usize,
    /// The process from which to search the graph.
    pub root: Option<Root>,
}

impl Default for Options {
    fn default() -> Options {
        Options { analyses: Vec::new(), rates_hz: vec![100, 250, 1_000, 20_000], worst: 50, root: None }
    }
}

/// A choice that no analysis can follow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// There is no analysis of this name.
    #[error("there is no analysis {name:?}; there are {}", names())]
    UnknownAnalysis {
        /// The name that was asked for.
        name: String,
    },
    /// A tick rate that no clock has.
    #[error("a tick rate of {hz} Hz cannot be billed at; choose 1 to 1000000")]
    Rate {
        /// The rate that was asked for, Hz.
        hz: u32,
    },
    /// A window that ends before it starts.
    #[error("the window ends at {to_ns} ns, not after its start at {from_ns} ns")]
    Window {
        /// The start of the window, ns since the start of the trace.
        from_ns: u64,
        /// The end of the window, ns since the start of the trace.
        to_ns: u64,
    },
}

fn names() -> String {
    ALL.iter().map(|about| about.name).collect::<Vec<_>>().join(", ")
}

/// The figures of the whole trace, known once it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceTotals {
    /// The size of the trace, bytes.
    pub bytes: u64,
    /// The end of the recording, ns of the trace's clock; `None` stands for the last event's time.
    pub end_ns: Option<u64>,
    /// Lost events without a loss record (in cut or damaged blocks).
    pub unrecorded_lost: u64,
}

/// Whether more events are of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More events are of use.
    More,
    /// The window has ended; later events change only the trace's totals.
    Enough,
}

/// Runs analyses over one trace.
///
/// All work runs on the thread that calls [`Engine::push`], unless the counting is handed out: see
/// [`Engine::detach`].
pub struct Engine {
    header: Header,
    selection: Selection,
    timeline: Timeline,
    fan: Fan,
    /// `None` while the counting is handed out.
    counting: Option<CounterSet>,
    chosen: Vec<&'static About>,
    events: u64,
    /// The window, in which events count. A window from the start also has events before the start.
    counted_ns: Range<u64>,
    /// Kinds of events that the source may lack and that no event has shown yet.
    unseen: Kinds,
    window_end_ns: u64,
    is_over: bool,
    last_ns: u64,
}

/// The basic counts, the batches for counters, and the analyses by the hooks that they need.
struct Fan {
    tasks: Tasks,
    batches: Batches,
    analyses: Vec<(&'static About, Box<dyn Analysis>)>,
    by_hook: [Vec<u8>; Hook::COUNT],
}

/// The batches for counters; a kind is `None` if no counter takes it.
#[derive(Default)]
struct Batches {
    runs: Option<Batch<Run>>,
    waits: Option<Batch<Wait>>,
    stays: Option<Batch<Stay>>,
    ticks: Option<Batch<Ticked>>,
    full: Vec<FullBatch>,
}

impl Engine {
    /// An engine for a trace with that header.
    ///
    /// # Errors
    /// Where no analysis can follow a choice: see [`Error`].
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
            batches: Batches::default(),
            analyses: Vec::new(),
            by_hook: Default::default(),
        };
        let mut counters: Vec<(&'static About, Box<dyn Counter>)> = Vec::new();
        for &about in chosen.iter().filter(|about| has_groups(about)) {
            let Parts { observer, counter } = (about.make)(&setup);
            if let Some(observer) = observer {
                for &hook in about.hooks {
                    fan.by_hook[hook as usize].push(fan.analyses.len() as u8);
                }
                fan.analyses.push((about, observer));
            }
            if let Some(counter) = counter {
                about.hooks.iter().for_each(|&hook| fan.batches.collect(hook));
                counters.push((about, counter));
            }
            if about.names_culprits {
                fan.batches.stays.get_or_insert_with(Batch::new);
            }
        }
        let culprits = fan.batches.stays.is_some().then(Culprits::default);
        let counted_ns = if selection.from_ns == 0 { 0..to_ns } else { from_ns..to_ns };
        Ok(Engine {
            timeline: Timeline::new(header, Window { from_ns, to_ns }),
            header: header.clone(),
            selection,
            fan,
            counting: Some(CounterSet::new(counters, culprits)),
            chosen,
            events: 0,
            counted_ns,
            unseen: header.unproven,
            window_end_ns: to_ns,
            is_over: false,
            last_ns: header.start_ns,
        })
    }

    /// Takes the next event, in order of time over all CPUs.
    #[inline]
    pub fn push(&mut self, event: &Stamped) -> Progress {
        self.events += u64::from(event.event.is_counted() && self.counted_ns.contains(&event.time_ns));
        if !self.unseen.is_empty() {
            self.unseen = self.unseen.minus(Kinds::of(&event.event));
        }
        if event.time_ns >= self.window_end_ns {
            return self.over(event);
        }
        self.timeline.push(event, &mut self.fan);
        if !self.fan.batches.full.is_empty() {
            self.count();
        }
        Progress::More
    }

    /// Hands out the counting of batches, in this many parts or fewer. Until [`Engine::attach`] has taken all
    /// of them back, [`Engine::full`] gives the batches to be counted; the engine must not finish before.
    ///
    /// # Panics
    /// If the counting was handed out before.
    pub fn detach(&mut self, parts: usize) -> Vec<CounterSet> {
        self.counting.take().expect("the counting is here").split(parts)
    }

    /// Takes the counting back, when all full batches have been counted.
    pub fn attach(&mut self, parts: Vec<CounterSet>) {
        let mut counting = CounterSet::default();
        parts.into_iter().for_each(|part| counting.join(part));
        self.counting = Some(counting);
    }

    /// The next full batch, for the counting that was handed out.
    #[inline]
    pub fn full(&mut self) -> Option<FullBatch> {
        let full = &mut self.fan.batches.full;
        if full.is_empty() { None } else { Some(full.remove(0)) }
    }

    /// Takes a batch that was counted, to be filled again.
    pub fn recycle(&mut self, empty: FullBatch) {
        self.fan.batches.recycle(empty);
    }

    /// Counts the full batches, unless the counting is handed out.
    #[cold]
    fn count(&mut self) {
        let Some(counting) = &mut self.counting else { return };
        for mut full in std::mem::take(&mut self.fan.batches.full) {
            counting.count(&mut full);
            self.fan.batches.recycle(full);
        }
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

    /// Ends the trace and returns the findings.
    pub fn finish(mut self, totals: TraceTotals) -> Findings {
        let last_ns = self.last_ns.max(self.timeline.now_ns());
        let end_ns = totals.end_ns.unwrap_or(last_ns).max(last_ns);
        if !self.is_over {
            self.timeline.finish(end_ns.min(self.window_end_ns), &mut self.fan);
        }
        self.fan.batches.end();
        self.count();
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
        let Fan { tasks, analyses, .. } = self.fan;
        let (counters, culprits) = self.counting.expect("the counting was given back").into_counters();
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
        let mut ends: Vec<End> = counters.into_iter().map(End::Counter).collect();
        ends.extend(analyses.into_iter().map(End::Analysis));
        ends.sort_by_key(End::rank);
        for end in ends {
            if !end.about().names_culprits {
                closing.culprits = Culprits::default();
            }
            end.finish(&closing, &mut findings);
        }
        withhold(&mut findings);
        findings
    }

    fn trace_finding(&self, totals: TraceTotals, end_ns: u64) -> TraceFinding {
        let header = &self.header;
        let lost_by_cpu: Vec<u64> =
            self.timeline.cpus().iter().map(spry_timeline::TimelineCpu::lost).collect();
        TraceFinding {
            events: self.events,
            lost: lost_by_cpu.iter().copied().fold(totals.unrecorded_lost, u64::saturating_add),
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
            lacks: self.unseen,
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

/// A part of an analysis that is to finish.
enum End {
    Counter((&'static About, Box<dyn Counter>)),
    Analysis((&'static About, Box<dyn Analysis>)),
}

impl End {
    fn about(&self) -> &'static About {
        match self {
            End::Counter((about, _)) | End::Analysis((about, _)) => about,
        }
    }

    /// Analyses that name culprits come first, then analyses with the smallest findings: each frees memory
    /// for the next. An analysis' counter comes before its observer.
    fn rank(&self) -> (bool, usize, bool) {
        let about = self.about();
        let place = ALL.iter().position(|other| other.name == about.name).unwrap_or(0);
        let place = if about.names_culprits { place } else { ALL.len() - place };
        (!about.names_culprits, place, matches!(self, End::Analysis(_)))
    }

    fn finish(self, closing: &Closing<'_>, findings: &mut Findings) {
        match self {
            End::Counter((_, counter)) => counter.finish(closing, findings),
            End::Analysis((_, analysis)) => analysis.finish(closing, findings),
        }
    }
}

impl Batches {
    /// Makes the batch for a hook of counters.
    fn collect(&mut self, hook: Hook) {
        match hook {
            Hook::Runs => _ = self.runs.get_or_insert_with(Batch::new),
            Hook::Waits => _ = self.waits.get_or_insert_with(Batch::new),
            Hook::Ticks => _ = self.ticks.get_or_insert_with(Batch::new),
            Hook::Switched
            | Hook::Ran
            | Hook::Idled
            | Hook::Waited
            | Hook::Slept
            | Hook::Waking
            | Hook::Woken
            | Hook::Migrated
            | Hook::Ticked
            | Hook::Interrupted
            | Hook::Ended
            | Hook::Accounted
            | Hook::Other => {}
        }
    }

    /// Takes back an empty list.
    fn recycle(&mut self, empty: FullBatch) {
        match (empty.0, &mut self.runs, &mut self.waits, &mut self.stays, &mut self.ticks) {
            (Items::Runs(list), Some(batch), ..) => batch.recycle(list),
            (Items::Waits(list), _, Some(batch), ..) => batch.recycle(list),
            (Items::Stays(list), _, _, Some(batch), _) => batch.recycle(list),
            (Items::Ticks(list), .., Some(batch)) => batch.recycle(list),
            _ => {}
        }
    }

    /// Puts all batches away, however full they are.
    fn end(&mut self) {
        let Batches { runs, waits, stays, ticks, full } = self;
        full.extend(runs.as_mut().map(|batch| FullBatch(Items::Runs(batch.put_away()))));
        full.extend(waits.as_mut().map(|batch| FullBatch(Items::Waits(batch.put_away()))));
        full.extend(stays.as_mut().map(|batch| FullBatch(Items::Stays(batch.put_away()))));
        full.extend(ticks.as_mut().map(|batch| FullBatch(Items::Ticks(batch.put_away()))));
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
        if let Some(batch) = &mut self.batches.runs {
            if batch.put(ran.into()) == Fill::Full {
                self.batches.full.push(FullBatch(Items::Runs(batch.put_away())));
            }
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
        if let Some(batch) = &mut self.batches.stays {
            if put_stays(now, waited, batch) == Fill::Full {
                self.batches.full.push(FullBatch(Items::Stays(batch.put_away())));
            }
        }
        self.each(Hook::Waited, |analysis| analysis.waited(now, waited));
        if let Some(batch) = &mut self.batches.waits {
            if batch.put(waited.into()) == Fill::Full {
                self.batches.full.push(FullBatch(Items::Waits(batch.put_away())));
            }
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
        if let Some(batch) = &mut self.batches.ticks {
            if batch.put(*ticked) == Fill::Full {
                self.batches.full.push(FullBatch(Items::Ticks(batch.put_away())));
            }
        }
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
