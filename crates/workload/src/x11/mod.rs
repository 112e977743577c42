//! Real X11 clients of a real X server, and observers that measure programs from outside.
//!
//! A scenario with a display gets a server of its own ([`server`]), without a window manager. Clients
//! ([`surface`]) draw as real players and games do, by MIT-SHM. What a client or any other program shows
//! is measured without its help: the DAMAGE extension tells when something was drawn, XTEST presses keys.

pub mod child;
pub mod client;
pub mod clock;
pub mod damage;
pub mod editor;
pub mod error;
pub mod files;
pub mod find;
pub mod frames;
pub mod game;
pub mod keys;
pub mod mouse;
mod observer;
pub mod player;
pub mod program;
pub mod server;
pub mod surface;
pub mod target;
pub mod tree;
pub mod typist;
pub mod uinput;
mod xorg;

pub use error::X11Error;
