//! A mistake in a scenario: its place, its description and the correction.

use std::fmt;

/// A mistake in a scenario, described so that the author can correct it: `file:line: text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    file: String,
    line: usize,
    text: String,
}

impl Mistake {
    /// Makes a mistake in a line (from 1) of a file. Line 0 means the file as a whole.
    pub fn new(file: impl Into<String>, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.into(), line, text: text.into() }
    }

    /// The line, from 1; 0 for the file as a whole.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The description of the mistake, without file and line.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(out, "{}: {}", self.file, self.text)
        } else {
            write!(out, "{}:{}: {}", self.file, self.line, self.text)
        }
    }
}

impl std::error::Error for Mistake {}

/// The message for an unknown word, such as `unknown phase "slep"; did you mean "sleep"? a phase is one
/// of run, sleep`.
pub(crate) fn unknown(what: &str, found: &str, allowed: &[&str]) -> String {
    let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    let mut text = format!("unknown {what} \"{found}\"; ");
    if let Some(close) = closest(found, allowed) {
        text += &format!("did you mean \"{close}\"? ");
    }
    text + &format!("{article} {what} is one of {}", allowed.join(", "))
}

/// The allowed word of which `found` is probably a misspelling; `None` if there is no such word.
pub(crate) fn closest<'a>(found: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let lower = found.to_lowercase();
    let limit = (found.chars().count() / 3).max(1);
    let near = allowed.iter().map(|&word| (distance(&lower, &word.to_lowercase()), word));
    near.filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, word)| word)
}

/// How many characters of `a` must be inserted, deleted, changed or swapped with the next one to get `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}
