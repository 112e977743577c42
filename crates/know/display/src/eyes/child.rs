//! The processes that look at displays. Root starts them, and each gives up the rights that it does not need
//! before it reads anything.

use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_setfl, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::geteuid;
use spry_policy::Tgid;

use crate::Synthetic;
use crate::wire::{AT_ONCE, RECORD, Record, Seat};

const NAME: &str = "spry-eyes";

/// The program `spry-eyes`, ready to be started.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    /// A copy of the program that no user may read or change.
    copy: Option<File>,
}

impl Program {
    /// Finds the program beside this one, or, for tests and examples, in the directory above; nothing if the
    /// program is not there.
    pub(super) fn find() -> io::Result<Option<Program>> {
        let own = env::current_exe()?;
        let beside = own.parent();
        // Cargo puts tests and examples in directories below the programs that they test.
        let is_below = |place: &&Path| place.ends_with("deps") || place.ends_with("examples");
        let above = beside.filter(is_below).and_then(Path::parent);
        let mut places = beside.into_iter().chain(above).map(|place| place.join(NAME));
        let Some(path) = places.find(|path| path.exists()) else { return Ok(None) };
        let copy = if geteuid().is_root() { copy(&path).ok() } else { None };
        Ok(Some(Program { path, copy }))
    }

    /// Starts a process of the program. If this process is root, the new process starts as root, too: no user
    /// can stop it or look into it before it has given up its rights itself. The output of the new process
    /// can be read from the returned descriptor.
    fn start(&self, args: &[String], stdin: Stdio) -> io::Result<(Child, OwnedFd)> {
        let (line, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&line, OFlags::NONBLOCK)?;
        let path = match &self.copy {
            Some(copy) => PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd())),
            None => self.path.clone(),
        };
        let mut command = Command::new(path);
        command.arg0(NAME).args(args).current_dir("/").env_clear();
        if let Some(file) = env::var_os("XAUTHORITY").filter(|_| !geteuid().is_root()) {
            command.env("XAUTHORITY", file);
        }
        command.stdin(stdin).stdout(theirs).stderr(Stdio::null());
        Ok((command.spawn()?, line))
    }
}

/// A copy of a program in memory, which can be started but neither read nor changed.
fn copy(path: &Path) -> io::Result<File> {
    let name = CString::new(NAME).unwrap_or_default();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 lack the flag `EXEC`, and do not need it.
    let made = memfd_create(&name, flags | MemfdFlags::EXEC).or_else(|_| memfd_create(&name, flags))?;
    let mut copy = File::from(made);
    copy.write_all(&fs::read(path)?)?;
    copy.set_permissions(fs::Permissions::from_mode(0o111))?;
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(copy)
}

/// A process that looks at a display or a seat, and the pipe on which it reports.
#[derive(Debug)]
pub(super) struct Looker {
    child: Child,
    line: OwnedFd,
}

/// The result of reading the pipe of eyes.
pub(super) enum PipeContent {
    /// Records; there may be more.
    Told(Vec<Record>),
    /// There is nothing more for now.
    Nothing,
    /// The eyes have ended, or have sent something that is no record.
    Over,
}

impl Looker {
    /// Starts eyes for a display and the process that listens there. The eyes run as the user `uid`; `pen` is
    /// the list of processes of the cgroup that they enter.
    pub(super) fn eyes(
        program: &Program,
        uid: u32,
        number: u32,
        listener: Tgid,
        synthetic: Synthetic,
        pen: Option<File>,
    ) -> io::Result<Looker> {
        let synthetic = match synthetic {
            Synthetic::Ignored => "ignored",
            Synthetic::Trusted => "trusted",
        };
        let args =
            ["display".into(), uid.to_string(), number.to_string(), listener.0.to_string(), synthetic.into()];
        let (child, line) = program.start(&args, pen.map_or_else(Stdio::null, Stdio::from))?;
        Ok(Looker { child, line })
    }

    /// Starts a process that checks whether a process has a keyboard or a screen of this machine open.
    pub(super) fn seat(program: &Program, process: OwnedFd, tgid: Tgid) -> io::Result<Looker> {
        let (child, line) = program.start(&["seat".into(), tgid.0.to_string()], Stdio::from(process))?;
        Ok(Looker { child, line })
    }

    /// The number of the process that looks.
    pub(super) fn tgid(&self) -> Tgid {
        Tgid(self.child.id())
    }

    /// Returns the process, so that it can be ended.
    pub(super) fn into_child(self) -> Child {
        self.child
    }

    fn read(&self, bytes: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(&self.line, bytes)
    }

    /// The next records that the eyes have sent. The call does not wait.
    pub(super) fn hear(&self) -> PipeContent {
        let mut bytes = [0; RECORD * AT_ONCE];
        match self.read(&mut bytes) {
            Ok(0) => PipeContent::Over,
            // A pipe takes a record whole, so no part of a record is left behind.
            Ok(length) => records(&bytes[..length]).map_or(PipeContent::Over, PipeContent::Told),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => PipeContent::Nothing,
            Err(_) => PipeContent::Over,
        }
    }

    /// The answer of the process about a seat, if it has come. The call does not wait.
    pub(super) fn answer(&self) -> Option<Seat> {
        let mut byte = [0];
        match self.read(&mut byte) {
            Ok(1) => Some(byte[0].into()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
            Ok(_) | Err(_) => Some(Seat::Unknown),
        }
    }
}

/// Reads the bytes as whole records; `None` if they are no records.
fn records(bytes: &[u8]) -> Option<Vec<Record>> {
    if bytes.len() % RECORD != 0 {
        return None;
    }
    bytes.chunks(RECORD).map(|bytes| Record::try_from(bytes).ok()).collect()
}

impl AsFd for Looker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_and_each_is_one() {
        let record: [u8; RECORD] = Record::Watched(Tgid(7)).into();
        let two = [record, record].concat();
        assert_eq!(records(&two), Some(vec![Record::Watched(Tgid(7)); 2]));
        assert_eq!(records(&two[..RECORD + 1]), None);
        assert_eq!(records(&[0; RECORD]), None);
    }
}
