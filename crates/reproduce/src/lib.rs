//! The papers' figures from traces: which cells they need, what their traces say, pictures, and whether what the papers
//! found was found again.
//!
//! [`application`] says what stands for each of the thesis' applications, [`measurement`] takes from a cell's analyses
//! what the figures need, [`study`] keeps all cells, [`interactive`] makes [`figure`]s of them, [`claims`] decides.
//! [`latency`] is another study, of kernels' latencies.

pub mod application;
pub mod claims;
pub mod draw;
pub mod figure;
pub mod interactive;
pub mod latency;
pub mod measurement;
pub mod page;
pub mod study;
pub mod text;
mod words;
