//! Sampling threads: their start, the loop that each thread runs, and their end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use spry_sys::{clock, process, schedule, signal};

use crate::cpus::{self, Placement};
use crate::error::{Error, Result};
use crate::live::{Split, Tally};
use crate::prepare::{self, HeldSettings, Lack};
use crate::results::SampledThread;
use crate::source::{Alarm, Rtc, Sleep, Source, Timer};
use crate::split::{Parts, SampleWatch};

/// The discarded beginning of a measurement: in this time caches, branch predictors and the kernel's own
/// tables get warm.
pub const WARM_UP: Duration = Duration::from_secs(1);
/// A short measurement discards its length divided by this instead.
const WARM_UP_PART: u32 = 10;
/// The time from when all threads are ready to the first wake-up, ns.
const LEAD_NS: u64 = 5_000_000;
/// A sampling thread's stack, which is locked: it needs little.
const STACK_BYTES: usize = 128 << 10;

/// The allowed rates, Hz.
pub const RATES_HZ: std::ops::RangeInclusive<u32> = 1..=100_000;
/// The article's rate, Hz.
pub const RATE_DEFAULT_HZ: u32 = 2048;
/// The real-time priority if none is given: above the 50 that interrupt threads have by default.
pub const PRIORITY_DEFAULT: u8 = 80;

/// When a measurement ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The measurement never ends by itself.
    Forever,
    /// The measurement ends after this time, missed periods included.
    Duration(Duration),
    /// The measurement ends when all threads together have taken this many samples.
    Samples(u64),
}

/// Makes a thread's [`SampleWatch`], on that thread. The arguments are the thread's id and its CPU, if it
/// is bound to one.
pub type Watcher = Arc<dyn Fn(u32, Option<u32>) -> Option<Box<dyn SampleWatch>> + Send + Sync>;

/// The settings of a measurement.
#[derive(Clone)]
pub struct Config {
    /// The source of the threads' wake-ups.
    pub source: Source,
    /// The rate of each thread's wake-ups, Hz, in [`RATES_HZ`].
    pub rate_hz: u32,
    /// The sampling threads and their CPUs.
    pub placement: Placement,
    /// SCHED_FIFO priority, 1 to 99; 0 is the ordinary class.
    pub priority: u8,
    /// When the measurement ends.
    pub limit: Limit,
    /// Makes the object that splits a thread's samples into their parts; `None` if samples are not split.
    pub watcher: Option<Watcher>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("source", &self.source)
            .field("rate_hz", &self.rate_hz)
            .field("placement", &self.placement)
            .field("priority", &self.priority)
            .field("limit", &self.limit)
            .field("watcher", &self.watcher.is_some())
            .finish()
    }
}

impl Config {
    /// The time between two samples of a thread, ns.
    pub fn period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.rate_hz)
    }

    /// The number of a thread's first samples that are discarded.
    fn warm_up(&self, threads: usize) -> u64 {
        let most = WARM_UP.as_secs() * u64::from(self.rate_hz);
        let whole = match self.limit {
            Limit::Forever => u64::MAX,
            Limit::Duration(duration) => self.periods(duration),
            Limit::Samples(samples) => samples / threads as u64,
        };
        most.min(whole / u64::from(WARM_UP_PART)).max(1)
    }

    fn periods(&self, duration: Duration) -> u64 {
        let periods = duration.as_nanos() * u128::from(self.rate_hz) / 1_000_000_000;
        u64::try_from(periods).unwrap_or(u64::MAX).max(1)
    }

    /// The number of samples or periods that the `nth` of all `threads` may take.
    fn share(&self, nth: usize, threads: usize) -> Share {
        match self.limit {
            Limit::Forever => Share::Samples(u64::MAX),
            Limit::Duration(duration) => Share::Periods(self.periods(duration)),
            Limit::Samples(samples) => {
                let (threads, nth) = (threads as u64, nth as u64);
                Share::Samples(samples / threads + u64::from(nth < samples % threads))
            }
        }
    }

    fn check(&self) -> Result<()> {
        if !RATES_HZ.contains(&self.rate_hz) {
            return Err(Error::Config("the rate is 1 to 100000 Hz"));
        }
        if self.priority > 99 {
            return Err(Error::Config("real-time priorities are 1 to 99, and 0 is none"));
        }
        if self.source == Source::Rtc
            && !(self.rate_hz.is_power_of_two() && (2..=8192).contains(&self.rate_hz))
        {
            let error = std::io::Error::from(rustix::io::Errno::INVAL);
            return Err(Error::RtcRate { rate_hz: self.rate_hz, error });
        }
        Ok(())
    }
}

/// The number of samples or periods that a thread may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Share {
    Samples(u64),
    /// Periods, whether a sample was taken in them or missed.
    Periods(u64),
}

/// A sampling thread, as other threads see it.
struct Sampler {
    cpu: Option<u32>,
    tally: Arc<Tally>,
    handle: JoinHandle<Result<()>>,
}

/// A running measurement.
pub struct Sampling {
    samplers: Vec<Sampler>,
    stop: Arc<AtomicBool>,
    lacks: Vec<Lack>,
    began_ns: u64,
    began_unix_ns: u64,
    held: HeldSettings,
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling")
            .field("threads", &self.samplers.len())
            .field("lacks", &self.lacks)
            .finish_non_exhaustive()
    }
}

/// The progress of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The time since the end of the warm-up; 0 during the warm-up.
    pub elapsed: Duration,
    /// Samples of all threads.
    pub samples: u64,
    /// Periods that threads missed, because they ran too late.
    pub missed: u64,
    /// The longest latency, ns.
    pub max_ns: u64,
}

impl Sampling {
    /// Starts the threads; returns when all are ready.
    ///
    /// # Errors
    /// Where a thread cannot run as requested: [`Error::NotRealTime`] and others name the rights to grant.
    pub fn start(config: &Config) -> Result<Sampling> {
        config.check()?;
        if config.source == Source::Rtc && !Rtc::is_there() {
            Rtc::open(config.rate_hz, config.period_ns())?;
        }
        let cpus = cpus::threads(&config.placement, config.source)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, readies) = channel();
        let mut starts = Vec::new();
        let mut samplers = Vec::new();
        for (nth, &cpu) in cpus.iter().enumerate() {
            let split = if config.watcher.is_some() { Split::Parts } else { Split::Whole };
            let tally = Arc::new(Tally::new(split));
            let (start, at) = channel();
            let body = Body {
                config: config.clone(),
                cpu,
                warm_up: config.warm_up(cpus.len()),
                share: config.share(nth, cpus.len()),
                tally: Arc::clone(&tally),
                stop: Arc::clone(&stop),
                ready: ready.clone(),
                start: at,
            };
            let builder = thread::Builder::new().stack_size(STACK_BYTES).name(name(cpu));
            let handle = builder
                .spawn(move || body.run())
                .map_err(|error| Error::System { what: "start a thread", error })?;
            starts.push(start);
            samplers.push(Sampler { cpu, tally, handle });
        }
        drop(ready);
        // If one thread fails, the other threads find that they will not be started, and end.
        readies.iter().take(samplers.len()).collect::<Result<Vec<()>>>()?;
        let (held, lacks) = HeldSettings::take(config.priority);
        let first_ns = clock::monotonic_ns() + LEAD_NS;
        for start in &starts {
            // If a thread has ended already, [`Sampling::finish`] returns its error.
            let _ = start.send(first_ns);
        }
        let warm_up_ns = config.warm_up(cpus.len()) * config.period_ns();
        let began_ns = first_ns + warm_up_ns;
        let began_unix_ns = clock::unix_ns().wrapping_add(began_ns).wrapping_sub(clock::monotonic_ns());
        Ok(Sampling { samplers, stop, lacks, began_ns, began_unix_ns, held })
    }

    /// The needs that the machine does not meet.
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// The due time of the measurement's first sample that counts, ns of the monotonic clock.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// The due time of the measurement's first sample that counts, wall-clock time since the UNIX epoch, ns.
    pub fn began_unix_ns(&self) -> u64 {
        self.began_unix_ns
    }

    /// The progress of the measurement.
    pub fn progress(&self) -> Progress {
        let tallies = || self.samplers.iter().map(|sampler| &sampler.tally).filter(|tally| tally.has_begun());
        Progress {
            elapsed: Duration::from_nanos(self.latest_ns().saturating_sub(self.began_ns)),
            samples: tallies().map(|tally| tally.samples()).sum(),
            missed: tallies().map(|tally| tally.missed()).sum(),
            max_ns: tallies().map(|tally| tally.max_ns()).max().unwrap_or(0),
        }
    }

    /// The end of the last thread, if all threads have ended; otherwise the present time; ns.
    fn latest_ns(&self) -> u64 {
        let ends = self.samplers.iter().map(|sampler| sampler.tally.ended_ns());
        ends.collect::<Option<Vec<u64>>>()
            .and_then(|ends| ends.into_iter().max())
            .unwrap_or_else(clock::monotonic_ns)
    }

    /// The longest latency since the last call, ns.
    pub fn take_recent_max_ns(&self) -> u64 {
        let begun = self.samplers.iter().map(|sampler| &sampler.tally).filter(|tally| tally.has_begun());
        begun.map(|tally| tally.take_recent_max_ns()).max().unwrap_or(0)
    }

    /// Whether all threads have ended.
    pub fn is_over(&self) -> bool {
        self.samplers.iter().all(|sampler| sampler.handle.is_finished())
    }

    /// The results of each thread so far. A sample that is just being counted may be in one counter and not
    /// yet in another.
    pub fn so_far(&self) -> Vec<SampledThread> {
        self.samplers.iter().map(|sampler| told(sampler.cpu, &sampler.tally)).collect()
    }

    /// Makes the threads end; each ends at its next wake-up, which is within a period.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Waits for the threads and returns their results.
    ///
    /// # Errors
    /// Where a thread could not go on.
    pub fn finish(self) -> Result<Vec<SampledThread>> {
        let mut threads = Vec::new();
        let mut failed = None;
        for sampler in self.samplers {
            match sampler.handle.join() {
                Ok(Ok(())) => threads.push(told(sampler.cpu, &sampler.tally)),
                Ok(Err(error)) => failed = Some(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(self.held);
        failed.map_or(Ok(threads), Err)
    }
}

fn name(cpu: Option<u32>) -> String {
    cpu.map_or_else(|| "spry-latency".to_owned(), |cpu| format!("spry-latency/{cpu}"))
}

fn told(cpu: Option<u32>, tally: &Tally) -> SampledThread {
    if !tally.has_begun() {
        return SampledThread::new(cpu);
    }
    let (latency, omitted) = (tally.latency(), tally.omitted());
    SampledThread { cpu, latency, omitted, max_at_ns: tally.max_at_ns(), parts: tally.parts() }
}

/// The state that a sampling thread owns.
struct Body {
    config: Config,
    cpu: Option<u32>,
    warm_up: u64,
    share: Share,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    ready: Sender<Result<()>>,
    start: Receiver<u64>,
}

impl Body {
    fn run(self) -> Result<()> {
        let period_ns = self.config.period_ns();
        match self.config.source {
            Source::Nanosleep => self.run_with(|| Ok(Sleep { period_ns, due_ns: 0 })),
            Source::Timerfd => self.run_with(|| Ok(Timer::new(period_ns))),
            Source::Rtc => {
                let rate_hz = self.config.rate_hz;
                self.run_with(|| Rtc::open(rate_hz, period_ns))
            }
        }
    }

    fn run_with<A: Alarm>(self, open: impl FnOnce() -> Result<A>) -> Result<()> {
        let ready = self.prepare().and_then(|watch| Ok((watch, open()?)));
        let (mut watch, mut alarm) = match ready {
            Ok(both) => both,
            Err(error) => {
                // The thread that started this one waits for the answer, or has ended.
                let _ = self.ready.send(Err(error));
                return Ok(());
            }
        };
        let _ = self.ready.send(Ok(()));
        // This thread will not be started if another thread failed.
        let Ok(first_ns) = self.start.recv() else { return Ok(()) };
        alarm.start(first_ns)?;
        self.sample(&mut alarm, &mut watch, Share::Periods(self.warm_up))?;
        self.tally.begin();
        let period_ns = self.config.period_ns();
        let planned_ns = first_ns + self.warm_up * period_ns;
        let behind = (clock::monotonic_ns() + period_ns / 2).saturating_sub(planned_ns).div_ceil(period_ns);
        alarm.start(planned_ns + behind * period_ns)?;
        let done = self.sample(&mut alarm, &mut watch, self.share);
        self.tally.end(clock::monotonic_ns());
        done
    }

    fn prepare(&self) -> Result<Option<Box<dyn SampleWatch>>> {
        signal::block_all();
        if let Some(cpu) = self.cpu {
            spry_sys::cpus::set_cpu(cpu).map_err(|error| Error::Cpu {
                cpu,
                allowed: cpus::list(&spry_sys::cpus::allowed_cpus()),
                error,
            })?;
        }
        clock::set_no_timer_slack();
        prepare::touch_stack();
        let watch = self.config.watcher.as_ref().and_then(|watcher| watcher(process::tid(), self.cpu));
        if self.config.priority > 0 {
            schedule::set_fifo(self.config.priority)
                .map_err(|error| prepare::refused(self.config.priority, error))?;
        }
        Ok(watch)
    }

    /// The loop: one system call a sample, no allocation, no lock.
    #[inline(never)]
    fn sample<A: Alarm>(
        &self,
        alarm: &mut A,
        watch: &mut Option<Box<dyn SampleWatch>>,
        share: Share,
    ) -> Result<()> {
        let (tally, stop, period_ns) = (&*self.tally, &*self.stop, self.config.period_ns());
        let (Share::Samples(mut left) | Share::Periods(mut left)) = share;
        while left > 0 && !stop.load(Relaxed) {
            if let Some(watch) = watch {
                watch.expect(alarm.due_ns());
            }
            let wake =
                alarm.wait().map_err(|error| Error::System { what: "wait for the next sample", error })?;
            let latency_ns = wake.woken_ns.saturating_sub(wake.due_ns);
            if let Some(watch) = watch {
                let sight = watch.sight(wake.due_ns).unwrap_or_default();
                tally.record_parts(&Parts::of(wake.due_ns, sight, wake.woken_ns));
            }
            tally.record(latency_ns, wake.woken_ns);
            left -= 1;
            if wake.missed > 0 {
                tally.miss(latency_ns, period_ns, wake.missed);
                if let Share::Periods(_) = share {
                    left = left.saturating_sub(wake.missed);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(limit: Limit) -> Config {
        Config {
            source: Source::Nanosleep,
            rate_hz: 1_000,
            placement: Placement::Any,
            priority: 0,
            limit,
            watcher: None,
        }
    }

    #[test]
    fn samples_are_shared_out_without_one_too_many() {
        let config = config(Limit::Samples(10));
        let shares: Vec<_> = (0..3).map(|nth| config.share(nth, 3)).collect();
        assert_eq!(shares, [Share::Samples(4), Share::Samples(3), Share::Samples(3)]);
    }

    #[test]
    fn the_warm_up_is_a_second_or_a_tenth_of_what_is_shorter() {
        let warm_up = |limit| config(limit).warm_up(2);
        assert_eq!(warm_up(Limit::Forever), 1_000);
        assert_eq!(warm_up(Limit::Duration(Duration::from_secs(60))), 1_000);
        assert_eq!(warm_up(Limit::Duration(Duration::from_secs(2))), 200);
        assert_eq!(warm_up(Limit::Samples(100)), 5);
        assert_eq!(warm_up(Limit::Samples(2)), 1);
    }

    #[test]
    fn a_run_counts_the_samples_it_was_asked_for() {
        let sampling = Sampling::start(&config(Limit::Samples(50))).unwrap();
        let threads = sampling.finish().unwrap();
        let counted: u64 = threads.iter().map(|thread| thread.latency.count()).sum();
        assert_eq!(counted, 50);
    }

    #[test]
    fn a_duration_ends_on_time_whether_periods_were_missed_or_not() {
        let sampling = Sampling::start(&config(Limit::Duration(Duration::from_millis(100)))).unwrap();
        let threads = sampling.finish().unwrap();
        let counted: u64 = threads.iter().map(|thread| thread.latency.count() + thread.omitted.count()).sum();
        // Periods that the last sample missed may lie beyond the end.
        assert!(counted >= 100, "{counted}");
        let last = threads.iter().filter_map(|thread| thread.latency.max_ns()).max().unwrap() / 1_000_000;
        assert!(counted <= 100 + last, "{counted}, {last} ms at most");
    }

    #[test]
    fn a_stopped_run_ends_and_keeps_what_it_has() {
        let sampling = Sampling::start(&config(Limit::Forever)).unwrap();
        while sampling.progress().samples < 3 {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!sampling.is_over());
        sampling.stop();
        assert!(sampling.finish().unwrap()[0].latency.count() >= 3);
    }

    /// Sees every boundary a fixed time after the boundary before.
    struct Even;

    impl SampleWatch for Even {
        fn expect(&mut self, _due_ns: u64) {}

        fn sight(&mut self, due_ns: u64) -> Option<crate::split::Sight> {
            Some(crate::split::Sight {
                irq_enter_ns: Some(due_ns + 1),
                resched_ns: Some(due_ns + 2),
                ..Default::default()
            })
        }
    }

    #[test]
    fn a_watched_run_splits_every_sample() {
        let watcher: Watcher = Arc::new(|_, _| Some(Box::new(Even) as Box<dyn SampleWatch>));
        let config = Config { watcher: Some(watcher), ..config(Limit::Samples(30)) };
        let threads = Sampling::start(&config).unwrap().finish().unwrap();
        let parts = threads[0].parts.as_ref().unwrap();
        assert_eq!((parts.timer_ns.count(), parts.timer_ns.max_ns()), (30, Some(1)));
        assert_eq!((parts.scheduling_ns.count(), parts.unseen_ns.count()), (0, 30));
        let mean = |histogram: &crate::Histogram| histogram.mean_ns().unwrap();
        let whole = mean(&threads[0].latency);
        assert!((mean(&parts.unseen_ns) + 2.0 - whole).abs() < 1e-6, "the parts are the whole");
    }

    #[test]
    fn a_rate_that_no_real_time_clock_has_is_refused() {
        let config = Config { source: Source::Rtc, rate_hz: 1_000, ..config(Limit::Samples(1)) };
        assert!(matches!(config.check(), Err(Error::RtcRate { rate_hz: 1_000, .. })));
    }

    #[test]
    fn names_fit_into_what_the_kernel_keeps() {
        assert!([None, Some(0), Some(99)].into_iter().all(|cpu| name(cpu).len() <= 15));
    }
}
