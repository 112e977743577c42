//! The process' limits: raises a limit that is too low for Spry, and handles limits that are reached.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;

/// How many files a recording has open at most: some a CPU, and one for each program and map.
const FILES: u64 = 16_384;

/// Makes a write beyond the limit of a file's size (`ulimit -f`) fail, as on a full disk. Without this, the
/// signal for it would end the process without a message. Programs that Spry starts are not affected: a
/// handler does not outlive an exec.
pub fn survive_file_size() -> Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    flag::register(SIGXFSZ, seen).context("cannot listen to signals")?;
    Ok(())
}

/// Raises the limit of open files as far as a recording needs it and this process may. Returns the old limit.
pub fn raise_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let raised = |limit: Option<u64>| limit.map(|limit| limit.max(FILES));
    let most = Rlimit { current: raised(before.current), maximum: raised(before.maximum) };
    if setrlimit(Resource::Nofile, most).is_err() {
        // Without CAP_SYS_RESOURCE the soft limit may be raised to the hard one. If that fails too, opening a
        // file fails with its own error.
        _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    }
    before
}

/// Gives a child the limit of open files that this process was started with: programs that watch all numbers
/// of files rely on a low limit.
pub fn give_files(child: &Child, limit: Rlimit) {
    // A child that has already ended needs no limit.
    _ = prlimit(Some(Pid::from_child(child)), Resource::Nofile, limit);
}

/// Which limit an error is about, and how it is raised; `None` if the error is about none.
pub fn hint(error: &str) -> Option<String> {
    if error.contains("Too many open files") {
        let most = getrlimit(Resource::Nofile).current;
        let most = most.map_or_else(String::new, |most| format!(", now {most}"));
        Some(format!("the limit of open files is too low: raise it (`ulimit -n`{most})"))
    } else if error.contains("File too large") {
        Some("the limit of a file's size is reached (`ulimit -f`), or the file system's".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_gets_the_limit_that_was_before() {
        let before = raise_files();
        assert!(getrlimit(Resource::Nofile).current >= before.current);
        let lower = Rlimit { current: Some(100), maximum: Some(200) };
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        give_files(&child, lower);
        let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).expect("it runs");
        child.kill().and_then(|()| child.wait()).expect("it is a child");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("it is listed");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>()[3..5], ["100", "200"]);
    }

    #[test]
    fn only_errors_of_limits_have_a_hint() {
        let hints = |code| hint(&std::io::Error::from_raw_os_error(code).to_string());
        assert!(hints(24).is_some_and(|text| text.contains("ulimit -n")));
        assert!(hints(27).is_some_and(|text| text.contains("ulimit -f")));
        assert_eq!(hints(2), None);
    }
}
