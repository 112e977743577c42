//! The rules of style, with a list of old offences that only shrinks: `crates/base/tidy/old-style.txt`.

use std::sync::OnceLock;

use spry_tidy::{Old, Rule, Source, sources};

/// Fails if a file has more or fewer offences against a rule than the list allows.
fn holds(rule: Rule) {
    static TREE: OnceLock<(Old, Vec<Source>)> = OnceLock::new();
    let (old, sources) = TREE.get_or_init(|| (Old::read(), sources()));
    let complaints = old.complaints(sources, rule);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn comments_code_and_prose_end_at_110_columns() {
    holds(Rule::Columns);
}

#[test]
fn comments_name_their_subjects() {
    holds(Rule::Subjects);
}

#[test]
fn doc_comments_have_more_than_14_characters() {
    holds(Rule::Docs);
}

#[test]
fn names_of_tests_have_at_most_60_characters() {
    holds(Rule::Tests);
}
