//! Finds the processes in use: the crate watches the drawing and the input of X11 clients, terminals, and
//! programs' own reports.
//!
//! [`Devices`] watches the user's devices from outside, without changing a server or a program. Separate
//! processes (`spry-eyes`) look at displays, each as the user of its display, and sleep while nothing
//! happens. Once a second the scheduler takes the observations ([`Devices::take`]) as samples for the policy.
//! Actions that a program can take without the user do not count: events that it sends to itself, and drawing
//! where it cannot be seen.

mod device;
mod eyes;
pub mod input;
mod ledger;
mod patience;
mod people;
pub mod places;
mod rate;
mod report;
pub mod terminals;
pub mod wire;

pub use patience::Patience;
pub use people::{People, is_wholly_of, owner};
pub use rate::pause_after;
pub use report::Reporter;

pub use device::{
    ClientStatus, DeviceError, DeviceKind, DeviceOptions, DeviceState, DeviceStatus, Devices, Notify,
    Observations, Synthetic,
};
