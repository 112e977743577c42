//! The stage on which a task plays: the common start, the measured time, the end, and the task's access to
//! the machine. A task reaches time, sleep, work, threads, processes and files through its stage alone.

mod files;
mod objects;
mod pipe;
mod process;
mod program;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use spry_scenario::chance::{self, Rng};
use spry_scenario::model::Class;
use spry_sys::alarm::AlarmClock;
use spry_sys::attributes::Attributes;
use spry_sys::cpus::Cpus;
use spry_sys::{clock, futex, measured, process as kernel};

use crate::RunError;
use crate::control::{ABORT, Control, WAITING};
use crate::groups::Base;
use crate::work::Work;

pub(crate) use self::files::File;
pub(crate) use self::objects::Object;
pub(crate) use self::pipe::{Reader, Writer};
pub(crate) use self::process::{ChildEnd, Complaints, DIES_WITH_PARENT, Process, kill};
pub(crate) use spry_sys::clock::Woke;

/// The real-time priority of observers. It is above the priorities that a scenario gives its tasks, and below
/// the highest threads of the kernel itself.
const OBSERVER_PRIORITY: u32 = 90;

/// The run as an instance of a task sees it.
#[derive(Clone)]
pub(crate) struct Stage {
    inner: Arc<Inner>,
    /// The time from the start of the run to the start of this instance, ns.
    shift_ns: u64,
}

pub(crate) struct Inner {
    pub control: &'static Control,
    pub work: Work,
    pub seed: u64,
    pub task: String,
    pub instance: u32,
    pub class: Option<Class>,
    pub affinity: Vec<u32>,
    pub group: Option<String>,
    pub groups: Option<Base>,
    pub start_ns: u64,
    pub warmup_ns: u64,
    pub duration_ns: u64,
    pub scratch: PathBuf,
    pub display: Option<String>,
    pub keyboard: Option<Arc<OwnedFd>>,
}

/// The moments of a run, ns of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The start of this task.
    pub t0_ns: u64,
    /// The beginning of the measured time: the same moment for all tasks.
    pub measure_from_ns: u64,
    /// The end of the measured time and of the run.
    pub measure_to_ns: u64,
}

impl Start {
    /// Whether a moment is within the measured time.
    pub(crate) fn counts(&self, ns: u64) -> bool {
        (self.measure_from_ns..self.measure_to_ns).contains(&ns)
    }

    /// How many frames are due within the measured time. A frame is due every period from the task's start.
    pub(crate) fn frames_due(&self, period_ns: u64) -> u64 {
        // Frame k is due at t0 + k periods; the frames due before a time are the whole periods up to it,
        // rounded up.
        let before = |ns: u64| ns.saturating_sub(self.t0_ns).div_ceil(period_ns);
        before(self.measure_to_ns) - before(self.measure_from_ns)
    }
}

/// A thread that a task started.
pub(crate) struct Thread<T>(JoinHandle<T>);

impl<T> Thread<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// If the thread panicked.
    pub(crate) fn join(self) -> Result<T, RunError> {
        self.0.join().map_err(|_| RunError::Failed("a thread of a task panicked".into()))
    }
}

impl Stage {
    pub(crate) fn new(inner: Inner) -> Self {
        let shift_ns = chance::shift_ns(inner.seed, &inner.task, inner.instance);
        Self { shift_ns: shift_ns + inner.start_ns, inner: Arc::new(inner) }
    }

    fn control(&self) -> &'static Control {
        self.inner.control
    }

    /// The task's name.
    pub(crate) fn task_name(&self) -> &str {
        &self.inner.task
    }

    /// The number of this instance among the task's instances, from 0.
    pub(crate) fn instance(&self) -> u32 {
        self.inner.instance
    }

    /// The name of the X display; `None` if the scenario has none.
    pub(crate) fn display(&self) -> Option<&str> {
        self.inner.display.as_deref()
    }

    /// The kernel's keyboard that the X server reads; `None` if it reads none. The task writes keys to it.
    pub(crate) fn keyboard(&self) -> Option<BorrowedFd<'_>> {
        self.inner.keyboard.as_deref().map(AsFd::as_fd)
    }

    /// A directory of this run, which is removed at the end of the run. All instances share it.
    pub(crate) fn scratch(&self) -> &Path {
        &self.inner.scratch
    }

    /// The length of the measured time, ns.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.inner.duration_ns
    }

    /// How long the run lasts, warm-up and measured time together, ns.
    pub(crate) fn length_ns(&self) -> u64 {
        self.inner.warmup_ns.saturating_add(self.inner.duration_ns)
    }

    /// A stream of pseudo-random numbers. It is the same for the same seed, task and instance.
    pub(crate) fn rng(&self) -> Rng {
        Rng::new(self.inner.seed, &self.inner.task, self.inner.instance)
    }

    /// Waits until all threads of all tasks are ready, and then until the task's own start. Each thread
    /// of the task calls this once, when it has what it needs. It also gives the thread the task's
    /// class and CPUs.
    ///
    /// # Errors
    /// If the machine refuses the class or the CPUs, or if the run was given up.
    pub(crate) fn start_line(&self) -> Result<Start, RunError> {
        let control = self.inner.control;
        self.settle()?;
        self.enlist();
        control.ready.fetch_add(1, Ordering::SeqCst);
        futex::wake(control.ready, 1);
        while control.go.load(Ordering::SeqCst) == WAITING {
            futex::wait(control.go, WAITING, None);
        }
        if control.go.load(Ordering::SeqCst) == ABORT {
            return Err(RunError::GivenUp);
        }
        let start = self.start();
        self.sleep_through(start.t0_ns);
        Ok(start)
    }

    /// The moments of the run. They are set once the run has begun.
    pub(crate) fn start(&self) -> Start {
        let inner = &self.inner;
        let t0_ns = inner.control.t0_ns.load(Ordering::SeqCst);
        let measure_from_ns = t0_ns + inner.warmup_ns;
        Start {
            t0_ns: t0_ns + self.shift_ns,
            measure_from_ns,
            measure_to_ns: measure_from_ns + inner.duration_ns,
        }
    }

    /// Gives the calling thread the task's class and CPUs.
    fn settle(&self) -> Result<(), RunError> {
        let inner = &self.inner;
        if let Some(group) = &inner.group {
            self.join_group(group)?;
        }
        if !inner.affinity.is_empty() {
            self.take_cpus(&inner.affinity)?;
        }
        inner.class.map_or(Ok(()), |class| self.become_class(class))
    }

    /// Lets the calling thread run on these CPUs only.
    pub(crate) fn take_cpus(&self, cpus: &[u32]) -> Result<(), RunError> {
        Cpus::of(cpus.iter().copied())
            .and_then(|cpus| cpus.hold(0))
            .map_err(|error| RunError::Failed(format!("task {}: CPUs {cpus:?}: {error}", self.inner.task)))
    }

    /// Puts the calling thread into a class.
    pub(crate) fn become_class(&self, class: Class) -> Result<(), RunError> {
        become_class(class).map_err(|text| RunError::Failed(format!("task {}: {text}", self.inner.task)))
    }

    /// Notes the calling thread, so that the end of the run interrupts it. The start line does this too.
    pub(crate) fn enlist(&self) {
        self.inner.control.register_thread(kernel::tid());
    }

    /// Gives the calling thread another name, by which the kernel shows it.
    pub(crate) fn rename(&self, name: &str) {
        set_name(name);
    }

    /// Moves the calling thread into a task group.
    pub(crate) fn join_group(&self, name: &str) -> Result<(), RunError> {
        self.inner.groups.as_ref().map_or(Ok(()), |base| base.join(name))
    }

    /// Starts a thread of the task. The kernel shows the thread by this name.
    ///
    /// # Errors
    /// If the system cannot make another thread.
    pub(crate) fn spawn<T, F>(&self, name: &str, body: F) -> Result<Thread<T>, RunError>
    where
        T: Send + 'static,
        F: FnOnce(&Stage) -> T + Send + 'static,
    {
        let stage = self.clone();
        // If memory is locked, each stack takes its whole size at once. Therefore the stack is small.
        let builder = thread::Builder::new().name(name.chars().take(15).collect()).stack_size(256 << 10);
        let thread = builder.spawn(move || body(&stage));
        thread.map(Thread).map_err(|error| RunError::Failed(format!("no thread: {error}")))
    }

    /// The time of the monotonic clock, ns.
    pub(crate) fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    /// The CPU time that the calling thread has used, ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns()
    }

    /// Whether the run is over or was stopped.
    pub(crate) fn over(&self) -> bool {
        self.inner.control.over()
    }

    /// The moment this long from now, ns of the monotonic clock.
    pub(crate) fn after(&self, time: Duration) -> u64 {
        self.now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
    }

    /// Sleeps until a time of the monotonic clock, or until a signal comes.
    pub(crate) fn sleep_until(&self, ns: u64) -> Woke {
        clock::sleep_once_until(ns)
    }

    /// Sleeps until a time of the monotonic clock, even if signals come, or until the run is over.
    pub(crate) fn sleep_through(&self, ns: u64) {
        while !self.over() && self.sleep_until(ns) == Woke::Interrupted {}
    }

    /// Sleeps for this long, even if signals come.
    pub(crate) fn pause(&self, time: Duration) {
        thread::sleep(time);
    }

    /// Gives the CPU to other threads that are ready to run.
    pub(crate) fn give_way(&self) {
        measured::give_way();
    }

    /// Sleeps while the word has this value, until another thread wakes this one or a signal comes.
    pub(crate) fn wait_on(&self, word: &AtomicU32, value: u32) {
        futex::wait(word, value, None);
    }

    /// Wakes one thread that waits on the word.
    pub(crate) fn wake_one(&self, word: &AtomicU32) {
        futex::wake(word, 1);
    }

    /// Makes an alarm clock for the calling process, with the times between its alarms, ns. The process must
    /// have one thread only, and can have one such clock only.
    ///
    /// # Errors
    /// If the process has such a clock, or the system has no timer for it.
    pub(crate) fn alarm_clock(&self, intervals_ns: Vec<u64>) -> Result<AlarmClock, RunError> {
        AlarmClock::new(intervals_ns).map_err(|error| {
            RunError::Failed(match error.kind() {
                io::ErrorKind::ResourceBusy => "tasks with alarms need a process each".into(),
                _ => format!("no timer: {error}"),
            })
        })
    }

    /// Gives the calling thread a priority above all tasks, so that it observes their actions without delay.
    ///
    /// # Errors
    /// If this is not allowed.
    pub(crate) fn observe(&self) -> io::Result<()> {
        Attributes::fifo(OBSERVER_PRIORITY).give(0)
    }

    /// Uses this much CPU time, or less if the run ends before.
    pub(crate) fn work(&self, ns: u64) {
        self.inner.work.run(ns, self.inner.control.stop);
    }
}

/// Puts the calling thread into a class. The error describes what the user can do.
pub(crate) fn become_class(class: Class) -> Result<(), String> {
    attributes(class).give(0).map_err(|error| {
        let help = match (error.kind(), class) {
            (io::ErrorKind::PermissionDenied, Class::Deadline { .. }) => {
                ": it needs root, and all CPUs of the machine (cpus = \"all\") unless the machine has one"
            }
            (io::ErrorKind::PermissionDenied, _) => ": it needs root or CAP_SYS_NICE",
            (io::ErrorKind::ResourceBusy, _) => ": the reservations do not fit onto the CPUs",
            _ => "",
        };
        format!("{class} is refused: {error}{help}")
    })
}

/// A class in the form of the kernel's attributes.
fn attributes(class: Class) -> Attributes {
    match class {
        Class::Other { nice, slice_ns } => Attributes::other(nice, slice_ns),
        Class::Batch { nice } => Attributes::batch(nice),
        Class::Idle => Attributes::idle(),
        Class::Fifo(priority) => Attributes::fifo(priority),
        Class::RoundRobin(priority) => Attributes::round_robin(priority),
        Class::Deadline { budget_ns, deadline_ns, period_ns } => {
            Attributes::deadline(budget_ns, deadline_ns, period_ns)
        }
    }
}

/// Names the calling thread; the kernel keeps 15 bytes.
pub(crate) fn set_name(name: &str) {
    if let Ok(name) = CString::new(name) {
        kernel::set_name(&name);
    }
}

/// The longest wait of the runner for an event before it checks its condition again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);
