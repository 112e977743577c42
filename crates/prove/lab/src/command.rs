//! Runs programs of this machine. Their output is not shown, and they exit with this process at the latest.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use spry_runner::programs;
use spry_sys::settle::tie;
use spry_sys::{Signal, signal};

use crate::error::{LabError, tail};
use crate::progress::Stop;

/// The interval at which the lab checks a running program.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many lines of a failed program's standard error are shown.
const STDERR_LINES: usize = 12;

/// The programs that the lab starts, with the package that holds each.
const PACKAGES: [(&str, &str); 15] = [
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("gzip", "gzip"),
    ("mkfs.erofs", "erofs-utils"),
    ("chroot", "coreutils"),
    ("unshare", "util-linux"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("bc", "bc"),
    ("flex", "flex"),
    ("bison", "bison"),
];

/// The package that holds a program.
pub(crate) fn package_of(program: &str) -> &str {
    PACKAGES.iter().find(|(name, _)| *name == program).map_or(program, |(_, package)| package)
}

/// Starts a program. If the program is missing, the error names its package.
pub(crate) fn spawn(command: &mut Command) -> Result<RunningProgram, LabError> {
    let words = words(command);
    if !command.get_envs().any(|(name, _)| name == "PATH") {
        command.env("PATH", search_path());
    }
    match tie(command, Signal::KILL).spawn() {
        Ok(child) => Ok(RunningProgram { child, words }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let program = command.get_program().to_string_lossy().into_owned();
            let package = package_of(&program).to_owned();
            Err(LabError::Missing { program, package })
        }
        Err(error) => {
            Err(LabError::Tool { command: words, status: error.to_string(), stderr: String::new() })
        }
    }
}

/// A running program. When this value is dropped, the program and the processes in its process group are
/// killed, and the program is waited for.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    pub(crate) child: Child,
    words: String,
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // A child that was waited for has lost its process id, and another process may have it.
        if matches!(self.child.try_wait(), Ok(None)) {
            // `make` has started compilers, which would go on without it. An error means that all have ended.
            let _ = signal::send_group(self.child.id(), Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end. Returns the program's standard output.
pub(crate) fn run(command: &mut Command, stop: &Stop) -> Result<Vec<u8>, LabError> {
    run_watched(command, stop, &|| {})
}

/// Runs a program as [`run`] does, and calls `look` at regular times.
pub(crate) fn run_watched(command: &mut Command, stop: &Stop, look: &dyn Fn()) -> Result<Vec<u8>, LabError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = spawn(command.env("LC_ALL", "C.UTF-8"))?;
    let stdout = running.child.stdout.take().map(drain);
    let stderr = running.child.stderr.take().map(drain);
    let status = loop {
        match running.child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.is_requested() => return Err(LabError::Interrupted),
            Ok(None) => {
                look();
                thread::sleep(LOOK_EVERY);
            }
            Err(error) => return Err(failed(&running.words, &error.to_string(), "")),
        }
    };
    let stdout = stdout.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let stderr = stderr.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if status.success() {
        return Ok(stdout);
    }
    Err(failed(&running.words, &status.to_string(), &String::from_utf8_lossy(&stderr)))
}

fn failed(words: &str, status: &str, stderr: &str) -> LabError {
    if stderr.contains("No space left on device") {
        return LabError::DiskFull { path: words.into(), needed_mib: 0 };
    }
    LabError::Tool {
        command: words.to_owned(),
        status: status.to_owned(),
        stderr: tail(stderr, STDERR_LINES),
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // If the pipe breaks, all data that it had has been read.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn words(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The directories in which programs are sought: the directories of `PATH`, and the system's own, which a
/// user's `PATH` may lack.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

/// The path of a program; `None` if it does not exist.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    programs::find(program, &search_path())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        let error =
            run(&mut Command::new("no-such-program-anywhere"), &Stop::new()).expect_err("it is missing");
        assert!(matches!(error, LabError::Missing { package, .. } if package == "no-such-program-anywhere"));
        assert_eq!(package_of("mkfs.erofs"), "erofs-utils");
    }

    #[test]
    fn a_failed_program_is_reported_with_its_last_words() {
        let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), &Stop::new());
        assert!(error.expect_err("it fails").to_string().ends_with("(exit status: 3)\nwhy"));
    }

    #[test]
    fn a_stop_ends_a_program() {
        let stop = Stop::new();
        stop.request();
        let ended = run(Command::new("sleep").arg("100"), &stop);
        assert!(matches!(ended, Err(LabError::Interrupted)));
    }

    #[test]
    fn a_stop_ends_what_a_program_has_started() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("number");
        let stop = Stop::new();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $! >\"$0.new\"; mv \"$0.new\" \"$0\"; wait"]).arg(&file);
        let look = || {
            if file.exists() {
                stop.request();
            }
        };
        let ended = run_watched(&mut command, &stop, &look);
        assert!(matches!(ended, Err(LabError::Interrupted)));
        let number = fs::read_to_string(&file).expect("it was written");
        // An orphan that was killed stays in the table of processes until another process has waited for it.
        let state = || fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
        let is_there = || state().rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"));
        let begun = Instant::now();
        while is_there() {
            assert!(begun.elapsed() < Duration::from_secs(30), "process {number} still runs");
            thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let error = failed("tar", "exit status: 1", "tar: x: No space left on device");
        assert!(matches!(error, LabError::DiskFull { .. }));
    }
}
