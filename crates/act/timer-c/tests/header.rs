//! A program in C, compiled with the header and run with either library.

use std::path::{Path, PathBuf};
use std::process::Command;

use spry_test_run::c;

/// Compiles the example in C and links it with a library.
fn compiled(directory: &Path, library: &Path) -> PathBuf {
    c::compiled(Path::new(env!("CARGO_MANIFEST_DIR")), "requests", &[], directory, library)
}

#[test]
fn a_c_program_arms_checks_and_sleeps_with_either_library() {
    for ending in [".a", ".so"] {
        let directory = tempfile::tempdir().expect("a directory");
        let library = c::library("libspry_timer_c", ending);
        let mut command = Command::new(compiled(directory.path(), &library));
        let ended = command.env("LD_LIBRARY_PATH", library.parent().expect("a directory")).output();
        let ended = ended.expect("it starts");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(
            String::from_utf8_lossy(&ended.stdout),
            "refused: a deadline is 5000000 ns (now) or later, not 4999999 ns: 1 ns ago\n\
             request 2 timed out, 100 us late\n\
             4 ticks; 2 fired by checks, 3 by the backstop\n"
        );
    }
}
