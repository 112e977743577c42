//! Where a task plays: the common start, the window that is measured, the end, and what it may use.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::RunError;
use super::control::{ABORT, Control, WAITING};
use super::groups::Base;
use super::rng::Rng;
use super::sys::{self, Ended, Woke};
use super::work::Work;
use crate::scenario::model::Class;

/// Tasks start within this time of each other, by chance of the seed, ns: a machine that repeats exactly would otherwise
/// show one phase of every tick and period alone.
const SHIFT_NS: u64 = 10_000_000;

/// What an instance of a task knows of the run.
#[derive(Clone)]
pub struct Stage {
    inner: Arc<Inner>,
    /// How much later than the run this instance starts, ns.
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
    pub keyboard: Option<RawFd>,
}

/// When what begins, in ns of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// This task's own start.
    pub t0_ns: u64,
    /// What counts begins: the same moment for all.
    pub measure_from_ns: u64,
    /// What counts ends, and with it the run.
    pub measure_to_ns: u64,
}

/// A thread that a task started.
pub struct Thread<T>(JoinHandle<T>);

impl<T> Thread<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// That it panicked.
    pub fn join(self) -> Result<T, RunError> {
        self.0.join().map_err(|_| RunError::Failed("a thread of a task panicked".into()))
    }
}

impl Stage {
    pub(crate) fn new(inner: Inner) -> Self {
        let shift_ns = Rng::new(inner.seed, &format!("{} start", inner.task), inner.instance).below(SHIFT_NS);
        Self { shift_ns: shift_ns + inner.start_ns, inner: Arc::new(inner) }
    }

    pub(crate) fn control(&self) -> &'static Control {
        self.inner.control
    }

    /// The task's name.
    pub fn task_name(&self) -> &str {
        &self.inner.task
    }

    /// Which of the task's instances this is, from 0.
    pub fn instance(&self) -> u32 {
        self.inner.instance
    }

    /// How CPU time becomes work.
    pub fn work_unit(&self) -> Work {
        self.inner.work
    }

    /// The name of the X display, where the scenario asked for one.
    pub fn display(&self) -> Option<&str> {
        self.inner.display.as_deref()
    }

    /// The kernel's keyboard that the X server reads, if it reads one: keys are written to it.
    pub fn keyboard(&self) -> Option<RawFd> {
        self.inner.keyboard
    }

    /// A directory of this run, removed at its end; instances share it.
    pub fn scratch(&self) -> &Path {
        &self.inner.scratch
    }

    /// How long is measured, ns.
    pub fn duration_ns(&self) -> u64 {
        self.inner.duration_ns
    }

    /// How long the run lasts, warm-up and measuring, ns.
    pub fn length_ns(&self) -> u64 {
        self.inner.warmup_ns.saturating_add(self.inner.duration_ns)
    }

    /// Numbers by chance, the same for the same seed, task and instance.
    pub fn rng(&self) -> Rng {
        Rng::new(self.inner.seed, &self.inner.task, self.inner.instance)
    }

    /// Waits until all threads of all tasks are ready, and for the task's own start. Each thread of the task calls it
    /// once, when what it needs is there: its class and CPUs are set here.
    ///
    /// # Errors
    /// That the machine refuses the class or the CPUs, or that the run was given up.
    pub fn start_line(&self) -> Result<Start, RunError> {
        let control = self.inner.control;
        self.settle()?;
        control.register_thread(sys::tid());
        control.ready.fetch_add(1, Ordering::SeqCst);
        sys::futex_wake(&control.ready, 1);
        while control.go.load(Ordering::SeqCst) == WAITING {
            sys::futex_wait(&control.go, WAITING, None);
        }
        if control.go.load(Ordering::SeqCst) == ABORT {
            return Err(RunError::GivenUp);
        }
        let start = self.start();
        while !self.over() && sys::sleep_until(start.t0_ns) == Woke::Interrupted {}
        Ok(start)
    }

    /// When what begins, once the run has begun.
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
    pub(crate) fn settle(&self) -> Result<(), RunError> {
        let inner = &self.inner;
        if let Some(group) = &inner.group {
            self.join_group(group)?;
        }
        if !inner.affinity.is_empty() {
            sys::set_affinity(&inner.affinity).map_err(|error| {
                RunError::Failed(format!("task {}: CPUs {:?}: {error}", inner.task, inner.affinity))
            })?;
        }
        if let Some(class) = inner.class {
            become_class(class).map_err(|text| RunError::Failed(format!("task {}: {text}", inner.task)))?;
        }
        Ok(())
    }

    /// Moves the calling thread into a task group.
    pub(crate) fn join_group(&self, name: &str) -> Result<(), RunError> {
        self.inner.groups.as_ref().map_or(Ok(()), |base| base.join(name))
    }

    /// Starts a thread of the task; its name is what the kernel shows.
    ///
    /// # Errors
    /// That the system has no more threads.
    pub fn spawn<T, F>(&self, name: &str, body: F) -> Result<Thread<T>, RunError>
    where
        T: Send + 'static,
        F: FnOnce(&Stage) -> T + Send + 'static,
    {
        let stage = self.clone();
        // Locked memory makes a stack take its whole size, so it is a small one.
        let builder = thread::Builder::new().name(name.chars().take(15).collect()).stack_size(256 << 10);
        let thread = builder.spawn(move || body(&stage));
        thread.map(Thread).map_err(|error| RunError::Failed(format!("no thread: {error}")))
    }

    /// Time of the monotonic clock, ns.
    pub fn now_ns(&self) -> u64 {
        sys::now_ns()
    }

    /// CPU time of the calling thread, ns.
    pub fn cpu_ns(&self) -> u64 {
        sys::thread_cpu_ns()
    }

    /// Whether the run is over or was stopped.
    pub fn over(&self) -> bool {
        self.inner.control.over()
    }

    /// Whether a time is within what counts.
    pub fn measuring(&self, ns: u64) -> bool {
        let start = self.start();
        (start.measure_from_ns..start.measure_to_ns).contains(&ns)
    }

    /// Sleeps until a time of the monotonic clock.
    pub fn sleep_until(&self, ns: u64) -> Woke {
        sys::sleep_until(ns)
    }

    /// Uses so much CPU time, less if the run ends meanwhile.
    pub fn work(&self, ns: u64) {
        self.inner.work.run(ns, &self.inner.control.stop);
    }

    /// Waits for a child's end; ends it when the run is over.
    pub(crate) fn wait(&self, tgid: i32) -> Ended {
        loop {
            match sys::wait(tgid) {
                Ended::NotYet if self.over() => sys::signal_process(tgid, libc::SIGKILL),
                Ended::NotYet => {}
                ended => return ended,
            }
        }
    }

    /// A command whose process dies with this one.
    pub fn command(&self, program: &str) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program);
        if let Some(display) = self.display() {
            command.env("DISPLAY", display);
        }
        // SAFETY: between fork and exec it makes one system call.
        unsafe {
            command.pre_exec(|| {
                sys::die_with_parent();
                Ok(())
            });
        }
        command
    }
}

/// Puts the calling thread into a class; what hinders it is said so that one can help it.
pub(crate) fn become_class(class: Class) -> Result<(), String> {
    sys::set_class(class).map_err(|error| {
        let help = match (error.raw_os_error(), class) {
            (Some(libc::EPERM), Class::Deadline { .. }) => {
                ": it needs root, and all CPUs of the machine (cpus = \"all\") unless the machine has one"
            }
            (Some(libc::EPERM), _) => ": it needs root or CAP_SYS_NICE",
            (Some(libc::EBUSY), _) => ": the reservations do not fit onto the CPUs",
            _ => "",
        };
        format!("{class} is refused: {error}{help}")
    })
}

/// How long the runner waits before it looks again, where nothing tells it.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);
