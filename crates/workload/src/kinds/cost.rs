//! What the scheduler costs: one small operation over and over, in batches, each timed.

use std::io;
use std::process::Stdio;

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::stage::{Stage, Start};
use crate::runner::sys::{self, Channel, Ended, Forked};
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// Small operations that are timed together, so that reading the clock is little of it.
const BATCH: u32 = 20;

/// Messages among groups of processes, from rt-tests.
const HACKBENCH: &str = "hackbench";

/// The kind.
pub(super) struct Cost;

impl Kind for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn about(&self) -> &'static str {
        "an operation over and over, and what one takes; keys: of (pipe: a round trip, yields: a pair, fork: with exit and wait, \
         hackbench), arguments (of hackbench)"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let arguments = keys.texts("arguments")?;
        let of = keys.choice("of", &["pipe", "yields", "fork", "hackbench"])?;
        let operation = match of.ok_or_else(|| keys.missing("of"))? {
            "pipe" => Operation::PipeRoundTrip,
            "yields" => Operation::PairOfYields,
            "fork" => Operation::ForkExitWait,
            _ => Operation::Hackbench(
                arguments.unwrap_or_else(|| ["-g", "2", "-l", "50"].map(str::to_owned).into()),
            ),
        };
        Ok(Box::new(Repeated { operation }))
    }
}

#[derive(Debug)]
enum Operation {
    PipeRoundTrip,
    PairOfYields,
    ForkExitWait,
    /// A whole run with these arguments.
    Hackbench(Vec<String>),
}

#[derive(Debug)]
struct Repeated {
    operation: Operation,
}

impl Role for Repeated {
    fn programs(&self) -> Vec<String> {
        match &self.operation {
            Operation::Hackbench(_) => vec![HACKBENCH.to_owned()],
            _ => Vec::new(),
        }
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let failed = |error: io::Error| RunError::Failed(format!("task {}: {error}", stage.task_name()));
        let mut log = Log::begun(stage)?;
        match &self.operation {
            Operation::PipeRoundTrip => {
                let ball = Ball::thrown().map_err(failed)?;
                let done = log.repeat(BATCH, || ball.back_and_forth().map_err(failed));
                ball.partner.end();
                done?;
            }
            Operation::PairOfYields => {
                let partner = Partner::doing(|| {
                    loop {
                        sys::give_way();
                    }
                });
                let partner = partner.map_err(failed)?;
                let done = log.repeat(BATCH, || {
                    sys::give_way();
                    Ok(())
                });
                partner.end();
                done?;
            }
            Operation::ForkExitWait => log.repeat(BATCH, || match sys::fork().map_err(failed)? {
                Forked::Child => sys::exit_now(0),
                Forked::Parent { tgid } => {
                    while sys::wait(tgid) == Ended::NotYet {}
                    Ok(())
                }
            })?,
            Operation::Hackbench(arguments) => log.repeat(1, || run(stage, HACKBENCH, arguments))?,
        }
        Ok(log.metrics())
    }
}

/// What one operation took in each batch, and how many there were in what is measured.
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
            // The last may have been cut short.
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

/// A command from its start to its end; one that the end of the run cuts short is no failure.
fn run(stage: &Stage, program: &str, arguments: &[String]) -> Result<(), RunError> {
    let mut process = stage.command(program);
    process.args(arguments).current_dir(stage.scratch());
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = process.spawn().map_err(|error| RunError::Failed(format!("{program}: {error}")))?;
    match stage.wait(child.id() as i32) {
        Ended::Code(0) => Ok(()),
        _ if stage.over() => Ok(()),
        ended => Err(RunError::Failed(format!("{program} {} failed: {ended:?}", arguments.join(" ")))),
    }
}

/// A forked process that does one thing over and over, with the class and the CPUs of its parent.
struct Partner {
    tgid: i32,
}

impl Partner {
    fn doing(part: impl FnOnce()) -> io::Result<Partner> {
        match sys::fork()? {
            Forked::Parent { tgid } => Ok(Partner { tgid }),
            Forked::Child => {
                sys::die_with_parent();
                part();
                sys::exit_now(0)
            }
        }
    }

    fn end(self) {
        sys::signal_process(self.tgid, libc::SIGKILL);
        while sys::wait(self.tgid) == Ended::NotYet {}
    }
}

/// A byte that goes to a partner through one pipe and comes back through another.
struct Ball {
    there: i32,
    back: i32,
    partner: Partner,
}

impl Ball {
    fn thrown() -> io::Result<Ball> {
        let ([theirs, there], [back, from_them]) =
            (sys::channel(Channel::Pipe)?, sys::channel(Channel::Pipe)?);
        let partner = Partner::doing(|| while pass(theirs, from_them).is_ok() {})?;
        sys::close(theirs);
        sys::close(from_them);
        Ok(Ball { there, back, partner })
    }

    fn back_and_forth(&self) -> io::Result<()> {
        sys::write(self.there, &[0])?;
        sys::read(self.back, &mut [0])?;
        Ok(())
    }
}

fn pass(from: i32, to: i32) -> io::Result<()> {
    sys::read(from, &mut [0])?;
    sys::write(to, &[0])?;
    Ok(())
}
