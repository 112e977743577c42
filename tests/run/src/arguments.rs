//! The command line of `run-tests`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::group::Group;

/// The arguments on the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The file with cargo's messages.
    pub messages: String,
    /// The file for the numbers of tests that passed and failed.
    pub counts: String,
    /// The groups of tests that run.
    pub groups: Vec<Group>,
    /// The directory with notes of the tests that passed; `None`: all tests run.
    pub kept: Option<PathBuf>,
    /// The perturbations under which the tests run; `None`: each test runs once, without perturbation.
    pub shakes: Option<Perturbations>,
}

/// The perturbations that the command line requests.
#[derive(Debug, PartialEq, Eq)]
pub struct Perturbations {
    /// How many times each test runs, each time with a different number of unused bytes.
    pub count: u32,
    /// Parts of the names of the tests that run; empty: all tests run.
    pub only: Vec<String>,
}

const USAGE: &str = "usage: run-tests [--kept DIR [--shakes N [--only NAME]...]] MESSAGES COUNTS GROUP...";

impl Arguments {
    /// Reads the words of the command line.
    ///
    /// # Errors
    /// If the words do not follow the usage.
    pub fn of(words: &[String]) -> Result<Arguments> {
        let mut words = words.iter();
        let (mut plain, mut count, mut kept, mut only) = (Vec::new(), None, None, Vec::new());
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--shakes" => count = Some(value()?.parse().context("--shakes needs a number")?),
                "--kept" => kept = Some(PathBuf::from(value()?)),
                "--only" => only.push(value()?.clone()),
                _ => plain.push(word.clone()),
            }
        }
        let shakes = match count {
            Some(count) if kept.is_some() => Some(Perturbations { count, only }),
            None if only.is_empty() => None,
            _ => bail!(USAGE),
        };
        let [messages, counts, groups @ ..] = &plain[..] else { bail!(USAGE) };
        let groups = groups.iter().map(|name| name.parse()).collect::<Result<Vec<Group>>>()?;
        Ok(Arguments { messages: messages.clone(), counts: counts.clone(), groups, kept, shakes })
    }
}
