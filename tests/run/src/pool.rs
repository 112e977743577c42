//! Runs many tests, some of them side by side.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::group::Group;
use crate::programs::Program;
use crate::running::RunningTests;
use crate::test::{self, TestEnd};

/// A test that is to run.
#[derive(Clone, Debug)]
pub struct QueuedTest {
    /// The number of the program that has the test.
    pub program: usize,
    /// The name of the test in that program.
    pub name: String,
    /// How many unused bytes the guests of the test get; 0: the test runs as it is.
    pub shake_bytes: u32,
}

impl QueuedTest {
    /// The name of the task in the output.
    pub fn shown(&self, programs: &[Program]) -> String {
        let source = &programs[self.program].source;
        match self.shake_bytes {
            0 => format!("{source} {}", self.name),
            bytes => format!("{source} {} (shake {bytes})", self.name),
        }
    }
}

/// The interval between two searches for tests that hang.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many tests may run side by side: one for each CPU, and two even if there is only one CPU.
pub fn side_by_side() -> usize {
    thread::available_parallelism().map_or(1, usize::from).max(2)
}

/// How many virtual machines may run side by side: some have several CPUs.
fn machines() -> usize {
    (side_by_side() / 2).max(2)
}

/// The tests that are left to run.
struct Queue<'a> {
    programs: &'a [Program],
    tasks: Mutex<VecDeque<QueuedTest>>,
}

impl Queue<'_> {
    /// The next test for this worker. Only the first workers (as many as [`machines`]) may start
    /// virtual machines.
    fn next(&self, worker: usize) -> Option<QueuedTest> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let suits =
            |task: &QueuedTest| worker < machines() || self.programs[task.program].group != Group::Lab;
        let at = tasks.iter().position(suits)?;
        tasks.remove(at)
    }
}

/// Runs the tests in their order, `workers` of them side by side, and hands each test to `each` when it has
/// ended. The call returns early if the tests were stopped.
pub fn run(
    programs: &[Program],
    tasks: Vec<QueuedTest>,
    workers: usize,
    running: &RunningTests,
    mut each: impl FnMut(&QueuedTest, TestEnd),
) {
    let queue = Queue { programs, tasks: Mutex::new(tasks.into()) };
    let (sender, receiver) = mpsc::channel();
    let work = |worker: usize, sender: Sender<(QueuedTest, TestEnd)>| {
        while let Some(task) = queue.next(worker) {
            let Some(ended) = test::run(&programs[task.program], &task, running) else { return };
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
