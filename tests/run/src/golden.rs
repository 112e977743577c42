//! Golden files: texts that a test's result must equal, kept beside the tests.

use std::env;
use std::fs;
use std::path::Path;

/// The variable with which golden files are written anew instead of compared.
const UPDATE: &str = "SPRY_UPDATE_GOLDEN";

/// Compares a text with `tests/golden/NAME` of the crate in this directory (its `CARGO_MANIFEST_DIR`), or
/// writes the file where `SPRY_UPDATE_GOLDEN` is set.
///
/// # Panics
/// If the two differ.
pub fn assert_golden(crate_directory: &str, name: &str, got: &str) {
    let path = Path::new(crate_directory).join("tests/golden").join(name);
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, got).expect("the golden file can be written");
        return;
    }
    let want = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run again with {UPDATE}=1", path.display()));
    let line = want.lines().zip(got.lines()).position(|(want, got)| want != got);
    assert!(
        want == got,
        "{name} differs from line {} on; if that is meant, run again with {UPDATE}=1\ngot:\n{got}",
        line.unwrap_or_else(|| want.lines().count().min(got.lines().count())) + 1
    );
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_text_that_differs_is_told_with_the_line() {
        let place = tempfile::tempdir().expect("scratch space");
        let golden = place.path().join("tests/golden");
        fs::create_dir_all(&golden).expect("scratch space");
        fs::write(golden.join("text"), "one\ntwo\n").expect("scratch space");
        let place = place.path().to_str().expect("a plain path");
        assert_golden(place, "text", "one\ntwo\n");
        for (got, said) in [("one\nthree\n", "from line 2 on"), ("one\n", "from line 2 on")] {
            let panic = catch_unwind(|| assert_golden(place, "text", got)).expect_err("they differ");
            let text = panic.downcast_ref::<String>().expect("a text");
            assert!(text.contains(said), "{text}");
        }
        assert!(catch_unwind(|| assert_golden(place, "missing", "")).is_err());
    }
}
