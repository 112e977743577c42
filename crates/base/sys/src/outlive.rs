//! Processes that outlive their caller: the code that all guardians share. A guardian is forked before its
//! caller changes anything, and undoes the changes when the caller ends.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// When dropped, ends the process: after a fork, a panic in the child must not unwind into the stack that was
/// copied from the parent.
#[derive(Debug)]
pub struct NoWayBack;

impl Drop for NoWayBack {
    fn drop(&mut self) {
        // SAFETY: the call ends this process, without the exit handlers that its parent registered for the
        // parent's own exit.
        unsafe { libc::_exit(70) }
    }
}

/// Forks a child that calls `child` and ends with the status that `child` returns, or with 70 if it panics.
/// Returns the child's number.
///
/// # Errors
/// If the kernel refuses.
///
/// # Safety
/// If the process has several threads, the child has only the calling one, so it must take no lock that
/// another thread may hold. The C library makes its allocator usable after a fork.
pub unsafe fn fork(child: impl FnOnce() -> libc::c_int) -> io::Result<u32> {
    // SAFETY: the child never returns from here, and the caller is responsible for its actions.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _never = NoWayBack;
            let status = child();
            // SAFETY: as above.
            unsafe { libc::_exit(status) }
        }
        tgid => Ok(tgid.unsigned_abs()),
    }
}

/// Detaches the calling process: the end of the caller's group, session or terminal does not end this
/// process any more. It keeps only these descriptors, and its working directory is the root. The process
/// must have one thread.
pub fn detach(keep: &[BorrowedFd<'_>], name: &CStr) {
    // SAFETY: these calls take numbers, texts that end with 0, and descriptors that no other thread of this
    // process uses: it has one thread.
    unsafe {
        libc::setsid();
        for signal in 1..=libc::SIGSYS {
            let own = [libc::SIGCHLD, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
            let disposition = if own.contains(&signal) { libc::SIG_DFL } else { libc::SIG_IGN };
            libc::signal(signal, disposition);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for stream in 0..=2 {
            if null >= 0 {
                libc::dup2(null, stream);
            } else {
                libc::close(stream);
            }
        }
        keep_only(keep);
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::chdir(c"/".as_ptr());
    }
}

/// Closes all descriptors of the calling process except these and the standard streams. It is for a process
/// that was just forked and has one thread: it must neither use nor drop what it closes here.
pub fn keep_only(keep: &[BorrowedFd<'_>]) {
    let mut keep: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    keep.sort_unstable();
    let mut first = 3;
    // SAFETY: the calls take numbers; the process has one thread, which does not use the closed descriptors.
    unsafe {
        for fd in keep {
            if fd > first {
                libc::syscall(libc::SYS_close_range, first, fd - 1, 0);
            }
            first = first.max(fd + 1);
        }
        libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::{poll, process};

    fn status_of(child: u32) -> Option<libc::c_int> {
        process::wait(child).expect("it is ours").code()
    }

    #[test]
    fn a_child_ends_with_its_status_even_if_it_panics() {
        // SAFETY: the children take no lock but standard error's, which this test does not hold.
        let (good, bad) = unsafe {
            (fork(|| 3).expect("a child"), fork(|| std::panic::resume_unwind(Box::new(()))).expect("a child"))
        };
        assert_eq!((status_of(good), status_of(bad)), (Some(3), Some(70)));
    }

    #[test]
    fn a_detached_process_keeps_what_it_is_told_and_tells_its_end() {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let (mut lost, other) = UnixStream::pair().expect("a pair");
        // SAFETY: the child takes no lock.
        let child = unsafe {
            fork(|| {
                detach(&[theirs.as_fd()], c"spry-detached");
                let mut theirs = &theirs;
                i32::from(theirs.write_all(b"x").is_err() || theirs.read_exact(&mut [0]).is_err())
            })
        };
        let child = child.expect("a child");
        let process = process::open(child).expect("a descriptor");
        drop(other);
        ours.read_exact(&mut [0]).expect("it says that it is detached");
        assert_eq!(lost.read(&mut [0]).expect("the other line is closed"), 0);
        ours.write_all(b"x").expect("it listens");
        assert_eq!(status_of(child), Some(0));
        assert_eq!(poll::any([process.as_fd()], Duration::from_secs(10)), [true]);
    }
}
