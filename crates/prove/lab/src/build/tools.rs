//! What a build of a kernel needs on this machine. A change of this code rebuilds no kernel.

use std::process::Command;

use crate::command::{found, run};
use crate::error::LabError;
use crate::progress::Stop;

/// The programs that a build of a kernel needs besides the lab's own, with their packages.
const PROGRAMS: [(&str, &str); 7] = [
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("pahole", "dwarves"),
    ("patch", "patch"),
];
/// The headers that the kernel's own tools include, with their packages.
const HEADERS: [(&str, &str); 1] = [("libelf.h", "libelf-dev")];

/// A program or header that is missing, and the package that holds it.
type Missing = (&'static str, &'static str);

/// The programs and headers that this machine lacks.
pub(crate) fn missing(stop: &Stop) -> Vec<Missing> {
    let mut missing: Vec<Missing> = PROGRAMS.into_iter().filter(|(name, _)| found(name).is_none()).collect();
    // Without a compiler no header can be looked for.
    if found("gcc").is_some() {
        missing.extend(HEADERS.into_iter().filter(|(header, _)| !is_header(header, stop)));
    }
    missing
}

/// Fails with the first program or header that this machine lacks.
pub(super) fn require(stop: &Stop) -> Result<(), LabError> {
    match missing(stop).first() {
        Some(&(program, package)) => {
            Err(LabError::Missing { program: program.to_owned(), package: package.to_owned() })
        }
        None => Ok(()),
    }
}

/// Whether the compiler finds a header.
fn is_header(name: &str, stop: &Stop) -> bool {
    let mut command = Command::new("gcc");
    command.args(["-fsyntax-only", "-include", name, "-x", "c", "/dev/null"]);
    run(&mut command, stop).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_found_as_the_compiler_finds_it() {
        assert!(is_header("stdio.h", &Stop::new()));
        assert!(!is_header("spry-has-no-such.h", &Stop::new()));
    }
}
