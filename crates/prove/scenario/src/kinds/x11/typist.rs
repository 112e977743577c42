//! The parameters of the typist at a window.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// How long the answer to the first key may take unless the scenario gives another time, ns. The program may
/// still be starting.
const FIRST_PATIENCE_NS: u64 = 30_000_000_000;

/// Types at another task's window, 8 characters a second, as the thesis does (section 4.3), and measures how
/// long each key takes to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Typist {
    /// The name of the task to which the window belongs.
    pub target: String,
    /// The time between two keys, ns.
    pub interval_ns: u64,
    /// The greatest random delay of a key, as a share of the interval, 0 to 1: no person types in step
    /// with a clock tick.
    pub jitter: f64,
    /// The keys that are typed first, each without waiting for an answer.
    pub opening: String,
    /// How many keys are typed before the run, each after the answer to the preceding key.
    pub preparing: usize,
    /// The longest time until the answer to the first of the `preparing` keys, ns. After it the run fails.
    pub first_patience_ns: u64,
    /// The start of the typing, ns after the beginning of the measured time; `None`: the task's start.
    pub from_ns: Option<u64>,
    /// The end of the typing, ns after the beginning of the measured time; `None`: the end of the run.
    pub until_ns: Option<u64>,
}

impl Parameters for Typist {
    const NAME: &'static str = "x11-typist";
    const ABOUT: &'static str = "types at a task's window (by XTEST; by uinput where server = \"xorg\") \
                                 until DAMAGE tells of each drawing; keys: target, rate, jitter, opening, \
                                 preparing_keys, patience, from, until";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let target = super::target(keys)?;
        let rate = keys.number_within("rate", 0.1, 100.0)?.unwrap_or(8.0);
        let interval_ns = (1e9 / rate).round() as u64;
        let jitter = keys.number_within("jitter", 0.0, 1.0)?.unwrap_or(0.2);
        let first_patience_ns = keys.duration_ns("patience")?.unwrap_or(FIRST_PATIENCE_NS);
        let opening = keys.text("opening")?.unwrap_or_default();
        let preparing = usize::try_from(keys.whole("preparing_keys")?.unwrap_or(0)).unwrap_or(usize::MAX);
        let (from_ns, until_ns) = (keys.duration_ns("from")?, keys.duration_ns("until")?);
        Ok(Self { target, interval_ns, jitter, opening, preparing, first_patience_ns, from_ns, until_ns })
    }

    fn needs_display(&self) -> bool {
        true
    }
}
