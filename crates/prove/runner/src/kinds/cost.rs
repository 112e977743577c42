//! The cost of scheduling: the task does one small operation over and over, in batches, and times each batch.

use std::io;

use spry_scenario::kinds::{Cost, HACKBENCH};
use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::stage::{ChildEnd, Complaints, Process, Reader, Stage, Start, Writer};

/// How many small operations are timed together, so that reading the clock takes only a small
/// part of the time.
const BATCH: u32 = 20;

pub(super) fn play(cost: &Cost, stage: &Stage) -> Result<Metrics, RunError> {
    let failed = |error: io::Error| RunError::Failed(format!("task {}: {error}", stage.task_name()));
    let mut log = Log::begun(stage)?;
    match cost {
        Cost::PipeRoundTrip => {
            let ball = Ball::thrown(stage).map_err(failed)?;
            let done = log.repeat(BATCH, || ball.back_and_forth().map_err(failed));
            ball.partner.end();
            done?;
        }
        Cost::PairOfYields => {
            let partner = partner(stage, || {
                loop {
                    stage.give_way();
                }
            });
            let partner = partner.map_err(failed)?;
            let done = log.repeat(BATCH, || {
                stage.give_way();
                Ok(())
            });
            partner.end();
            done?;
        }
        Cost::ForkExitWait => log.repeat(BATCH, || {
            stage.fork(|| {}).map_err(failed)?.wait();
            Ok(())
        })?,
        Cost::Hackbench(arguments) => log.repeat(1, || run(stage, HACKBENCH, arguments))?,
    }
    Ok(log.metrics())
}

/// The time of an operation in each batch, and the number of operations done in the measured time.
struct Log<'a> {
    stage: &'a Stage,
    start: Start,
    times: Samples,
    operations: u64,
}

impl Log<'_> {
    fn begun(stage: &Stage) -> Result<Log<'_>, RunError> {
        let times = Samples::with_capacity(1 << 16);
        Ok(Log { stage, start: stage.start_line()?, times, operations: 0 })
    }

    /// Repeats an operation until the run is over.
    fn repeat(
        &mut self,
        batch: u32,
        mut operation: impl FnMut() -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        while !self.stage.over() {
            let begun_ns = self.stage.now_ns();
            for _ in 0..batch {
                operation()?;
            }
            let now_ns = self.stage.now_ns();
            // The end of the run may have cut the last batch short. A batch counts only if it lies within the
            // measured time.
            if begun_ns >= self.start.measure_from_ns && now_ns < self.start.measure_to_ns {
                self.times.push((now_ns - begun_ns) / u64::from(batch));
                self.operations += u64::from(batch);
            }
        }
        Ok(())
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        metrics.quantiles("operation_ns", &self.times, &["p50", "p99", "max"]);
        metrics.count("operations", self.operations);
        metrics
    }
}

/// Runs a command from its start to its end. A command that the run's end cuts short is no failure.
fn run(stage: &Stage, program: &str, arguments: &[String]) -> Result<(), RunError> {
    match stage.run_program(program, arguments, Complaints::Dropped)? {
        ChildEnd::Code(0) => Ok(()),
        _ if stage.over() => Ok(()),
        ended => Err(RunError::Failed(format!("{program} {} failed: {ended:?}", arguments.join(" ")))),
    }
}

/// Forks a process that does one thing over and over, with the class and the CPUs of its parent.
fn partner(stage: &Stage, part: impl FnOnce()) -> io::Result<Process> {
    stage.fork(|| {
        stage.die_with_parent();
        part();
    })
}

/// A byte that is sent to a partner process through one pipe and comes back through another pipe.
struct Ball {
    there: Writer,
    back: Reader,
    partner: Process,
}

impl Ball {
    fn thrown(stage: &Stage) -> io::Result<Ball> {
        let ((theirs, there), (back, from_them)) = (stage.pipe()?, stage.pipe()?);
        // The partner's ends move into its part, so that they are closed here.
        let partner = partner(stage, move || while pass(&theirs, &from_them).is_ok() {})?;
        Ok(Ball { there, back, partner })
    }

    fn back_and_forth(&self) -> io::Result<()> {
        self.there.write(&[0])?;
        self.back.read(&mut [0])?;
        Ok(())
    }
}

fn pass(from: &Reader, to: &Writer) -> io::Result<()> {
    from.read(&mut [0])?;
    to.write(&[0])?;
    Ok(())
}
