//! The fill levels of the pipes of other processes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;

/// Which end of a pipe a process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end from which the process reads.
    Read,
    /// The end to which the process writes.
    Write,
}

/// A descriptor of a process that is a pipe's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipeEnd {
    tgid: u32,
    fd: u32,
    inode: u64,
    /// The end that the process holds.
    pub side: Side,
}

impl PipeEnd {
    /// The pipe's end at a descriptor of a process; `None` if the descriptor is no pipe, or is open for both
    /// reading and writing.
    ///
    /// # Errors
    /// If the process has no such descriptor, or if it may not be inspected.
    pub fn of(tgid: u32, fd: u32) -> io::Result<Option<PipeEnd>> {
        let path = format!("/proc/{tgid}/fd/{fd}");
        // The mode of the link itself shows whether the descriptor is open for reading or for writing.
        let mode = std::fs::symlink_metadata(&path)?.mode();
        let side = match mode & 0o600 {
            0o400 => Side::Read,
            0o200 => Side::Write,
            _ => return Ok(None),
        };
        Ok(inode_of_pipe(&path)?.1.map(|inode| PipeEnd { tgid, fd, inode, side }))
    }

    /// How full the pipe is, from 0 to 1. It is read through a second descriptor of the same end, open for a
    /// moment. So no thread that waits for a first reader or writer is woken, and no byte is read or
    /// written. If the process ends in this moment, its partner gets the end of the pipe only when the second
    /// descriptor is closed.
    ///
    /// The descriptor is not copied from the process (`pidfd_getfd`): a user could put a file of the user's
    /// own file system in its place, and closing that file could block. Here the file is found to be a pipe
    /// before it is opened.
    ///
    /// # Errors
    /// If the process does not hold this end any more.
    pub fn fill(&self) -> io::Result<f64> {
        let (path, inode) = inode_of_pipe(&format!("/proc/{}/fd/{}", self.tgid, self.fd))?;
        if inode != Some(self.inode) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let access = match self.side {
            Side::Read => OFlags::RDONLY,
            Side::Write => OFlags::WRONLY,
        };
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let pipe = openat(CWD, format!("/proc/self/fd/{}", path.as_raw_fd()), flags, Mode::empty())?;
        let (bytes, room) = (ioctl_fionread(&pipe)?, fcntl_getpipe_size(&pipe)?);
        Ok((bytes as f64 / room.max(1) as f64).min(1.0))
    }
}

/// Opens a path with `O_PATH`. Returns the descriptor, and the pipe's inode if the file is a pipe. No request
/// goes to a file system.
fn inode_of_pipe(path: &str) -> io::Result<(OwnedFd, Option<u64>)> {
    let named = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(&named, "", flags, StatxFlags::TYPE | StatxFlags::INO)?;
    let is_pipe = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Fifo;
    Ok((named, is_pipe.then_some(found.stx_ino)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_look_at_a_pipe_s_fill_level_leaves_its_partners_alone() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::piped()).spawn().expect("sleep starts");
        let end = PipeEnd::of(child.id(), 0).expect("it is there").expect("it is a pipe");
        assert_eq!((end.side, end.fill().expect("it is open")), (Side::Read, 0.0));
        let mut writer = child.stdin.take().expect("it is piped");
        writer.write_all(&[7; 32768]).expect("there is room");
        assert_eq!(end.fill().expect("it is open"), 0.5);
        assert_eq!(PipeEnd::of(child.id(), 9_999).unwrap_err().kind(), io::ErrorKind::NotFound);
        child.kill().and_then(|()| child.wait().map(drop)).expect("it is ours");
        // The reader has ended, and reading the fill level does not count as a reader.
        assert!(end.fill().is_err());
        assert_eq!(writer.write(&[7]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_writing_end_of_a_pipe_is_as_full_and_a_look_is_no_writer() {
        let mut child = Command::new("sh")
            .args(["-c", "head -c 16384 /dev/zero; exec sleep 60"])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("sh starts");
        let end = PipeEnd::of(child.id(), 1).expect("it is there").expect("it is a pipe");
        assert_eq!(end.side, Side::Write);
        assert_eq!(PipeEnd::of(child.id(), 0).expect("it is there"), None);
        while end.fill().expect("it is open") < 0.25 {
            std::thread::yield_now();
        }
        let mut reader = child.stdout.take().expect("it is piped");
        child.kill().and_then(|()| child.wait().map(drop)).expect("it is ours");
        let mut all = Vec::new();
        assert_eq!(reader.read_to_end(&mut all).expect("it ends"), 16384);
    }
}
