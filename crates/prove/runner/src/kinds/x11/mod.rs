//! Plays the kinds of tasks that need an X display: real clients of a real X server, and observers that
//! measure programs from outside.

pub(super) mod editor;
pub(super) mod frames;
pub(super) mod game;
pub(super) mod mouse;
mod observer;
pub(super) mod player;
pub(super) mod program;
pub(super) mod typist;
