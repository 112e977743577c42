//! Files: reservation of disk space, free space, flushing, and writing.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, syncfs};
use rustix::io::Errno;

/// Reserves a file's first bytes on its disk. If the file system cannot reserve, the C library writes
/// them.
///
/// # Errors
/// If the disk is full, or the file cannot be written.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: the call takes an open descriptor and numbers, and reports errors by its result.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// The disk space that this user may still fill below a directory, bytes.
///
/// # Errors
/// If there is no such directory.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Makes the file system of an open file write all its data to its disk.
///
/// # Errors
/// If the disk does not accept the data.
pub fn flush_file_system(file: impl AsFd) -> io::Result<()> {
    Ok(syncfs(file)?)
}

/// Makes reads and writes of an open file fail rather than wait, with all descriptors of this open file.
///
/// # Errors
/// If the descriptor was opened with `O_PATH`.
pub fn never_wait(file: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&file)?;
    Ok(fcntl_setfl(&file, flags | OFlags::NONBLOCK)?)
}

/// Writes all of these bytes. A call that a signal interrupts is made again.
///
/// # Errors
/// If the file does not accept the bytes; it may have some of them then.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn written_bytes_are_read_until_a_read_would_wait() {
        let (from, to) = crate::pipe().expect("a pipe");
        write_all(&to, b"whole").expect("it fits");
        never_wait(&from).expect("it is a pipe");
        let mut bytes = [0; 9];
        assert_eq!(rustix::io::read(&from, &mut bytes), Ok(5));
        assert_eq!(rustix::io::read(&from, &mut bytes), Err(Errno::AGAIN));
        never_wait(&to).expect("it is a pipe");
        let much = vec![0; 1 << 20];
        assert_eq!(write_all(&to, &much).expect_err("it is full").kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_file_system_is_flushed() {
        flush_file_system(tempfile::tempfile().expect("a file")).expect("it has a disk");
    }

    #[test]
    fn reserved_space_is_taken_and_free_space_is_told() {
        let file = tempfile::tempfile().expect("a file");
        reserve(&file, 1 << 20).expect("there is room");
        let about = file.metadata().expect("it is there");
        assert!(about.len() == 1 << 20 && about.blocks() * 512 >= 1 << 20);
        assert!(reserve(&file, u64::MAX).is_err());
        assert!(free_bytes(Path::new("/")).is_ok() && free_bytes(Path::new("/nowhere")).is_err());
    }
}
