//! The rules of form that every file of the tree keeps.

use spry_tidy::{Source, code_only, let_chains, sources, words};

/// Fails with every finding, one a line.
fn none(findings: impl IntoIterator<Item = String>) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// The sentence that opens a file, without its comment marks; empty if it does not open with one.
fn opening(source: &Source) -> String {
    let mut lines = source.text.lines().skip(usize::from(source.is_script()));
    let mut first = lines.next().unwrap_or_default();
    // The licence of a file that is not under the tree's own comes before the sentence, as the kernel has it.
    if first.contains("SPDX-License-Identifier") {
        first = lines.next().unwrap_or_default();
    }
    // A sentence that takes several lines begins on the second, as the kernel has it.
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
    // What the kernel, libbpf or the C library call so themselves; a method that is called so is another crate's, since ours
    // would be found where it is written.
    let theirs = ["pid_t", "bpf_get_current_pid_tgid", "PERF_SAMPLE_PID"];
    let sources = sources();
    let rust = sources
        .iter()
        .filter(|source| source.has_extension(&["rs"]) && !source.path.starts_with("crates/tidy"));
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
    // In two parts each, so that this file does not name them either.
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
        // A path begins where no other name ends: the kernel has a file below sched_ext whose path holds one of these.
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
    // The attribute, and the mark of an example in the documentation.
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
fn a_chain_of_let_conditions_is_found_and_a_match_inside_one_is_not() {
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
