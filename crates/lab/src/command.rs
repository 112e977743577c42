//! Runs programs of this machine: quietly, to their end, and not beyond ours.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use spry_workload::programs;

use crate::error::{LabError, tail};
use crate::progress::Stop;

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How much of a failed program's standard error is shown.
const STDERR_LINES: usize = 12;

/// Programs that the lab starts, with the package that holds each.
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

/// Has a child get this signal when the thread that starts it ends, and keeps the terminal's Ctrl-C from it.
pub(crate) fn tie(command: &mut Command, signal: libc::c_int) -> &mut Command {
    command.process_group(0);
    // SAFETY: prctl with these arguments only sets a property of the new process; it is safe between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    }
}

/// Starts a program, or says which package holds it.
pub(crate) fn spawn(command: &mut Command) -> Result<Running, LabError> {
    let words = words(command);
    if !command.get_envs().any(|(name, _)| name == "PATH") {
        command.env("PATH", search_path());
    }
    match tie(command, libc::SIGKILL).spawn() {
        Ok(child) => Ok(Running { child, words }),
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

/// A program that runs; killed and waited for when it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    words: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever has ended already takes no notice.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end; what it printed on standard output.
pub(crate) fn run(command: &mut Command, stop: &Stop) -> Result<Vec<u8>, LabError> {
    run_watched(command, stop, &|| {})
}

/// The same, calling `look` now and then.
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
        // A pipe that breaks has given all it will give.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn words(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Where programs are looked for: the path, and the system's own directories, which a user's path may lack.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

/// The file of a program, if it is there.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    programs::find(program, &search_path())
}

#[cfg(test)]
mod tests {
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
    fn a_full_disk_is_told_from_other_failures() {
        let error = failed("tar", "exit status: 1", "tar: x: No space left on device");
        assert!(matches!(error, LabError::DiskFull { .. }));
    }
}
