//! Standard output: a reader that has seen enough is an error like any other, not a panic.

use std::io::{self, Write};

use anyhow::Result;

/// Writes a text to standard output.
///
/// # Errors
/// Where it cannot be written; that nobody reads any more is told by its kind.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
