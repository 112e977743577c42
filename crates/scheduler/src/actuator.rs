//! What every actuator can do: give processes their places, and say how that went.

use spry_policy::{Standing, Tgid};

/// A scheduling class, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Spry's own daemon.
    Daemon,
    /// Threads of the kernel.
    Kthread,
    /// In use.
    Interactive,
    /// Everything else, by fair shares.
    Other,
    /// Only what nobody else wants.
    Idle,
}

/// The place of one process until the next round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Who.
    pub tgid: Tgid,
    /// Its class.
    pub class: Class,
    /// Within the interactive class; the lowest is served first.
    pub level: u8,
    /// Within the interactive class: what all threads of the process may run until those of others have, us.
    pub quantum_us: u32,
}

impl From<&Standing> for Verdict {
    fn from(standing: &Standing) -> Verdict {
        let Standing { tgid, level, quantum_us, .. } = *standing;
        Verdict { tgid, class: Class::Interactive, level, quantum_us }
    }
}

/// What has become of an actuator.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Health {
    /// It is in charge.
    Acting,
    /// The kernel took it out; why, in its words. All tasks are with the kernel's own scheduler.
    Ejected(String),
}

/// What the policy acts through.
pub trait Actuator {
    /// `scx`, `fair` or `none`.
    fn name(&self) -> &'static str;

    /// Gives the processes named their places, and everybody else their own nature's. A process that is gone is no error.
    ///
    /// # Errors
    /// Where the kernel refuses as a whole.
    fn apply(&mut self, verdicts: &[Verdict]) -> anyhow::Result<()>;

    /// Puts a process into a class by hand, whatever the policy says; `None` takes that back.
    ///
    /// # Errors
    /// Where there is no such process, or it cannot have the class.
    fn set_by_hand(&mut self, tgid: Tgid, class: Option<Class>) -> anyhow::Result<()>;

    /// Whether it still acts.
    fn health(&mut self) -> Health;

    /// Things the user should know, for example a setting that cannot be honoured here.
    fn warnings(&self) -> Vec<String>;
}
