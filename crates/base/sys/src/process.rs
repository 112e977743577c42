//! Processes: children that are waited for, and descriptors of processes.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::str::SplitAsciiWhitespace;

use rustix::process::{self, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use crate::{number, outlive};

/// The calling thread's number.
#[inline]
pub fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Whether this process acts as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Names the calling thread, in at most 15 bytes; the first thread's name is the process'.
pub fn set_name(name: &CStr) {
    // The kernel truncates a name that is too long, and refuses none.
    _ = rustix::thread::set_name(name);
}

/// Whether a call failed because there is no such process or thread.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// A descriptor of a process: it becomes readable when the process has ended.
///
/// # Errors
/// If there is no such process, or the kernel gives no descriptor.
pub fn open(tgid: u32) -> io::Result<OwnedFd> {
    Ok(pidfd_open(number(tgid)?, PidfdFlags::empty())?)
}

/// A descriptor of a thread: it becomes readable when the thread has ended. Kernels before 6.9 give such a
/// descriptor only of a process' first thread, and there it becomes readable when the process has ended.
///
/// # Errors
/// If there is no such thread, or the kernel gives no descriptor.
pub fn open_thread(tid: u32) -> io::Result<OwnedFd> {
    // The kernel's PIDFD_THREAD.
    let of_thread = PidfdFlags::from_bits_retain(libc::O_EXCL.unsigned_abs());
    match pidfd_open(number(tid)?, of_thread) {
        Err(rustix::io::Errno::INVAL) => open(tid),
        opened => Ok(opened?),
    }
}

/// The number of threads of a process, without those that have exited, apart from the first.
///
/// # Errors
/// If there is no such process.
pub fn thread_count(tgid: u32) -> io::Result<usize> {
    threads_in(&format!("/proc/{tgid}/task"))
}

/// The number of threads of a process' directory. It has a link for itself, one for its parent, and one
/// for each thread.
fn threads_in(directory: &str) -> io::Result<usize> {
    let links = std::fs::metadata(directory)?.nlink();
    Ok(usize::try_from(links.saturating_sub(2)).unwrap_or(usize::MAX))
}

/// Forks a child that calls `child` and ends with the status that `child` returns, or with 70 if it panics.
/// Returns the child's number. The calling process must have one thread: no other thread can hold a lock, so
/// the child may do all that its parent may.
///
/// # Errors
/// `EBUSY` if this process has several threads, or without `/proc`; otherwise if the kernel refuses.
pub fn fork(child: impl FnOnce() -> libc::c_int) -> io::Result<u32> {
    if threads_in("/proc/self/task").ok() != Some(1) {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: this process has one thread.
    unsafe { outlive::fork(child) }
}

/// Ends this process at once, without its exit handlers.
pub fn exit_now(status: libc::c_int) -> ! {
    // SAFETY: the call ends this process.
    unsafe { libc::_exit(status) }
}

/// Waits until a child has ended.
///
/// # Errors
/// `ECHILD` if this process has no such child.
pub fn wait(child: u32) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = wait_once(child)? {
            return Ok(status);
        }
    }
}

/// The status of a child, if it has ended. Does not wait.
///
/// # Errors
/// `ECHILD` if this process has no such child.
pub fn try_wait(child: u32) -> io::Result<Option<ExitStatus>> {
    let ended = waitpid(Some(number(child)?), WaitOptions::NOHANG)?;
    Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())))
}

/// Waits until a child has ended, or until a signal comes: then there is no status.
///
/// # Errors
/// `ECHILD` if this process has no such child.
pub fn wait_once(child: u32) -> io::Result<Option<ExitStatus>> {
    match waitpid(Some(number(child)?), WaitOptions::empty()) {
        Err(rustix::io::Errno::INTR) => Ok(None),
        ended => Ok(ended?.map(|(_, status)| ExitStatus::from_raw(status.as_raw()))),
    }
}

/// Makes this process the parent of each of its descendants that loses its own parent.
pub fn adopt_orphans() {
    // Any number but 0 switches it on, and the kernel refuses none.
    _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// A child that has ended, in whatever group it is, and its status; `None` if none has ended.
/// Does not wait.
pub fn reap() -> Option<(u32, ExitStatus)> {
    let (child, status) = process::wait(WaitOptions::NOHANG).ok().flatten()?;
    Some((child.as_raw_nonzero().get().unsigned_abs(), ExitStatus::from_raw(status.as_raw())))
}

/// The name in a line of `/proc/N/stat`, field 2 in `proc(5)`; `None` if this is no such line.
pub fn stat_name(line: &[u8]) -> Option<&[u8]> {
    let begin = line.iter().position(|&byte| byte == b'(')? + 1;
    let end = line.iter().rposition(|&byte| byte == b')')?;
    line.get(begin..end)
}

/// The words of a line of `/proc/N/stat` from the state on, which `proc(5)` counts as field 3. The name
/// before them may hold any bytes, brackets and spaces too. `None` if this is no such line.
pub fn stat_fields(line: &[u8]) -> Option<SplitAsciiWhitespace<'_>> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    Some(std::str::from_utf8(&line[name_end + 1..]).ok()?.split_ascii_whitespace())
}

/// The state in a line of `/proc/N/stat`, field 3 in `proc(5)`: one letter, for example `T` of a process that
/// a signal has stopped. `None` if this is no such line.
pub fn state(line: &[u8]) -> Option<u8> {
    stat_fields(line)?.next()?.bytes().next()
}

/// The parent of a process, and the start time of the process in ticks since boot, from a line of
/// `/proc/N/stat`. A number and a start time together identify one process for ever.
pub fn parent_and_begin(line: &[u8]) -> Option<(u32, u64)> {
    let mut fields = stat_fields(line)?;
    Some((fields.nth(1)?.parse().ok()?, fields.nth(17)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settle::Setting;
    use crate::{Signal, poll, signal};

    #[test]
    fn the_threads_of_a_process_are_counted() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let count = thread_count(child.id());
        child.kill().and_then(|()| child.wait()).expect("it is a child");
        assert_eq!(count.expect("it is a process"), 1);
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || _ = wait.recv());
        // Other tests have threads, too.
        assert!(thread_count(std::process::id()).expect("it is a process") >= 2);
        drop(done);
        thread.join().expect("it ends well");
        assert!(thread_count(u32::MAX).is_err());
    }

    #[test]
    fn a_descriptor_of_a_thread_tells_its_end() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (say, heard) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            say.send(tid()).expect("it is heard");
            _ = wait.recv();
        });
        let opened = open_thread(heard.recv().expect("it is said"));
        let Ok(descriptor) = opened else {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("it is there");
            let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
            let version = (numbers.next().expect("a number"), numbers.next().expect("a number"));
            return assert!(version < (6, 9), "no descriptor on {release}");
        };
        assert!(!poll::is_ready(&descriptor));
        drop(done);
        thread.join().expect("it ends well");
        assert!(poll::any([std::os::fd::AsFd::as_fd(&descriptor)], Duration::from_secs(5))[0]);
        assert!(open_thread(i32::MAX as u32).is_err());
    }

    #[test]
    fn a_thread_has_a_number_and_a_name() {
        let other = std::thread::spawn(|| {
            set_name(c"spry-named");
            (tid(), std::fs::read_to_string("/proc/thread-self/comm").expect("it is there"))
        });
        let (other, name) = other.join().expect("it ends well");
        assert!(other != tid() && name.trim() == "spry-named");
        assert_eq!(is_root(), std::fs::metadata("/proc/self").expect("it is there").uid() == 0);
    }

    #[test]
    fn a_process_of_several_threads_does_not_fork() {
        let error = fork(|| 0).expect_err("the test's thread is not the first");
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    }

    #[test]
    fn children_are_waited_for_and_their_ends_are_seen() {
        // SAFETY: the child takes no lock; in it there is one thread, so it may fork further.
        let child = unsafe {
            outlive::fork(|| {
                let slow = || {
                    // Children are reaped whatever group they are in.
                    _ = Setting::OwnGroup.apply();
                    loop {
                        std::thread::park();
                    }
                };
                let (Ok(quick), Ok(slow)) = (fork(|| 3), fork(slow)) else { return 9 };
                let is_three = |status: ExitStatus| status.code() == Some(3);
                let Ok(handle) = open(slow) else { return 8 };
                if poll::is_ready(&handle) || !matches!(try_wait(slow), Ok(None)) {
                    return 7;
                }
                if !wait(quick).is_ok_and(is_three) || reap().is_some() {
                    return 6;
                }
                if signal::send(slow, Signal::KILL).is_err() {
                    return 5;
                }
                poll::any([std::os::fd::AsFd::as_fd(&handle)], Duration::from_secs(100));
                let Some((ended, status)) = reap() else { return 4 };
                i32::from(ended != slow || status.signal() != Some(libc::SIGKILL))
            })
        };
        let status = wait(child.expect("a child")).expect("it is ours");
        assert_eq!(status.code(), Some(0));
        assert!(wait(i32::MAX as u32).is_err() && try_wait(1).is_err() && open(0).is_err());
    }

    #[test]
    fn an_orphan_is_adopted() {
        // SAFETY: the child takes no lock; in it there is one thread, so it may fork further.
        let child = unsafe {
            outlive::fork(|| {
                adopt_orphans();
                let parent = fork(|| i32::from(fork(|| 3).is_err()));
                let Ok(true) = parent.and_then(wait).map(|status| status.success()) else { return 9 };
                let reaped = std::iter::repeat_with(reap).take(10_000).find_map(|found| {
                    std::thread::sleep(Duration::from_millis(1));
                    found
                });
                i32::from(reaped.and_then(|(_, status)| status.code()) != Some(3))
            })
        };
        assert_eq!(wait(child.expect("a child")).expect("it is ours").code(), Some(0));
    }

    #[test]
    fn a_wait_without_retry_ends_with_the_child_or_a_signal() {
        // SAFETY: the child takes no lock; in it there is one thread, so it may fork further.
        let child = unsafe {
            outlive::fork(|| {
                signal::end_waits(&[Signal::USR1]);
                let parent = std::process::id();
                let Ok(slow) = fork(|| {
                    loop {
                        _ = signal::send(parent, Signal::USR1);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }) else {
                    return 9;
                };
                let interrupted = matches!(wait_once(slow), Ok(None));
                _ = signal::send(slow, Signal::KILL);
                let status = wait(slow);
                i32::from(!interrupted || !status.is_ok_and(|status| status.signal() == Some(libc::SIGKILL)))
            })
        };
        assert_eq!(wait(child.expect("a child")).expect("it is ours").code(), Some(0));
        assert!(wait_once(i32::MAX as u32).is_err_and(|error| !is_gone(&error)));
        assert!(open(i32::MAX as u32).is_err_and(|error| is_gone(&error)));
    }

    #[test]
    fn a_process_ends_at_once() {
        // SAFETY: the child takes no lock.
        let child = unsafe { outlive::fork(|| exit_now(5)) }.expect("a child");
        assert_eq!(wait(child).expect("it is ours").code(), Some(5));
    }

    #[test]
    fn a_process_with_any_name_is_read() {
        let line = b"7 (a) R 1 (b\xff) S 42 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1234 9 9";
        assert_eq!(parent_and_begin(line), Some((42, 1234)));
        assert_eq!((state(line), state(b"7 (a)")), (Some(b'S'), None));
        assert_eq!(parent_and_begin(b"7 (a) S 42"), None);
        assert_eq!(stat_name(line), Some(&b"a) R 1 (b\xff"[..]));
        assert!(stat_name(b"7 a S").is_none() && stat_name(b")7(").is_none());
        assert!(stat_fields(b"").is_none() && stat_fields(b"7 a S").is_none());
        let own = std::fs::read("/proc/self/stat").expect("it is there");
        assert_eq!(
            parent_and_begin(&own).map(|(parent, _)| parent),
            Some(std::os::unix::process::parent_id())
        );
    }
}
