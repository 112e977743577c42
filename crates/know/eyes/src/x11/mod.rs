//! A display of X11, observed without any change to its server.
//!
//! RECORD reports the input that clients receive (`record`), XInput's raw events the movements of devices
//! (`hands`; `relay` has input that is passed on). DAMAGE reports the clients' drawings (`drawing`, `tally`,
//! `windows`), and X-Resource the clients' processes (`clients`).

mod auth;
mod clients;
mod drawing;
mod hands;
mod link;
mod record;
mod relay;
mod server;
mod session;
mod stream;
mod tally;
mod watch;
mod windows;

use spry_display::Synthetic;
use spry_policy::Tgid;

use crate::sys::User;

pub(crate) use watch::watch;

/// The display to look at, and the way to do so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DisplayTask {
    /// The user to look as.
    pub(crate) user: User,
    /// The display's number.
    pub(crate) number: u32,
    /// The process that listens at its socket.
    pub(crate) listener: Tgid,
    /// Whether synthetic input counts.
    pub(crate) synthetic: Synthetic,
}
