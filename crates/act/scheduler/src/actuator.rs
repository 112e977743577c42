//! What every actuator can do: give processes their places, and say how that went.

use spry_control::Tuning;
use spry_policy::{Standing, Tgid};
use spry_reservations::Enforcer;

/// A scheduling class, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Spry's own daemon.
    Daemon,
    /// Threads of the kernel.
    Kthread,
    /// Processes in use.
    Interactive,
    /// All other tasks, by fair shares.
    Other,
    /// Tasks that get only CPU time that no other task wants.
    Idle,
}

/// The place of one process until the next round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The process.
    pub tgid: Tgid,
    /// Its class.
    pub class: Class,
    /// The level within the interactive class; the lowest level is served first.
    pub level: u8,
    /// The quantum within the interactive class: how long all threads of the process together may run before
    /// another process' threads do, us.
    pub quantum_us: u32,
}

impl Verdict {
    /// The verdict on a process that works for the daemon as a user: it is served as early as the daemon, and
    /// has a small part of the CPU of its own.
    #[must_use]
    pub const fn of_helper(tgid: Tgid) -> Verdict {
        Verdict { tgid, class: Class::Daemon, level: 0, quantum_us: 0 }
    }
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
    /// The actuator is in charge.
    Acting,
    /// The kernel took the actuator out; the text is the kernel's reason. All tasks are with the kernel's own
    /// scheduler.
    Ejected(String),
}

/// Whatever the policy acts through.
pub trait Actuator {
    /// The actuator's name: `scx`, `fair` or `none`.
    fn name(&self) -> &'static str;

    /// Gives each named process its place, and all other processes the place of their own nature. A process
    /// that has ended is no error.
    ///
    /// # Errors
    /// Where the kernel refuses as a whole.
    fn apply(&mut self, verdicts: &[Verdict]) -> anyhow::Result<()>;

    /// Puts a process into a class by hand, whatever the policy says; `None` takes the class back.
    ///
    /// # Errors
    /// Where there is no such process, or it cannot have the class.
    fn set_by_hand(&mut self, tgid: Tgid, class: Option<Class>) -> anyhow::Result<()>;

    /// A process that had a class by hand has ended: a new process of this number does not get the class.
    fn forget_hand(&mut self, tgid: Tgid);

    /// Whether the actuator still acts.
    fn health(&mut self) -> Health;

    /// What enforces reservations while this actuator acts; `None` if it cannot.
    fn enforcer(&self) -> Option<Box<dyn Enforcer>> {
        None
    }

    /// Turns the knobs of tick and quantum, or gives them back (`None`).
    ///
    /// # Errors
    /// Where this actuator, or this kernel, has no such knobs.
    fn tune(&mut self, _tuning: Option<Tuning>) -> anyhow::Result<()> {
        anyhow::bail!("only sched_ext has a tick and a quantum to turn, and it is not what acts here")
    }

    /// The knobs that are turned.
    fn tuning(&self) -> Option<Tuning> {
        None
    }

    /// The longest time for which the actuator kept a CPU for its housekeeping in the kernel, ns; `None`
    /// if it has nothing in the kernel.
    fn housekeeping_ns_longest(&self) -> Option<u64> {
        None
    }

    /// Things the user should know, for example a setting that cannot be honoured here.
    fn warnings(&self) -> Vec<String>;
}
