//! A program in C, compiled with the header and run with either library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The newest file that cargo has built of this library, with this ending.
fn library(ending: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let files = fs::read_dir(own.parent().expect("a directory")).expect("its files").flatten();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libspry_timer_c") && name.ends_with(ending)
    };
    let age = |path: &PathBuf| {
        fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    files.map(|file| file.path()).filter(is_it).max_by_key(age).expect("cargo builds the library")
}

/// Compiles the example in C with every warning an error, and links it with a library.
fn compiled(directory: &Path, library: &Path) -> PathBuf {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = directory.join("requests");
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg("-I").arg(crate_directory.join("include")).arg(crate_directory.join("examples/requests.c"));
    command.arg("-o").arg(&program).arg(library).args(["-lm", "-lpthread", "-ldl"]);
    let said = command.output().expect("there is a C compiler");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    program
}

#[test]
fn a_c_program_arms_checks_and_sleeps_with_either_library() {
    for ending in [".a", ".so"] {
        let directory = tempfile::tempdir().expect("a directory");
        let library = library(ending);
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
