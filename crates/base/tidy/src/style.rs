//! The rules of style that a program can check, and the lines that break them.

use crate::{Source, code_only, comment_lines, words};

/// A rule of style. `docs/style.md` has all rules, with examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Lines end at column [`COLUMNS_MAX`].
    Columns,
    /// Comments name their subjects.
    Subjects,
    /// Comments of documentation have more than a word.
    Docs,
    /// Names of tests have at most [`TEST_NAME_MAX`] characters.
    Tests,
}

/// The last column of a line; a tab takes 8 columns.
const COLUMNS_MAX: usize = 110;
/// A comment of documentation with at most so many characters counts as empty.
const EMPTY_DOC_MAX: usize = 14;
/// The most characters of a test's name.
const TEST_NAME_MAX: usize = 60;
/// The words that stand for a subject without naming it.
const NAMELESS: [&str; 5] = ["who", "whom", "whose", "somebody", "nobody"];

impl Rule {
    /// The rules in the order in which the list of old offences has them.
    pub const ALL: [Rule; 4] = [Rule::Columns, Rule::Subjects, Rule::Docs, Rule::Tests];

    /// The word for the rule in the list of old offences.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Columns => "columns",
            Rule::Subjects => "subjects",
            Rule::Docs => "docs",
            Rule::Tests => "tests",
        }
    }

    /// The demand of the rule, in one line.
    pub const fn demand(self) -> &'static str {
        match self {
            Rule::Columns => "lines end at column 110",
            Rule::Subjects => "comments name their subjects (not who, whom, whose, somebody, nobody)",
            Rule::Docs => "a doc comment of at most 14 characters says a unit, a range or a meaning, or goes",
            Rule::Tests => "names of tests have at most 60 characters",
        }
    }
}

/// The numbers of a source's lines that break a rule, from 1.
pub fn offences(source: &Source, rule: Rule) -> Vec<usize> {
    let is_rust = source.has_extension(&["rs"]);
    let is_c = source.has_extension(&["c", "h"]);
    match rule {
        Rule::Columns if is_rust => wide_rust(&source.text),
        Rule::Columns if source.has_extension(&["md"]) => wide_prose(&source.text),
        Rule::Columns if is_c || source.is_script() || source.has_extension(&["sh", "py"]) => {
            wide(&source.text, |_| true)
        }
        Rule::Subjects if is_rust || is_c => nameless(&source.text),
        Rule::Docs if is_rust => empty_docs(&source.text),
        Rule::Tests if is_rust => long_tests(&source.text),
        Rule::Columns | Rule::Subjects | Rule::Docs | Rule::Tests => Vec::new(),
    }
}

/// The lines for which `is_meant` holds and that end beyond the last column.
fn wide(text: &str, mut is_meant: impl FnMut(&str) -> bool) -> Vec<usize> {
    let width = |line: &str| line.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum::<usize>();
    // Most lines are short in bytes already, so their characters need not be counted.
    let is_wide = |line: &str| (line.len() > COLUMNS_MAX || line.contains('\t')) && width(line) > COLUMNS_MAX;
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| is_meant(line) && is_wide(line)).map(|(at, _)| at + 1).collect()
}

/// Texts in quotes may be as wide as they need to be.
fn wide_rust(text: &str) -> Vec<usize> {
    let mut found = wide(&code_only(text), |_| true);
    found.extend(wide(text, |line| line.trim_start().starts_with("//")));
    found.sort_unstable();
    found
}

/// Code blocks, tables, headings and addresses cannot be broken into lines.
fn wide_prose(text: &str) -> Vec<usize> {
    let mut is_block = false;
    wide(text, |line| {
        is_block ^= line.starts_with("```");
        !is_block && !line.starts_with(['|', '#', '<']) && !line.contains("](http")
    })
}

/// Lines of comments with a word that stands for a subject. A word in backquotes is a name.
fn nameless(text: &str) -> Vec<usize> {
    let is_nameless = |line: &str| {
        // Most lines contain none of the words, not even inside another word.
        let lower = line.to_lowercase();
        if !NAMELESS.iter().any(|word| lower.contains(word)) {
            return false;
        }
        let prose: String = lower.split('`').step_by(2).collect();
        words(&prose).any(|word| NAMELESS.contains(&word))
    };
    let lines = comment_lines(text).into_iter();
    lines.filter(|(_, line)| is_nameless(line)).map(|(number, _)| number).collect()
}

/// Comments of documentation, of adjacent lines each, that are too short to have content.
fn empty_docs(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // The first line of the comment, its mark and the characters of its text so far.
    let mut comment: Option<(usize, &str, usize)> = None;
    let mut end = |comment: Option<(usize, &str, usize)>| match comment {
        Some((first, _, len)) if len <= EMPTY_DOC_MAX => found.push(first),
        Some(_) | None => {}
    };
    let mut last = 0;
    for (number, line) in comment_lines(text) {
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        let len = line.chars().skip(3).collect::<String>().trim().chars().count();
        comment = match (comment, mark) {
            (Some((first, of, before)), Some(mark)) if of == mark && number == last + 1 => {
                Some((first, mark, before + len))
            }
            (before, mark) => {
                end(before);
                mark.map(|mark| (number, mark, len))
            }
        };
        last = number;
    }
    end(comment);
    found
}

/// Tests with long names.
fn long_tests(text: &str) -> Vec<usize> {
    if !text.contains("#[test]") {
        return Vec::new();
    }
    let code = code_only(text);
    let mut is_test = false;
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        is_test |= line.trim_start().starts_with("#[test]");
        let mut words = words(line).skip_while(|&word| word != "fn").skip(1);
        let Some(name) = words.next().filter(|_| is_test) else { continue };
        is_test = false;
        if name.chars().count() > TEST_NAME_MAX {
            found.push(at + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Rule, offences};
    use crate::Source;

    fn found(path: &str, text: &str, rule: Rule) -> Vec<usize> {
        offences(&Source { path: PathBuf::from(path), text: text.to_owned() }, rule)
    }

    #[test]
    fn only_prose_and_code_must_end_at_column_110() {
        let long = "x".repeat(120);
        assert_eq!(found("a.rs", &format!("let a = \"{long}\";\n// {long}"), Rule::Columns), [2]);
        assert_eq!(found("a.c", &format!("\n\n{long}"), Rule::Columns), [3]);
        let page = format!("{long}\n```\n{long}\n```\n| {long} |\n");
        assert_eq!(found("a.md", &page, Rule::Columns), [1]);
        assert_eq!(found("a.toml", &long, Rule::Columns), [0; 0]);
    }

    #[test]
    fn a_nameless_subject_is_found_in_comments_alone() {
        let text = "// Whose turn it is.\nlet who = \"// who\"; // `nobody`\n/* that\n * somebody */";
        assert_eq!(found("a.c", text, Rule::Subjects), [1, 4]);
    }

    #[test]
    fn a_doc_comment_is_measured_as_a_whole() {
        let text = "/// Both.\nA,\n/// The tasks that wait for\n/// it.\nB,\n//! Short.\n/// Units: ns.";
        assert_eq!(found("a.rs", text, Rule::Docs), [1, 6, 7]);
    }

    #[test]
    fn a_long_name_counts_if_it_is_a_test_s() {
        let name = "a".repeat(61);
        let text = format!("fn {name}() {{}}\n#[test]\n#[should_panic]\nfn {name}() {{}}");
        assert_eq!(found("a.rs", &text, Rule::Tests), [4]);
    }
}
