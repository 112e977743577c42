//! Calls that are measured themselves, so they stay the C library's: a call that does nothing, giving way,
//! reading and writing, and passing a byte to a process that sends it back.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::outlive;

/// Makes a system call that does almost nothing, and returns its result. The call is made by its number,
/// so that no library answers it.
#[inline]
pub fn trap() -> i64 {
    // SAFETY: the call takes no argument and cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// The processor's count of cycles at its nominal rate, whatever the rate is now; `None` if it has no count.
#[inline]
pub fn cycles() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the counter.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Gives the CPU to other threads that are ready to run.
#[inline]
pub fn give_way() {
    // SAFETY: the call takes no argument and cannot fail.
    unsafe { libc::sched_yield() };
}

/// Reads the bytes that are available, and waits for the first if there are none.
///
/// # Errors
/// `EINTR` at a signal; otherwise if the descriptor cannot be read.
#[inline]
pub fn read(from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are of a buffer of our own.
    let read = unsafe { libc::read(from.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes as many bytes as fit, and waits until at least one byte fits.
///
/// # Errors
/// `EINTR` at a signal; otherwise if the descriptor cannot be written.
#[inline]
pub fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are of a buffer of our own.
    let written = unsafe { libc::write(to.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Passes a byte into one pipe and takes one from another.
///
/// # Errors
/// If no process has the other ends any more.
#[inline]
pub fn pass(to: BorrowedFd<'_>, from: BorrowedFd<'_>) -> io::Result<()> {
    let (to, from) = (to.as_raw_fd(), from.as_raw_fd());
    let mut byte = 0u8;
    // SAFETY: the pointer and length are of a byte of our own.
    let passed = unsafe {
        retried(|| libc::write(to, (&raw const byte).cast(), 1))
            && retried(|| libc::read(from, (&raw mut byte).cast(), 1))
    };
    if passed { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a call passed a byte. If a signal interrupts the call, it is made again.
#[inline]
fn retried(mut call: impl FnMut() -> libc::ssize_t) -> bool {
    loop {
        match call() {
            1 => return true,
            // SAFETY: the pointer is to the error number of this thread.
            -1 if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            _ => return false,
        }
    }
}

/// Starts a process on the CPUs and in the class of the calling thread, which sends back each byte that it
/// gets. It ends when no process can write to it any more, or with the calling thread. It closes `others`,
/// the caller's ends of the pipes: otherwise its input would never end. Returns its number.
///
/// # Errors
/// If the kernel refuses.
pub fn start_echo(from: BorrowedFd<'_>, to: BorrowedFd<'_>, others: [BorrowedFd<'_>; 2]) -> io::Result<u32> {
    // SAFETY: the child makes system calls only.
    unsafe { outlive::fork(|| echo(from.as_raw_fd(), to.as_raw_fd(), others.map(|end| end.as_raw_fd()))) }
}

fn echo(from: libc::c_int, to: libc::c_int, others: [libc::c_int; 2]) -> libc::c_int {
    // SAFETY: the calls take numbers. The process uses none of the descriptors that it closes.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        for fd in others {
            libc::close(fd);
        }
    }
    let mut byte = 0u8;
    // SAFETY: the pointer and length are of a byte of our own.
    while retried(|| unsafe { libc::read(from, (&raw mut byte).cast(), 1) })
        // SAFETY: the pointer and length are of a byte of our own.
        && retried(|| unsafe { libc::write(to, (&raw const byte).cast(), 1) })
    {}
    0
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{pipe, process};

    #[test]
    fn a_trap_reaches_the_kernel() {
        assert_eq!(trap(), std::os::unix::process::parent_id().into());
        assert!(cycles() <= cycles());
    }

    #[test]
    fn a_pipe_returns_written_bytes_after_a_yield() {
        let (from, to) = pipe().unwrap();
        assert_eq!(write(to.as_fd(), b"abc").unwrap(), 3);
        give_way();
        let mut bytes = [0; 9];
        assert_eq!((read(from.as_fd(), &mut bytes).unwrap(), &bytes[..3]), (3, &b"abc"[..]));
        assert!(read(to.as_fd(), &mut bytes).is_err() && write(from.as_fd(), b"x").is_err());
    }

    #[test]
    fn bytes_come_back_until_the_pipe_is_closed() {
        let ((theirs, to), (from, back)) = (pipe().unwrap(), pipe().unwrap());
        let child = start_echo(theirs.as_fd(), back.as_fd(), [to.as_fd(), from.as_fd()]).unwrap();
        drop((theirs, back));
        for _ in 0..100 {
            pass(to.as_fd(), from.as_fd()).unwrap();
        }
        drop(to);
        assert_eq!(process::wait(child).unwrap().code(), Some(0));
    }
}
