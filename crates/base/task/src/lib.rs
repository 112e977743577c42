//! The numbers of threads and processes, as types that every part of Spry uses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A thread by its number. 0 is the idle task of each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tid(pub u32);

/// A process (thread group) by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tgid(pub u32);

impl Tid {
    /// The idle task of a CPU.
    pub const IDLE: Tid = Tid(0);

    /// Whether this is an idle task.
    pub const fn is_idle(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tgid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
