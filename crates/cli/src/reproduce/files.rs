//! The directory of figures: what is in it, and what of it can be used again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spry_lab::results::digest;
use spry_reproduce::claims::Verdict;
use spry_reproduce::figure::Topic;
use spry_reproduce::page::{self, Circumstances};
use spry_reproduce::study::Study;
use spry_reproduce::{draw, text};

use super::cells::Tally;
use crate::args::InteractiveArgs;

/// The file that says whose directory it is.
const MARK: &str = "made.json";

/// A directory of figures.
pub struct Directory {
    path: PathBuf,
}

/// A cell's figures, and the hash of what they depend on.
#[derive(Serialize, Deserialize)]
pub struct Kept<C> {
    pub inputs: String,
    pub cell: C,
}

/// Everything that is written at the end.
pub struct Made<'a> {
    pub study: &'a Study,
    pub topics: Vec<Topic>,
    pub verdicts: Vec<Verdict>,
    pub tally: &'a Tally,
    pub args: &'a InteractiveArgs,
}

impl Directory {
    /// Begins a directory, or goes on with one.
    ///
    /// # Errors
    /// Where the place is taken by something else, or cannot be written to.
    pub fn open(path: &Path, what: &str) -> Result<Directory> {
        let directory = Directory { path: path.to_owned() };
        let is_empty = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let mark = json!({ "reproduce": what });
        if !is_empty {
            let found = fs::read_to_string(path.join(MARK)).ok();
            let found = found.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
            if found.is_none_or(|found| found["reproduce"] != mark["reproduce"]) {
                bail!(
                    "{} is there and holds no figures of spry reproduce {what}: name another directory with -o",
                    path.display()
                );
            }
        }
        directory.subdirectory("cells")?;
        directory.put(MARK, &format!("{mark:#}\n"))?;
        Ok(directory)
    }

    /// A directory in it, made if it is not there.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Removes a directory in it if it is empty.
    pub fn remove_empty(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        match fs::remove_dir(&path) {
            Err(error)
                if error.kind() != io::ErrorKind::NotFound
                    && error.kind() != io::ErrorKind::DirectoryNotEmpty =>
            {
                Err(error).with_context(|| path.display().to_string())
            }
            _ => Ok(()),
        }
    }

    /// A cell that was measured before, if all that it depends on is the same.
    pub fn kept<C: DeserializeOwned>(&self, name: &str, inputs: &str) -> Option<C> {
        let text = fs::read_to_string(self.path.join(format!("cells/{name}.json"))).ok()?;
        let kept: Kept<C> = serde_json::from_str(&text).ok()?;
        (kept.inputs == inputs).then_some(kept.cell)
    }

    /// Keeps a cell.
    pub fn keep<C: Serialize>(&self, name: &str, kept: &Kept<C>) -> Result<()> {
        self.put(&format!("cells/{name}.json"), &serde_json::to_string(kept)?)
    }

    /// Writes figures, page and results; the text of `results.json`.
    pub fn write(&self, made: &Made<'_>) -> Result<String> {
        let mut numbers: Vec<&str> =
            made.topics.iter().flat_map(|topic| &topic.panels).map(|p| p.figure).collect();
        numbers.dedup();
        for topic in &made.topics {
            for number in numbers.iter().filter(|number| topic.panels.iter().any(|p| p.figure == **number)) {
                self.put(&format!("figure-{number}.svg"), &draw::file(topic, number))?;
            }
        }
        let cells = json!(made.study.cells);
        let tally = made.tally;
        let about = Circumstances {
            kernel: tally.kernel.clone(),
            command: std::env::args().collect(),
            digest: digest::of_json(&cells),
            failures: tally.failures.clone(),
            missing: tally.planned - made.study.cells.len() - tally.failures.len(),
        };
        self.put("index.html", &page::page(made.study, &made.topics, &made.verdicts, &about))?;
        self.put("summary.txt", &text::summary(made.study, &made.verdicts))?;
        let results = json!({
            "reproduce": "interactive",
            "machine": "lab",
            "kernel": about.kernel,
            "digest": about.digest,
            "schedulers": made.study.schedulers,
            "stressers": made.study.stressers,
            "cpus": made.study.cpus,
            "seeds": made.args.seeds,
            "inputs": tally.inputs,
            "verdicts": made.verdicts,
            "figures": made.topics,
            "cells": cells,
            "failures": about.failures,
            "missing": about.missing,
        });
        let text = format!("{results}\n");
        self.put("results.json", &text)?;
        Ok(text)
    }

    /// Writes a file of it, whole or not at all.
    pub fn put(&self, name: &str, content: &str) -> Result<()> {
        let path = self.path.join(name);
        let half = self.path.join(format!("{name}.part"));
        let written = fs::write(&half, content).and_then(|()| fs::rename(&half, &path));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}
