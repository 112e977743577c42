//! Measures the costs of switching, trapping, copying and being interrupted on this machine, as the article
//! on clock resolution did.
//!
//! The measurements repeat tables 1 and 2 and section 3 of Etsion, Tsafrir and Feitelson 2003, Effects of
//! Clock Resolution on the Scheduling of Interactive and Soft Real-Time Processes. The article's values stand
//! beside the values of this machine ([`papers`]). Everything runs on one CPU. If another program ran on that
//! CPU during a sample, or the hypervisor took the CPU away, the sample is set aside and counted.
//!
//! ```no_run
//! use std::time::Duration;
//! use spry_bench::{Benchmark, Config, NoWatch};
//!
//! let duration = Duration::from_secs(1);
//! let config = Config { only: vec![Benchmark::Trap], duration, ..Config::default() };
//! let report = spry_bench::run(&config, &NoWatch)?;
//! if let Some(trap) = &report.trap {
//!     println!("{:.0} ns", trap.stats.mean);
//! }
//! # Ok::<(), spry_bench::Error>(())
//! ```

mod cache;
mod clock;
mod error;
mod interrupt;
pub mod json;
mod machine;
pub mod papers;
mod partner;
mod report;
mod run;
mod session;
mod sort;
mod stats;
mod switch;
pub mod text;
mod trap;

pub use error::{Error, Result};
pub use machine::{BenchMachine, Noise};
pub use report::{Cache, Figure, Interrupt, Lack, Rate, Report, Sort};
pub use run::{Benchmark, Config, DURATION_DEFAULT, run};
pub use session::{NoWatch, RunWatch};
pub use sort::RATES_HZ;
pub use stats::Stats;
