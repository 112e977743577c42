//! Experiments: a scenario in cells on a machine, and the results.
//!
//! A [`Plan`] names schedulers, values of the scenario's variables and seeds. An [`Experiment`] is the plan
//! with its scenario read: its [`Cell`]s. An [`Execution`] plays the cells on a [`Machine`], which is a trait
//! of this crate. The [`model`] keeps the measurements, [`directory`] writes and reads them, [`mod@table`]
//! and [`html`] show them, and [`compare`] compares them with other results.

mod chart;
pub mod compare;
pub mod digest;
pub mod directory;
mod execute;
mod experiment;
pub mod html;
mod machine;
pub mod metric;
pub mod model;
mod plan;
pub mod programs;
pub mod scheduler;
mod stop;
pub mod table;

pub use execute::{Execution, Outcomes, Progress};
pub use experiment::{Experiment, PlanError, Recording, Source};
pub use machine::{CellError, CellOutput, Machine, RECORDED_GROUPS};
pub use plan::{Cell, Plan, Vary};
pub use stop::Stop;
