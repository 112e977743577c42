//! Runs the cells of a plan. Several cells run side by side if the machine allows it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::machine::{CellError, CellOutput, Machine};
use crate::plan::Cell;
use crate::stop::Stop;

/// The progress of the run of a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// How many cells have ended, whether they succeeded or failed.
    pub done: usize,
    /// How many cells have failed.
    pub failed: usize,
    /// How many cells the plan has.
    pub cells: usize,
    /// The time since the start of the run.
    pub elapsed: Duration,
    /// The estimated time until the end of the run.
    pub left: Duration,
}

/// The interval at which the progress is reported.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The result of each cell, in the order of `cells`; `None` for a cell that was never begun.
pub type Outcomes = Vec<Option<Result<CellOutput, CellError>>>;

/// The cells of a run, their order and their number side by side.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// The cells to run.
    pub cells: &'a [Cell],
    /// The order in which the cells are begun, as indices of `cells`.
    pub order: &'a [usize],
    /// How many cells run side by side.
    pub jobs: usize,
    /// The directory for the traces; `None`: the cells are not recorded.
    pub traces: Option<&'a Path>,
}

impl Execution<'_> {
    /// Runs the cells on a machine until all have ended or `stop` is set. After a failure, the remaining
    /// cells still run.
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

    fn work(&self, machine: &dyn Machine, stop: &Stop, next: &AtomicUsize, sender: Sender<CellEnd>) {
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

type CellEnd = (usize, Result<CellOutput, CellError>, Duration);

/// Estimates how long the remaining cells take.
struct Clock {
    began: Instant,
    cells: usize,
    jobs: usize,
    guess: Duration,
    done: usize,
    failed: usize,
    /// The total time of the cells that succeeded. Failed cells give no estimate of a cell's duration.
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

/// The time that is left if each of `jobs` workers does a cell in `cell_time`.
fn time_left(cells: usize, jobs: usize, elapsed: Duration, cell_time: Duration, done: usize) -> Duration {
    let rounds = cells.div_ceil(jobs) as u32;
    let rounds_left = (cells - done).div_ceil(jobs) as u32;
    // The run consists of rounds of equal length. If a round takes longer than expected, it counts as nearly
    // over until it ends.
    (cell_time * rounds).saturating_sub(elapsed).min(cell_time * rounds_left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::{SchedulerError, SchedulerSpec};
    use crate::{Experiment, Plan, Recording, Source};
    use serde_json::{Map, Value};
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// A machine that only counts.
    struct CountingMachine {
        running: AtomicUsize,
        most: AtomicUsize,
        order: Mutex<Vec<String>>,
        stop_after: usize,
    }

    impl CountingMachine {
        fn new(stop_after: usize) -> CountingMachine {
            let zero = || AtomicUsize::new(0);
            CountingMachine { running: zero(), most: zero(), order: Mutex::new(Vec::new()), stop_after }
        }
    }

    impl Machine for CountingMachine {
        fn name(&self) -> &'static str {
            "host"
        }
        fn kernel(&self) -> String {
            String::new()
        }
        fn inputs(&self) -> BTreeMap<String, Value> {
            BTreeMap::new()
        }
        fn scheduler(&self, _: &SchedulerSpec) -> Result<String, SchedulerError> {
            Ok(String::new())
        }
        fn side_by_side(&self) -> usize {
            1
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

    const SCENARIO: &str = r#"
        name = "nothing"
        [variables]
        n = { default = 0 }
        [[task]]
        name = "a"
        kind = "stresser"
    "#;

    fn experiment() -> Experiment {
        let schedulers = ["eevdf", "fifo"].map(|text| text.parse().unwrap()).to_vec();
        let plan = Plan { schedulers, vary: vec!["n=0,1".parse().unwrap()], seeds: 2 };
        let source = Source { name: "nothing.toml".to_owned(), text: SCENARIO.to_owned() };
        Experiment::new(source, plan, Recording::Never).unwrap()
    }

    fn run(machine: &CountingMachine, jobs: usize) -> (Outcomes, Option<Progress>) {
        let experiment = experiment();
        let order = experiment.order();
        let execution = Execution { cells: experiment.cells(), order: &order, jobs, traces: None };
        let mut last = None;
        let outcomes = execution.run(machine, &Stop::new(), |progress| last = Some(progress));
        (outcomes, last)
    }

    #[test]
    fn cells_run_side_by_side_and_failures_keep_none_from_running() {
        let machine = CountingMachine::new(usize::MAX);
        let (outcomes, last) = run(&machine, 2);
        assert_eq!(machine.most.load(Ordering::SeqCst), 2);
        let failed: Vec<bool> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap().is_err()).collect();
        assert_eq!(failed, [false, false, false, false, true, true, true, true]);
        let last = last.unwrap();
        assert_eq!((last.done, last.failed, last.cells, last.left), (8, 4, 8, Duration::ZERO));
    }

    #[test]
    fn one_after_another_keeps_the_order_and_stops_when_told() {
        let machine = CountingMachine::new(3);
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
