//! The scenarios that come with Spry, and finding a scenario by its path or name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// File names and texts, sorted by name.
pub const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// A scenario's text and what it is called in messages.
pub struct Source {
    /// The path that was given, or the name of one that comes with Spry.
    pub name: String,
    /// What it is called wherever Spry puts it: the ending says the format, and no other file there is called so.
    pub file_name: &'static str,
    /// The text.
    pub text: String,
}

/// Finds a scenario: a file, or else one that comes with Spry (`movie`, `movie.toml`).
pub fn find(path: &Path) -> Result<Source> {
    let name = path.display().to_string();
    // A directory of results may have a shipped scenario's name.
    if path.exists() && !path.is_dir() {
        let file_name = if name.ends_with(".json") { "scenario.json" } else { "scenario.toml" };
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        return Ok(Source { name, file_name, text });
    }
    let wanted = name.strip_prefix("scenarios/").unwrap_or(&name);
    let shipped =
        SHIPPED.iter().find(|(file, _)| *file == wanted || file.strip_suffix(".toml") == Some(wanted));
    match shipped {
        Some((file, text)) => {
            Ok(Source { name: (*file).to_owned(), file_name: "scenario.toml", text: (*text).to_owned() })
        }
        None => bail!(
            "there is no file {name}, and no scenario of that name comes with Spry (`spry scenario list`)"
        ),
    }
}
