//! A user's patch of the kernel's source. A change of this code rebuilds no kernel.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::run;
use crate::error::{LabError, at};
use crate::progress::Stop;

/// How large a patch may be, bytes.
const PATCH_MOST: u64 = 16 << 20;

/// A user's patch: its file and the content of the file.
pub(super) struct Patch<'a> {
    pub(super) file: &'a Path,
    pub(super) content: Vec<u8>,
}

impl<'a> Patch<'a> {
    /// Reads the patch of a file.
    ///
    /// # Errors
    /// If it cannot be read, is no regular file, or is too large to be a patch.
    pub(super) fn read(file: &'a Path) -> Result<Self, LabError> {
        let unread = |error: std::io::Error| {
            let file = file.display();
            let advice = "`--patch` takes a file that `git diff` or `diff -u` has written";
            LabError::Kernel(format!("the patch {file}: {error}; {advice}"))
        };
        let about = fs::metadata(file).map_err(unread)?;
        if !about.is_file() || about.len() > PATCH_MOST {
            let most_mib = PATCH_MOST >> 20;
            return Err(LabError::Kernel(format!(
                "{}: a patch is a regular file of at most {most_mib} MiB",
                file.display()
            )));
        }
        Ok(Self { file, content: fs::read(file).map_err(unread)? })
    }

    /// Applies the patch to the source of the package.
    ///
    /// # Errors
    /// If the patch does not fit; the error has the first misfit.
    pub(super) fn apply(&self, source: &Path, package: &str, stop: &Stop) -> Result<(), LabError> {
        let copy = source.join("user.patch");
        fs::write(&copy, &self.content).map_err(at(&copy))?;
        // The program prints the misfits on standard output.
        let mut command = Command::new("sh");
        command.args(["-c", "exec patch -p1 --batch --forward -d \"$0\" -i \"$1\" >&2"]);
        match run(command.arg(source).arg(&copy), stop) {
            Ok(_) => fs::remove_file(&copy).map_err(at(&copy)),
            Err(LabError::Tool { stderr, .. }) => Err(LabError::Kernel(format!(
                "{} does not fit the source of {package}: {}",
                self.file.display(),
                why_not(&stderr)
            ))),
            Err(error) => Err(error),
        }
    }
}

/// The first reason that `patch` gives, in one line.
fn why_not(said: &str) -> String {
    let is_reason = |line: &str| {
        ["FAILED", "find file", "garbage", "malformed", "Reversed"].iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let Some(reason) = lines.iter().position(|line| is_reason(line)) else {
        return lines.last().map_or_else(|| "patch says no reason".to_owned(), ToString::to_string);
    };
    let file = lines[..reason].iter().rev().find_map(|line| line.strip_prefix("patching file "));
    let named = file.map(|file| format!("{file}: ")).unwrap_or_default();
    named + lines[reason]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_or_a_directory_is_no_patch() {
        for file in ["/dev/zero", "/proc"] {
            let error = Patch::read(Path::new(file)).map(drop).expect_err("it is none").to_string();
            assert_eq!(error, format!("{file}: a patch is a regular file of at most 16 MiB"));
        }
        let error = Patch::read(Path::new("/nowhere")).map(drop).expect_err("it is missing").to_string();
        let begin = "the patch /nowhere: No such file or directory (os error 2); `--patch` takes";
        assert!(error.starts_with(begin), "{error}");
    }

    #[test]
    fn a_patch_that_does_not_fit_says_where_in_one_line() {
        let source = tempfile::tempdir().expect("a directory");
        fs::write(source.path().join("a.c"), "one\ntwo\nthree\n").expect("it can be written");
        let apply = |text: &str| {
            let patch = Patch { file: Path::new("my.patch"), content: text.as_bytes().to_vec() };
            patch.apply(source.path(), "linux-source-9", &Stop::new())
        };
        let good = "--- a/a.c\n+++ b/a.c\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
        apply(good).expect("it fits");
        assert_eq!(fs::read_to_string(source.path().join("a.c")).expect("it is there"), "one\n2\nthree\n");
        fs::write(source.path().join("a.c"), "four\nfive\nsix\n").expect("it can be written");
        for (bad, why) in [
            (good.replace("-two", "-zwei"), "a.c: Hunk #1 FAILED at 1"),
            (good.replace("a.c", "b.c"), "can't find file to patch"),
            ("nonsense\n".to_owned(), "garbage"),
        ] {
            let error = apply(&bad).expect_err("it does not fit").to_string();
            assert!(error.starts_with("my.patch does not fit the source of linux-source-9: "), "{error}");
            assert!(error.contains(why) && error.lines().count() == 1, "{error}");
        }
    }
}
