//! The events that the lab reports while it works.

pub use spry_experiment::Stop;

/// An event that the lab reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step has begun. It lasts until the next step begins.
    Step(&'a str),
    /// This many of the step's bytes have arrived.
    Bytes {
        /// How many bytes have arrived.
        done: u64,
        /// How many bytes the step has.
        total: u64,
    },
    /// The guest has reached a stage.
    Guest(Stage),
}

/// A stage of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The kernel boots.
    Booting,
    /// The guest makes mounts and settings.
    SettingUp,
    /// The scheduler under test loads.
    Loading,
    /// The guest waits for the moment at which the commands start.
    Waiting,
    /// The job's commands run.
    Running,
    /// The guest writes the results into the shared memory.
    Collecting,
    /// The results are complete.
    Done,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 7] = [
        Self::Booting,
        Self::SettingUp,
        Self::Loading,
        Self::Waiting,
        Self::Running,
        Self::Collecting,
        Self::Done,
    ];

    /// The stage's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::SettingUp => "setting up",
            Self::Loading => "loading the scheduler",
            Self::Waiting => "waiting for the start",
            Self::Running => "running",
            Self::Collecting => "collecting results",
            Self::Done => "done",
        }
    }
}

/// Receives the lab's events, in the thread that does the work.
pub trait Progress: Sync {
    /// Receives an event.
    fn tell(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Sync> Progress for F {
    fn tell(&self, event: Event<'_>) {
        self(event);
    }
}
