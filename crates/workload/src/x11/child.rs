//! Programs started beside the runner: in a process group of their own, what they say kept, ended by id.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::X11Error;

/// How much of a program's output is repeated in an error, in bytes.
const SAID_MAX: u64 = 600;
/// How long a program may take to end by itself, in steps of 10 ms.
const PATIENCE_STEPS: u32 = 200;
/// The kernel's usual timer slack in nanoseconds: a measuring parent may have set another, which is inherited.
const USUAL_SLACK_NS: libc::c_ulong = 50_000;

/// A running program. Dropping it ends it and everything that stayed in its process group.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Program {
    /// Starts a program; its output goes to `log`, except what `command` already sends elsewhere as `stdout`.
    /// The program gets a signal when the thread that called this ends, so call it from one that stays.
    ///
    /// # Errors
    /// [`X11Error::Missing`] naming `package` if there is no such program, else why it did not start.
    pub fn start(
        mut command: Command,
        output: Output,
        log: PathBuf,
        package: &str,
    ) -> Result<Self, X11Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = |error| X11Error::File { path: log.clone(), source: error };
        let said = File::create(&log).map_err(file)?;
        // A group, not a session: where the kernel schedules sessions as groups (autogroup), a session of its own would give
        // the program another share of the CPU than the tasks beside it have.
        command.process_group(0).stdin(Stdio::null()).stderr(said.try_clone().map_err(file)?);
        match output {
            Output::Log => command.stdout(said),
            Output::Pipe => command.stdout(Stdio::piped()),
        };
        // SAFETY: the closure makes only system calls that may be made between fork and exec.
        unsafe { command.pre_exec(ordinary) };
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

    /// Its process (`tgid`).
    #[must_use]
    pub fn tgid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its standard output, once, if that is a pipe.
    pub fn take_stdout(&mut self) -> Option<impl Read + std::os::fd::AsFd + use<>> {
        self.child.stdout.take()
    }

    /// The end of what it said, in one line.
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

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`X11Error::Ended`] with its status and what it said, if not.
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

    /// Asks it to end, and makes it end after 2 s.
    pub fn end(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.signal(libc::SIGTERM);
        for _ in 0..PATIENCE_STEPS {
            if self.check().is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // The leader is gone or hangs; others of its group may have stayed.
        self.signal(libc::SIGKILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }

    fn signal(&self, signal: libc::c_int) {
        let Ok(group) = libc::pid_t::try_from(self.child.id()) else { return };
        // SAFETY: kill takes no pointers. The group is this child's own: it leads the group that we made, and
        // its number is not given to others as long as the group has members.
        unsafe { libc::kill(-group, signal) };
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where a program's standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To its log.
    Log,
    /// To whoever started it.
    Pipe,
}

/// What the child does before it becomes the program: it ends with its parent and has the usual timer slack.
fn ordinary() -> io::Result<()> {
    // SAFETY: neither call takes a pointer.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, USUAL_SLACK_NS);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
