//! How full the pipes of other processes are.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;

/// Which end of a pipe a process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end from which it reads.
    Read,
    /// The end to which it writes.
    Write,
}

/// A descriptor of a process that is a pipe's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipeEnd {
    tgid: u32,
    fd: u32,
    inode: u64,
    /// Which end the process holds.
    pub side: Side,
}

impl PipeEnd {
    /// The pipe's end at a descriptor of a process; `None` if the descriptor is no pipe, or is open for both
    /// reading and writing.
    ///
    /// # Errors
    /// If the process has no such descriptor, or it may not be looked at.
    pub fn of(tgid: u32, fd: u32) -> io::Result<Option<PipeEnd>> {
        let path = format!("/proc/{tgid}/fd/{fd}");
        // The rights of the link itself say for what the descriptor is open.
        let mode = std::fs::symlink_metadata(&path)?.mode();
        let side = match mode & 0o600 {
            0o400 => Side::Read,
            0o200 => Side::Write,
            _ => return Ok(None),
        };
        Ok(inode_of_pipe(&path)?.1.map(|inode| PipeEnd { tgid, fd, inode, side }))
    }

    /// How full the pipe is, from 0 to 1. The kernel is asked through a descriptor of the same end as that
    /// which the process holds, open for a moment. So nothing that waits for the first reader or writer is
    /// woken, and no byte is read or written. If the process ends just then, its partner learns that when the
    /// moment is over.
    ///
    /// The descriptor is not taken over from the process (`pidfd_getfd`): to close it could wait for a file
    /// system of a user's, which was put at the descriptor's place in time. What is opened here is known to
    /// be a pipe before it is opened.
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

/// What is at a path, as a descriptor that only names it, and the pipe's inode if it is a pipe. No file
/// system is asked.
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
        // The reader has ended, and no look counts as one.
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
