//! The latency with which this kernel wakes a thread: this crate samples the latency, and gives its
//! distribution and its parts.
//!
//! The method is realfeel's (Williams 2002, Measuring Scheduler Latency) on today's interfaces. Threads of a
//! real-time class are woken at a fixed rate, and each reads the clock. A sample is the time from when a
//! wake-up was due to that reading.
//!
//! ```no_run
//! use std::time::Duration;
//! use spry_latency::{Config, Limit, PRIORITY_DEFAULT, Placement, RATE_DEFAULT_HZ, Sampling, Source};
//!
//! let config = Config {
//!     source: Source::Nanosleep,
//!     rate_hz: RATE_DEFAULT_HZ,
//!     placement: Placement::Each,
//!     priority: PRIORITY_DEFAULT,
//!     limit: Limit::Duration(Duration::from_secs(10)),
//!     watcher: None,
//! };
//! for thread in Sampling::start(&config)?.finish()? {
//!     println!("{:?}: at most {:?} ns late", thread.cpu, thread.latency.max_ns());
//! }
//! # Ok::<(), spry_latency::Error>(())
//! ```
//!
//! The samples of a thread go into a [`Histogram`] of its own, in constant memory. [`Results`] hold the
//! histograms of all threads, with the machine and the settings. [`text`], [`html`], [`json`] and
//! [`histfile`] show them. A [`SampleWatch`] splits each sample into [`Parts`].

pub mod article;
pub mod chart;
pub mod compare;
mod cpus;
pub mod culprits;
mod date;
mod error;
pub mod histfile;
mod histogram;
pub mod html;
pub mod json;
mod live;
mod prepare;
mod quantile;
mod results;
mod sampler;
mod source;
mod split;
mod summary;
pub mod text;
pub mod verdict;

pub use cpus::Placement;
pub use culprits::{Culprit, Culprits, Evidence, How, Look, Place};
pub use date::setting as clock_setting;
pub use error::{Error, Result};
pub use histogram::{Bucket, Histogram};
pub use prepare::Lack;
pub use quantile::{Estimate, QUANTILES, Quantile};
pub use results::{End, LOAD_ENDED, MeasuredMachine, Results, SampledThread, Worst};
pub use sampler::{
    Config, Limit, PRIORITY_DEFAULT, Progress, RATE_DEFAULT_HZ, RATES_HZ, Sampling, WARM_UP, Watcher,
};
pub use source::Source;
pub use split::{PartHistograms, Parts, SampleWatch, Sight, WakeState};
pub use summary::{Summary, THRESHOLDS};
