//! The parameters of the pointer that moves over a window.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// How many times a second the task moves the pointer unless the scenario gives another rate, Hz. Mice at the
/// time of the thesis reported their position at this rate.
const RATE_HZ: f64 = 100.0;

/// The task moves the pointer to and fro over another task's window, as the player of a game moves a mouse.
/// It does not wait for the window's program to react.
#[derive(Clone, Debug, PartialEq)]
pub struct Mouse {
    /// The name of the task to which the window belongs.
    pub target: String,
    /// The time between two moves, ns.
    pub interval_ns: u64,
}

impl Parameters for Mouse {
    const NAME: &'static str = "x11-mouse";
    const ABOUT: &'static str =
        "moves the pointer over a task's window (by XTEST) without a pause; keys: target, rate";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let target = super::target(keys)?;
        let rate_hz = keys.number_within("rate", 0.1, 1000.0)?.unwrap_or(RATE_HZ);
        Ok(Self { target, interval_ns: (1e9 / rate_hz).round() as u64 })
    }

    fn needs_display(&self) -> bool {
        true
    }
}
