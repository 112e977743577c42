//! Tests which tests count as passed. Shell scripts stand in for test programs, with correct and
//! with wrong answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const GOOD: &str = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured'";

/// A tree of test programs.
struct Tree {
    dir: TempDir,
    messages: String,
}

impl Tree {
    fn new() -> Tree {
        Tree { dir: tempfile::tempdir().expect("a directory"), messages: String::new() }
    }

    /// Adds a program with this source: `tests` are its tests, `ignored` the tests that it leaves out, and
    /// `does` the command by which it runs the test `$1`.
    fn program(mut self, source: &str, tests: &[&str], ignored: &[&str], does: &str) -> Tree {
        let file = self.path().join(source.replace('/', "-"));
        let lines =
            |names: &[&str]| names.iter().map(|name| format!("echo '{name}: test'; ")).collect::<String>();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*--ignored*) {}: ;;\n*--list*) {}: ;;\n*) {does} ;;\nesac\n",
            lines(ignored),
            lines(tests)
        );
        fs::write(&file, script).expect("a script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it becomes executable");
        self.writes("Cargo.toml", "").writes("src/lib.rs", "").writes(source, does);
        self.names(source, &file);
        self
    }

    /// Writes a source.
    fn writes(&self, source: &str, text: &str) -> &Tree {
        let path = self.path().join(source);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
        self
    }

    /// Adds a message in which cargo names this program.
    fn names(&mut self, source: &str, file: &Path) {
        let message = serde_json::json!({
            "reason": "compiler-artifact", "profile": { "test": true }, "executable": file,
            "manifest_path": self.path().join("Cargo.toml"),
            "target": { "kind": ["test"], "src_path": self.path().join(source) },
        });
        self.messages.push_str(&format!("{message}\n"));
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn start(&self) -> Child {
        self.start_with(&["messages", "counts", "pure", "alone"])
    }

    fn start_with(&self, words: &[&str]) -> Child {
        fs::write(self.path().join("messages"), &self.messages).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_run-tests"));
        command.args(words).current_dir(self.path()).env_remove("SPRY_PROGRAMS");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    /// Starts the runner and waits for it. Returns its output, if these numbers of tests passed and failed.
    fn counts(&self, passed: u32, failed: u32) -> String {
        counted(self, self.start().wait_with_output().expect("it ends"), passed, failed)
    }
}

fn counted(tree: &Tree, output: Output, passed: u32, failed: u32) -> String {
    counted_with(tree, output, (passed, failed, 0))
}

/// Compares the numbers of tests that passed, failed, and were left out because they passed before.
fn counted_with(tree: &Tree, output: Output, (passed, failed, before): (u32, u32, u32)) -> String {
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), failed == 0, "{said}{errors}");
    let counts = fs::read_to_string(tree.path().join("counts")).expect("the counts are written");
    assert_eq!(counts, format!("{passed} {failed} {before}\n"), "{said}");
    said
}

#[test]
fn output_is_shown_of_failed_tests_only() {
    let does = format!("if [ $1 = bad ]; then echo 'the reason' >&2; exit 101; fi; echo 'much talk'; {GOOD}");
    let tree = Tree::new().program("a/tests/one.rs", &["good", "bad"], &[], &does);
    let said = tree.counts(1, 1);
    assert!(said.contains("a/tests/one.rs bad") && said.contains("the reason"), "{said}");
    assert!(!said.contains("much talk"), "{said}");
}

#[test]
fn failures_are_kept_in_short_for_the_end() {
    let does = "for i in $(seq 30); do echo line $i; done; exit 101";
    let tree = Tree::new().program("a/tests/one.rs", &["bad"], &[], does);
    tree.counts(0, 1);
    let short = fs::read_to_string(tree.path().join("counts.failed")).expect("the failures are kept");
    assert!(short.starts_with("FAILED a/tests/one.rs bad: exit status: 101\n  line 21\n"), "{short}");
    assert!(short.ends_with("  line 30\n"), "{short}");
}

/// The lines that tests have added to the file `ran` since the last call, sorted.
fn ran(tree: &Tree) -> Vec<String> {
    let text = fs::read_to_string(tree.path().join("ran")).expect("some ran");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    fs::remove_file(tree.path().join("ran")).expect("it is there");
    lines.sort();
    lines
}

#[test]
fn a_lab_test_with_equal_inputs_is_not_run_again() {
    let does = |rest: &str| format!("echo $1 >>ran; if [ $1 = m::bad ]; then exit 1; fi; {GOOD}{rest}");
    let lab = ["m::good", "m::bad", "repeats::host"];
    let tree = |rest: &str| {
        let tree = Tree::new().program("tests/lab/tests/l.rs", &lab, &[], &does(rest));
        tree.program("a/tests/p.rs", &["pure"], &[], &format!("echo $1 >>ran; {GOOD}"))
    };
    let notes = tempfile::tempdir().expect("a directory");
    let words = ["--kept", notes.path().to_str().expect("UTF-8"), "messages", "counts", "lab", "pure"];
    let end = |tree: &Tree, counts| {
        counted_with(tree, tree.start_with(&words).wait_with_output().expect("it ends"), counts)
    };
    let first = tree("");
    end(&first, (3, 1, 0));
    assert_eq!(ran(&first), ["m::bad", "m::good", "pure", "repeats::host"]);
    let said = end(&first, (2, 1, 1));
    assert!(said.contains("1 test passed before with equal guests"), "{said}");
    assert_eq!(ran(&first), ["m::bad", "pure", "repeats::host"]);
    // A different source is a different input.
    end(&tree("; exit 0"), (3, 1, 0));
}

#[test]
fn a_changed_module_runs_its_own_tests_again() {
    let tests = ["m::one", "n::two", "o::three"];
    let tree =
        Tree::new().program("tests/lab/tests/l/main.rs", &tests, &[], &format!("echo $1 >>ran; {GOOD}"));
    let module = |name: &str, text: &str| _ = tree.writes(&format!("tests/lab/tests/l/{name}.rs"), text);
    module("m", "first");
    module("n", "use crate::m::helper;");
    module("o", "first");
    let words = ["--kept", "kept", "messages", "counts", "lab"];
    let end =
        |counts| counted_with(&tree, tree.start_with(&words).wait_with_output().expect("it ends"), counts);
    end((3, 0, 0));
    assert_eq!(ran(&tree), tests);
    module("m", "second");
    end((2, 0, 1));
    assert_eq!(ran(&tree), ["m::one", "n::two"]);
    module("o", "second");
    end((1, 0, 2));
    assert_eq!(ran(&tree), ["o::three"]);
    tree.writes("src/lib.rs", "second");
    end((3, 0, 0));
}

#[test]
fn under_shakes_what_passed_is_not_run_again() {
    let does = format!(
        "echo $1 $SPRY_LAB_SHAKE >>ran; if [ $1-$SPRY_LAB_SHAKE = two-8198 ]; then exit 1; fi; {GOOD}"
    );
    let tree = Tree::new().program("tests/lab/tests/l.rs", &["one", "two", "other"], &[], &does);
    let words =
        ["--shakes", "2", "--kept", "kept", "--only", "one", "--only", "two", "messages", "counts", "lab"];
    let end = |child: Child| child.wait_with_output().expect("it ends");
    counted(&tree, end(tree.start_with(&words)), 3, 1);
    assert_eq!(ran(&tree), ["one 4099", "one 8198", "two 4099", "two 8198"]);
    counted(&tree, end(tree.start_with(&words)), 0, 1);
    assert_eq!(ran(&tree), ["two 8198"]);
}

#[test]
fn everything_good_passes() {
    let tree = Tree::new().program("a/src/lib.rs", &["x", "y"], &[], GOOD).program(
        "a/tests/z.rs",
        &["z"],
        &[],
        GOOD,
    );
    assert!(tree.counts(3, 0).contains("a/src/lib.rs, 2 tests"));
}

#[test]
fn a_test_that_is_cut_short_has_failed() {
    let tree = Tree::new().program("a/tests/one.rs", &["killed"], &[], &format!("{GOOD}; kill -9 $$"));
    assert!(tree.counts(0, 1).contains("signal: 9"));
}

#[test]
fn a_program_that_did_not_run_what_it_was_asked_for_has_failed() {
    let none = GOOD.replace("1 passed", "0 passed");
    let tree = Tree::new().program("a/tests/one.rs", &["lost"], &[], &none);
    assert!(tree.counts(0, 1).contains("did not run it"));
}

#[test]
fn a_test_that_is_ignored_has_failed() {
    let tree = Tree::new().program("a/tests/one.rs", &["good", "left"], &["left"], GOOD);
    assert!(tree.counts(1, 1).contains("a/tests/one.rs left"));
}

#[test]
fn a_program_without_tests_or_that_does_not_start_has_failed() {
    let mut tree = Tree::new().program("a/tests/empty.rs", &[], &[], GOOD);
    tree.names("a/tests/gone.rs", Path::new("gone"));
    tree.counts(0, 2);
}

#[test]
fn pure_tests_run_side_by_side() {
    // Each of the two tests waits for the other test.
    let does = format!(
        "touch $1; for i in $(seq 200); do [ -e a ] && [ -e b ] && {GOOD} && exit 0; sleep 0.1; done"
    );
    Tree::new().program("a/tests/one.rs", &["a", "b"], &[], &does).counts(2, 0);
}

#[test]
fn tests_that_need_the_machine_run_last_and_one_by_one() {
    let does = format!("mkdir lock || exit 1; echo $1 >>order; sleep 0.2; rmdir lock; {GOOD}");
    let alone = "crates/prove/runner/tests/runs.rs";
    let tree = Tree::new().program(alone, &["a", "b", "c"], &[], &does);
    let tree = tree.program("z/tests/pure.rs", &["p"], &[], &format!("sleep 0.2; echo $1 >>order; {GOOD}"));
    tree.counts(4, 0);
    assert_eq!(fs::read_to_string(tree.path().join("order")).unwrap(), "p\na\nb\nc\n");
}

#[test]
fn an_interrupt_ends_what_runs_and_the_rest_counts_as_failed() {
    let tests = ["a", "b", "c"];
    let tree = Tree::new().program(
        "crates/prove/runner/tests/runs.rs",
        &tests,
        &[],
        "echo $$ >begun; exec sleep 100",
    );
    let child = tree.start();
    let begun = tree.path().join("begun");
    let since = Instant::now();
    while fs::read_to_string(&begun).unwrap_or_default().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(60), "no test has begun");
        thread::sleep(Duration::from_millis(10));
    }
    // The child was not waited for, so the process id is still its own.
    spry_sys::signal::send(child.id(), spry_sys::Signal::INT).unwrap();
    let said = counted(&tree, child.wait_with_output().unwrap(), 0, 3);
    assert!(said.contains("NOT RUN: 2 tests of crates/prove/runner/tests/runs.rs"), "{said}");
    let sleeper: u32 = fs::read_to_string(begun).unwrap().trim().parse().unwrap();
    assert!(spry_sys::process::open(sleeper).is_err(), "the test lives on");
}
