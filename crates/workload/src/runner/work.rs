//! CPU work: long runs of instructions that do nothing, counted exactly or calibrated in CPU time.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering};

use super::sys;

/// Instructions of a unit of work: 1,000 that do nothing, one that counts, one that jumps.
///
/// Emulators run long straight lines of them fast, and nothing about them depends on memory or on the CPU's caches.
pub const UNIT_INSTRUCTIONS: u64 = 1002;

/// Units after which the runner looks whether all is over: about 100 us on a machine of an instruction a nanosecond.
const UNITS_BETWEEN_LOOKS: u64 = 100;

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
    /// Measures a unit in CPU time: the median of several measurements, on the CPU the caller runs on. Takes some 10 ms.
    pub fn calibrate() -> Self {
        burn(20_000);
        let mut measured: Vec<f64> = (0..15)
            .map(|_| {
                let units = 20_000;
                let before_ns = sys::thread_cpu_ns();
                burn(units);
                (sys::thread_cpu_ns() - before_ns) as f64 / units as f64
            })
            .collect();
        measured.sort_by(f64::total_cmp);
        Self::Calibrated { unit_ns: measured[measured.len() / 2].max(1.0) }
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

    /// Does so much work, or less if `stop` becomes other than 0 meanwhile.
    pub(crate) fn run(&self, ns: u64, stop: &AtomicU32) {
        if ns == 0 {
            return;
        }
        let mut left = self.units(ns);
        while left > 0 && stop.load(Ordering::Relaxed) == 0 {
            let units = left.min(UNITS_BETWEEN_LOOKS);
            burn(units);
            left -= units;
        }
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
