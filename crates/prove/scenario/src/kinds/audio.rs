//! The parameters of a PipeWire graph.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The words that select how the threads of the graph get the CPU.
const THREADS: [&str; 3] = ["ordinary", "realtime", "reserved"];

/// The task starts PipeWire and its session manager with a sink that drops its input. It plays into the sink
/// and counts the periods for which a node was not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audio {
    /// The frames of a period, 16 to 8192.
    pub quantum: u64,
    /// The frames of a second, 8000 to 192000.
    pub rate: u64,
    /// How the threads of the graph get the CPU.
    pub threads: Threads,
}

/// How the threads of a graph get the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The threads get the CPU like any other thread.
    Ordinary,
    /// The threads have real-time priorities, which PipeWire's real-time module gives to its data loops.
    RealTime,
    /// The threads have Spry's reservations (`spry reserve --audio`).
    Reserved,
}

impl Audio {
    /// The length of a period, ns.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.quantum * 1_000_000_000 / self.rate
    }
}

impl Parameters for Audio {
    const NAME: &'static str = "audio";
    const ABOUT: &'static str =
        "PipeWire plays into a sink that drops everything; keys: quantum, rate, threads";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let mut whole = |key: &'static str, default, least, most| {
            let number = keys.whole(key)?.unwrap_or(default);
            if (least..=most).contains(&number) {
                return Ok(number);
            }
            Err(keys.mistake(key, format!("\"{key}\" must be from {least} to {most}, not {number}")))
        };
        let quantum = whole("quantum", 128, 16, 8192)?;
        let rate = whole("rate", 48_000, 8_000, 192_000)?;
        let threads = match keys.choice("threads", &THREADS)? {
            Some("realtime") => Threads::RealTime,
            Some("reserved") => Threads::Reserved,
            _ => Threads::Ordinary,
        };
        Ok(Self { quantum, rate, threads })
    }

    fn programs(&self) -> Vec<String> {
        let spry = (self.threads == Threads::Reserved).then_some("spry");
        ["pipewire", "wireplumber", "pw-cat", "pw-top"].into_iter().chain(spry).map(str::to_owned).collect()
    }
}
