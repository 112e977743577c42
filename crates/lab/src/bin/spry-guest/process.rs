//! Starting programs and waiting for them, as the process does that everybody's orphans belong to.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::kernel::uptime_ms;

/// The id of a process that this one has started.
pub type Child = libc::pid_t;

/// Programs' environment.
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

/// Starts a program in a group of its own.
pub fn start(argv: &[String], env: &[(String, String)], stdout: &str, stderr: &str) -> io::Result<Child> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::other("there is no program"));
    };
    // Looked up by the new environment's path, since that is what the child is given.
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(ENVIRONMENT).envs(env.iter().map(|(name, value)| (name, value)));
    let open = |path: &str| OpenOptions::new().create(true).append(true).open(path);
    command.stdin(Stdio::null()).stdout(open(stdout)?).stderr(open(stderr)?).process_group(0);
    // SAFETY: sigprocmask with an empty set is safe between fork and exec: it undoes what this process blocks.
    unsafe {
        command.pre_exec(|| {
            let none = signal_set(&[]);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            Ok(())
        });
    }
    command.spawn().map(|child| child.id() as Child)
}

/// Ends a program and all that it started in its group.
pub fn kill_group(child: Child) {
    // SAFETY: kill takes numbers; the group is that of a child of this process.
    unsafe { libc::kill(-child, libc::SIGKILL) };
}

/// A wait status as an exit status or a signal.
pub fn exit_or_signal(status: i32) -> (Option<i32>, Option<i32>) {
    if libc::WIFEXITED(status) {
        (Some(libc::WEXITSTATUS(status)), None)
    } else {
        (None, Some(libc::WTERMSIG(status)))
    }
}

/// Waits for children without looking at them over and over: that would disturb what is measured.
pub struct Waiter {
    ended: BTreeMap<Child, i32>,
}

impl Waiter {
    /// Takes over the signal that tells of children.
    pub fn new() -> Self {
        let set = signal_set(&[libc::SIGCHLD]);
        // SAFETY: the set lives as long as the call; no other thread is there yet.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        Self { ended: BTreeMap::new() }
    }

    /// Waits until a child has ended or a moment after boot has come; its status if it has ended.
    pub fn wait(&mut self, child: Child, until_ms: u64) -> Option<i32> {
        loop {
            if let Some(status) = self.ended(child) {
                return Some(status);
            }
            let left_ms = until_ms.saturating_sub(uptime_ms());
            if left_ms == 0 {
                return None;
            }
            let time = libc::timespec {
                tv_sec: (left_ms / 1000) as i64,
                tv_nsec: (left_ms % 1000 * 1_000_000) as i64,
            };
            let set = signal_set(&[libc::SIGCHLD]);
            // SAFETY: set and time live as long as the call; nobody asks for details of the signal.
            unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &time) };
        }
    }

    /// The status of a child that has ended; does not wait.
    pub fn ended(&mut self, child: Child) -> Option<i32> {
        loop {
            let mut status = 0;
            // SAFETY: the status lives as long as the call. Orphans of others are taken too, as is this process' part.
            let ended = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            if ended <= 0 {
                return self.ended.get(&child).copied();
            }
            self.ended.insert(ended, status);
        }
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the set, and sigaddset changes one that is filled; both only fail for wrong numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
