//! The BPF event logger and its driver.
//!
//! ```no_run
//! use spry_recorder::{Recorder, create};
//!
//! let file = create("trace.spry".as_ref())?;
//! let recording = Recorder::builder().start(file)?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let statistics = recording.stop()?;
//! println!("{} events, {} lost", statistics.events, statistics.lost);
//! # Ok::<(), spry_recorder::Error>(())
//! ```
//!
//! Programs in the kernel (`src/bpf`) put records into one ring a CPU; a thread takes them out every 80 ms or
//! sooner, orders and encodes them; another writes and synchronises the file. Programs make their own events
//! by writing to [`MARK_PATH`].

mod accounts;
mod decode;
mod drain;
mod error;
mod flight;
mod limits;
mod load;
mod machine;
mod mark;
mod numbers;
mod programs;
mod queue;
mod recording;
mod ring;
pub mod split;
mod symbols;
mod tasks;
mod throttle;
mod tick;
mod wire;

pub use error::{Error, Result};
pub use flight::{FlightEvent, When};
pub use machine::RunningKernel;
pub use recording::{Builder, RING_BYTES_DEFAULT, Recorder, Recording, Statistics, Switch, create};
pub use spry_mark::MARK_PATH;
pub use wire::Nonsense;
