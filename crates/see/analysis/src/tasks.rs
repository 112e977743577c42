//! The basic counts of tasks and CPUs that every report has.

use std::ops::Range;

use spry_timeline::{
    Holder, Idled, Migrated, Observer, Ran, Slept, Switched, TaskIndex, TaskState, Timeline, Waited, Woken,
};
use spry_trace::event::{StatState, TaskStat};

use crate::analysis::{Closing, PerTask};
use crate::findings::{CpuFinding, KernelAccount, Switches, TaskFinding};
use crate::select::Selection;

/// One task's counts.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))] // The counts fill one cache line.
pub(crate) struct Counts {
    /// Wall time on a CPU, stolen time included.
    pub(crate) wall_ns: u64,
    pub(crate) stolen_ns: i64,
    pub(crate) wait_ns: u64,
    pub(crate) blocked_ns: u64,
    pub(crate) switches: Switches,
    pub(crate) wakeups: u64,
    pub(crate) migrations: u64,
}

impl Counts {
    pub(crate) fn runtime_ns(&self) -> u64 {
        self.wall_ns.saturating_add_signed(-self.stolen_ns)
    }
}

/// The kernel's account of a task at one moment, and the trace's account of it.
#[derive(Clone, Copy, Debug)]
struct Account {
    time_ns: u64,
    exec_ns: u64,
    ticks_ns: u64,
    runtime_ns: u64,
}

/// The first and the last account of a task.
#[derive(Clone, Copy, Debug)]
struct Accounts {
    first: Account,
    last: Account,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuCounts {
    busy_ns: u64,
    idle_ns: u64,
    stolen_ns: i64,
    switches: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tasks {
    counts: PerTask<Counts>,
    accounts: PerTask<Option<Box<Accounts>>>,
    cpus: Vec<CpuCounts>,
}

impl Tasks {
    #[inline]
    fn cpu(&mut self, cpu: u16) -> &mut CpuCounts {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, CpuCounts::default());
        }
        &mut self.cpus[at]
    }

    /// The rows of the report: every selected task that lived in the window, longest run time first.
    pub(crate) fn rows(
        &self,
        timeline: &Timeline,
        selection: &Selection,
        window: Range<u64>,
    ) -> Vec<TaskIndex> {
        let mut rows: Vec<TaskIndex> = timeline
            .task_indices()
            .filter(|&index| {
                let task = timeline.task(index);
                task.is_seen()
                    && task.ended_ns().is_none_or(|ended_ns| ended_ns > window.start)
                    && task.born_ns().is_none_or(|born_ns| born_ns <= window.end)
                    && selection.matches(timeline, index)
            })
            .collect();
        let runtime_ns = |index| self.counts.get(index).map_or(0, Counts::runtime_ns);
        rows.sort_by_key(|&index| (std::cmp::Reverse(runtime_ns(index)), timeline.task(index).tid(), index));
        rows
    }

    /// Run time of all threads of each process, by index.
    pub(crate) fn by_process(&self, timeline: &Timeline) -> Vec<u64> {
        let mut runtime_ns = vec![0_u64; timeline.processes().len()];
        for index in timeline.task_indices() {
            let of_process = &mut runtime_ns[timeline.task(index).process().at()];
            let of_task = self.counts.get(index).map_or(0, Counts::runtime_ns);
            *of_process = of_process.saturating_add(of_task);
        }
        runtime_ns
    }

    pub(crate) fn fill_cpus(&self, findings: &mut [CpuFinding], window_ns: u64) {
        for (at, finding) in findings.iter_mut().enumerate() {
            let counts = self.cpus.get(at).copied().unwrap_or_default();
            finding.busy_ns = counts.busy_ns;
            finding.idle_ns = counts.idle_ns;
            finding.unknown_ns = window_ns.saturating_sub(counts.busy_ns + counts.idle_ns);
            finding.stolen_ns = Some(counts.stolen_ns);
            finding.switches = counts.switches;
        }
    }
}

impl Observer for Tasks {
    #[inline]
    fn switched(&mut self, _: &Timeline, switched: &Switched) {
        self.cpu(switched.cpu).switches += 1;
        if let Holder::Task(task) = switched.prev {
            let switches = &mut self.counts.at(task).switches;
            if switched.state.is_runnable() {
                switches.involuntary += 1;
            } else {
                switches.voluntary += 1;
            }
        }
    }

    #[inline]
    fn ran(&mut self, _: &Timeline, ran: &Ran) {
        let counts = self.counts.at(ran.task);
        counts.wall_ns += ran.wall_ns();
        counts.stolen_ns += ran.stolen_ns;
        let cpu = self.cpu(ran.cpu);
        cpu.busy_ns += ran.wall_ns();
        cpu.stolen_ns += ran.stolen_ns;
    }

    #[inline]
    fn idled(&mut self, _: &Timeline, idled: &Idled) {
        self.cpu(idled.cpu).idle_ns += idled.end_ns - idled.start_ns;
    }

    #[inline]
    fn waited(&mut self, _: &Timeline, waited: &Waited) {
        self.counts.at(waited.task).wait_ns += waited.end_ns - waited.start_ns;
    }

    #[inline]
    fn slept(&mut self, _: &Timeline, slept: &Slept) {
        self.counts.at(slept.task).blocked_ns += slept.end_ns - slept.start_ns;
    }

    #[inline]
    fn woken(&mut self, _: &Timeline, woken: &Woken) {
        self.counts.at(woken.task).wakeups += 1;
    }

    fn migrated(&mut self, _: &Timeline, migrated: &Migrated) {
        self.counts.at(migrated.task).migrations += 1;
    }

    fn accounted(&mut self, now: &Timeline, index: TaskIndex, stat: &TaskStat) {
        let task = now.task(index);
        let time_ns = now.now_ns();
        let running_since_ns = task.since_ns().max(now.window().from_ns);
        let is_running = task.state() == TaskState::Running;
        let open_ns = if is_running { time_ns.saturating_sub(running_since_ns) } else { 0 };
        let account = Account {
            time_ns,
            exec_ns: stat.exec_ns,
            ticks_ns: stat.utime_ns.saturating_add(stat.stime_ns),
            runtime_ns: self.counts.at(index).runtime_ns().saturating_add(open_ns),
        };
        // If the trace does not show when a running task got its CPU, the account is as old as the last tick.
        // The run time would lack the stay, so the next account is taken instead.
        if stat.state == StatState::Running && !is_running {
            return;
        }
        match self.accounts.at(index) {
            Some(accounts) => accounts.last = account,
            first @ None => *first = Some(Box::new(Accounts { first: account, last: account })),
        }
    }
}

/// The rows of the report, with the parts that every row has.
pub(crate) fn task_findings(mut tasks: Tasks, closing: &Closing<'_>) -> Vec<TaskFinding> {
    let mut findings = Vec::with_capacity(closing.rows.len());
    findings.extend(closing.rows.iter().map(|&index| {
        let kernel = tasks.accounts.take(index).and_then(|accounts| accounts.finding(closing));
        TaskFinding { kernel, ..finding(closing, index, tasks.counts.take(index)) }
    }));
    findings
}

fn finding(closing: &Closing<'_>, index: TaskIndex, counts: Counts) -> TaskFinding {
    let task = closing.timeline.task(index);
    let born_ns = task.born_ns().unwrap_or(closing.start_ns).max(closing.from_ns);
    let died_ns = task.ended_ns().unwrap_or(closing.to_ns).min(closing.to_ns);
    let life_ns = died_ns.saturating_sub(born_ns);
    let known_ns = counts.wall_ns + counts.wait_ns + counts.blocked_ns;
    TaskFinding {
        who: closing.who(index),
        start_ns: Some(task.born_ns().map_or(0, |born_ns| closing.since_start_ns(born_ns))),
        end_ns: task.ended_ns().map(|ended_ns| closing.since_start_ns(ended_ns)),
        life_ns,
        runtime_ns: counts.runtime_ns(),
        runnable_wait_ns: Some(counts.wait_ns),
        blocked_ns: Some(counts.blocked_ns),
        unknown_ns: life_ns.saturating_sub(known_ns),
        stolen_ns: Some(counts.stolen_ns),
        switches: counts.switches,
        wakeups: Some(counts.wakeups),
        migrations: Some(counts.migrations),
        policy: task.policy(),
        prio: task.prio(),
        kernel: None,
        dispatch: None,
        quanta: None,
        billing: None,
        reasons: None,
        cpu_shares: None,
        wakeup: None,
        interrupted: None,
    }
}

impl Accounts {
    fn finding(&self, closing: &Closing<'_>) -> Option<KernelAccount> {
        (self.last.time_ns > self.first.time_ns).then(|| KernelAccount {
            from_ns: closing.since_start_ns(self.first.time_ns),
            to_ns: closing.since_start_ns(self.last.time_ns),
            exec_ns: self.last.exec_ns.saturating_sub(self.first.exec_ns),
            ticks_ns: self.last.ticks_ns.saturating_sub(self.first.ticks_ns),
            runtime_ns: self.last.runtime_ns.saturating_sub(self.first.runtime_ns),
        })
    }
}
