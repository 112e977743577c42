//! The interface of an actuator, which puts processes into scheduling classes on this kernel.

use spry_control::Knobs;
use spry_policy::{Standing, Tgid};
use spry_reservations::Enforcer;

/// A scheduling class, from the highest to the lowest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Spry's own daemon and its helpers.
    Daemon,
    /// Kernel threads of nice 0 or less.
    Kthread,
    /// Processes in use, by a verdict or by a manual override.
    Interactive,
    /// All other tasks, which share the CPU fairly.
    Other,
    /// Tasks that run when no other task wants the CPU.
    Idle,
}

/// The daemon's decision on one process: its class, level and quantum, until the next round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The process that the verdict is about.
    pub tgid: Tgid,
    /// The class of the process.
    pub class: Class,
    /// The level within the interactive class; the lowest level goes first.
    pub level: u8,
    /// The quantum within the interactive class, us: the time for which all threads of the process together
    /// may run before threads of other processes.
    pub quantum_us: u32,
}

impl Verdict {
    /// The verdict on a helper, a process that works for the daemon as an ordinary user. It has the daemon's
    /// class and a small CPU budget of its own.
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

/// Whether an actuator still acts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Health {
    /// The actuator schedules the tasks.
    Acting,
    /// The kernel removed the actuator and runs all tasks with its own scheduler. The text is
    /// the kernel's reason.
    Ejected(String),
}

/// The callbacks of a CPU's timer while a tick was set, since the actuator was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TickCount {
    /// The number of callbacks.
    pub callbacks: u64,
    /// The sum of their times, ns; the interrupts around them are not in it.
    pub ran_ns: u64,
}

/// A means by which the policy's verdicts take effect.
pub trait Actuator {
    /// The actuator's name: `scx`, `fair` or `none`.
    fn name(&self) -> &'static str;

    /// Puts each named process into the class of its verdict, and all other processes into the class of their
    /// own nature. A process that has exited is no error.
    ///
    /// # Errors
    /// If the kernel refuses the whole change.
    fn apply(&mut self, verdicts: &[Verdict]) -> anyhow::Result<()>;

    /// Sets a manual override: puts a process into a class, whatever the policy's verdict is. `None`
    /// removes the override.
    ///
    /// # Errors
    /// If there is no such process, or it cannot have this class.
    fn set_by_hand(&mut self, tgid: Tgid, class: Option<Class>) -> anyhow::Result<()>;

    /// Removes the manual override of a process that has exited, so that a new process with the same
    /// number does not get it.
    fn forget_hand(&mut self, tgid: Tgid);

    /// Whether the actuator still acts.
    fn health(&mut self) -> Health;

    /// The enforcer of reservations that goes with this actuator; `None` if there is none.
    fn enforcer(&self) -> Option<Box<dyn Enforcer>> {
        None
    }

    /// Sets the tick and the quanta; the default restores the scheduler's own.
    ///
    /// # Errors
    /// If this actuator, or this kernel, cannot set them.
    fn tune(&mut self, _knobs: Knobs) -> anyhow::Result<()> {
        anyhow::bail!("only sched_ext has a tick and a quantum to turn, and it is not what acts here")
    }

    /// The tick and the quanta that are set.
    fn knobs(&self) -> Knobs {
        Knobs::default()
    }

    /// The counts of each CPU's callbacks while a tick was set; `None` if this actuator has no tick.
    fn ticks(&self) -> Option<Vec<TickCount>> {
        None
    }

    /// The longest time for which the actuator's housekeeping in the kernel has occupied a CPU, ns;
    /// `None` if it has none.
    fn housekeeping_ns_longest(&self) -> Option<u64> {
        None
    }

    /// Warnings for the user, for example that a setting has no effect on this kernel.
    fn warnings(&self) -> Vec<String>;
}
