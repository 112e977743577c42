//! Who is being used: what clients of X11 draw and receive, terminals, and what programs report of themselves.
//!
//! [`Devices`] watches the user's devices from outside, without changing a server or a program: a thread for each that
//! sleeps while nothing happens. Once a second the scheduler takes what was seen ([`Devices::take`]) as samples for the policy. What
//! a program can do without the user, as sending events to itself or drawing where nobody sees it, is not counted.

mod device;
mod ledger;
mod region;
mod report;
mod sys;
pub mod terminals;
mod x11;

pub use report::Reporter;
pub use sys::Waker;

pub use device::{
    ClientStatus, DeviceError, DeviceKind, DeviceOptions, DeviceState, DeviceStatus, Devices, Notify, Seen,
    Synthetic,
};
