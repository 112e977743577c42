//! Finds the tasks of a storm that waited too long, and the tasks that ran on their CPU meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;

use anyhow::{Context, Result};
use spry_timeline::{Observer, Ran, TaskIndex, Timeline, Waited, Window};
use spry_trace::Reader;

use crate::reserved::Stay;

/// The data that are kept of a trace besides the waits that were too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeps {
    Nothing,
    Stays,
}

/// The limits that a storm must keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest time that a task may wait for a CPU, ns.
    pub longest_ns: u64,
    /// The data that are kept for other checks.
    pub keeps: Keeps,
}

/// A task that waited too long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LateTask {
    /// The number and the name of the task.
    pub task: String,
    /// The start and the length of the wait, ns.
    pub start_ns: u64,
    pub waited_ns: u64,
    /// The CPU that the task got, or the CPU of the queue in which it was.
    pub cpu: u16,
    /// The tasks that ran longest on that CPU meanwhile, and their run times, ns.
    pub ran: Vec<(String, u64)>,
}

/// The findings in a trace.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TraceFindings {
    /// How many waits were checked.
    pub waits: u64,
    /// The longest wait, ns.
    pub longest_ns: u64,
    /// The waits that were too long.
    pub late: Vec<LateTask>,
    /// How many events were lost; so waits may be missing.
    pub lost: u64,
    /// The times in which threads were runnable, if `keeps` requests them.
    pub stays: Vec<Stay>,
}

impl fmt::Display for TraceFindings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{} waits, the longest {:.1} ms", self.waits, self.longest_ns as f64 / 1e6)?;
        if self.lost > 0 {
            writeln!(to, "{} events were lost: waits may be missing", self.lost)?;
        }
        for late in &self.late {
            let ms = |ns: u64| ns as f64 / 1e6;
            write!(to, "{} waited {:.1} ms", late.task, ms(late.waited_ns))?;
            write!(to, " from {:.3} s on CPU {}, while", late.start_ns as f64 / 1e9, late.cpu)?;
            let ran: Vec<String> =
                late.ran.iter().map(|(task, ns)| format!(" {task} ran {:.1} ms", ms(*ns))).collect();
            writeln!(to, "{}", ran.join(","))?;
        }
        Ok(())
    }
}

/// The tasks that ran on a CPU lately: the task, and the start and end of its run, ns.
type Lately = VecDeque<(TaskIndex, u64, u64)>;

struct Checker {
    limits: Limits,
    found: TraceFindings,
    lately: Vec<Lately>,
}

fn name(now: &Timeline, task: TaskIndex) -> String {
    let task = now.task(task);
    format!("{} ({})", task.comm(), task.tid().0)
}

impl Checker {
    fn keep(&mut self, now: &Timeline, task: TaskIndex, stay: Stay) {
        if self.limits.keeps == Keeps::Stays {
            let task = now.task(task);
            let tgid = now.processes()[task.process().at()].tgid.0;
            self.found.stays.push(Stay { tid: task.tid().0, tgid, ..stay });
        }
    }

    fn meanwhile(&self, now: &Timeline, waited: &Waited) -> Vec<(String, u64)> {
        let Some(lately) = self.lately.get(usize::from(waited.cpu)) else { return Vec::new() };
        let mut ran: Vec<(TaskIndex, u64)> = Vec::new();
        for &(task, from, to) in lately {
            let ns = to.min(waited.end_ns).saturating_sub(from.max(waited.start_ns));
            match ran.iter_mut().find(|(known, _)| *known == task) {
                Some((_, all)) => *all += ns,
                None => ran.push((task, ns)),
            }
        }
        ran.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
        ran.iter().take(3).filter(|(_, ns)| *ns > 0).map(|&(task, ns)| (name(now, task), ns)).collect()
    }
}

/// How long the tasks that ran on a CPU are remembered, ns.
const LATELY_NS: u64 = 10_000_000_000;

impl Observer for Checker {
    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        let Ran { cpu, start_ns, end_ns, .. } = *ran;
        self.keep(now, ran.task, Stay { tid: 0, tgid: 0, cpu, start_ns, end_ns, ran: true });
        let cpu = usize::from(ran.cpu);
        if self.lately.len() <= cpu {
            self.lately.resize_with(cpu + 1, Lately::new);
        }
        let lately = &mut self.lately[cpu];
        lately.push_back((ran.task, ran.start_ns, ran.end_ns));
        while lately.front().is_some_and(|&(_, _, to)| to + LATELY_NS < ran.end_ns) {
            lately.pop_front();
        }
    }

    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        let Waited { cpu, start_ns, end_ns, .. } = *waited;
        self.keep(now, waited.task, Stay { tid: 0, tgid: 0, cpu, start_ns, end_ns, ran: false });
        let waited_ns = waited.end_ns - waited.start_ns;
        self.found.waits += 1;
        self.found.longest_ns = self.found.longest_ns.max(waited_ns);
        if waited_ns > self.limits.longest_ns {
            self.found.late.push(LateTask {
                task: name(now, waited.task),
                start_ns: waited.start_ns,
                waited_ns,
                cpu: waited.cpu,
                ran: self.meanwhile(now, waited),
            });
        }
    }
}

/// Reads a trace to its end. Tasks that still wait at the end count as well.
///
/// # Errors
/// If the file is not a whole trace.
pub fn check(trace: impl Read, limits: Limits) -> Result<TraceFindings> {
    let mut checker = Checker { limits, found: TraceFindings::default(), lately: Vec::new() };
    let mut reader = Reader::new(trace).context("reading the trace")?;
    let mut timeline = Timeline::new(reader.header(), Window { from_ns: 0, to_ns: u64::MAX });
    let mut last_ns = 0;
    while let Some(event) = reader.next_event().context("reading the trace")? {
        last_ns = event.time_ns;
        timeline.push(event, &mut checker);
    }
    timeline.finish(last_ns, &mut checker);
    checker.found.lost = reader.totals().lost;
    Ok(checker.found)
}
