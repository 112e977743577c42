//! A private directory that is removed however the process that made it ends, even if it is killed.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How many names are tried: a process may make more than one directory.
const NAMES: u32 = 10_000;

/// A directory that only this user can enter. Its name is made of the process's id, not of chance, so that a
/// run on a deterministic machine repeats. A shell waits for the end of this process and of its forks, and
/// removes the directory.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keeper: Child,
}

impl Scratch {
    /// Makes the directory below another, or below the system's directory for temporary files.
    ///
    /// # Errors
    /// If the directory or the shell that removes it cannot be made; the error says which.
    pub fn make(below: Option<&Path>) -> io::Result<Self> {
        let path = directory(&below.map_or_else(std::env::temp_dir, Path::to_owned))?;
        // Nothing is written to the pipe. The shell waits for the pipe's end, which comes when this process
        // ends or drops the directory. Processes that this process started may still be ending then: a second
        // try removes the files that they wrote meanwhile.
        let removal = "read -r _; rm -rf -- \"$1\" 2>/dev/null || { sleep 1; rm -rf -- \"$1\"; }";
        let keeper = Command::new("sh")
            .args(["-c", removal, "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at a terminal reaches the terminal's whole process group, but not this shell.
            .process_group(0)
            .spawn();
        match keeper {
            Ok(keeper) => Ok(Self { path, keeper }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(io::Error::new(
                    error.kind(),
                    format!("sh, which is to remove it, does not start: {error}"),
                ))
            }
        }
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn directory(parent: &Path) -> io::Result<PathBuf> {
    for number in 0..NAMES {
        let path = parent.join(format!("spry-{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is full of them", parent.display())))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed here are left to the shell, and after it to the user. The result of
        // the run is still valid.
        let _ = fs::remove_dir_all(&self.path);
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
