//! Runs of scenarios and what comes of them: plans, cells, figures, digests, tables, pages, comparisons.

mod chart;
pub mod compare;
pub mod digest;
pub mod directory;
pub mod execute;
pub mod guest;
pub mod host;
pub mod html;
pub mod machine;
pub mod metric;
pub mod model;
pub mod plan;
pub mod table;
