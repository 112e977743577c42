//! Findings as text, HTML and JSON, and traces in other formats.
//!
//! Nothing here reads a file, a clock or the terminal: findings and events come in, text goes out.

pub mod export;
pub mod html;
pub mod json;
mod recorder;
pub mod text;
pub mod words;
