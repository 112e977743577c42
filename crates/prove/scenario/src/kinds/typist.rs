//! The parameters of the typist and its editor.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The typist sends keys at a steady rate through a pipe. The editor works for each key and sends an echo
/// back (Emacs in the thesis, sections 4.3 and 6.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Typist {
    /// The mean time between two keys, ns.
    pub interval_ns: u64,
    /// The work that the editor does for a key, ns of CPU time.
    pub work_ns: u64,
    /// The width of the range in which a key is shifted at random, as a share of the interval, 0 to 1. A key
    /// comes up to half of it earlier or later, since no person types in step with a clock tick.
    pub jitter: f64,
}

impl Parameters for Typist {
    const NAME: &'static str = "typist";
    const ABOUT: &'static str =
        "keys through a pipe to an editor that answers each; keys: rate, editor_work, jitter";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let rate = keys.number_within("rate", 0.01, 10_000.0)?.unwrap_or(8.0);
        Ok(Self {
            interval_ns: (1e9 / rate).round() as u64,
            work_ns: keys.duration_ns("editor_work")?.unwrap_or(2_000_000),
            jitter: keys.number_within("jitter", 0.0, 1.0)?.unwrap_or(0.2),
        })
    }

    /// The number of threads: the typist and the editor.
    fn threads(&self) -> u32 {
        2
    }
}
