//! Images, virtual machines and their results.
//!
//! The lab boots a stock kernel with real programs in QEMU, in virtual time that advances with instructions: a run
//! repeats digit for digit on any machine, however loaded. [`Lab::prepare`] fetches and builds what a machine is made
//! of, [`Lab::run`] begins it again from memory for one [`Job`]; it is booted once.

mod build;
mod cache;
mod command;
mod cpio;
mod doctor;
mod elf;
mod emulator;
mod error;
mod fetch;
mod image;
mod integrity;
mod job;
mod kernel;
mod lab;
mod modules;
mod monitor;
mod progress;
pub mod protocol;
pub mod results;
mod saved;
pub mod scheduler;
pub mod sources;
mod topology;
mod vm;

pub use cache::{Cache, digest_of, digest_of_file, key_of};
pub use doctor::{Finding, State, doctor};
pub use emulator::Emulator;
pub use error::LabError;
pub use fetch::{Archive, Suite};
pub use image::Image;
pub use job::{Begins, FileSource, Job, Outcome, Record, TRACE};
pub use kernel::{Flavour, Kernel, KernelChoice};
pub use lab::{Lab, LabMachine, LabOptions, MachineSpec, model_of_time};
pub use progress::{Event, Progress, Stage, Stop};
pub use protocol::{Ended, GuestCommand};
pub use saved::{SavedMachine, saved_machines};
pub use topology::{CPUS_MAX, CacheSharing, CacheSizes, Topology};
pub use vm::TURN_INSTRUCTIONS;
