//! Runs the cells of a plan, several side by side where the machine can.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::machine::{CellError, CellOutput, Machine};
use super::plan::Cell;
use crate::progress::Stop;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Cells that have ended, one way or another.
    pub done: usize,
    /// Cells that came to nothing.
    pub failed: usize,
    /// Cells in all.
    pub cells: usize,
    /// Time since the start.
    pub elapsed: Duration,
    /// Time until the end, as far as can be told.
    pub left: Duration,
}

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// What became of each cell, in the order of `cells`; none for those that were never begun.
pub type Outcomes = Vec<Option<Result<CellOutput, CellError>>>;

/// How cells are run.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// The cells.
    pub cells: &'a [Cell],
    /// The order in which they are begun: numbers of `cells`.
    pub order: &'a [usize],
    /// How many run side by side.
    pub jobs: usize,
    /// The directory for traces, if cells are recorded.
    pub traces: Option<&'a Path>,
}

impl Execution<'_> {
    /// Runs the cells on a machine until all are through or `stop` is set. Failing cells do not keep others from running.
    pub fn run(&self, machine: &dyn Machine, stop: &Stop, mut tell: impl FnMut(Progress)) -> Outcomes {
        let mut outcomes: Outcomes = self.cells.iter().map(|_| None).collect();
        let next = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        let mut clock = Clock::new(self.order.len(), self.jobs, machine.cell_time());
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                let sender = sender.clone();
                scope.spawn(|| self.work(machine, stop, &next, sender));
            }
            drop(sender);
            loop {
                match receiver.recv_timeout(TELL_EVERY) {
                    Ok((at, outcome, took)) => {
                        clock.cell_ended(took, outcome.is_err());
                        outcomes[at] = Some(outcome);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                tell(clock.progress());
            }
        });
        outcomes
    }

    fn work(&self, machine: &dyn Machine, stop: &Stop, next: &AtomicUsize, sender: Sender<Ended>) {
        while !stop.is_requested() {
            let Some(&at) = self.order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let cell = &self.cells[at];
            let trace = self.traces.map(|dir| dir.join(format!("{}.spry", cell.file_name())));
            let began = Instant::now();
            let outcome = machine.run(cell, trace.as_deref(), stop);
            if sender.send((at, outcome, began.elapsed())).is_err() {
                return;
            }
        }
    }
}

type Ended = (usize, Result<CellOutput, CellError>, Duration);

/// What is known of how long cells take.
struct Clock {
    began: Instant,
    cells: usize,
    jobs: usize,
    guess: Duration,
    done: usize,
    failed: usize,
    /// Time that cells took, of those that succeeded: failing ones are no measure.
    taken: Duration,
}

impl Clock {
    fn new(cells: usize, jobs: usize, guess: Duration) -> Clock {
        let taken = Duration::ZERO;
        Clock { began: Instant::now(), cells, jobs: jobs.max(1), guess, done: 0, failed: 0, taken }
    }

    fn cell_ended(&mut self, took: Duration, is_failure: bool) {
        self.done += 1;
        if is_failure {
            self.failed += 1;
        } else {
            self.taken += took;
        }
    }

    fn progress(&self) -> Progress {
        let elapsed = self.began.elapsed();
        let left = time_left(
            self.cells,
            self.jobs,
            elapsed,
            match self.done - self.failed {
                0 => self.guess,
                measured => self.taken / measured as u32,
            },
            self.done,
        );
        Progress { done: self.done, failed: self.failed, cells: self.cells, elapsed, left }
    }
}

/// The time left where each of `jobs` does a cell in `cell_time`.
fn time_left(cells: usize, jobs: usize, elapsed: Duration, cell_time: Duration, done: usize) -> Duration {
    let rounds = cells.div_ceil(jobs) as u32;
    let rounds_left = (cells - done).div_ceil(jobs) as u32;
    // The whole is rounds of equal length; a round that takes longer than expected is nearly over for ever.
    (cell_time * rounds).saturating_sub(elapsed).min(cell_time * rounds_left)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;
    use serde_json::{Map, Value};
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// A machine that only counts.
    struct Counting {
        running: AtomicUsize,
        most: AtomicUsize,
        order: Mutex<Vec<String>>,
        stop_after: usize,
    }

    impl Counting {
        fn new(stop_after: usize) -> Counting {
            let zero = || AtomicUsize::new(0);
            Counting { running: zero(), most: zero(), order: Mutex::new(Vec::new()), stop_after }
        }
    }

    impl Machine for Counting {
        fn name(&self) -> &'static str {
            "host"
        }
        fn kernel(&self) -> String {
            String::new()
        }
        fn inputs(&self) -> BTreeMap<String, Value> {
            BTreeMap::new()
        }
        fn cell_time(&self) -> Duration {
            Duration::from_millis(20)
        }
        fn run(&self, cell: &Cell, _: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            self.order.lock().unwrap().push(cell.name());
            if self.order.lock().unwrap().len() >= self.stop_after {
                stop.request();
            }
            thread::sleep(Duration::from_millis(20));
            self.running.fetch_sub(1, Ordering::SeqCst);
            if cell.label == "fifo" {
                return Err(CellError::Failed("no".to_owned()));
            }
            Ok(CellOutput { metrics: Map::new(), report: Value::Null })
        }
    }

    fn plan() -> Plan {
        let schedulers = ["eevdf", "fifo"].map(|text| text.parse().unwrap()).to_vec();
        Plan { schedulers, vary: vec!["n=0,1".parse().unwrap()], seeds: 2 }
    }

    fn run(machine: &Counting, jobs: usize) -> (Outcomes, Option<Progress>) {
        let (cells, order) = (plan().cells(), plan().order());
        let execution = Execution { cells: &cells, order: &order, jobs, traces: None };
        let mut last = None;
        let outcomes = execution.run(machine, &Stop::new(), |progress| last = Some(progress));
        (outcomes, last)
    }

    #[test]
    fn cells_run_side_by_side_and_failures_keep_none_from_running() {
        let machine = Counting::new(usize::MAX);
        let (outcomes, last) = run(&machine, 2);
        assert_eq!(machine.most.load(Ordering::SeqCst), 2);
        let failed: Vec<bool> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap().is_err()).collect();
        assert_eq!(failed, [false, false, false, false, true, true, true, true]);
        let last = last.unwrap();
        assert_eq!((last.done, last.failed, last.cells, last.left), (8, 4, 8, Duration::ZERO));
    }

    #[test]
    fn one_after_another_keeps_the_order_and_stops_when_told() {
        let machine = Counting::new(3);
        let (outcomes, _) = run(&machine, 1);
        assert_eq!(
            *machine.order.lock().unwrap(),
            ["eevdf, n=0, seed 1", "fifo, n=0, seed 1", "eevdf, n=1, seed 1"]
        );
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_none()).count(), 5);
    }

    #[test]
    fn the_time_left_shrinks_to_what_the_cells_left_need() {
        let s = Duration::from_secs;
        assert_eq!(time_left(10, 2, s(0), s(20), 0), s(100));
        assert_eq!(time_left(10, 2, s(30), s(20), 2), s(70));
        assert_eq!(time_left(10, 2, s(95), s(20), 9), s(5));
        assert_eq!(time_left(10, 2, s(50), s(10), 10), s(0));
    }
}
