//! A private directory that is gone after any exit of its maker, even a kill.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::X11Error;

/// How many names are tried: more than one scenario may run in a process.
const NAMES: u32 = 10_000;

/// A directory that only this user can enter. Its name is made of the process's id, not of chance, so that a
/// run on a deterministic machine repeats. A shell waits for this process's end and removes the directory.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keeper: Child,
}

impl Scratch {
    /// Makes the directory under the system's directory for temporary files.
    ///
    /// # Errors
    /// If the directory or the shell that removes it cannot be made.
    pub fn new() -> Result<Self, X11Error> {
        let path = Self::directory()?;
        // The pipe is written by nobody: it ends when this process does, or when the directory is dropped.
        // What this process started is ending then, too; a second try takes what it still wrote.
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
            Err(source) => {
                let _ = fs::remove_dir(&path);
                Err(X11Error::Kernel { what: "starting sh to keep a temporary directory", source })
            }
        }
    }

    fn directory() -> Result<PathBuf, X11Error> {
        let parent = std::env::temp_dir();
        for number in 0..NAMES {
            let path = parent.join(format!("spry-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(X11Error::File { path, source }),
            }
        }
        Err(X11Error::File { path: parent, source: io::ErrorKind::AlreadyExists.into() })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
