//! Real X servers, their clients, and observers of programs.
//!
//! A scenario with a display gets a server of its own ([`server`]), without a window manager. Clients
//! ([`surface`]) draw as real players and games do, by MIT-SHM. The output of every program is measured
//! without its help: the DAMAGE extension reports drawings, XTEST presses keys.

pub mod child;
pub mod client;
pub mod clock;
pub mod damage;
pub mod error;
pub mod files;
pub mod find;
pub mod keys;
pub mod server;
pub mod shown;
pub mod surface;
pub mod target;
pub mod tree;
pub mod uinput;
mod xorg;

pub use error::X11Error;
