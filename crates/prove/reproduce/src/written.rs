//! The files of a study in its directory at the end: figures, a page, a summary, and all values as JSON.

use serde_json::{Value, json};
use spry_experiment::digest;

use crate::cells::Tally;
use crate::claims;
use crate::directory::Directory;
use crate::error::Error;
use crate::interactive;
use crate::page::{self, Circumstances};
use crate::plan::Request;
use crate::{draw, text};

/// The texts of a study that can be printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StudyTexts {
    /// The summary for a terminal.
    pub summary: String,
    /// The text of `results.json`.
    pub results: String,
}

impl StudyTexts {
    /// Writes the page, the summary and the results.
    pub(crate) fn put(
        directory: &Directory,
        page: &str,
        summary: String,
        results: &Value,
    ) -> Result<StudyTexts, Error> {
        let results = format!("{results}\n");
        directory.put("index.html", page)?;
        directory.put("summary.txt", &summary)?;
        directory.put("results.json", &results)?;
        Ok(StudyTexts { summary, results })
    }
}

/// Writes the figures of the cells that were measured, the page, the summary and the results. `command` is
/// the command line of the run.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    directory: &Directory,
    request: &Request,
    tally: &Tally,
    command: Vec<String>,
) -> Result<StudyTexts, Error> {
    let study = &tally.study;
    let (topics, verdicts) = (interactive::topics(study), claims::verdicts(study));
    let mut numbers: Vec<&str> = topics.iter().flat_map(|topic| &topic.panels).map(|p| p.figure).collect();
    numbers.dedup();
    for topic in &topics {
        for number in numbers.iter().filter(|number| topic.panels.iter().any(|p| p.figure == **number)) {
            directory.put(&format!("figure-{number}.svg"), &draw::file(topic, number))?;
        }
    }
    let cells = json!(study.cells);
    let about = Circumstances {
        kernel: tally.kernel.clone(),
        command,
        digest: digest::of_json(&cells),
        failures: tally.failures.clone(),
        missing: tally.planned - study.cells.len() - tally.failures.len(),
    };
    let summary = text::summary(study, &verdicts);
    let page = page::page(study, &topics, &verdicts, &about);
    let results = json!({
        "reproduce": "interactive",
        "machine": tally.machine,
        "kernel": about.kernel,
        "digest": about.digest,
        "schedulers": study.schedulers,
        "stressers": study.stressers,
        "cpus": study.cpus,
        "seeds": request.seeds,
        "inputs": tally.inputs,
        "verdicts": verdicts,
        "figures": topics,
        "cells": cells,
        "failures": about.failures,
        "missing": about.missing,
    });
    StudyTexts::put(directory, &page, summary, &results)
}
