//! The scenario format: TOML with variables, and rt-app's JSON; mistakes are said with file and line.

pub(crate) mod doc;
pub(crate) mod expr;
pub mod keys;
pub mod mistake;
pub mod model;
mod parse;
mod phases;
pub mod program;
mod variables;

pub(crate) use parse::Context;
