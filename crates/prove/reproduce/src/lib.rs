//! Makes the papers' figures from traces. It selects the cells that the figures need, analyses their traces,
//! draws the figures, and decides whether the findings of the papers were found again.
//!
//! [`application`] has the substitutes for the thesis' applications, and [`plan`] selects the cells.
//! [`mod@cells`] runs them on a machine and keeps their values in a [`directory`]. [`measurement`] takes the
//! values that the figures need from the analyses of a cell. [`study`] keeps all cells. [`interactive`] makes
//! [`figure`]s of them. [`claims`] decides about the findings. Four modules are other studies: [`latency`]
//! of the latencies of kernels, [`time_sensitive`] of reservations and of sound and picture, [`firm`] of firm
//! timers, [`clock_resolution`] of alarms on kernels with slow and fast ticks.

mod analysed;
pub mod application;
mod boots;
pub mod cells;
pub mod claims;
pub mod clock_resolution;
pub mod directory;
pub mod draw;
mod ends;
mod error;
pub mod figure;
pub mod firm;
pub mod interactive;
pub mod latency;
pub mod measurement;
pub mod page;
pub mod plan;
pub mod study;
pub mod text;
pub mod time_sensitive;
mod words;
mod written;

pub use boots::{BootStudy, Shortfall, StudyProgress};
pub use error::Error;
pub use written::{StudyTexts, write};
