//! The rating of a process: the input that it receives, and the area that it draws (thesis, 8.1).

use crate::constants::Constants;

/// A device's (a display's, a terminal's) report of a process since its last report: input and drawing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Input events received.
    pub input: u32,
    /// Screen area drawn, in millionths of the visible screen.
    pub output_ppm: u64,
}

impl Changes {
    /// Adds the numbers of `more` to these.
    pub fn add(&mut self, more: Changes) {
        self.input = self.input.saturating_add(more.input);
        self.output_ppm = self.output_ppm.saturating_add(more.output_ppm);
    }

    /// Whether the process neither received input nor drew.
    pub const fn is_none(&self) -> bool {
        self.input == 0 && self.output_ppm == 0
    }
}

/// A screen is divided into this many parts, in which drawing is counted: a part is small enough for a
/// letter, and large enough that a film is forgotten soon.
const SCREEN_PARTS: u64 = 1 << 14;

/// A process' averages: "changes per second".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rating {
    /// Input events a second, times [`Constants::input_scale`].
    input: u64,
    /// Drawing a second, in 2^14th parts of the screen.
    output: u64,
}

impl Rating {
    /// The averages after one more second, in which the process did `changes`: `(old + current) / 2`, in
    /// whole numbers (thesis, equation 8.1).
    #[must_use]
    pub fn after(self, changes: Changes, constants: &Constants) -> Rating {
        let input = u64::from(changes.input) * u64::from(constants.input_scale);
        // Any drawing, even a dot, is counted as large enough that it is not 0 after it is halved.
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

    /// Drawing, in whole screens a second.
    pub fn output_per_s(self) -> f64 {
        self.output as f64 / SCREEN_PARTS as f64
    }

    /// Whether the process is explicitly interactive: it received input or drew something itself.
    pub const fn is_explicit(self) -> bool {
        self.input > 0 || self.output > 0
    }
}
