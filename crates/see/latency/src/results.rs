//! The results of a measurement: distributions by thread, with the machine and the settings; kept in a file
//! that can be added to other files.

#![warn(missing_docs)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::culprits::{self, Culprit};
use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::source::Source;
use crate::split::PartHistograms;

/// The format's name in a file of results.
const FORMAT: &str = "spry-latency";
/// The form of the file; a reader refuses others.
const VERSION: u32 = 1;
/// The first words of the lack that a load ended before all samples were taken.
pub const LOAD_ENDED: &str = "the load did not last";

/// The results of one sampling thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SampledThread {
    /// The CPU that the thread was bound to; `None` if it was bound to no CPU.
    pub cpu: Option<u32>,
    /// Latencies as they were measured.
    pub latency: Histogram,
    /// The latencies that missed periods would have had: one for each period.
    pub omitted: Histogram,
    /// The end of the longest latency, ns of the monotonic clock; 0 if there was none.
    pub max_at_ns: u64,
    /// The parts, if samples were split.
    pub parts: Option<PartHistograms>,
}

impl SampledThread {
    /// A thread without samples.
    pub(crate) fn new(cpu: Option<u32>) -> SampledThread {
        SampledThread {
            cpu,
            latency: Histogram::default(),
            omitted: Histogram::default(),
            max_at_ns: 0,
            parts: None,
        }
    }
}

/// The machine that was measured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredMachine {
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// The preemption model in force, in the kernel's words, where known.
    pub preemption: Option<String>,
    /// The sched_ext scheduler in force, if any.
    pub scheduler: Option<String>,
    /// The kernel's command line.
    pub boot_parameters: Option<String>,
}

/// How a measurement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The measurement has not ended: this is a checkpoint.
    Running,
    /// The measurement ended as it should.
    Complete,
    /// The measurement was ended before its time.
    Interrupted,
}

/// A measurement's results.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Results {
    format: String,
    version: u32,
    /// The machine that was measured.
    pub machine: MeasuredMachine,
    /// The command line.
    pub command: Vec<String>,
    /// Names of the loads that ran beside the measurement.
    pub load: Vec<String>,
    /// The source of the threads' wake-ups.
    pub source: Source,
    /// The rate of each thread's wake-ups, Hz.
    pub rate_hz: u32,
    /// SCHED_FIFO priority; 0 is the ordinary class.
    pub priority: u8,
    /// The needs that the machine did not meet, in words.
    pub lacks: Vec<String>,
    /// The start of the measurement, ns of the monotonic clock.
    pub began_ns: u64,
    /// The start of the measurement, wall-clock time since the UNIX epoch, ns.
    pub began_unix_ns: u64,
    /// How long the measurement took, ns; the sum, if several measurements were added.
    pub elapsed_ns: u64,
    /// How the measurement ended.
    pub end: End,
    /// The results of each thread.
    pub threads: Vec<SampledThread>,
    /// The least latency of a late sample, ns; `None` if culprits were not looked for, or if the measurements
    /// of a sum differ in it.
    #[serde(default)]
    pub threshold_ns: Option<u64>,
    /// The culprits of late samples, most time first; `None` if culprits were not looked for.
    pub culprits: Option<Vec<Culprit>>,
}

/// The longest latency of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Worst {
    /// The latency, ns.
    pub latency_ns: u64,
    /// The end of the latency, ns after the measurement began.
    pub at_ns: u64,
    /// The end of the latency, as wall-clock time since the UNIX epoch, ns.
    pub at_unix_ns: u64,
    /// The CPU of the thread with this latency; `None` if the thread was bound to no CPU.
    pub cpu: Option<u32>,
}

impl Results {
    /// Results without samples.
    pub fn new(machine: MeasuredMachine, source: Source, rate_hz: u32, priority: u8) -> Results {
        Results {
            format: FORMAT.to_owned(),
            version: VERSION,
            machine,
            command: Vec::new(),
            load: Vec::new(),
            source,
            rate_hz,
            priority,
            lacks: Vec::new(),
            began_ns: 0,
            began_unix_ns: 0,
            elapsed_ns: 0,
            end: End::Running,
            threads: Vec::new(),
            threshold_ns: None,
            culprits: None,
        }
    }

    /// All threads' latencies, as they were measured.
    pub fn raw(&self) -> Histogram {
        self.pooled(|thread| [Some(&thread.latency), None])
    }

    /// All threads' latencies, and the latencies that missed periods would have had: the distribution that
    /// events at any time would meet.
    pub fn corrected(&self) -> Histogram {
        self.pooled(|thread| [Some(&thread.latency), Some(&thread.omitted)])
    }

    fn pooled<'a>(&'a self, of: impl Fn(&'a SampledThread) -> [Option<&'a Histogram>; 2]) -> Histogram {
        let mut pooled = Histogram::default();
        self.threads.iter().flat_map(of).flatten().for_each(|histogram| pooled.merge(histogram));
        pooled
    }

    /// How many periods were missed.
    pub fn missed(&self) -> u64 {
        self.threads.iter().map(|thread| thread.omitted.count()).sum()
    }

    /// All threads' parts; `None` if no sample was split.
    pub fn parts(&self) -> Option<PartHistograms> {
        let mut parts = self.threads.iter().filter_map(|thread| thread.parts.as_ref());
        let first = parts.next()?.clone();
        Some(parts.fold(first, |mut sum, parts| {
            sum.merge(parts);
            sum
        }))
    }

    /// The longest latency; `None` if there are no samples.
    pub fn worst(&self) -> Option<Worst> {
        let thread = self.threads.iter().max_by_key(|thread| thread.latency.max_ns())?;
        let latency_ns = thread.latency.max_ns()?;
        let at_ns = thread.max_at_ns.saturating_sub(self.began_ns);
        Some(Worst {
            latency_ns,
            at_ns,
            at_unix_ns: self.began_unix_ns.saturating_add(at_ns),
            cpu: thread.cpu,
        })
    }

    /// The setting in which another measurement differs from this one, so that the two cannot be added.
    pub(crate) fn unlike(&self, other: &Results) -> Option<&'static str> {
        let same = [
            ("the kernel", self.machine.kernel == other.machine.kernel),
            ("the preemption model", self.machine.preemption == other.machine.preemption),
            ("the scheduler", self.machine.scheduler == other.machine.scheduler),
            ("the source", self.source == other.source),
            ("the rate", self.rate_hz == other.rate_hz),
            ("the priority", self.priority == other.priority),
            ("the load", self.load == other.load),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
    }

    /// Adds another measurement of the same kind: its threads are listed after the threads of this one. The
    /// sum began when the earlier of the two began.
    ///
    /// # Errors
    /// Where kernel, preemption model, scheduler, source, rate, priority or load differ.
    pub fn merge(&mut self, other: Results) -> Result<()> {
        if let Some(what) = self.unlike(&other) {
            return Err(Error::Unlike(what));
        }
        self.elapsed_ns += other.elapsed_ns;
        // All times move to the clock of the measurement that began first, by the wall-clock time between the
        // two starts.
        let (mut theirs, apart_ns) = (other.threads, other.began_unix_ns.abs_diff(self.began_unix_ns));
        if other.began_unix_ns < self.began_unix_ns {
            move_times(&mut self.threads, self.began_ns, other.began_ns.wrapping_add(apart_ns));
            (self.began_ns, self.began_unix_ns) = (other.began_ns, other.began_unix_ns);
        } else {
            move_times(&mut theirs, other.began_ns, self.began_ns.wrapping_add(apart_ns));
        }
        self.threads.extend(theirs);
        if other.end != End::Complete {
            self.end = other.end;
        }
        self.culprits = match (self.culprits.take(), other.culprits) {
            (Some(ours), Some(theirs)) => Some(culprits::together(&[ours, theirs])),
            (ours, theirs) => ours.or(theirs),
        };
        // With two thresholds, or if late samples were looked for in one part only, no limit separates the
        // late samples of the sum from the others.
        self.threshold_ns = self.threshold_ns.filter(|_| self.threshold_ns == other.threshold_ns);
        for lack in other.lacks {
            if !self.lacks.contains(&lack) {
                self.lacks.push(lack);
            }
        }
        Ok(())
    }

    /// Writes the file in one step: a reader finds the old file or the new one, even if this
    /// process is killed.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::from);
        text.and_then(|text| replace(path, text.as_bytes()))
            .map_err(|error| Error::File { path: path.to_owned(), error })
    }

    /// Reads a file of results.
    ///
    /// # Errors
    /// Where the file cannot be read, or holds no results.
    pub fn load(path: &Path) -> Result<Results> {
        let text = fs::read_to_string(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
        Results::parse(&text).map_err(|reason| Error::Format { path: path.to_owned(), reason })
    }

    /// Whether the format that a file names is the format of results; the results' completeness
    /// is not checked.
    pub fn are_in(path: &Path) -> bool {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let text = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str::<Head>(&text).is_ok_and(|head| head.format == FORMAT)
    }

    fn parse(text: &str) -> std::result::Result<Results, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if head.format != FORMAT {
            return Err(format!("its format is {}", head.format));
        }
        if head.version != VERSION {
            return Err(format!("its version is {}, and this program reads {VERSION}", head.version));
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// Moves the times of threads' longest latencies from a clock to another: `from_ns` and `to_ns` are one
/// moment on the two clocks.
fn move_times(threads: &mut [SampledThread], from_ns: u64, to_ns: u64) {
    for thread in threads.iter_mut().filter(|thread| thread.latency.count() > 0) {
        thread.max_at_ns = thread.max_at_ns.wrapping_sub(from_ns).wrapping_add(to_ns);
    }
}

/// Puts a file in the place of another, if there is one.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&part, path)
    });
    if written.is_err() {
        // A partly written file is of no use; the first error is returned.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(values: &[u64], began_ns: u64) -> Results {
        let mut latency = Histogram::default();
        values.iter().for_each(|&ns| latency.record(ns));
        let mut omitted = Histogram::default();
        omitted.record(7_000);
        let machine = MeasuredMachine { kernel: "6.12".to_owned(), ..MeasuredMachine::default() };
        let thread = SampledThread { cpu: Some(1), latency, omitted, max_at_ns: began_ns + 5, parts: None };
        let began_unix_ns = 1_000_000 + began_ns;
        Results {
            began_ns,
            began_unix_ns,
            threads: vec![thread],
            ..Results::new(machine, Source::Nanosleep, 2048, 80)
        }
    }

    #[test]
    fn corrected_samples_are_those_taken_and_those_missed() {
        let results = results(&[1_000, 20_000_000], 50);
        assert_eq!((results.raw().count(), results.corrected().count(), results.missed()), (2, 3, 1));
    }

    #[test]
    fn a_kept_file_reads_back_equal_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.latency.json");
        fs::write(&path, "what was there before").unwrap();
        let results = results(&[1_000, 20_000_000], 50);
        results.save(&path).unwrap();
        assert_eq!(Results::load(&path).unwrap(), results);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_no_result_is_refused_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let good = serde_json::to_string(&results(&[1], 0)).unwrap();
        let newer = good.replace("\"version\":1", "\"version\":2");
        for (text, reason) in [("{}", "format"), ("not JSON", "expected"), (&newer, "version is 2")] {
            fs::write(&path, text).unwrap();
            let error = Results::load(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn two_measurements_of_a_kind_add_up_and_keep_the_worst_time() {
        let mut sum = results(&[1_000], 100);
        sum.merge(results(&[3_000, 2_000], 900)).unwrap();
        assert_eq!(sum.raw().count(), 3);
        let worst = sum.worst().unwrap();
        assert_eq!((worst.latency_ns, worst.at_unix_ns), (3_000, 1_000_905));
        let other = Results { rate_hz: 1_000, ..results(&[1], 0) };
        assert!(matches!(sum.merge(other), Err(Error::Unlike("the rate"))));
    }

    #[test]
    fn an_earlier_measurement_adds_its_own_worst_time() {
        for (ours, theirs, worst) in [(1_000, 3_000, (3_000, 5)), (3_000, 1_000, (3_000, 805))] {
            let mut sum = results(&[ours], 900);
            sum.merge(results(&[theirs], 100)).unwrap();
            let found = sum.worst().unwrap();
            assert_eq!((found.latency_ns, found.at_ns), worst);
            assert_eq!(found.at_unix_ns, 1_000_100 + found.at_ns, "the sum began with the earlier one");
        }
        let mut sum = results(&[1_000], 900);
        // The machine was started again: its clock counts from 0 once more.
        sum.merge(Results {
            began_ns: 7_000,
            threads: results(&[3_000], 7_000).threads,
            ..results(&[], 100)
        })
        .unwrap();
        assert_eq!(sum.worst().unwrap().at_unix_ns, 1_000_105);
    }

    #[test]
    fn a_sum_has_a_threshold_if_all_its_parts_have_it() {
        let with = |threshold_ns| Results { threshold_ns, ..results(&[1_000], 100) };
        for (one, two, sum) in [
            (Some(500), Some(500), Some(500)),
            (Some(500), Some(700), None),
            (Some(500), None, None),
            (None, Some(500), None),
        ] {
            let mut added = with(one);
            added.merge(with(two)).unwrap();
            assert_eq!(added.threshold_ns, sum, "{one:?} and {two:?}");
        }
    }

    #[test]
    fn nothing_has_no_worst() {
        assert_eq!(results(&[], 0).worst(), None);
    }
}
