//! How much a process takes from the user and shows to them (thesis, 8.1).

use crate::constants::Constants;

/// What a device tells of a process since it last told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Input events received.
    pub input: u32,
    /// Screen area drawn, in millionths of the visible screen.
    pub output_ppm: u64,
}

impl Changes {
    /// Both together.
    pub fn add(&mut self, more: Changes) {
        self.input = self.input.saturating_add(more.input);
        self.output_ppm = self.output_ppm.saturating_add(more.output_ppm);
    }

    /// Whether there is anything.
    pub const fn is_none(&self) -> bool {
        self.input == 0 && self.output_ppm == 0
    }
}

/// Parts of a screen that outputs are rated in: small enough for a letter, large enough that a film is forgotten soon.
const SCREEN_PARTS: u64 = 1 << 14;

/// A process' averages: "changes per second".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rating {
    /// Events, times [`Constants::input_scale`].
    input: u64,
    /// 2^14th parts of the screen.
    output: u64,
}

impl Rating {
    /// After a second in which that changed: `(old + current) / 2`, in whole numbers (thesis, equation 8.1).
    #[must_use]
    pub fn after(self, changes: Changes, constants: &Constants) -> Rating {
        let input = u64::from(changes.input) * u64::from(constants.input_scale);
        // Whatever is drawn outlasts the halving, be it a dot.
        let output = match changes.output_ppm {
            0 => 0,
            ppm => (ppm.saturating_mul(SCREEN_PARTS) / 1_000_000).max(2),
        };
        Rating { input: (self.input + input) / 2, output: self.output.saturating_add(output) / 2 }
    }

    /// Input, in parts of an event a second.
    pub const fn input(self) -> u64 {
        self.input
    }

    /// Output, in parts of the screen a second.
    pub const fn output(self) -> u64 {
        self.output
    }

    /// Input events a second.
    pub fn input_per_s(self, constants: &Constants) -> f64 {
        self.input as f64 / f64::from(constants.input_scale)
    }

    /// Screens a second.
    pub fn output_per_s(self) -> f64 {
        self.output as f64 / SCREEN_PARTS as f64
    }

    /// Whether the process is explicitly interactive: it takes or shows anything.
    pub const fn is_explicit(self) -> bool {
        self.input > 0 || self.output > 0
    }
}
