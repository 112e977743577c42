//! Namespaces of processes, mounts, network and IPC, and what a process of a load is: limits, nice value, signals.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use crate::error::{LoadError, at, checked, of};
use crate::needs;

/// The user that has no rights, on every distribution.
const NOBODY: libc::uid_t = 65534;

/// Has the calling process' next child be the first of new namespaces, in which only this user is known unless it is root.
/// The caller has one thread.
pub(crate) fn outside() -> Result<(), LoadError> {
    if !needs::is_root() {
        // SAFETY: geteuid and getegid read no memory and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        unshare(libc::CLONE_NEWUSER, "making a namespace of users (run it with sudo)")?;
        for (file, text) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/uid_map", format!("0 {user} 1")),
            ("/proc/self/gid_map", format!("0 {group} 1")),
        ] {
            fs::write(file, text).map_err(at(file.as_ref()))?;
        }
    }
    let kinds = libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
    unshare(kinds, "making namespaces of processes, network and IPC")
}

/// Mounts that nobody else sees, the processes of this namespace in /proc, and a loopback device.
pub(crate) fn inside() -> Result<(), LoadError> {
    unshare(libc::CLONE_NEWNS, "making a namespace of mounts")?;
    // What is unmounted outside is unmounted here, and nothing the other way round.
    spread_mounts(libc::MS_SLAVE).map_err(of("keeping mounts from others"))?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"proc", c"/proc", Some(c"proc"), flags).map_err(of("mounting /proc for the loads"))?;
    raise_loopback().map_err(of("switching the loopback device on"))
}

/// Changes how all mounts of this thread's own namespace spread. Where its root directory is none of a mount (in a chroot), that
/// is done from the namespace's own root, to which it goes for the moment.
pub(crate) fn spread_mounts(how: libc::c_ulong) -> io::Result<()> {
    let all = || mount(c"none", c"/", None, libc::MS_REC | how);
    match all() {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        done => return done,
    }
    let root = File::open("/")?;
    // SAFETY: the texts end with 0; a thread with mounts of its own has its directories for itself.
    unsafe {
        checked(libc::chdir(c"/".as_ptr()))?;
        // The working directory is above the root now, from where the way up is open.
        checked(libc::chroot(c"proc".as_ptr()))?;
        for _ in 0..libc::PATH_MAX {
            checked(libc::chdir(c"..".as_ptr()))?;
        }
        checked(libc::chroot(c".".as_ptr()))?;
    }
    let done = all();
    // SAFETY: the descriptor is open, and the text ends with 0.
    unsafe {
        checked(libc::fchdir(root.as_raw_fd()))?;
        checked(libc::chroot(c".".as_ptr()))?;
    }
    done
}

fn unshare(kinds: libc::c_int, what: &'static str) -> Result<(), LoadError> {
    // SAFETY: the call takes only a number.
    checked(unsafe { libc::unshare(kinds) }).map(|_| ()).map_err(of(what))
}

/// Mounts a file system, or changes how mounts spread if none is named.
pub(crate) fn mount(what: &CStr, at: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: all texts end with 0; no options are given.
    checked(unsafe { libc::mount(what.as_ptr(), at.as_ptr(), kind, flags, ptr::null()) }).map(|_| ())
}

fn raise_loopback() -> io::Result<()> {
    // SAFETY: the call takes only numbers.
    let socket = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: all zeroes is a value of it.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is what this call reads.
    let done = checked(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) });
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(socket) };
    done.map(|_| ())
}

/// Which user a load's processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever started them.
    Same,
    /// Nobody.
    Nobody,
}

/// What every process of a load is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) nice: Option<i32>,
    /// The longest file that it may write, bytes.
    pub(crate) file_bytes: u64,
    pub(crate) user: User,
}

impl Settled {
    /// Makes the calling process, a new child of the crew, what it is to be. Allocates nothing.
    pub(crate) fn apply(&self) -> io::Result<()> {
        default_signals();
        // SAFETY: these calls take numbers, and structures that live until they return.
        unsafe {
            checked(libc::setpgid(0, 0))?;
            if let Some(nice) = self.nice {
                checked(libc::setpriority(libc::PRIO_PROCESS, 0, nice))?;
            }
            for (what, bytes) in [(libc::RLIMIT_FSIZE, self.file_bytes), (libc::RLIMIT_CORE, 0)] {
                let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
                checked(libc::setrlimit(what, &raw const limit))?;
            }
            if self.user == User::Nobody {
                checked(libc::setgroups(0, ptr::null()))?;
                checked(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
                checked(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
            }
        }
        Ok(())
    }
}

/// Gives a directory to the user that a load runs as.
pub(crate) fn give(path: &std::path::Path, user: User) -> io::Result<()> {
    match user {
        User::Same => Ok(()),
        User::Nobody => std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)),
    }
}

/// Signals do what they do to a new program.
fn default_signals() {
    // SAFETY: these calls take numbers and a set that they fill before it is read.
    unsafe {
        for signal in 1..=libc::SIGSYS {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// The calling process is in no real-time class: a caller that measures may be, its loads must not.
pub(crate) fn leave_real_time() {
    // SAFETY: numbers, and a structure that outlives the call; all zeroes is a value of it.
    unsafe {
        let policy = libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK;
        if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
            let ordinary: libc::sched_param = mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const ordinary);
        }
    }
}
