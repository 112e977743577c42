//! Reads the source tree and finds offences against its rules of form; the rules themselves are in the tests.

mod old;
mod pieces;
mod style;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

pub use old::{OLD_STYLE, Old};
pub use pieces::{Piece, code_only, comment_lines, pieces};
pub use style::{Rule, offences};

/// A text file of the tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path of the file from the root of the tree.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

impl Source {
    /// Whether the name of the file ends in one of these extensions.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.extension().is_some_and(|found| extensions.iter().any(|&wanted| found == wanted))
    }

    /// Whether the file is a script that the kernel can start.
    pub fn is_script(&self) -> bool {
        self.text.starts_with("#!/")
    }
}

/// The root of the tree that holds this crate.
///
/// # Panics
/// If the crate is not where it belongs in the tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the crate is three levels down")
}

/// Names of files and directories that are not written for this tree. `.git` is a file in a second
/// work tree of a repository.
const FOREIGN: [&str; 5] = [".git", "target", "demo-out", "corpus", "artifacts"];

/// Every text file of the tree that holds this crate, in the order of their paths. Files that are not UTF-8
/// (pictures, recorded traces) are left out.
///
/// # Panics
/// If the tree cannot be read.
pub fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(root(), root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(root: &Path, dir: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let entry = entry.expect("a directory entry can be read");
        let path = entry.path();
        let kind = entry.file_type().expect("an entry has a type");
        if FOREIGN.iter().any(|&name| entry.file_name() == name) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, found);
        } else if kind.is_file() {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let path = path.strip_prefix(root).expect("the walk stays below the root").to_owned();
            found.push(Source { path, text });
        }
    }
}

/// The output of `cargo metadata` for the tree's packages, with these further arguments.
///
/// # Panics
/// If cargo fails.
pub fn metadata(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(arguments)
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

/// The words of a piece of code: identifiers, keywords and numbers.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The conditions (after `if` and `while`) in a piece of code that chain a `let` with `&&`, which Rust
/// allows since 1.88.
pub fn let_chains(code: &str) -> Vec<String> {
    let keywords = code.match_indices("if ").chain(code.match_indices("while "));
    let conditions = keywords.filter_map(|(at, keyword)| {
        let starts_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        starts_word.then(|| outermost(&code[at + keyword.len()..]))
    });
    conditions
        .filter(|condition| condition.contains("&&") && words(condition).any(|word| word == "let"))
        .map(|condition| condition.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// The text before the first brace or `=>` that is not in parentheses, without the text in parentheses.
fn outermost(text: &str) -> String {
    let mut depth = 0_u32;
    let mut found = String::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => break,
            ')' | ']' => depth -= 1,
            '{' | ';' if depth == 0 => break,
            '=' if depth == 0 && text[at..].starts_with("=>") => break,
            _ if depth == 0 => found.push(c),
            _ => {}
        }
    }
    found
}
