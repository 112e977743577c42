//! Runs the cells of a study that consists of boots of the lab, several side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use spry_experiment::Stop;
use spry_lab::{Lab, Progress, side_by_side};

use crate::directory::Directory;
use crate::error::Error;
use crate::written::StudyTexts;

/// The interval at which the progress is reported.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The progress of a study with cells of type `C`.
#[derive(Clone, Copy, Debug)]
pub enum StudyProgress<'a, C> {
    /// The cells are about to run.
    Begins {
        /// How many cells are kept from an earlier run.
        kept: usize,
        /// How many cells there are.
        all: usize,
    },
    /// A cell was measured.
    Measured(&'a C),
    /// A cell failed, and the others go on.
    Failed {
        /// The name of the cell.
        cell: &'a str,
        /// The error and its causes.
        error: &'a str,
    },
    /// Time has passed: the display of the remaining time may be updated.
    Goes,
}

/// The cells of a study that gave no results.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Shortfall {
    /// The cells that failed, each with the first line of its error.
    pub failures: Vec<(String, String)>,
    /// How many cells were not begun or not finished.
    pub missing: usize,
}

/// A study that consists of boots of the lab, with everything that its cells need.
pub trait BootStudy: Sized {
    /// The selection of systems and loads that are measured.
    type Request;
    /// The measurement of one boot.
    type Cell;

    /// The study's name, which its directory keeps.
    const NAME: &'static str;

    /// Prepares the machines.
    ///
    /// # Errors
    /// If a machine cannot be prepared, or a file that it needs is missing.
    fn open(request: &Self::Request, lab: Lab, progress: &dyn Progress, stop: &Stop) -> Result<Self, Error>;

    /// Runs the cells without results in the directory, several side by side, until all have ended or `stop`
    /// is set. If a cell fails, the others still run.
    fn measure(
        &self,
        request: &Self::Request,
        directory: &Directory,
        stop: &Stop,
        tell: &mut dyn FnMut(StudyProgress<'_, Self::Cell>),
    ) -> (Vec<Self::Cell>, Shortfall);

    /// Writes the figures, the page, the summary and the results. `command` is the command line of the run.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn write(
        &self,
        request: &Self::Request,
        directory: &Directory,
        done: (Vec<Self::Cell>, &Shortfall),
        command: &str,
    ) -> Result<StudyTexts, Error>;

    /// A cell's name in messages.
    fn name(cell: &Self::Cell) -> String;
}

/// A boot that makes a cell of the study.
pub(crate) trait Boots: Sync {
    type Cell: Send;

    /// The cell's name in messages.
    fn name(&self) -> String;
}

/// The end of a boot.
enum CellEnd<C> {
    Measured(Box<C>),
    Failed(String, Error),
    Interrupted,
}

/// Measures a study by boots: takes the `kept` cells, and runs the remaining boots. `jobs` boots run side by
/// side, until all have ended or `stop` is set. If a boot fails, the others still run.
pub(crate) fn measure<B: Boots + Clone>(
    boots: &[B],
    jobs: Option<usize>,
    stop: &Stop,
    kept: &dyn Fn(&B) -> Option<B::Cell>,
    boot: &(dyn Fn(&B) -> Result<B::Cell, Error> + Sync),
    tell: &mut dyn FnMut(StudyProgress<'_, B::Cell>),
) -> (Vec<B::Cell>, Shortfall) {
    let (mut cells, mut left) = (Vec::new(), Vec::new());
    for one in boots {
        match kept(one) {
            Some(cell) => cells.push(cell),
            None => left.push(one.clone()),
        }
    }
    tell(StudyProgress::Begins { kept: cells.len(), all: boots.len() });
    let jobs = jobs.unwrap_or_else(side_by_side).min(left.len()).max(1);
    let failures = run(&left, jobs, stop, boot, tell, &mut cells);
    let missing = boots.len() - cells.len() - failures.len();
    (cells, Shortfall { failures, missing })
}

/// Runs boots, and adds their cells. Returns the boots that failed, each with the first line of its error.
fn run<B: Boots>(
    boots: &[B],
    jobs: usize,
    stop: &Stop,
    boot: &(dyn Fn(&B) -> Result<B::Cell, Error> + Sync),
    tell: &mut dyn FnMut(StudyProgress<'_, B::Cell>),
    cells: &mut Vec<B::Cell>,
) -> Vec<(String, String)> {
    let mut failures = Vec::new();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let sender = sender.clone();
            scope.spawn(|| work(boots, &next, stop, boot, sender));
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(TELL_EVERY) {
                Ok(CellEnd::Measured(cell)) => {
                    tell(StudyProgress::Measured(&cell));
                    cells.push(*cell);
                }
                Ok(CellEnd::Failed(cell, error)) => {
                    let error = error.in_full();
                    tell(StudyProgress::Failed { cell: &cell, error: &error });
                    failures.push((cell, error.lines().next().unwrap_or_default().to_owned()));
                }
                Ok(CellEnd::Interrupted) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            tell(StudyProgress::Goes);
        }
    });
    failures
}

fn work<B: Boots>(
    boots: &[B],
    next: &AtomicUsize,
    stop: &Stop,
    run: &(dyn Fn(&B) -> Result<B::Cell, Error> + Sync),
    sender: Sender<CellEnd<B::Cell>>,
) {
    while !stop.is_requested() {
        let Some(boot) = boots.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
        let ended = match run(boot) {
            Ok(cell) => CellEnd::Measured(Box::new(cell)),
            Err(_) if stop.is_requested() => CellEnd::Interrupted,
            Err(error) => CellEnd::Failed(boot.name(), error),
        };
        if sender.send(ended).is_err() {
            return;
        }
    }
}
