//! Experiments: a scenario in cells on some machine, and what came out.
//!
//! A [`Plan`] names schedulers, values of the scenario's variables and seeds. An [`Experiment`] is the plan
//! with its scenario read: its [`Cell`]s. An [`Execution`] plays the cells on a [`Machine`], of which this
//! crate knows only what it must offer. The [`model`] keeps what was measured, [`directory`] writes and reads
//! it, [`mod@table`] and [`html`] show it, and [`compare`] holds it against other results.

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
