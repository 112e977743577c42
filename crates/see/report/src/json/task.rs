//! One task of the JSON report.

use serde::Serialize;
use spry_analysis::findings::{
    BillingFinding, CpuShare, Interrupted, KernelAccount, Reasons, Switches, TaskFinding, WakeupParts,
};
use spry_analysis::histogram::{Histogram, Tally};
use spry_trace::event::{Policy, PrevState};
use spry_trace::{Tgid, Tid};

/// A distribution's figures, ns; null where there are no values. The count is null, too, where
/// it is not known.
#[derive(Serialize)]
pub(super) struct Figures {
    count: Option<u64>,
    mean: Option<f64>,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
    max: Option<u64>,
}

impl Figures {
    pub(super) fn of(histogram: &Histogram) -> Figures {
        Figures::of_known(Some(histogram))
    }

    fn of_known(histogram: Option<&Histogram>) -> Figures {
        let summary = histogram.and_then(Histogram::summary);
        Figures {
            count: histogram.map(Histogram::count),
            mean: summary.map(|summary| summary.mean),
            p50: summary.map(|summary| summary.p50),
            p90: summary.map(|summary| summary.p90),
            p99: summary.map(|summary| summary.p99),
            p999: summary.map(|summary| summary.p999),
            max: summary.map(|summary| summary.max),
        }
    }
}

/// One task, with the fields of the contract first.
#[derive(Serialize)]
pub(super) struct TaskRow<'a> {
    tid: Tid,
    tgid: Tgid,
    comm: String,
    start_ns: Option<u64>,
    runtime_ns: u64,
    runnable_wait_ns: Option<u64>,
    blocked_ns: Option<u64>,
    switches: Switches,
    wakeups: Option<u64>,
    migrations: Option<u64>,
    dispatch_latency_ns: Option<Dispatch>,
    quantum_ns: Option<Quanta>,
    billing: Option<&'a [BillingFinding]>,
    end_ns: Option<u64>,
    life_ns: u64,
    unknown_ns: u64,
    stolen_ns: Option<i64>,
    wait_share: Option<f64>,
    policy: Option<Policy>,
    prio: Option<u8>,
    kernel: Option<KernelAccount>,
    reasons: Option<ReasonCounts>,
    cpu_shares: Option<&'a [CpuShare]>,
    wakeup: Option<WakeupParts>,
    interrupted: Option<Interrupted>,
}

/// Dispatch latency: of all waits, of waits after wake-ups, and of waits after preemptions.
#[derive(Serialize)]
struct Dispatch {
    #[serde(flatten)]
    all: Figures,
    after_wakeup: Figures,
    after_preemption: Figures,
}

#[derive(Serialize)]
struct Quanta {
    #[serde(flatten)]
    lengths: Figures,
    per_second: Option<f64>,
    cut: Tally,
}

/// [`Reasons`] with the states by name.
#[derive(Serialize)]
struct ReasonCounts {
    by_state: States,
    preempted_by_own_wakee: Option<u64>,
    preempted_by_other_wakee: Option<u64>,
    end_of_slice: Option<u64>,
    other_involuntary: Option<u64>,
    thesis_voluntary: Option<u64>,
}

/// Counts by state, in the order of [`PrevState::ALL`].
struct States([u64; PrevState::ALL.len()]);

impl Serialize for States {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(PrevState::ALL.iter().zip(self.0))
    }
}

impl<'a> TaskRow<'a> {
    pub(super) fn of(task: &'a TaskFinding) -> TaskRow<'a> {
        TaskRow {
            tid: task.who.tid,
            tgid: task.who.tgid,
            comm: task.who.comm.to_string(),
            start_ns: task.start_ns,
            runtime_ns: task.runtime_ns,
            runnable_wait_ns: task.runnable_wait_ns,
            blocked_ns: task.blocked_ns,
            switches: task.switches,
            wakeups: task.wakeups,
            migrations: task.migrations,
            dispatch_latency_ns: task.dispatch.as_ref().map(|dispatch| Dispatch {
                all: Figures::of_known(dispatch.all.as_ref()),
                after_wakeup: Figures::of_known(dispatch.wakeup.as_ref()),
                after_preemption: Figures::of(&dispatch.preemption),
            }),
            quantum_ns: task.quanta.as_ref().map(|quanta| Quanta {
                lengths: Figures::of(&quanta.lengths),
                per_second: quanta.per_second,
                cut: quanta.cut,
            }),
            billing: task.billing.as_deref(),
            end_ns: task.end_ns,
            life_ns: task.life_ns,
            unknown_ns: task.unknown_ns,
            stolen_ns: task.stolen_ns,
            wait_share: task.dispatch.as_ref().and_then(|dispatch| dispatch.wait_share),
            policy: task.policy,
            prio: task.prio,
            kernel: task.kernel,
            reasons: task.reasons.as_deref().map(ReasonCounts::of),
            cpu_shares: task.cpu_shares.as_deref(),
            wakeup: task.wakeup.as_deref().copied(),
            interrupted: task.interrupted,
        }
    }
}

impl ReasonCounts {
    fn of(reasons: &Reasons) -> ReasonCounts {
        ReasonCounts {
            by_state: States(reasons.by_state),
            preempted_by_own_wakee: reasons.by_wakings.map(|by| by.preempted_by_own_wakee),
            preempted_by_other_wakee: reasons.by_wakings.map(|by| by.preempted_by_other_wakee),
            end_of_slice: reasons.by_wakings.map(|by| by.end_of_slice),
            other_involuntary: reasons.by_wakings.map(|by| by.other_involuntary),
            thesis_voluntary: reasons.by_wakings.map(|by| by.thesis_voluntary),
        }
    }
}
