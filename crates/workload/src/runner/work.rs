//! CPU work: long runs of instructions that do nothing, counted exactly or calibrated in CPU time.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::sys;

/// Instructions of a unit of work: 1,000 that do nothing, one that counts, one that jumps.
///
/// Emulators run long straight lines of them fast, and nothing about them depends on memory or on the CPU's caches.
pub const UNIT_INSTRUCTIONS: u64 = 1002;

/// Units after which the runner looks whether all is over: about 100 us on a machine of an instruction a nanosecond.
const UNITS_BETWEEN_LOOKS: u64 = 100;

/// Units of one round of calibration: some 100 us.
const ROUND_UNITS: u64 = 5_000;
/// Rounds one after another.
const BURST_ROUNDS: usize = 20;
/// How often, and how far apart, such rounds are run.
const BURSTS: usize = 10;
const BETWEEN_BURSTS: Duration = Duration::from_millis(8);

/// How CPU time becomes work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// An instruction takes 2 to the power of `shift` nanoseconds, exactly (an instruction-counting emulator).
    Instructions {
        /// The power.
        shift: u32,
    },
    /// A unit takes so long in CPU time on this machine.
    Calibrated {
        /// ns, more than 0.
        unit_ns: f64,
    },
}

impl Work {
    /// Measures a unit in CPU time on the CPU the caller runs on, and takes the pace of fast moments: a busy neighbour
    /// slows others down. Takes some 100 ms.
    pub fn calibrate() -> Self {
        burn(ROUND_UNITS * 4);
        let mut measured = Vec::new();
        for _ in 0..BURSTS {
            measured.extend((0..BURST_ROUNDS).map(|_| {
                let before_ns = sys::thread_cpu_ns();
                burn(ROUND_UNITS);
                (sys::thread_cpu_ns() - before_ns) as f64 / ROUND_UNITS as f64
            }));
            std::thread::sleep(BETWEEN_BURSTS);
        }
        measured.sort_by(f64::total_cmp);
        // Not the very fastest: stolen time that the kernel takes off late makes a round look shorter than it was.
        Self::Calibrated { unit_ns: measured[measured.len() / 10].max(1.0) }
    }

    /// How long a unit takes, ns of CPU time.
    pub fn unit_ns(&self) -> f64 {
        match self {
            Self::Instructions { shift } => (UNIT_INSTRUCTIONS << shift) as f64,
            Self::Calibrated { unit_ns } => *unit_ns,
        }
    }

    /// The units that take so long, at least one.
    pub(crate) fn units(&self, ns: u64) -> u64 {
        ((ns as f64 / self.unit_ns()).round() as u64).max(1)
    }

    /// Does so much work, or less if `stop` becomes other than 0 meanwhile. Calibrated work takes no less CPU time than
    /// was asked for, even where the CPU has become faster since.
    pub(crate) fn run(&self, ns: u64, stop: &AtomicU32) {
        if ns == 0 {
            return;
        }
        let before_ns = match self {
            Self::Instructions { .. } => return burn_units(self.units(ns), stop),
            Self::Calibrated { .. } => sys::thread_cpu_ns(),
        };
        let mut left_ns = ns;
        while left_ns > 0 && stop.load(Ordering::Relaxed) == 0 {
            burn_units(self.units(left_ns), stop);
            left_ns = ns.saturating_sub(sys::thread_cpu_ns() - before_ns);
        }
    }
}

/// Runs so many units, or fewer if `stop` becomes other than 0 meanwhile.
fn burn_units(mut left: u64, stop: &AtomicU32) {
    while left > 0 && stop.load(Ordering::Relaxed) == 0 {
        let units = left.min(UNITS_BETWEEN_LOOKS);
        burn(units);
        left -= units;
    }
}

/// Runs so many units, at least one.
fn burn(units: u64) {
    let units = units.max(1);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: counts a register of its own down and touches nothing else.
    unsafe {
        asm!("2:", ".rept 1000", "nop", ".endr", "dec {left}", "jnz 2b", left = inout(reg) units => _,
            options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: counts a register of its own down and touches nothing else.
    unsafe {
        asm!("2:", ".rept 1000", "nop", ".endr", "subs {left}, {left}, #1", "b.ne 2b", left = inout(reg) units => _,
            options(nomem, nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("a unit of work is written for x86_64 and aarch64");
}
