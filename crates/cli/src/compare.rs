//! `spry compare`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use spry_lab::results::compare::Comparison;
use spry_lab::results::directory;

use crate::args::CompareArgs;
use crate::output;

/// Compares the first results with each of the others.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    let (base, others) = args.results.split_first().context("nothing to compare")?;
    let first = directory::read(base)?;
    let mut worse = 0;
    for other in others {
        let second = directory::read(other)?;
        let comparison = Comparison::of(&first, &second)?;
        let (one, two) = names(base, other);
        let text = comparison.text(&one, &two);
        output::print(&format!("{} and {}\n{text}\n", base.display(), other.display()))?;
        worse += comparison.worse();
    }
    if args.fail_if_worse && worse > 0 {
        eprintln!("spry: {worse} figures are worse by more than their spread");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The columns' heads: the last part of each path, unless they are the same.
fn names(first: &Path, second: &Path) -> (String, String) {
    let last = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let (one, two) = (last(first), last(second));
    if one == two { ("first".to_owned(), "second".to_owned()) } else { (one, two) }
}
