//! The test programs that cargo has built, and the tests that are in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::group::{self, Group};

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The path of the program's source from the root of the tree. It serves as the program's name.
    pub source: String,
    /// The executable.
    pub file: PathBuf,
    /// The directory of its package, in which it runs.
    pub dir: PathBuf,
    /// The group, which determines the programs that may run beside it.
    pub group: Group,
    /// Whether the program exists only for its tests. A library or a command may have no tests.
    pub is_for_tests: bool,
}

/// The programs that cargo's messages (`--message-format=json`) name, in the order of their sources.
///
/// # Errors
/// If a line is not in cargo's format, or a program lies outside the tree.
pub fn named_in(messages: &str, root: &Path) -> Result<Vec<Program>> {
    let mut found = BTreeMap::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cargo wrote a line that is not JSON")?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            continue;
        }
        let path = |value: &Value| value.as_str().map(PathBuf::from).context("cargo left out a path");
        let source = path(&message["target"]["src_path"])?;
        let dir =
            path(&message["manifest_path"])?.parent().context("a manifest is in a directory")?.to_owned();
        let file = path(&message["executable"]).with_context(|| format!("of {}", source.display()))?;
        let source = source.strip_prefix(root).with_context(|| format!("{}", source.display()))?;
        let source = source.to_str().context("paths of sources are UTF-8")?.to_owned();
        let group = group::of(&source);
        let is_for_tests = message["target"]["kind"][0] == "test";
        found.insert(source.clone(), Program { source, file, dir, group, is_for_tests });
    }
    Ok(found.into_values().collect())
}

/// The names in [`group::GROUPS`] that no program has.
pub fn stale_groups(programs: &[Program]) -> Vec<&'static str> {
    let names = group::GROUPS.iter().map(|&(beginning, _)| beginning);
    names.filter(|name| !programs.iter().any(|program| program.source.starts_with(name))).collect()
}

/// The tests of a program: all tests, and the tests that it would leave out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestList {
    /// The names of all tests.
    pub all: Vec<String>,
    /// The names of the tests that are marked to be ignored.
    pub ignored: Vec<String>,
}

impl Program {
    /// Asks the program for its tests.
    ///
    /// # Errors
    /// If the program does not answer, or has no tests although it exists only for them.
    pub fn list(&self) -> Result<TestList> {
        let listed =
            TestList { all: self.names(&["--list"])?, ignored: self.names(&["--list", "--ignored"])? };
        ensure!(!self.is_for_tests || !listed.all.is_empty(), "it has no test");
        Ok(listed)
    }

    fn names(&self, options: &[&str]) -> Result<Vec<String>> {
        let mut command = self.command();
        command.args(options).args(["--format", "terse"]).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("{}", self.file.display()))?;
        let text = String::from_utf8(output.stdout).context("the names of its tests are not UTF-8")?;
        if !output.status.success() {
            bail!(
                "it does not list its tests: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// The command that starts the program as cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        command
    }
}
