//! The measurement of one cell, from the analyses of its trace. It keeps only the values for the figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spry_analysis::findings::{CpuFinding, TaskFinding};
use spry_analysis::histogram::{Budget, Histogram};
use spry_analysis::{Engine, Error, Findings, Options, Selection};
use spry_trace::{Header, Tgid};

use crate::application::{Application, STRESSER, X_SERVER};

/// The number of steps into which a power of ten of the quanta's lengths is divided.
const STEPS: u32 = 12;
/// The shortest length of the distribution, ns, and the number of powers of ten that the distribution covers.
const SHORTEST_NS: f64 = 1_000.0;
const DECADES: u32 = 6;

/// A quantum shorter than this is short in the thesis' sense: 5 clock ticks (section 6.2), ns.
pub const SHORT_NS: u64 = 5_000_000;

/// The analyses from which the figures are made.
const ANALYSES: [&str; 3] = ["dispatch", "quanta", "reasons"];

/// The measurement of one cell: one application beside one load under one scheduler.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Measurement {
    /// The length of the measured time, ns.
    pub window_ns: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// The application.
    pub application: Party,
    /// The X server; `None` if the scenario has none.
    pub x_server: Option<Party>,
    /// All stressers together; `None` if no stressers ran beside the application.
    pub stressers: Option<Party>,
    /// The CPU time of all other tasks, percent.
    pub others_percent: f64,
    /// The idle time of all CPUs, percent of their time.
    pub idle_percent: f64,
    /// The frames of the application; `None` if it has no frames that are due.
    pub frames: Option<Frames>,
}

/// The tasks of one application, or of one name.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Party {
    /// The CPU time of all threads of the tasks, percent of one CPU.
    pub cpu_percent: f64,
    /// The thread with the most CPU time. The next two values are of this thread (thesis, section 6.3.1).
    pub thread: String,
    /// The mean dispatch latency, ns; `None` if the thread never waited.
    pub dispatch_mean_ns: Option<f64>,
    /// The share of its runnable time that the thread waited, percent; `None` if it was never runnable.
    pub waiting_percent: Option<f64>,
    /// How many switches away from the threads of the tasks there were.
    pub switches: u64,
    /// How many effective quanta were voluntary in the thesis' sense (section 6.4).
    pub voluntary: u64,
    /// The effective quanta of all threads.
    pub quanta: Quanta,
}

/// The distribution of the lengths of effective quanta.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Quanta {
    /// How many quanta there were.
    pub count: u64,
    /// The median, ns.
    pub median_ns: Option<u64>,
    /// How many quanta were shorter than [`SHORT_NS`].
    pub short: u64,
    /// For each of [`Quanta::lengths_ns`], how many quanta were not longer.
    pub within: Vec<u64>,
}

/// The frames of a film.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Frames {
    /// How many frames were due within the measured time.
    pub due: f64,
    /// How many frames were shown in time.
    pub shown: f64,
}

impl Frames {
    /// Percent of the frames due that were not shown.
    pub fn lost_percent(&self) -> f64 {
        if self.due > 0.0 { (100.0 * (self.due - self.shown) / self.due).max(0.0) } else { 0.0 }
    }
}

/// The measured time, by the trace's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredTime {
    /// The start of the measured time, ns.
    pub from_ns: u64,
    /// The end of the measured time, ns.
    pub to_ns: u64,
}

impl MeasuredTime {
    /// Reads the measured time from the report of the scenario's runner.
    pub fn read(report: &serde_json::Value) -> Option<MeasuredTime> {
        let ns = |key: &str| report.get("measured")?.get(key)?.as_u64();
        Some(MeasuredTime { from_ns: ns("from_ns")?, to_ns: ns("to_ns")? })
    }
}

impl Frames {
    /// Reads the frames from the report of the scenario's runner.
    pub fn read(report: &serde_json::Value) -> Option<Frames> {
        let metrics = report.get("metrics")?;
        let number = |key: &str| metrics.get(key)?.as_f64();
        Some(Frames { due: number("frames_due")?, shown: number("frames_shown")? })
    }
}

/// Makes an engine with the analyses that the figures need. It covers the measured time.
///
/// # Errors
/// If the measured time is empty.
pub fn engine(header: &Header, measured: MeasuredTime) -> Result<Engine, Error> {
    let since_start_ns = |ns: u64| ns.saturating_sub(header.start_ns);
    let selection = Selection {
        tasks: None,
        from_ns: since_start_ns(measured.from_ns),
        to_ns: Some(since_start_ns(measured.to_ns)),
    };
    let analyses = ANALYSES.map(str::to_owned).into();
    Engine::new(header, selection, Options { analyses, ..Options::default() })
}

/// The role of a process in the measurement: the application, the X server, a stresser.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Application,
    XServer,
    Stresser,
}

fn role(comm: &str, application: &Application) -> Option<Role> {
    match comm {
        _ if application.comms.contains(&comm) => Some(Role::Application),
        X_SERVER => Some(Role::XServer),
        STRESSER => Some(Role::Stresser),
        _ => None,
    }
}

impl Measurement {
    /// Takes the measurement from the findings of the analyses; `None` if the trace has no task of
    /// the application.
    pub fn of(findings: &Findings, application: &Application, frames: Option<Frames>) -> Option<Measurement> {
        let mut roles: BTreeMap<Tgid, Role> = BTreeMap::new();
        for task in &findings.tasks {
            if let Some(role) = role(&task.who.comm.to_string(), application) {
                roles.insert(task.who.tgid, role);
            }
        }
        let window_ns = findings.trace.to_ns.saturating_sub(findings.trace.from_ns).max(1);
        let of = |role: Option<Role>| {
            let is_its = move |task: &&TaskFinding| roles.get(&task.who.tgid).copied() == role;
            findings.tasks.iter().filter(is_its).collect::<Vec<_>>()
        };
        let party = |tasks: Vec<&TaskFinding>| Party::of(&tasks, window_ns);
        let of = |role| of.clone()(role);
        let others_ns: u64 = of(None).iter().map(|task| task.runtime_ns).sum();
        Some(Measurement {
            window_ns,
            lost_events: findings.trace.lost,
            application: party(of(Some(Role::Application)))?,
            x_server: party(of(Some(Role::XServer))),
            stressers: party(of(Some(Role::Stresser))),
            others_percent: percent(others_ns, window_ns),
            idle_percent: idle_percent(&findings.cpus, window_ns),
            frames,
        })
    }
}

/// The idle time of all CPUs, percent of the time of all CPUs.
fn idle_percent(cpus: &[CpuFinding], window_ns: u64) -> f64 {
    let idle_ns: u64 = cpus.iter().map(|cpu| cpu.idle_ns).sum();
    percent(idle_ns, window_ns * cpus.len() as u64)
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl Party {
    fn of(tasks: &[&TaskFinding], window_ns: u64) -> Option<Party> {
        let main = tasks.iter().max_by_key(|task| (task.runtime_ns, std::cmp::Reverse(task.who.tid)))?;
        let dispatch = main.dispatch.as_ref();
        let mut lengths = Histogram::dense();
        let mut budget = Budget::new(0);
        let (mut switches, mut voluntary) = (0, 0);
        for task in tasks {
            if let Some(quanta) = &task.quanta {
                lengths.merge(&quanta.lengths, &mut budget);
            }
            switches += task.switches.voluntary + task.switches.involuntary;
            voluntary += task
                .reasons
                .as_ref()
                .map_or(0, |reasons| reasons.by_wakings.map_or(0, |by| by.thesis_voluntary));
        }
        lengths.shrink();
        let cpu_ns: u64 = tasks.iter().map(|task| task.runtime_ns).sum();
        Some(Party {
            cpu_percent: percent(cpu_ns, window_ns),
            thread: main.who.comm.to_string(),
            dispatch_mean_ns: dispatch.and_then(|dispatch| dispatch.all.as_ref()?.mean()),
            waiting_percent: dispatch.and_then(|dispatch| dispatch.wait_share).map(|share| 100.0 * share),
            switches,
            voluntary,
            quanta: Quanta::of(&lengths),
        })
    }

    /// The share of the switches that were voluntary, percent; `None` if there were no switches.
    pub fn voluntary_percent(&self) -> Option<f64> {
        (self.switches > 0).then(|| percent(self.voluntary, self.switches))
    }
}

impl Quanta {
    /// The lengths at which the distribution is kept, ns. They are evenly spaced on a logarithmic scale,
    /// from 1 us to 1 s.
    pub fn lengths_ns() -> impl Iterator<Item = f64> {
        (0..=STEPS * DECADES).map(|step| SHORTEST_NS * 10f64.powf(f64::from(step) / f64::from(STEPS)))
    }

    fn of(lengths: &Histogram) -> Quanta {
        let (cdf, count, mut seen) = (lengths.cdf(), lengths.count(), 0);
        let number = |part: f64| (part * count as f64).round() as u64;
        let short =
            cdf.iter().take_while(|point| point.0 < SHORT_NS).last().map_or(0, |point| number(point.1));
        let mut points = cdf.into_iter().peekable();
        let within = Quanta::lengths_ns().map(|length_ns| {
            while let Some((_, part)) = points.next_if(|&(ns, _)| ns as f64 <= length_ns) {
                seen = number(part);
            }
            seen
        });
        Quanta { count, short, within: within.collect(), median_ns: lengths.quantile(0.5) }
    }

    /// Joins the quanta of several seeds.
    pub fn joined<'a>(all: impl Iterator<Item = &'a Quanta>) -> Quanta {
        let mut medians_ns = Vec::new();
        let mut joined = Quanta::default();
        for quanta in all {
            joined.count += quanta.count;
            joined.short += quanta.short;
            joined.within.resize(quanta.within.len().max(joined.within.len()), 0);
            joined.within.iter_mut().zip(&quanta.within).for_each(|(sum, part)| *sum += part);
            medians_ns.extend(quanta.median_ns);
        }
        medians_ns.sort_unstable();
        joined.median_ns = medians_ns.get(medians_ns.len() / 2).copied();
        joined
    }

    /// The share of the quanta that were shorter than [`SHORT_NS`], 0 to 1; `None` if there are no quanta.
    pub fn short_part(&self) -> Option<f64> {
        (self.count > 0).then(|| self.short as f64 / self.count as f64)
    }

    /// The cumulative distribution: pairs of a length, ns, and the share of quanta up to it, 0 to 1.
    pub fn cdf(&self) -> Vec<(f64, f64)> {
        if self.count == 0 {
            return Vec::new();
        }
        Quanta::lengths_ns()
            .zip(&self.within)
            .map(|(ns, &within)| (ns, within as f64 / self.count as f64))
            .collect()
    }

    /// The greatest distance of the two cumulative distributions, 0 to 1 (as Kolmogorov and
    /// Smirnov define it).
    pub fn distance(&self, other: &Quanta) -> Option<f64> {
        let pairs = self.cdf().into_iter().zip(other.cdf());
        pairs.map(|(one, two)| (one.1 - two.1).abs()).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_idle_cpus_are_idle_all_of_the_time() {
        let idle = |idle_ns| CpuFinding { idle_ns, ..CpuFinding::default() };
        assert_eq!(idle_percent(&[idle(1_000), idle(1_000)], 1_000), 100.0);
        assert_eq!(idle_percent(&[idle(1_000), idle(500)], 1_000), 75.0);
        assert_eq!(idle_percent(&[], 1_000), 0.0);
    }
}
