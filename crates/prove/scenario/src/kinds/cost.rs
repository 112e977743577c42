//! The parameters of the task that measures the cost of scheduling.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The program of rt-tests that sends messages among groups of processes.
pub const HACKBENCH: &str = "hackbench";

/// The task does one small operation over and over, in batches, and times each batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// A byte goes to a partner process through one pipe and comes back through another.
    PipeRoundTrip,
    /// The task and a partner process give the CPU to each other.
    PairOfYields,
    /// The task forks a process that ends at once, and waits for its end.
    ForkExitWait,
    /// Each operation is a whole run of [`HACKBENCH`] with these arguments.
    Hackbench(Vec<String>),
}

impl Parameters for Cost {
    const NAME: &'static str = "cost";
    const ABOUT: &'static str = "an operation over and over, and what one takes; keys: of (pipe: \
                                 a round trip, yields: a pair, fork: with exit and wait, hackbench), \
                                 arguments (of hackbench)";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let arguments = keys.texts("arguments")?;
        let of = keys.choice("of", &["pipe", "yields", "fork", "hackbench"])?;
        Ok(match of.ok_or_else(|| keys.missing("of"))? {
            "pipe" => Self::PipeRoundTrip,
            "yields" => Self::PairOfYields,
            "fork" => Self::ForkExitWait,
            _ => Self::Hackbench(
                arguments.unwrap_or_else(|| ["-g", "2", "-l", "50"].map(str::to_owned).into()),
            ),
        })
    }

    fn programs(&self) -> Vec<String> {
        match self {
            Self::Hackbench(_) => vec![HACKBENCH.to_owned()],
            Self::PipeRoundTrip | Self::PairOfYields | Self::ForkExitWait => Vec::new(),
        }
    }
}
