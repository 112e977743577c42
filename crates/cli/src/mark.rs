//! The command `spry mark`.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use spry_recorder::MARK_PATH;

use crate::args::MarkArgs;

/// Writes one mark. While no recorder runs, the mark is lost. Before the first recorder has run, writing a
/// mark is an error.
pub fn run(args: &MarkArgs) -> Result<ExitCode> {
    let mut node = OpenOptions::new().write(true).open(MARK_PATH).with_context(|| {
        format!(
            "{MARK_PATH} is not there: record with `spry record --events sched,mark` first, which makes it"
        )
    })?;
    // Each write call makes one mark.
    node.write_all(args.text.as_bytes()).with_context(|| format!("cannot write to {MARK_PATH}"))?;
    Ok(ExitCode::SUCCESS)
}
