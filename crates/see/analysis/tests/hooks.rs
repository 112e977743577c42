//! Each analysis lists exactly the hooks that it implements: a hook that it omits would never be called.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The lines of each block of a source file that begins with this text, up to its closing brace in
/// the first column.
fn blocks<'a>(source: &'a str, begins: &'a str) -> impl Iterator<Item = &'a str> {
    let is_end = |line: &&str| *line != "}";
    source
        .split("\nimpl ")
        .skip(1)
        .filter(move |block| block.starts_with(begins))
        .flat_map(move |block| block.lines().take_while(is_end))
}

/// The hooks that an analysis implements, by the names of the methods.
fn implemented(source: &str) -> BTreeSet<String> {
    let methods = |begins| {
        let lines = blocks(source, begins);
        lines.filter_map(|line| Some(line.strip_prefix("    fn ")?.split_once('(')?.0.to_owned()))
    };
    let traits = ["Observer for ", "Analysis for ", "Counter for "];
    let mut names: BTreeSet<String> = traits.into_iter().flat_map(methods).collect();
    // Each analysis has this method, and the engine calls it without a hook.
    assert!(names.remove("finish"), "an analysis finishes");
    names
}

/// The hooks that an analysis lists, by the names of the methods.
fn asked_for(source: &str) -> BTreeSet<String> {
    let (_, list) = source.split_once("\n    hooks: &[").expect("an analysis has a list of hooks");
    let (list, _) = list.split_once(']').expect("the list ends");
    let hooks = list.split(',').filter_map(|hook| hook.trim().strip_prefix("Hook::"));
    hooks.map(str::to_lowercase).collect()
}

/// The source files of the analyses.
fn analyses() -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(source).expect("the source is there").map(|entry| entry.expect("a file").path());
    let is_analysis = |path: &PathBuf| {
        fs::read_to_string(path).is_ok_and(|text| text.contains("const ABOUT: About = About {"))
    };
    files.filter(is_analysis).collect()
}

#[test]
fn each_analysis_asks_for_exactly_the_hooks_that_it_implements() {
    let files = analyses();
    assert_eq!(files.len(), spry_analysis::analysis::ALL.len(), "{files:?}");
    for path in files {
        let source = fs::read_to_string(&path).expect("it was read before");
        assert_eq!(asked_for(&source), implemented(&source), "{}", path.display());
    }
}

#[test]
fn a_hook_that_is_not_asked_for_is_found() {
    let source = "
pub const ABOUT: About = About {
    hooks: &[Hook::Ran, Hook::Runs],
};
impl Observer for Some {
    fn ran(&mut self) {}

    fn waited(&mut self) {}
}
impl Analysis for Some {
    fn finish(self: Box<Self>) {}
}
impl Counter for Other {
    fn runs(&mut self) {}

    fn finish(self: Box<Self>) {}
}
";
    assert_eq!(asked_for(source), ["ran", "runs"].map(str::to_owned).into());
    assert_eq!(implemented(source), ["ran", "runs", "waited"].map(str::to_owned).into());
}
