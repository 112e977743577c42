//! Starts programs beside the runner. Each has a process group of its own, its output is kept, and it is
//! ended by its id.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use spry_sys::settle::{Setting, settle};
use spry_sys::{Signal, signal};

use super::X11Error;

/// The most bytes of a program's output that an error repeats.
const SAID_MAX: u64 = 600;
/// How long a program may take to end after the request to end, in steps of 10 ms.
const PATIENCE_STEPS: u32 = 200;
/// The kernel's usual timer slack in nanoseconds. A measuring parent may have another one, which its
/// children would inherit.
const USUAL_SLACK_NS: NonZeroU64 = NonZeroU64::new(50_000).expect("it is more than 0");

/// A running program. When this value is dropped, the program ends, and so does every process that stayed in
/// its process group.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Program {
    /// Starts a program; its output goes to `log`, except what `command` already sends elsewhere as `stdout`.
    /// The program gets a signal when the calling thread ends, so the caller must be a thread that stays.
    ///
    /// # Errors
    /// [`X11Error::Missing`] naming `package` if there is no such program; else the reason why the
    /// program did not start.
    pub fn start(
        mut command: Command,
        output: Output,
        log: PathBuf,
        package: &str,
    ) -> Result<Self, X11Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = |error| X11Error::File { path: log.clone(), source: error };
        let said = File::create(&log).map_err(file)?;
        // The program gets a process group, not a session. A kernel with autogroup schedules sessions as
        // groups: with a session of its own, the program would get another share of the CPU than the tasks
        // beside it.
        command.process_group(0).stdin(Stdio::null()).stderr(said.try_clone().map_err(file)?);
        match output {
            Output::Log => command.stdout(said),
            Output::Pipe => command.stdout(Stdio::piped()),
        };
        settle(&mut command, [Setting::TimerSlack(USUAL_SLACK_NS), Setting::EndsWithParent(Signal::TERM)]);
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => X11Error::Missing { program: name.clone(), package: package.into() },
            _ => X11Error::File { path: name.clone().into(), source: error },
        })?;
        Ok(Self { name, child, log, ended: None })
    }

    /// The command's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id of the program's process (`tgid`).
    #[must_use]
    pub fn tgid(&self) -> u32 {
        self.child.id()
    }

    /// The file to which the program's output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Takes the program's standard output, if that is a pipe that was not taken before.
    pub fn take_stdout(&mut self) -> Option<impl Read + std::os::fd::AsFd + use<>> {
        self.child.stdout.take()
    }

    /// The end of the program's output, in one line.
    #[must_use]
    pub fn said(&self) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SAID_MAX)))?;
            file.read_to_end(&mut bytes)
        });
        let text = String::from_utf8_lossy(&bytes);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match read {
            Ok(_) if line.is_empty() => "nothing".into(),
            Ok(_) => line,
            Err(error) => format!("(its output cannot be read: {error})"),
        }
    }

    /// Checks that the program still runs.
    ///
    /// # Errors
    /// [`X11Error::Ended`] with the program's exit status and the end of its output, if the
    /// program has ended.
    pub fn check(&mut self) -> Result<(), X11Error> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
        }
        match self.ended {
            None => Ok(()),
            Some(status) => Err(X11Error::Ended {
                program: self.name.clone(),
                status: status_text(status),
                said: self.said(),
            }),
        }
    }

    /// Asks the program to end, and kills it if it still runs after 2 s.
    pub fn end(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.signal(Signal::TERM);
        for _ in 0..PATIENCE_STEPS {
            if self.check().is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // The leader of the process group has ended or hangs. Other processes of the group may still run.
        self.signal(Signal::KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }

    fn signal(&self, signal: Signal) {
        // The group is this child's own: the child leads the group that we made. The kernel gives the group's
        // number to no other group as long as the group has members. If it has none, nothing is signalled.
        let _ = signal::send_group(self.child.id(), signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// The destination of a program's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The output goes to the program's log file.
    Log,
    /// The output goes to a pipe that the caller reads.
    Pipe,
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
