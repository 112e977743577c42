//! Settings that a new process gets between fork and exec: its CPUs, its end, its user and others.

use std::io;
use std::num::NonZeroU64;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Gid, Uid};
use rustix::process::{Rlimit, set_parent_process_death_signal, setpgid, setrlimit, setsid};
use rustix::thread::{set_current_timer_slack, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::attributes::Attributes;
use crate::cpus::Cpus;
use crate::{Resource, Signal, schedule, signal};

/// A setting of a new process.
#[derive(Clone, Copy, Debug)]
pub enum Setting {
    /// The process gets this signal when the thread that started it ends.
    EndsWithParent(Signal),
    /// All signals have their default actions, and none is blocked.
    DefaultSignals,
    /// No signal is blocked.
    UnblockedSignals,
    /// The process leads a process group of its own.
    OwnGroup,
    /// The process leads a session of its own.
    OwnSession,
    /// The process' timer slack, ns: how late its timers may expire, so that several expire together.
    TimerSlack(NonZeroU64),
    /// The nice value of the process, -20 to 19.
    Nice(i32),
    /// How long the process runs before the next task has its turn, ns. It must be in a fair class.
    Slice(u64),
    /// The most that the process may take of a resource, in the resource's unit.
    Limit(Resource, u64),
    /// The user and the group of the process have this number, and it is in no other group.
    User(u32),
    /// The CPUs that the process may run on.
    On(Cpus),
}

impl Setting {
    /// Gives the calling process this setting. The process must have one thread. Allocates no memory.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn apply(&self) -> io::Result<()> {
        match *self {
            Setting::EndsWithParent(signal) => set_parent_process_death_signal(Some(signal))?,
            Setting::DefaultSignals => signal::default_all(),
            Setting::UnblockedSignals => signal::unblock_all(),
            Setting::OwnGroup => setpgid(None, None)?,
            Setting::OwnSession => drop(setsid()?),
            Setting::TimerSlack(ns) => set_current_timer_slack(Some(ns))?,
            Setting::Nice(nice) => schedule::set_nice(0, nice)?,
            Setting::Slice(ns) => Attributes::of(0)?.with_slice(ns).give(0)?,
            Setting::Limit(resource, most) => {
                setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
            }
            Setting::User(number) => {
                let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
                set_thread_groups(&[])?;
                set_thread_res_gid(gid, gid, gid)?;
                set_thread_res_uid(uid, uid, uid)?;
            }
            Setting::On(cpus) => cpus.hold(0)?,
        }
        Ok(())
    }
}

/// Makes every process that this command starts begin with these settings, in their order.
pub fn settle(command: &mut Command, settings: impl Into<Vec<Setting>>) -> &mut Command {
    let settings = settings.into();
    // SAFETY: between fork and exec only system calls are made, and no memory is allocated.
    unsafe { command.pre_exec(move || settings.iter().try_for_each(Setting::apply)) }
}

/// Makes a process that this command starts get this signal when the thread that started it ends. Ctrl-C at
/// the terminal does not reach the process, since it leads a group of its own.
pub fn tie(command: &mut Command, signal: Signal) -> &mut Command {
    settle(command.process_group(0), [Setting::EndsWithParent(signal)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(script: &str, settings: impl Into<Vec<Setting>>) -> String {
        let mut command = Command::new("sh");
        let output = settle(command.arg("-c").arg(script), settings).output().expect("sh starts");
        String::from_utf8(output.stdout).expect("numbers").trim().to_owned()
    }

    #[test]
    fn a_command_begins_with_its_settings() {
        let cpus = Cpus::allowed().expect("the kernel says");
        let settings = [
            Setting::DefaultSignals,
            Setting::OwnGroup,
            Setting::Limit(Resource::Core, 0),
            Setting::On(cpus),
        ];
        let pgrp = "cut -d' ' -f5 /proc/$$/stat; echo $$; ulimit -c";
        let said = says(pgrp, settings);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(words[0] == words[1] && words[2] == "0", "{said}");
        let slack = NonZeroU64::new(70_000).expect("it is more than 0");
        assert_eq!(says("cat /proc/$$/timerslack_ns", [Setting::TimerSlack(slack)]), "70000");
        let session = says("cut -d' ' -f6 /proc/$$/stat; echo $$", [Setting::OwnSession]);
        let words: Vec<&str> = session.split_whitespace().collect();
        assert_eq!(words[0], words[1]);
        assert_eq!(says("nice", [Setting::Nice(19), Setting::UnblockedSignals]), "19");
    }

    #[test]
    fn a_command_and_what_it_starts_have_the_slice_that_it_is_given() {
        let given = Setting::Slice(7_000_000);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 100 & echo $!; exec sleep 100"]).stdout(std::process::Stdio::piped());
        let mut child = settle(&mut command, [given]).spawn().expect("sh starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a number");
        let inner: u32 = line.trim().parse().expect("a number");
        let slices = [child.id(), inner].map(|tid| Attributes::of(tid).expect("it is there").slice_ns());
        signal::send(inner, Signal::KILL).expect("it runs");
        child.kill().and_then(|()| child.wait()).expect("it is ours");
        // Kernels without slices of single threads report none.
        assert!([[0; 2], [7_000_000; 2]].contains(&slices), "{slices:?}");
    }

    #[test]
    fn a_command_is_of_the_user_that_it_is_given() {
        let user = 65534;
        let mut command = Command::new("id");
        match settle(command.arg("-u"), [Setting::User(user)]).output() {
            Ok(output) => assert_eq!(output.stdout, b"65534\n"),
            Err(error) => assert!(!crate::process::is_root(), "{error}"),
        }
    }

    #[test]
    fn a_command_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            settle(command.arg("100"), [Setting::EndsWithParent(Signal::KILL)]).spawn().expect("it starts")
        };
        let mut child = std::thread::spawn(start).join().expect("it ends well");
        assert!(!child.wait().expect("it is ours").success());
    }

    #[test]
    fn a_command_with_a_refused_setting_does_not_start() {
        let nowhere = Cpus::of([]).expect("a set");
        assert!(settle(&mut Command::new("true"), [Setting::On(nowhere)]).spawn().is_err());
    }
}
