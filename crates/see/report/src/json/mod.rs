//! Findings as JSON: stable names, stable order, null for figures that the trace cannot give, and `missing`
//! with the reasons.

mod delay;
mod missing;
mod task;

use std::io::{self, Write};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use spry_analysis::findings::{
    Component, Findings, Graph, InterruptKind, Node, Overall, TimerFinding, WakeupFinding,
};
use spry_analysis::histogram::{Histogram, Tally};
use spry_trace::event::TimerKind;

use self::delay::{CulpritView, DelaysView};
use self::task::{Figures, TaskRow};
use crate::recorder;

/// The JSON report of some findings, for any serde serializer.
pub struct Json<'a>(pub &'a Findings);

/// Writes the JSON report on one line, with a line feed.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(findings: &Findings, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut out, &Json(findings))?;
    out.write_all(b"\n")
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let findings = self.0;
        let mut out = to.serialize_struct("Report", 18)?;
        out.serialize_field("trace", &findings.trace)?;
        out.serialize_field("missing", &missing::missing(findings))?;
        out.serialize_field("tasks", &Seq(|| findings.tasks.iter().map(TaskRow::of)))?;
        out.serialize_field("cpus", &findings.cpus)?;
        out.serialize_field("edges", &findings.graph.as_ref().map(|graph| &graph.edges))?;
        out.serialize_field("analyses", &findings.analyses)?;
        out.serialize_field("overall", &OverallView::of(&findings.overall))?;
        out.serialize_field("delays", &findings.delays.as_ref().map(DelaysView::of))?;
        out.serialize_field("wakeup", &findings.wakeup.as_ref().map(WakeupView::of))?;
        out.serialize_field("graph", &findings.graph.as_ref().map(GraphView::of))?;
        let interrupts = findings.interrupts.as_ref().map(|list| {
            list.iter()
                .map(|found| InterruptView {
                    kind: found.kind,
                    name: found.kind.to_string(),
                    time: found.time,
                    stolen_ns: found.stolen_ns,
                })
                .collect::<Vec<_>>()
        });
        out.serialize_field("interrupts", &interrupts)?;
        let timers = findings.timers.as_ref().map(|list| list.iter().map(TimerView::of).collect::<Vec<_>>());
        out.serialize_field("timers", &timers)?;
        out.serialize_field("frames", &findings.frames)?;
        out.serialize_field("channels", &findings.channels)?;
        out.serialize_field("marks", &findings.marks)?;
        out.serialize_field("billing_steps", &findings.billing_steps)?;
        out.serialize_field("recorder", &recorder::cost(findings))?;
        out.end()
    }
}

/// A list that is made while it is written.
struct Seq<F>(F);

impl<F, I> Serialize for Seq<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq((self.0)())
    }
}

/// A distribution's figures and its curve: values (ns), each with the fraction of values up to it.
#[derive(Serialize)]
struct Curve {
    #[serde(flatten)]
    figures: Figures,
    cdf: Vec<(u64, f64)>,
}

impl Curve {
    fn of(histogram: &Histogram) -> Curve {
        Curve { figures: Figures::of(histogram), cdf: histogram.cdf() }
    }
}

#[derive(Serialize)]
struct OverallView {
    quantum_ns: Option<Curve>,
    dispatch_latency_ns: Option<Curve>,
}

impl OverallView {
    fn of(overall: &Overall) -> OverallView {
        OverallView {
            quantum_ns: overall.quanta.as_ref().map(Curve::of),
            dispatch_latency_ns: overall.dispatch.as_ref().map(Curve::of),
        }
    }
}

/// The parts of wake-up latency, ns.
#[derive(Serialize)]
struct WakeupView {
    timer: Option<Figures>,
    expiry: Option<Figures>,
    enqueue: Figures,
    resched: Option<Figures>,
    switch: Option<Figures>,
    total: Figures,
    deadline_to_switch: Option<Figures>,
    culprits: Vec<CulpritView>,
}

impl WakeupView {
    fn of(wakeup: &WakeupFinding) -> WakeupView {
        let part = |histogram: &Option<Histogram>| histogram.as_ref().map(Figures::of);
        WakeupView {
            timer: part(&wakeup.timer),
            expiry: part(&wakeup.expiry),
            enqueue: Figures::of(&wakeup.enqueue),
            resched: part(&wakeup.resched),
            switch: part(&wakeup.switch),
            total: Figures::of(&wakeup.total),
            deadline_to_switch: part(&wakeup.deadline_to_switch),
            culprits: wakeup.culprits.iter().map(CulpritView::of).collect(),
        }
    }
}

/// The graph without its edges, which are a list of their own.
#[derive(Serialize)]
struct GraphView<'a> {
    nodes: &'a [Node],
    component: &'a Option<Component>,
    wakeups_without_task: u64,
    wakeups_dropped: u64,
    bytes_without_writer: Option<u64>,
}

impl<'a> GraphView<'a> {
    fn of(graph: &'a Graph) -> GraphView<'a> {
        GraphView {
            nodes: &graph.nodes,
            component: &graph.component,
            wakeups_without_task: graph.wakeups_without_task,
            wakeups_dropped: graph.wakeups_dropped,
            bytes_without_writer: graph.bytes_without_writer,
        }
    }
}

#[derive(Serialize)]
struct InterruptView {
    name: String,
    kind: InterruptKind,
    time: Tally,
    stolen_ns: u64,
}

#[derive(Serialize)]
struct TimerView {
    kind: TimerKind,
    lateness_ns: Figures,
    past_slack: u64,
    early: u64,
}

impl TimerView {
    fn of(timer: &TimerFinding) -> TimerView {
        TimerView {
            kind: timer.kind,
            lateness_ns: Figures::of(&timer.lateness),
            past_slack: timer.past_slack,
            early: timer.early,
        }
    }
}
