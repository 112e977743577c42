//! What the lab tells while it works, and how it is asked to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step has begun; it lasts until the next one.
    Step(&'a str),
    /// So many bytes of the step's whole are there.
    Bytes {
        /// There.
        done: u64,
        /// In all.
        total: u64,
    },
    /// The guest has reached a stage.
    Guest(Stage),
}

/// How far a guest has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The kernel boots.
    Booting,
    /// Mounts and settings are being made.
    SettingUp,
    /// The scheduler under test loads.
    Loading,
    /// Waits for the moment at which measuring starts.
    Waiting,
    /// The job's commands run.
    Running,
    /// Results are on their way out.
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

    /// The stage as a person reads it.
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

/// Is told what happens; called from the thread that works.
pub trait Progress: Sync {
    /// Something happened.
    fn tell(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Sync> Progress for F {
    fn tell(&self, event: Event<'_>) {
        self(event);
    }
}

/// A request to stop that any thread can make, once and for all.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request that is made by setting a flag, as a signal handler does.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Asks to stop; safe in a signal handler.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
