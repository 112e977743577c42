//! Plays the ready-made kinds of tasks, one file a kind. This code reaches the machine through [`Stage`]
//! alone, so that another machine can play it.

mod alarms;
mod audio;
mod compile;
mod cost;
mod fs_load;
mod game;
mod kernel_load;
mod modem;
mod player;
mod sorter;
mod stresser;
mod typist;
mod x11;

use spry_scenario::kinds::Kind;
use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::Stage;

/// Plays one instance of a task until the run is over. The instance has a process of its own, or a thread
/// where several tasks share a process.
pub(crate) fn play(kind: &Kind, stage: &Stage) -> Result<Metrics, RunError> {
    match kind {
        Kind::Player(film) => player::play(film, stage),
        Kind::Game(game) => game::play(*game, stage),
        Kind::Typist(typing) => typist::play(typing, stage),
        Kind::Alarms(alarms) => alarms::play(alarms, stage),
        Kind::Stresser(_) => stresser::stress(stage),
        Kind::Worker(_) => stresser::work(stage),
        Kind::Sorter(sorter) => sorter::play(*sorter, stage),
        Kind::Compile(compile) => compile::play(compile, stage),
        Kind::Cost(cost) => cost::play(cost, stage),
        Kind::Modem(modem) => modem::play(modem, stage),
        Kind::X11Player(player) => x11::player::play(player, stage),
        Kind::X11Game(game) => x11::game::play(game, stage),
        Kind::X11Editor(editor) => x11::editor::play(editor, stage),
        Kind::X11Typist(typing) => x11::typist::play(typing, stage),
        Kind::X11Mouse(mouse) => x11::mouse::play(mouse, stage),
        Kind::X11Frames(frames) => x11::frames::play(frames, stage),
        Kind::Program(program) => x11::program::play(program, stage),
        Kind::KernelLoad(load) => kernel_load::play(load, stage),
        Kind::FsLoad(load) => fs_load::play(load, stage),
        Kind::Audio(audio) => audio::play(*audio, stage),
    }
}
