//! The parts that all studies made of boots share: a guest's results, and the last parts of texts and pages.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use spry_lab::Outcome;
use spry_latency::html::{section, table};
use spry_page::escape;

use crate::boots::Shortfall;
use crate::error::Error;

/// The results of a guest after its command has ended with status 0.
pub(crate) struct GuestResults<'a> {
    outcome: &'a Outcome,
    /// The words with which the program begins each of its messages.
    before: &'static str,
}

impl<'a> GuestResults<'a> {
    /// # Errors
    /// If the guest's first command did not end with status 0. The error has the command's standard error.
    pub(crate) fn of(outcome: &'a Outcome, before: &'static str) -> Result<Self, Error> {
        let left = Self { outcome, before };
        match outcome.commands.first().and_then(|ended| ended.exit) {
            Some(0) => Ok(left),
            exit => Err(Error::Guest(format!("in the guest (exit {exit:?}): {}", left.said()))),
        }
    }

    /// A result file's text; empty if the file is missing.
    pub(crate) fn text(&self, file: &str) -> Cow<'a, str> {
        self.outcome.files.get(file).map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default()
    }

    /// The value of a result file in JSON.
    ///
    /// # Errors
    /// If the file is missing or has another form.
    pub(crate) fn json<T: DeserializeOwned>(&self, file: &str) -> Result<T, Error> {
        serde_json::from_str(&self.text(file)).map_err(|_| self.lacks(file))
    }

    /// The error for a missing result.
    pub(crate) fn lacks(&self, what: &str) -> Error {
        Error::Guest(format!("the guest left no {what}: {}", self.said()))
    }

    fn said(&self) -> String {
        self.text("0.stderr").trim().replace(self.before, "")
    }
}

impl Shortfall {
    fn missing_words(&self) -> Option<String> {
        let words =
            || format!("{} cells are not there yet: the same command goes on with them.", self.missing);
        (self.missing > 0).then(words)
    }

    /// Ends a study's text with the cells that gave no results.
    pub(crate) fn end_text(&self, out: &mut String) {
        self.failures.iter().for_each(|(cell, error)| _ = writeln!(out, "Failed: {cell}: {error}"));
        self.missing_words().iter().for_each(|words| _ = writeln!(out, "{words}"));
    }

    /// Adds the cells that gave no results to a study's page.
    pub(crate) fn put_on_page(&self, out: &mut String) {
        if !self.failures.is_empty() {
            let rows = self.failures.iter().map(|(cell, error)| vec![cell.clone(), error.clone()]);
            section(out, "Cells that came to nothing", &table(&["cell", "what happened"], rows));
        }
        self.missing_words().iter().for_each(|words| _ = writeln!(out, "<p class=\"note bad\">{words}</p>"));
    }
}

/// Ends the text of a paper's study.
pub(crate) fn end_text(out: &mut String, left_out: &[&str], undone: &Shortfall) {
    *out += "\nWhat is not as in the paper\n";
    left_out.iter().for_each(|words| _ = writeln!(out, "  {words}"));
    undone.end_text(out);
}

/// Ends the page of a paper's study, which `command` made. The end of the HTML is not written.
pub(crate) fn end_page(out: &mut String, left_out: &[&str], undone: &Shortfall, command: &str) {
    let left_out: String = left_out.iter().map(|words| format!("<li>{}</li>", escape(words))).collect();
    section(out, "What is not as in the paper", &format!("<ul>{left_out}</ul>"));
    undone.put_on_page(out);
    section(out, "To repeat it", &format!("<code>{}</code>", escape(command)));
}
