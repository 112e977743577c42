//! Real-rate reservations: the budget follows the fill levels of the task's pipes. While there are such
//! reservations, the daemon reads the pipes a hundred times a second.

use spry_control::{OpenedReservation, Refusal};
use spry_reservations::{Covers, End, Look, OnExhaustion, RealRate};
use spry_sys::clock::process_cpu_ns;
use spry_sys::queue::{PipeEnd, Side};
use spry_sys::run_time::RunTime;

use super::{Asker, Reservations, find, unable};

/// The time between two readings of pipes, ns.
const EVERY_NS: u64 = 10_000_000;
/// The greatest number of real-rate reservations: each costs the daemon time.
const MOST: usize = 16;
/// The descriptors that are used if none is named: standard input and output.
const STANDARD: [u32; 2] = [0, 1];

/// A reservation that follows its task's pipes.
#[derive(Debug)]
pub(super) struct RealRateReservation {
    covers: Covers,
    control: RealRate,
    pipes: Vec<PipeEnd>,
    /// The degree to which the task is behind, from 0 to 1; `None` if none of its pipes is open any more.
    behind: Option<f64>,
    /// The reason why the latest terms were refused, if they were.
    refused: Option<String>,
}

impl RealRateReservation {
    /// The degree to which the task is behind, from 0 to 1: the mean over its pipes.
    fn behind(&self) -> Option<f64> {
        let fills: Vec<f64> =
            self.pipes.iter().filter_map(|pipe| Some(end(*pipe).behind(pipe.fill().ok()?))).collect();
        (!fills.is_empty()).then(|| fills.iter().sum::<f64>() / fills.len() as f64)
    }

    /// For users: the degree to which the task is behind, percent; the reason why it has no larger budget.
    pub(super) fn told(&self) -> (Option<u8>, Option<String>) {
        (self.behind.map(|behind| (behind * 100.0).round() as u8), self.refused.clone())
    }
}

const fn end(pipe: PipeEnd) -> End {
    match pipe.side {
        Side::Read => End::Consumer,
        Side::Write => End::Producer,
    }
}

impl Reservations {
    /// Makes a real-rate reservation for a task. `pipe` is a descriptor; without it, standard input and
    /// output are used if they are pipes.
    ///
    /// # Errors
    /// The reason why the reservation is refused.
    pub fn reserve_real_rate(
        &mut self,
        asker: Asker,
        covers: Covers,
        on_exhaustion: OnExhaustion,
        pipe: Option<u32>,
        cpu: Option<u32>,
    ) -> Result<OpenedReservation, Refusal> {
        if self.driven.len() >= MOST {
            return Err(unable(format!("{MOST} reservations follow pipes, and no more can")));
        }
        let found = find(asker.uid, covers)?;
        let of = |fd: u32| PipeEnd::of(found.tgid, fd).ok().flatten();
        let pipes: Vec<PipeEnd> = match pipe {
            Some(fd) => of(fd).into_iter().collect(),
            None => STANDARD.into_iter().filter_map(of).collect(),
        };
        if pipes.is_empty() {
            return Err(unable(match pipe {
                Some(fd) => format!("descriptor {fd} of process {} is no end of a pipe", found.tgid),
                None => format!(
                    "neither standard input nor output of process {} is a pipe: name one (--pipe FD)",
                    found.tgid
                ),
            }));
        }
        let control = RealRate::new(on_exhaustion);
        let opened = self.reserve(asker, covers, control.terms(), cpu)?;
        let driven = RealRateReservation { covers, control, pipes, behind: None, refused: None };
        self.driven.insert(opened.slot, driven);
        Ok(opened)
    }

    /// The time of the next reading of the pipes, on the monotonic clock, ns.
    pub fn next_look_ns(&self) -> Option<u64> {
        (!self.driven.is_empty()).then_some(self.looked_ns + EVERY_NS)
    }

    /// Reads the pipes if that is due, and changes the reservations' terms accordingly.
    pub fn look(&mut self, now_ns: u64) {
        if self.driven.is_empty() || now_ns < self.looked_ns + EVERY_NS {
            return;
        }
        self.looked_ns = now_ns;
        let mut all = std::mem::take(&mut self.driven);
        for (&slot, driven) in &mut all {
            driven.behind = driven.behind();
            let (Some(behind), Some(ran_ns)) = (driven.behind, ran_ns(driven.covers)) else { continue };
            let Some(terms) = driven.control.look(Look { behind, ran_ns, now_ns }) else { continue };
            match self.change(slot, terms) {
                Ok(_) => {
                    driven.control.granted(terms);
                    driven.refused = None;
                }
                Err(refusal) => {
                    driven.control.refused();
                    driven.refused = Some(refusal.text);
                }
            }
        }
        self.driven = all;
    }
}

/// The CPU time of a thread or process so far, ns.
fn ran_ns(covers: Covers) -> Option<u64> {
    match covers {
        Covers::Thread { tid } => RunTime::of(tid, tid).ok()?.ran_ns(),
        Covers::Group { tgid } => process_cpu_ns(tgid).ok(),
    }
}
