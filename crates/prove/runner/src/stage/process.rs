//! The child processes of a task: forks of the task, and programs that run from their start to their end.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use spry_sys::settle::{Setting, settle};
use spry_sys::{Signal, outlive, process, signal};

use super::Stage;
use crate::RunError;

/// A forked process of a task.
#[derive(Debug)]
pub(crate) struct Process {
    tgid: u32,
}

/// Whether a child has ended, and the manner of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildEnd {
    NotYet,
    Code(i32),
    Signal(i32),
    NoSuchChild,
}

impl ChildEnd {
    fn of(waited: io::Result<Option<ExitStatus>>) -> Self {
        match waited {
            Ok(None) => Self::NotYet,
            Ok(Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => Self::Code(code),
                (None, signal) => Self::Signal(signal.unwrap_or(0)),
            },
            Err(_) => Self::NoSuchChild,
        }
    }
}

/// Makes the kernel kill the calling process when its parent ends.
pub(crate) const DIES_WITH_PARENT: Setting = Setting::EndsWithParent(Signal::KILL);

/// The destination of a program's error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaints {
    /// They go to the runner's standard error.
    Shown,
    /// They are dropped.
    Dropped,
}

impl Stage {
    /// Forks the calling process, which must have one thread only. The new process has the class and the CPUs
    /// of the caller; it does `part` and ends.
    pub(crate) fn fork(&self, part: impl FnOnce()) -> io::Result<Process> {
        let part = || {
            part();
            0
        };
        // SAFETY: the caller ensures that there is one thread only, so no other thread holds a lock. This is
        // not asked of the kernel, because forks are measured.
        let tgid = unsafe { outlive::fork(part) }?;
        Ok(Process { tgid })
    }

    /// Makes the kernel kill the calling process when its parent ends.
    pub(crate) fn die_with_parent(&self) {
        // The kernel accepts this signal, so the call does not fail.
        let _ = DIES_WITH_PARENT.apply();
    }

    /// Runs a program in the scratch directory, as [`Self::run_program_in`] does.
    pub(crate) fn run_program(
        &self,
        program: &str,
        arguments: &[String],
        complaints: Complaints,
    ) -> Result<ChildEnd, RunError> {
        self.run_program_in(self.scratch(), program, arguments, complaints)
    }

    /// Runs a program in a directory from its start to its end, without input, and drops its output. The
    /// program is killed when the run is over, or when the calling thread ends. Returns how the program
    /// ended; fails if it cannot be started.
    pub(crate) fn run_program_in(
        &self,
        directory: &Path,
        program: &str,
        arguments: &[String],
        complaints: Complaints,
    ) -> Result<ChildEnd, RunError> {
        let mut command = Command::new(program);
        if let Some(display) = self.display() {
            command.env("DISPLAY", display);
        }
        settle(&mut command, [DIES_WITH_PARENT]);
        command.args(arguments).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
        if complaints == Complaints::Dropped {
            command.stderr(Stdio::null());
        }
        let child = command.spawn().map_err(|error| RunError::Failed(format!("{program}: {error}")))?;
        Ok(self.wait(child.id()))
    }

    /// Waits until a child process ends. Ends the child when the run is over.
    fn wait(&self, tgid: u32) -> ChildEnd {
        loop {
            match ChildEnd::of(process::wait_once(tgid)) {
                ChildEnd::NotYet if self.over() => kill(tgid),
                ChildEnd::NotYet => {}
                ended => return ended,
            }
        }
    }
}

impl Process {
    /// Waits until the process ends.
    pub(crate) fn wait(self) {
        // If there is no such child, it has ended already.
        let _ = process::wait(self.tgid);
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(process::try_wait(self.tgid), Ok(None))
    }

    /// Kills the process and waits until it has ended.
    pub(crate) fn end(self) {
        kill(self.tgid);
        self.wait();
    }
}

/// Kills a process, unless it has exited.
pub(crate) fn kill(tgid: u32) {
    let _ = signal::send(tgid, Signal::KILL);
}
