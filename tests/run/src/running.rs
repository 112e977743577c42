//! The tests that run now, each a group of processes: all of them can be ended at once.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A test that takes longer hangs. The longest take some minutes, on a busy machine twice that.
pub const LIMIT: Duration = Duration::from_secs(20 * 60);

/// What is told to end is given this long.
const GRACE: Duration = Duration::from_secs(5);

/// The tests that run now.
#[derive(Default)]
pub struct Running(Mutex<State>);

#[derive(Default)]
struct State {
    tests: Vec<(libc::pid_t, Instant)>,
    /// When everything was told to end.
    stopped: Option<Instant>,
}

impl State {
    fn signal(&self, signal: libc::c_int) {
        for &(leader, _) in &self.tests {
            // SAFETY: the call takes only numbers. A group that has ended meanwhile is none of its business.
            unsafe { libc::kill(-leader, signal) };
        }
    }
}

impl Running {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a test as a group of its own; `None` once everything was told to end.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&self, command: &mut Command) -> std::io::Result<Option<Child>> {
        let mut state = self.state();
        if state.stopped.is_some() {
            return Ok(None);
        }
        let child = command.process_group(0).spawn()?;
        state.tests.push((leader(&child), Instant::now()));
        Ok(Some(child))
    }

    /// A test has ended.
    pub fn ended(&self, child: &Child) {
        self.state().tests.retain(|&(running, _)| running != leader(child));
    }

    /// Nothing starts any more, and what runs is interrupted; the second time it is killed.
    pub fn stop(&self) {
        let mut state = self.state();
        state.signal(if state.stopped.is_some() { libc::SIGKILL } else { libc::SIGINT });
        state.stopped.get_or_insert_with(Instant::now);
    }

    /// Kills tests that hang, and those that did not end when they were told to.
    pub fn kill_overdue(&self) {
        let state = self.state();
        let all = state.stopped.is_some_and(|since| since.elapsed() > GRACE);
        for &(leader, _) in state.tests.iter().filter(|(_, since)| all || since.elapsed() > LIMIT) {
            // SAFETY: as above.
            unsafe { libc::kill(-leader, libc::SIGKILL) };
        }
    }
}

fn leader(child: &Child) -> libc::pid_t {
    libc::pid_t::try_from(child.id()).expect("the kernel's numbers fit")
}
