//! The tests that run now, each as a group of processes: all of them can be ended at once.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spry_sys::{Signal, signal};

/// A test that runs for longer than this hangs. The longest tests take some minutes, and twice that on
/// a busy machine.
pub const LIMIT: Duration = Duration::from_secs(20 * 60);

/// A test has this time to end after it received the signal to end.
const GRACE: Duration = Duration::from_secs(5);

/// The tests that run now.
#[derive(Default)]
pub struct RunningTests(Mutex<State>);

#[derive(Default)]
struct State {
    tests: Vec<(u32, Instant)>,
    /// The time of the first call of [`RunningTests::stop`].
    stopped: Option<Instant>,
}

impl State {
    fn signal(&self, signal: Signal) {
        for &(leader, _) in &self.tests {
            // If the group has ended meanwhile, the call fails and does no harm.
            _ = signal::send_group(leader, signal);
        }
    }
}

impl RunningTests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a test in a process group of its own; `None` if the tests were stopped before.
    ///
    /// # Errors
    /// If the test cannot be started.
    pub fn start(&self, command: &mut Command) -> std::io::Result<Option<Child>> {
        let mut state = self.state();
        if state.stopped.is_some() {
            return Ok(None);
        }
        let child = command.process_group(0).spawn()?;
        state.tests.push((child.id(), Instant::now()));
        Ok(Some(child))
    }

    /// Removes a test that has ended.
    pub fn ended(&self, child: &Child) {
        self.state().tests.retain(|&(running, _)| running != child.id());
    }

    /// From now on no test starts. The first call interrupts the tests that run; a second call kills them.
    pub fn stop(&self) {
        let mut state = self.state();
        state.signal(if state.stopped.is_some() { Signal::KILL } else { Signal::INT });
        state.stopped.get_or_insert_with(Instant::now);
    }

    /// Kills tests that hang, and tests that did not end in time after the stop.
    pub fn kill_overdue(&self) {
        let state = self.state();
        let all = state.stopped.is_some_and(|since| since.elapsed() > GRACE);
        for &(leader, _) in state.tests.iter().filter(|(_, since)| all || since.elapsed() > LIMIT) {
            _ = signal::send_group(leader, Signal::KILL);
        }
    }
}
