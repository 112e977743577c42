//! Runs many tests, some of them side by side.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::group::Group;
use crate::programs::Program;
use crate::running::Running;
use crate::test::{self, Ended};

/// A test that is to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which program has it.
    pub program: usize,
    /// Its name there.
    pub name: String,
}

/// How often tests that hang are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many tests may run side by side: one a CPU, and two even where there is one CPU.
pub fn side_by_side() -> usize {
    thread::available_parallelism().map_or(1, usize::from).max(2)
}

/// How many virtual machines may run side by side: some have several CPUs.
fn machines() -> usize {
    (side_by_side() / 2).max(2)
}

/// What is left to do.
struct Queue<'a> {
    programs: &'a [Program],
    tasks: Mutex<VecDeque<Task>>,
}

impl Queue<'_> {
    /// The next test for this worker: so many of them may start virtual machines.
    fn next(&self, worker: usize) -> Option<Task> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let suits = |task: &Task| worker < machines() || self.programs[task.program].group != Group::Lab;
        let at = tasks.iter().position(suits)?;
        tasks.remove(at)
    }
}

/// Runs tests in their order, that many side by side, and hands each to `each` when it has ended. It returns early
/// once everything was told to end.
pub fn run(
    programs: &[Program],
    tasks: Vec<Task>,
    workers: usize,
    running: &Running,
    mut each: impl FnMut(&Task, Ended),
) {
    let queue = Queue { programs, tasks: Mutex::new(tasks.into()) };
    let (sender, receiver) = mpsc::channel();
    let work = |worker: usize, sender: Sender<(Task, Ended)>| {
        while let Some(task) = queue.next(worker) {
            let Some(ended) = test::run(&programs[task.program], &task.name, running) else { return };
            if sender.send((task, ended)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for worker in 0..workers {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(worker, sender));
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok((task, ended)) => each(&task, ended),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            running.kill_overdue();
        }
    });
}
