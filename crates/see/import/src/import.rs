//! The entry point: recognises a file as perf's or trace-cmd's, and gives out its events in the same way for
//! both.

use std::io::{Read, Seek};

use spry_trace::event::{Event, Lost};
use spry_trace::{Header, Stamped, Totals};

use crate::error::{ImportError, in_part};
use crate::meta;
use crate::perf::{MAGIC_BIG, MAGIC_LITTLE, PerfData};
use crate::states::Numbering;
use crate::tracecmd::{Shifts, TraceDat};

/// If more than this share of switches does not fit the switch before it on its CPU, switches are missing.
const BROKEN_SHARE_MAX: f64 = 0.02;

/// A limitation of the file that a reader of the findings has to consider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The stamps of different CPUs are not of one clock: differences of some microseconds are meaningless.
    Clock(String),
    /// Switches are missing without being counted as lost: not the whole machine was recorded, or a filter
    /// was set.
    MissingSwitches,
    /// Switches are missing, but no more than events were counted as lost.
    LostSwitches,
    /// The file has corrections of its times to the clock of another machine, and the times have them.
    TimeShift,
    /// As [`Note::TimeShift`], but the two clocks run at different rates.
    ScaledTimeShift,
    /// The file has such corrections, but they are damaged. They are not applied.
    DamagedTimeShift,
    /// The kernel recorded the place of a state's bit instead of the bit; the file is read accordingly.
    Places,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::Clock(clock) => write!(
                f,
                "the stamps are of the clock `{clock}`, which may differ by microseconds between CPUs; \
                 record with `-k CLOCK_MONOTONIC` (perf) or `-C mono` (trace-cmd) for exact ones"
            ),
            Note::TimeShift => write!(
                f,
                "the file is of a guest and its host was recorded beside it; all times are those of the \
                 host's clock, by the file's corrections"
            ),
            Note::ScaledTimeShift => write!(
                f,
                "the file is of a guest and its host was recorded beside it; all times are those of the \
                 host's clock, by the file's corrections as trace-cmd applies them, but the guest's clock \
                 runs at another rate: durations may be wrong by that rate"
            ),
            Note::DamagedTimeShift => write!(
                f,
                "the file is of a guest and its host was recorded beside it, but the file's corrections \
                 to the host's clock are damaged; all times are those of the guest's own clock"
            ),
            Note::Places => write!(
                f,
                "the kernel (one of the first of Linux 4.14) recorded states by their places, although its \
                 text says bits; they are read as places"
            ),
            Note::LostSwitches => write!(
                f,
                "switches are missing where events were lost; record with larger buffers: `-m 8M` (perf) or \
                 `-b 20000` (trace-cmd)"
            ),
            Note::MissingSwitches => write!(
                f,
                "switches are missing that were not counted as lost; record the whole \
                 machine, without filters"
            ),
        }
    }
}

enum Form<R> {
    Perf(Box<PerfData<R>>),
    TraceCmd(Box<TraceDat<R>>),
}

/// A file of perf's or trace-cmd's being read.
pub struct Import<R> {
    form: Form<R>,
    current: Option<Stamped>,
    totals: Totals,
}

impl<R: Read + Seek> Import<R> {
    /// Whether the source begins as a file that can be read here. Leaves the source at its start.
    ///
    /// # Errors
    /// Where the source fails.
    pub fn recognises(source: &mut R) -> std::io::Result<bool> {
        source.rewind()?;
        let mut start = Vec::new();
        source.by_ref().take(meta::MAGIC.len() as u64).read_to_end(&mut start)?;
        source.rewind()?;
        Ok(is_perf(&start) || start == meta::MAGIC)
    }

    /// Reads a file up to its first event.
    ///
    /// # Errors
    /// See [`ImportError`]. Damage after the first event is no error; see [`Totals::damaged_bytes`].
    pub fn open(mut source: R) -> Result<Import<R>, ImportError> {
        source.rewind()?;
        let mut start = Vec::new();
        source.by_ref().take(meta::MAGIC.len() as u64).read_to_end(&mut start)?;
        source.rewind()?;
        let form = if is_perf(&start) {
            Form::Perf(Box::new(PerfData::open(source).map_err(whole)?))
        } else if start == meta::MAGIC {
            Form::TraceCmd(Box::new(TraceDat::open(source).map_err(whole)?))
        } else {
            return Err(ImportError::Unknown);
        };
        let mut import = Import { form, current: None, totals: Totals::default() };
        import.totals.lost_per_cpu = vec![0; usize::from(import.header().cpus)];
        import.totals.end_ns = import.header().start_ns;
        Ok(import)
    }
}

fn is_perf(start: &[u8]) -> bool {
    start.starts_with(&MAGIC_LITTLE) || start.starts_with(&MAGIC_BIG)
}

/// Turns an early end of the source, which has no other cause, into damage of the file's beginning.
fn whole(error: ImportError) -> ImportError {
    match error {
        ImportError::Io(error) => in_part("beginning")(error),
        other => other,
    }
}

impl<R: Read + Seek> Import<R> {
    /// The header, from the file's descriptions. It has only the groups with all their events in the file.
    pub fn header(&self) -> &Header {
        match &self.form {
            Form::Perf(data) => data.header(),
            Form::TraceCmd(data) => data.header(),
        }
    }

    /// Counts and times so far; complete once [`Import::next_event`] has returned `None`.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        (totals.bytes, totals.damaged_bytes, totals.ending) = match &self.form {
            Form::Perf(data) => (data.bytes(), data.damaged_bytes(), data.ending()),
            Form::TraceCmd(data) => (data.bytes(), data.damaged_bytes(), data.ending()),
        };
        totals
    }

    /// The file's limitations for a reader of the findings; complete once all events have been returned.
    pub fn notes(&self) -> Vec<Note> {
        let broken = match &self.form {
            Form::Perf(data) => data.broken(),
            Form::TraceCmd(data) => data.broken(),
        };
        let clock = &self.header().clock;
        let is_one_for_all = clock.starts_with("mono")
            || matches!(clock.as_str(), "boottime" | "boot" | "realtime" | "tai" | "global");
        let clock = (!is_one_for_all).then(|| Note::Clock(clock.clone()));
        let numbering = match &self.form {
            Form::Perf(data) => data.numbering(),
            Form::TraceCmd(data) => data.numbering(),
        };
        let shifts = match &self.form {
            Form::Perf(_) => Shifts::None,
            Form::TraceCmd(data) => data.shifts(),
        };
        let missing = (broken.share() > BROKEN_SHARE_MAX).then_some({
            // A lost switch breaks the chain at most once.
            if broken.broken > self.totals.lost { Note::MissingSwitches } else { Note::LostSwitches }
        });
        let places = (numbering == Numbering::Places).then_some(Note::Places);
        let shift = match shifts {
            Shifts::None => None,
            Shifts::Applied => Some(Note::TimeShift),
            Shifts::Scaled => Some(Note::ScaledTimeShift),
            Shifts::Damaged => Some(Note::DamagedTimeShift),
        };
        clock.into_iter().chain(shift).chain(missing).chain(places).collect()
    }

    /// The next event of any CPU, in order of time; `None` at the end.
    ///
    /// # Errors
    /// Where the source fails.
    pub fn next_event(&mut self) -> Result<Option<&Stamped>, ImportError> {
        self.current = match &mut self.form {
            Form::Perf(data) => data.next()?,
            Form::TraceCmd(data) => data.next()?,
        };
        if let Some(stamped) = &self.current {
            self.totals.end_ns = self.totals.end_ns.max(stamped.time_ns);
            self.totals.events += u64::from(stamped.event.is_counted());
            if let Event::Lost(Lost { count }) = stamped.event {
                self.totals.lost = self.totals.lost.saturating_add(count);
                let cpu = usize::from(stamped.cpu);
                if cpu >= self.totals.lost_per_cpu.len() {
                    self.totals.lost_per_cpu.resize(cpu + 1, 0);
                }
                let of = &mut self.totals.lost_per_cpu[cpu];
                *of = of.saturating_add(count);
            }
        }
        Ok(self.current.as_ref())
    }
}
