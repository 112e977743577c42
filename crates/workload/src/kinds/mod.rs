//! The ready-made kinds of tasks: the papers' applications.

mod alarms;
mod compile;
mod cost;
mod fs_load;
pub(crate) mod game;
mod kernel_load;
mod modem;
pub(crate) mod player;
mod stresser;
mod typist;

use std::fmt::Debug;

use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;
use crate::x11;

/// A kind of task, by which a scenario names it.
pub trait Kind: Sync {
    /// The word in the scenario.
    fn name(&self) -> &'static str;

    /// What it does, in a line.
    fn about(&self) -> &'static str;

    /// Reads its keys.
    ///
    /// # Errors
    /// A key that is missing or wrong.
    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake>;
}

/// A task of some kind with its keys read: what is played.
pub trait Role: Debug + Send + Sync {
    /// How many of its threads call [`Stage::start_line`].
    fn threads(&self) -> u32 {
        1
    }

    /// Programs that must be on `PATH`.
    fn programs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Files that no package has and that are made once ([`x11::files`]).
    fn files(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it draws on an X display.
    fn needs_display(&self) -> bool {
        false
    }

    /// Plays one instance, in a process of its own (or in a thread, where tasks share one), until the run is over.
    ///
    /// # Errors
    /// What hindered it.
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError>;
}

/// All kinds, in the order in which messages name them.
pub static ALL: &[&dyn Kind] = &[
    &player::Player,
    &game::Game,
    &typist::Typist,
    &alarms::Alarms,
    &stresser::Stresser,
    &stresser::Worker,
    &compile::Compile,
    &cost::Cost,
    &modem::Modem,
    &x11::player::PLAYER,
    &x11::game::GAME,
    &x11::editor::EDITOR,
    &x11::typist::TYPIST,
    &x11::mouse::MOUSE,
    &x11::frames::FRAMES,
    &x11::program::PROGRAM,
    &kernel_load::KernelLoad,
    &fs_load::FsLoad,
];
