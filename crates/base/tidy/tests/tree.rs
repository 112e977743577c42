//! The rules of form that every file of the tree keeps.

use spry_tidy::{Source, code_only, let_chains, sources, words};

/// Fails if there are findings, and shows each in a line.
fn none(findings: impl IntoIterator<Item = String>) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// The sentence with which a file begins, without its comment marks; empty if the file does not begin
/// with a sentence.
fn opening(source: &Source) -> String {
    let mut lines = source.text.lines().skip(usize::from(source.is_script()));
    let mut first = lines.next().unwrap_or_default();
    // If a file has another licence than the tree, the licence stands before the sentence, as in the kernel's
    // sources.
    if first.contains("SPDX-License-Identifier") {
        first = lines.next().unwrap_or_default();
    }
    // In C, a sentence of several lines begins on the second line, as in the kernel's sources.
    if source.has_extension(&["c", "h"]) && first == "/*" {
        first = lines.next().unwrap_or_default();
    }
    let marks: &[&str] = if source.has_extension(&["rs"]) {
        &["//! "]
    } else if source.has_extension(&["c", "h"]) {
        &["/* ", " * ", "// "]
    } else {
        &["# "]
    };
    let text = marks.iter().find_map(|mark| first.strip_prefix(mark));
    text.map(|text| text.trim_end_matches("*/").trim().to_owned()).unwrap_or_default()
}

fn is_code(source: &Source) -> bool {
    source.is_script() || source.has_extension(&["rs", "c", "h", "sh", "py"])
}

#[test]
fn every_source_opens_with_a_sentence_on_what_lives_there() {
    none(
        sources()
            .iter()
            .filter(|source| is_code(source) && opening(source).len() < 10)
            .map(|source| format!("{}: the first line does not say what lives here", source.path.display())),
    );
}

#[test]
fn no_source_is_longer_than_600_lines() {
    none(
        sources()
            .iter()
            .filter(|source| is_code(source) && source.text.lines().count() > 600)
            .map(|source| format!("{}: {} lines", source.path.display(), source.text.lines().count())),
    );
}

#[test]
fn a_thread_is_called_tid_and_a_process_tgid() {
    let is_pid = |word: &str| word == "pid" || word.starts_with("pid_") || word.ends_with("_pid");
    // The kernel, libbpf or the C library use these names themselves. A method of such a name belongs to
    // another crate: a method of this tree would be found where it is defined.
    let theirs = ["pid_t", "bpf_get_current_pid_tgid", "PERF_SAMPLE_PID"];
    let sources = sources();
    let rust = sources
        .iter()
        .filter(|source| source.has_extension(&["rs"]) && !source.path.starts_with("crates/base/tidy"));
    none(rust.flat_map(|source| {
        let code = code_only(&source.text);
        let lines = code.lines().enumerate().filter(|(_, line)| {
            words(&line.replace(".pid()", "")).any(|word| is_pid(word) && !theirs.contains(&word))
        });
        lines
            .map(|(at, line)| format!("{}:{}: {}", source.path.display(), at + 1, line.trim()))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn no_file_names_a_machine_s_own_paths_or_a_registry_s_host() {
    // Each path is written in two parts, so that this file does not contain it either.
    let forbidden = [
        ["/wo", "rk/"],
        ["/tmp/", "brief"],
        ["/home", "/"],
        ["/ro", "ot/"],
        ["deb.deb", "ian.org"],
        ["index.cra", "tes.io"],
    ];
    let forbidden = forbidden.map(|parts| parts.concat());
    none(sources().iter().flat_map(|source| {
        let lines = source.text.lines().enumerate();
        // A path counts only where no other name ends just before it: a file of the kernel below sched_ext
        // has a path that contains one of these.
        let names = |line: &str, path: &str| {
            let mut found = line.match_indices(path);
            found.any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric()))
        };
        let found = lines.filter(|(_, line)| forbidden.iter().any(|path| names(line, path)));
        found
            .map(|(at, line)| format!("{}:{}: {}", source.path.display(), at + 1, line.trim()))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn no_test_is_ignored() {
    // One mark is the attribute, the other one the mark of an example in the documentation.
    let marks = [["#[ign", "ore"], ["```ign", "ore"]].map(|parts| parts.concat());
    let sources = sources();
    let rust = sources.iter().filter(|source| source.has_extension(&["rs"]));
    none(
        rust.filter(|source| marks.iter().any(|mark| source.text.contains(mark)))
            .map(|source| source.path.display().to_string()),
    );
}

#[test]
fn every_bpf_program_is_marked_gpl_2_0_only() {
    let sources = sources();
    let programs = sources.iter().filter(|source| source.path.to_string_lossy().ends_with(".bpf.c"));
    let licence = "SPDX-License-Identifier: GPL-2.0-only";
    none(
        programs
            .filter(|source| !source.text.lines().take(2).any(|line| line.contains(licence)))
            .map(|source| format!("{}: no \"{licence}\" in its first two lines", source.path.display())),
    );
}

#[test]
fn no_condition_needs_a_newer_compiler_than_1_85() {
    let sources = sources();
    none(sources.iter().filter(|source| source.has_extension(&["rs"])).flat_map(|source| {
        let chains = let_chains(&code_only(&source.text));
        chains.into_iter().map(|chain| format!("{}: {chain}", source.path.display())).collect::<Vec<_>>()
    }));
}

#[test]
fn let_chains_are_found_and_plain_conditions_are_not() {
    assert_eq!(let_chains("if let Some(x) = y && x > 0 { }").len(), 1);
    assert_eq!(let_chains("while a && let Some(x) = y { }").len(), 1);
    assert_eq!(let_chains("if let Some(x) = y.filter(|x| a && b) { a && b }").len(), 0);
    assert_eq!(let_chains("if a && b { let c = d; }").len(), 0);
}

#[test]
fn comments_and_strings_are_not_code() {
    let text = "let a = \"pid \\\" pid\"; // pid\nlet b = '\"'; let c = r#\"pid \" pid\"#; let tid = pid;";
    assert_eq!(words(&code_only(text)).filter(|&word| word == "pid").count(), 1);
    assert_eq!(code_only(text).lines().count(), 2);
}
