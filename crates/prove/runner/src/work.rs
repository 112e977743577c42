//! CPU work: long runs of instructions that have no effect. Their number is exact, or is
//! calibrated in CPU time.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use spry_sys::clock;

/// The instructions of a unit of work: 1,000 without effect, a decrement and a jump.
///
/// Emulators run a long straight sequence of such instructions fast. The instructions depend neither on
/// memory nor on the caches of the CPU.
pub const UNIT_INSTRUCTIONS: u64 = 1002;

/// How many units are run before the thread checks again whether the run is over: about 100 us on a machine
/// that takes a nanosecond for an instruction.
const UNITS_BETWEEN_LOOKS: u64 = 100;

/// How many units one round of calibration runs: about 100 us.
const ROUND_UNITS: u64 = 5_000;
/// How many rounds follow each other without a pause.
const BURST_ROUNDS: usize = 20;
/// How many bursts of rounds are run, and how long the pause between two bursts is.
const BURSTS: usize = 10;
const BETWEEN_BURSTS: Duration = Duration::from_millis(8);

/// How CPU time is turned into work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Each instruction takes exactly 2 to the power of `shift` nanoseconds, as in an emulator that
    /// counts instructions.
    Instructions {
        /// The power of 2.
        shift: u32,
    },
    /// A unit of work takes this much CPU time on this machine.
    Calibrated {
        /// CPU time of a unit, ns; more than 0.
        unit_ns: f64,
    },
}

impl Work {
    /// Measures the CPU time of a unit on the CPU on which the caller runs. Takes a value from the fastest
    /// rounds, because a busy neighbour slows the others down. The calibration takes about 100 ms.
    pub fn calibrate() -> Self {
        burn(ROUND_UNITS * 4);
        let mut measured = Vec::new();
        for _ in 0..BURSTS {
            measured.extend((0..BURST_ROUNDS).map(|_| {
                let before_ns = clock::thread_cpu_ns();
                burn(ROUND_UNITS);
                (clock::thread_cpu_ns() - before_ns) as f64 / ROUND_UNITS as f64
            }));
            std::thread::sleep(BETWEEN_BURSTS);
        }
        measured.sort_by(f64::total_cmp);
        // The very fastest round is not taken. The kernel may subtract stolen time late, from a round to
        // which it does not belong, and that round then looks too short.
        Self::Calibrated { unit_ns: measured[measured.len() / 10].max(1.0) }
    }

    /// The CPU time that a unit takes, ns.
    pub fn unit_ns(&self) -> f64 {
        match self {
            Self::Instructions { shift } => (UNIT_INSTRUCTIONS << shift) as f64,
            Self::Calibrated { unit_ns } => *unit_ns,
        }
    }

    /// The description of the work in the results.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Self::Instructions { shift } => json!({ "counted": "instructions", "shift": shift }),
            Self::Calibrated { unit_ns } => json!({ "counted": "calibrated", "unit_ns": unit_ns }),
        }
    }

    /// How many units take this much CPU time; at least one.
    pub(crate) fn units(&self, ns: u64) -> u64 {
        ((ns as f64 / self.unit_ns()).round() as u64).max(1)
    }

    /// Does this much work, or less if `stop` becomes other than 0 before. Calibrated work takes at least the
    /// requested CPU time, even if the CPU has become faster since the calibration.
    pub(crate) fn run(&self, ns: u64, stop: &AtomicU32) {
        if ns == 0 {
            return;
        }
        let before_ns = match self {
            Self::Instructions { .. } => return burn_units(self.units(ns), stop),
            Self::Calibrated { .. } => clock::thread_cpu_ns(),
        };
        let mut left_ns = ns;
        while left_ns > 0 && stop.load(Ordering::Relaxed) == 0 {
            burn_units(self.units(left_ns), stop);
            left_ns = ns.saturating_sub(clock::thread_cpu_ns() - before_ns);
        }
    }
}

/// Runs this many units, or fewer if `stop` becomes other than 0 before.
fn burn_units(mut left: u64, stop: &AtomicU32) {
    while left > 0 && stop.load(Ordering::Relaxed) == 0 {
        let units = left.min(UNITS_BETWEEN_LOOKS);
        burn(units);
        left -= units;
    }
}

/// Runs this many units, at least one.
fn burn(units: u64) {
    let units = units.max(1);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the code counts down a register of its own and changes nothing else.
    unsafe {
        asm!("2:", ".rept 1000", "nop", ".endr", "dec {left}", "jnz 2b", left = inout(reg) units => _,
            options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the code counts down a register of its own and changes nothing else.
    unsafe {
        asm!("2:", ".rept 1000", "nop", ".endr", "subs {left}, {left}, #1", "b.ne 2b", left = inout(reg) units => _,
            options(nomem, nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("a unit of work is written for x86_64 and aarch64");
}
