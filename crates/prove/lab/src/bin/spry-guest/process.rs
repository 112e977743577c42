//! Starts programs and waits for them. This runs in the guest's first process, the parent of all orphans.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use spry_sys::settle::{Setting, settle};
use spry_sys::{Signal, process, signal};

use crate::kernel::uptime_ms;

/// The id of a process that this process has started.
pub type Child = u32;

/// The environment of the guest's programs.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("PATH", "/spry/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games"),
    ("HOME", "/root"),
    ("USER", "root"),
    ("LOGNAME", "root"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("XDG_RUNTIME_DIR", "/run"),
];

/// Starts a program in a process group of its own.
pub fn start(argv: &[String], env: &[(String, String)], stdout: &str, stderr: &str) -> io::Result<Child> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::other("there is no program"));
    };
    // The program is sought in the `PATH` of the new environment, because the child gets that
    // environment.
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(ENVIRONMENT).envs(env.iter().map(|(name, value)| (name, value)));
    let open = |path: &str| OpenOptions::new().create(true).append(true).open(path);
    command.stdin(Stdio::null()).stdout(open(stdout)?).stderr(open(stderr)?).process_group(0);
    // This process blocks a signal, which its programs do not block.
    settle(&mut command, [Setting::UnblockedSignals]);
    command.spawn().map(|child| child.id())
}

/// Kills a program and all processes of its process group.
pub fn kill_group(child: Child) {
    // The group belongs to a child of this process.
    _ = signal::send_group(child, Signal::KILL);
}

/// Splits a wait status into the exit status, if the program exited, and the signal, if a signal ended it.
pub fn exit_or_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

/// Waits for children without polling, because polling would disturb the measurements.
pub struct Waiter {
    ended: BTreeMap<Child, ExitStatus>,
}

impl Waiter {
    /// Blocks SIGCHLD, so that the signal stays pending until a wait takes it.
    pub fn new() -> Self {
        signal::block(&[Signal::CHILD]);
        Self { ended: BTreeMap::new() }
    }

    /// Waits until a child has ended, or until a moment in milliseconds after the boot. Returns the child's
    /// status if it has ended.
    pub fn wait(&mut self, child: Child, until_ms: u64) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.ended(child) {
                return Some(status);
            }
            let left_ms = until_ms.saturating_sub(uptime_ms());
            if left_ms == 0 {
                return None;
            }
            signal::wait_for(&[Signal::CHILD], Duration::from_millis(left_ms));
        }
    }

    /// The status of a child if it has ended. Does not wait.
    pub fn ended(&mut self, child: Child) -> Option<ExitStatus> {
        // This also reaps orphans, which is the duty of the first process.
        while let Some((ended, status)) = process::reap() {
            self.ended.insert(ended, status);
        }
        self.ended.get(&child).copied()
    }
}
