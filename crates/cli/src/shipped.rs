//! The scenarios that come with Spry, and a function that finds a scenario by its path or name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use spry_experiment::Source;

use crate::input;

/// The file names and texts of the scenarios that come with Spry, sorted by name.
pub const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Finds a scenario: a file, standard input (`-`), or else a scenario that comes with Spry
/// (`movie`, `movie.toml`).
pub fn find(path: &Path) -> Result<Source> {
    let name = path.display().to_string();
    if input::is_standard(path) {
        let text = input::text()?;
        // rt-app's JSON is an object, perhaps after a comment; no TOML begins so.
        let is_json = text.trim_start().starts_with(['{', '/']);
        let name = if is_json { "stdin.json" } else { "stdin.toml" };
        return Ok(Source { name: name.to_owned(), text });
    }
    // A directory of results may have the same name as a scenario that comes with Spry.
    if path.exists() && !path.is_dir() {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        return Ok(Source { name, text });
    }
    let wanted = name.strip_prefix("scenarios/").unwrap_or(&name);
    let shipped =
        SHIPPED.iter().find(|(file, _)| *file == wanted || file.strip_suffix(".toml") == Some(wanted));
    match shipped {
        Some((file, text)) => Ok(Source { name: (*file).to_owned(), text: (*text).to_owned() }),
        None => bail!(
            "there is no file {name}, and no scenario of that name comes with Spry (`spry scenario list`)"
        ),
    }
}
