//! A display of X11, observed on a server that knows nothing of it.
//!
//! What clients receive comes from RECORD (`record`), what hands did from XInput's raw events (`hands`;
//! `relay` has what is passed on), what clients draw from DAMAGE (`drawing`, `tally`, `windows`), and
//! X-Resource says which process a client is (`clients`).

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

/// What to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Task {
    /// The user to look as.
    pub(crate) user: User,
    /// The display's number.
    pub(crate) number: u32,
    /// The process that listens at its socket.
    pub(crate) listener: Tgid,
    /// Whether synthetic input counts.
    pub(crate) synthetic: Synthetic,
}
