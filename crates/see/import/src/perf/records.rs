//! Reads the content of each of perf's records.

use std::io::Read;

use spry_trace::event::Comm;
use spry_trace::format::CPU_MAX;
use spry_trace::reader::Ending;
use spry_trace::{Tgid, Tid};

use crate::convert::Record;
use crate::error::{ImportError, in_part};
use crate::input::Order;
use crate::meta::BLOCK_BYTES_MAX;
use crate::perf::layout::{Attr, Stamp};
use crate::perf::rounds::{PendingRecord, What};
use crate::perf::stream::{End, Head, Next};
use crate::perf::{PerfData, State};

/// Types of records: the kernel's, then perf's own.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTR: u32 = 64;
const FINISHED_ROUND: u32 = 68;
const HEADER_FEATURE: u32 = 80;
/// Records about a task are at least this long without their heads, bytes.
const TASK_BYTES: usize = 16;

/// `PERF_RECORD_MISC_COMM_EXEC`.
const MISC_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_MISC_LOST_SAMPLES_BPF`: left out on purpose, not lost.
const MISC_LEFT_OUT: u16 = 1 << 15;

/// The action that follows from a record.
enum Then {
    Nothing,
    EndRound,
    Wait(PendingRecord),
    /// Take the state of a task before the first event, which perf gives without a time.
    Learn(What),
    Count {
        cpu: u16,
        lost: u64,
    },
    Damaged(u64),
}

impl<R: Read> PerfData<R> {
    /// Reads the next record.
    pub(super) fn read_record(&mut self) -> Result<(), ImportError> {
        let then = match self.stream.next()? {
            Next::End(end) => {
                if end == End::Cut {
                    self.ending = Ending::Cut;
                }
                self.rounds.end();
                self.state = State::Read;
                return Ok(());
            }
            Next::Tracing(len) => {
                const PART: &str = "description of tracepoints";
                let data = self.stream.input().block(len, BLOCK_BYTES_MAX).map_err(in_part(PART))?;
                return self.parts.tracing_data(&data);
            }
            Next::Record(Head { kind: HEADER_ATTR, .. }, body) => {
                let (attr, size) =
                    Attr::parse(body, self.order).ok_or(ImportError::Damaged("list of events"))?;
                let ids = body[size..].chunks_exact(8).map(|id| self.order.number(id));
                self.parts.events.add(attr, ids);
                return Ok(());
            }
            Next::Record(Head { kind: HEADER_FEATURE, .. }, body) => {
                let feature = self.order.number_at(body, 0, 8).and_then(|bit| u32::try_from(bit).ok());
                if let (Some(feature), Some(data)) = (feature, body.get(8..)) {
                    self.parts.feature(feature, data, self.order);
                }
                return Ok(());
            }
            Next::Record(Head { kind: FINISHED_ROUND, .. }, _) => Then::EndRound,
            Next::Record(head, body) => {
                let is_wanted = |raw: &[u8]| {
                    self.converter.as_ref().is_none_or(|converter| converter.wanted(raw).is_some())
                };
                match head.kind {
                    SAMPLE => match self.parts.events.sample(body, self.order) {
                        Some((_, raw)) if !is_wanted(raw) => Then::Nothing,
                        Some((stamp, raw)) => wait(stamp, What::Sample(raw.into()), body.len()),
                        None => Then::Damaged(body.len() as u64),
                    },
                    _ => other(head, body, self.parts.events.trailer(body, self.order), self.order),
                }
            }
        };
        self.then(then)
    }

    fn then(&mut self, then: Then) -> Result<(), ImportError> {
        if self.converter.is_none() && matches!(then, Then::Wait(_) | Then::Learn(_)) {
            self.make_converter()?;
        }
        let Some(converter) = &mut self.converter else { return Ok(()) };
        match then {
            Then::Nothing => {}
            Then::EndRound => self.rounds.end_round(),
            Then::Wait(waiting) => self.rounds.add(waiting),
            Then::Learn(What::Comm { tid, tgid, comm, .. }) => converter.perf_comm(None, tid, tgid, comm),
            Then::Learn(What::Fork { parent, child, tgid }) => converter.perf_fork(None, parent, child, tgid),
            Then::Learn(_) => {}
            Then::Count { cpu, lost } => {
                let counted = &mut self.losses.entry(cpu).or_default().counted;
                *counted = counted.saturating_add(lost);
            }
            Then::Damaged(bytes) => self.damaged_bytes += bytes,
        }
        Ok(())
    }

    /// Passes a waiting record to the converter, after all earlier records.
    pub(super) fn tell(&mut self, waiting: PendingRecord) {
        let Some(converter) = &mut self.converter else { return };
        let PendingRecord { time_ns, cpu, what } = waiting;
        let at = (time_ns, cpu);
        match what {
            What::Sample(data) => converter.take(&Record { time_ns, cpu, data: &data }),
            What::Comm { tid, tgid, comm, is_exec } => {
                if is_exec {
                    converter.perf_exec(at, tid);
                }
                converter.perf_comm(Some(at), tid, tgid, comm);
            }
            What::Fork { parent, child, tgid } => converter.perf_fork(Some(at), parent, child, tgid),
            What::Exit { tid } => converter.perf_exit(at, tid),
            What::Lost { count } => {
                let told = &mut self.losses.entry(cpu).or_default().told;
                *told = told.saturating_add(count);
                converter.lost(time_ns, cpu, count);
            }
        }
    }

    /// Passes on the losses that are known only from the counts at the end of the file.
    pub(super) fn tell_losses_counted_at_the_end(&mut self) {
        let Some(converter) = &mut self.converter else { return };
        for (&cpu, losses) in &self.losses {
            let untold = losses.counted.saturating_sub(losses.told);
            if untold > 0 {
                converter.lost(self.given_ns, cpu, untold);
            }
        }
    }
}

fn wait(stamp: Stamp, what: What, bytes: usize) -> Then {
    match stamp {
        Stamp { time_ns: Some(time_ns), cpu: Some(cpu) } if time_ns > 0 && u64::from(cpu) < CPU_MAX => {
            Then::Wait(PendingRecord { time_ns, cpu, what })
        }
        _ => Then::Damaged(bytes as u64),
    }
}

/// A record that is no sample.
fn other(head: Head, body: &[u8], stamp: Stamp, order: Order) -> Then {
    let tid = |at| order.number_at(body, at, 4).and_then(|tid| u32::try_from(tid).ok()).unwrap_or(0);
    let is_short = |len: usize| body.len() < len;
    let known = |what: What| match stamp.time_ns {
        None | Some(0) => Then::Learn(what),
        Some(_) => wait(stamp, what, body.len()),
    };
    match head.kind {
        COMM if is_short(8) => Then::Damaged(body.len() as u64),
        FORK | EXIT | LOST if is_short(TASK_BYTES) => Then::Damaged(body.len() as u64),
        COMM => known(What::Comm {
            tgid: Tgid(tid(0)),
            tid: Tid(tid(4)),
            comm: Comm::new(&body[8..]),
            is_exec: head.misc & MISC_EXEC != 0,
        }),
        FORK => known(What::Fork { tgid: Tgid(tid(0)), child: Tid(tid(8)), parent: Tid(tid(12)) }),
        EXIT => wait(stamp, What::Exit { tid: Tid(tid(8)) }, body.len()),
        LOST => {
            let count = order.number_at(body, 8, 8).unwrap_or(0);
            wait(stamp, What::Lost { count }, body.len())
        }
        LOST_SAMPLES if head.misc & MISC_LEFT_OUT == 0 => match (order.number_at(body, 0, 8), stamp.cpu) {
            (Some(lost), Some(cpu)) if u64::from(cpu) < CPU_MAX => Then::Count { cpu, lost },
            (Some(lost), _) => Then::Count { cpu: 0, lost },
            (None, _) => Then::Damaged(body.len() as u64),
        },
        _ => Then::Nothing,
    }
}
