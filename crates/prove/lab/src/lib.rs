//! Images and virtual machines in which experiments repeat.
//!
//! The lab boots an unmodified kernel with real programs in QEMU. Its virtual time advances with the
//! instructions that the guest executes, so a run repeats digit for digit on any machine, under any load.
//! [`Lab::prepare`] fetches and builds the parts of a machine. The machine is booted and saved once;
//! [`Lab::run`] then continues it from memory for one [`Job`]. [`Guest`] is such a machine for the cells
//! of an experiment.

mod build;
mod cache;
mod command;
mod cpio;
mod doctor;
mod elf;
mod emulator;
mod error;
mod fetch;
mod guest;
mod image;
mod integrity;
mod job;
mod kernel;
mod lab;
mod modules;
mod monitor;
mod progress;
pub mod protocol;
mod recipe;
mod saved;
pub mod sources;
mod topology;
mod vm;

pub use build::{RATES_HZ, Ticks, Timers, Variant, built_kernels};
pub use cache::{Cache, digest_of_file, key_of};
pub use doctor::{Finding, State, doctor};
pub use emulator::Emulator;
pub use error::LabError;
pub use fetch::{Archive, Suite};
pub use guest::{Guest, GuestError, side_by_side};
pub use image::Image;
pub use job::{Beginning, FileSource, Job, Outcome, Record, TRACE};
pub use kernel::{Flavour, Kernel, KernelChoice};
pub use lab::{Lab, LabMachine, LabOptions, MachineSpec, SHAKE_MOST_BYTES, SHAKE_VARIABLE, model_of_time};
pub use progress::{Event, Progress, Stage, Stop};
pub use protocol::{CommandEnd, GuestCommand};
pub use saved::{SavedMachine, saved_machines};
pub use topology::{CPUS_MAX, CacheSharing, CacheSizes, Topology};
pub use vm::TURN_INSTRUCTIONS;
