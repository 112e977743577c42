//! Delays of the JSON report.

use serde::Serialize;
use spry_analysis::findings::{
    Blame, Bound, Culprit, Delay, DelayCause, DelayEnd, Delays, IdleReason, NameShare, Party, Who,
};

use crate::words;

/// The worst delays, and the culprits of every victim.
#[derive(Serialize)]
pub(super) struct DelaysView<'a> {
    worst: Vec<DelayView<'a>>,
    blame: Vec<BlameView>,
}

#[derive(Serialize)]
struct DelayView<'a> {
    victim: Who,
    start_ns: u64,
    wait_ns: u64,
    cpu: u16,
    cause: DelayCause,
    end: DelayEnd,
    culprits: Vec<CulpritView>,
    names: &'a [NameShare],
    idle: Option<IdleReason>,
    bound: Option<Bound>,
    culprit_stack: Option<&'a [Box<str>]>,
    sentence: String,
}

/// The holder of a CPU, as one flat object: `tid` and `tgid` are null if it is not a task.
#[derive(Serialize)]
pub(super) struct PartyView {
    kind: &'static str,
    name: String,
    tid: Option<u32>,
    tgid: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct CulpritView {
    #[serde(flatten)]
    party: PartyView,
    ran_ns: u64,
}

#[derive(Serialize)]
struct BlameView {
    victim: Who,
    culprit: PartyView,
    total_ns: u64,
    waits: u64,
}

impl PartyView {
    fn of(party: &Party) -> PartyView {
        let kind = match party {
            Party::Task(_) => "task",
            Party::Interrupt(_) => "interrupt",
            Party::Idle => "idle",
            Party::Unknown => "unknown",
            Party::Others => "others",
            Party::Quota => "quota",
        };
        match party {
            Party::Task(who) => {
                let name = who.comm.to_string();
                PartyView { kind, name, tid: Some(who.tid.0), tgid: Some(who.tgid.0) }
            }
            other => PartyView { kind, name: words::party(other), tid: None, tgid: None },
        }
    }
}

impl CulpritView {
    pub(super) fn of(culprit: &Culprit) -> CulpritView {
        CulpritView { party: PartyView::of(&culprit.party), ran_ns: culprit.ran_ns }
    }
}

impl<'a> DelaysView<'a> {
    pub(super) fn of(delays: &'a Delays) -> DelaysView<'a> {
        DelaysView {
            worst: delays.worst.iter().map(DelayView::of).collect(),
            blame: delays.blame.iter().map(BlameView::of).collect(),
        }
    }
}

impl<'a> DelayView<'a> {
    fn of(delay: &'a Delay) -> DelayView<'a> {
        DelayView {
            victim: delay.victim,
            start_ns: delay.start_ns,
            wait_ns: delay.wait_ns,
            cpu: delay.cpu,
            cause: delay.cause.clone(),
            end: delay.end,
            culprits: delay.culprits.iter().map(CulpritView::of).collect(),
            names: &delay.names,
            idle: delay.idle,
            bound: delay.bound,
            culprit_stack: (!delay.culprit_stack.is_empty()).then_some(&*delay.culprit_stack),
            sentence: words::sentence(delay),
        }
    }
}

impl BlameView {
    fn of(blame: &Blame) -> BlameView {
        BlameView {
            victim: blame.victim,
            culprit: PartyView::of(&blame.culprit),
            total_ns: blame.total_ns,
            waits: blame.waits,
        }
    }
}
