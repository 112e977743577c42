//! The kernel's calls that the runner needs, made safe: clocks, sleeping, futexes, classes, signals, processes.

use std::ffi::CString;
use std::io;
use std::mem;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::scenario::model::Class;

/// Time of the monotonic clock, ns.
pub(crate) fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the calling process, ns.
pub(crate) fn process_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Whether a sleep lasted as long as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Woke {
    /// At the time asked for, or later.
    OnTime,
    /// By a signal, before it.
    Interrupted,
}

/// Sleeps until a time of the monotonic clock.
pub(crate) fn sleep_until(ns: u64) -> Woke {
    let time = timespec(ns);
    // SAFETY: the pointer is to a timespec of our own; with an absolute time nothing is written back.
    let result = unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
    if result == 0 { Woke::OnTime } else { Woke::Interrupted }
}

/// Sleeps while the word has this value, until woken, a signal, or the time limit.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| timespec(limit.as_nanos() as u64));
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word lives as long as the reference; the limit is null or a timespec of our own.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, limit) };
}

/// Wakes up to so many that wait on the word.
pub(crate) fn futex_wake(word: &AtomicU32, count: i32) {
    // SAFETY: the word lives as long as the reference.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
}

/// Takes a lock whose word the kernel understands, with priority inheritance; fails with `EINTR` at a signal.
pub(crate) fn futex_lock_inheriting(word: &AtomicU32) -> io::Result<()> {
    // SAFETY: the word lives as long as the reference; there is no time limit.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_LOCK_PI, 0, std::ptr::null::<()>())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives such a lock to who waits for it.
pub(crate) fn futex_unlock_inheriting(word: &AtomicU32) {
    // SAFETY: the word lives as long as the reference.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_UNLOCK_PI) };
}

/// The calling thread's id.
pub(crate) fn tid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Puts the calling thread into a class.
pub(crate) fn set_class(class: Class) -> io::Result<()> {
    let mut attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    match class {
        Class::Other { nice, slice_ns } => {
            (attr.sched_policy, attr.sched_nice, attr.sched_runtime) =
                (libc::SCHED_OTHER as u32, nice, slice_ns);
        }
        Class::Batch { nice } => (attr.sched_policy, attr.sched_nice) = (libc::SCHED_BATCH as u32, nice),
        Class::Idle => attr.sched_policy = libc::SCHED_IDLE as u32,
        Class::Fifo(priority) => {
            (attr.sched_policy, attr.sched_priority) = (libc::SCHED_FIFO as u32, priority)
        }
        Class::RoundRobin(priority) => {
            (attr.sched_policy, attr.sched_priority) = (libc::SCHED_RR as u32, priority)
        }
        Class::Deadline { budget_ns, deadline_ns, period_ns } => {
            attr.sched_policy = libc::SCHED_DEADLINE as u32;
            (attr.sched_runtime, attr.sched_deadline, attr.sched_period) =
                (budget_ns, deadline_ns, period_ns);
        }
    }
    // SAFETY: the kernel reads `size` bytes of a structure of that size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the calling thread run on these CPUs alone.
pub(crate) fn set_affinity(cpus: &[u32]) -> io::Result<()> {
    // SAFETY: a set of no CPUs is all zeros.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        if cpu as usize >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the CPU's bit is within the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: the pointer is to a set of the size given.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs that the calling thread may run on, in order.
pub(crate) fn affinity() -> Vec<u32> {
    // SAFETY: a set of no CPUs is all zeros.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a set of the size given.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: the bits asked for are within the set.
    (0..libc::CPU_SETSIZE as u32).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) }).collect()
}

/// Keeps all memory of the process, now and later, from being paged.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: changes no memory of ours.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Names the calling thread; the kernel keeps 15 bytes.
pub(crate) fn set_name(name: &str) {
    let Ok(name) = CString::new(name) else { return };
    // SAFETY: the name is a string that ends in a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The calling process dies when its parent does.
pub(crate) fn die_with_parent() {
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Orphans of the calling process' descendants become its children.
pub(crate) fn adopt_orphans() {
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Has a signal interrupt blocking calls, and do nothing else (or call `handler`).
pub(crate) fn on_signal(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: an all-zero sigaction is a valid one.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // SAFETY: the action is a valid one whose handler is safe to call at any time; no SA_RESTART.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// Which of the two a fork's caller is.
pub(crate) enum Forked {
    Child,
    Parent { tgid: i32 },
}

/// Forks the calling process, which must have one thread only.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: the caller sees to it that there is one thread, so no lock is held by another.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        tgid => Ok(Forked::Parent { tgid }),
    }
}

/// Lets others run first that are ready.
pub(crate) fn give_way() {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::sched_yield() };
}

/// Sends a signal to a thread.
pub(crate) fn signal_thread(tgid: i32, tid: i32, signal: i32) {
    // SAFETY: takes numbers; a thread that is gone is an error that does no harm.
    unsafe { libc::syscall(libc::SYS_tgkill, tgid, tid, signal) };
}

/// Sends a signal to a process.
pub(crate) fn signal_process(tgid: i32, signal: i32) {
    // SAFETY: takes numbers; a process that is gone is an error that does no harm.
    unsafe { libc::kill(tgid, signal) };
}

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    NotYet,
    Code(i32),
    Signal(i32),
    NoSuchChild,
}

/// Whether a child has ended; reaps it if so.
pub(crate) fn ended(tgid: i32) -> Ended {
    wait_with(tgid, libc::WNOHANG)
}

/// Waits for a child's end or a signal (`NotYet`).
pub(crate) fn wait(tgid: i32) -> Ended {
    wait_with(tgid, 0)
}

fn wait_with(tgid: i32, options: i32) -> Ended {
    let mut status = 0;
    // SAFETY: the pointer is to a number of our own.
    match unsafe { libc::waitpid(tgid, &raw mut status, options) } {
        0 => Ended::NotYet,
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ended::NotYet,
        -1 => Ended::NoSuchChild,
        _ if libc::WIFEXITED(status) => Ended::Code(libc::WEXITSTATUS(status)),
        _ => Ended::Signal(libc::WTERMSIG(status)),
    }
}

/// The calling process' children, by id.
pub(crate) fn children() -> Vec<i32> {
    let path = format!("/proc/self/task/{}/children", tid());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Memory that forked children share, zeroed; it is never given back.
pub(crate) fn shared_memory(bytes: usize) -> io::Result<*mut u8> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags | libc::MAP_POPULATE, -1, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// A pipe, or a pair of connected sockets: what is written to the second end is read from the first.
pub(crate) fn channel(socket: Channel) -> io::Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers of our own.
    let result = unsafe {
        match socket {
            Channel::Pipe => libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC),
            Channel::Socket => {
                libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr())
            }
        }
    };
    if result == 0 { Ok(ends) } else { Err(io::Error::last_os_error()) }
}

/// What carries bytes.
#[derive(Clone, Copy)]
pub(crate) enum Channel {
    Pipe,
    Socket,
}

/// Makes reads and writes of a file fail rather than wait.
pub(crate) fn never_wait(fd: i32) {
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK) };
}

/// Closes a descriptor that nothing else owns.
pub(crate) fn close(fd: i32) {
    // SAFETY: the caller owns the descriptor.
    unsafe { libc::close(fd) };
}

/// Reads what is there; fails with `EINTR` at a signal.
pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are of a buffer of our own.
    let read = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes what fits; fails with `EINTR` at a signal.
pub(crate) fn write(fd: i32, buffer: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are of a buffer of our own.
    let written = unsafe { libc::write(fd, buffer.as_ptr().cast(), buffer.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Waits until one of the files can be read, at most so long; which can, in order.
pub(crate) fn readable(fds: &[i32], limit: Duration) -> Vec<i32> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the pointer and length are of a vector of our own.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit.as_millis() as i32) };
    polled.iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd).collect()
}

/// Has the file system that holds an open file write everything to its disk.
pub(crate) fn flush_file_system(fd: i32) -> io::Result<()> {
    // SAFETY: takes a number.
    if unsafe { libc::syncfs(fd) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends the calling process at once, without what would run at its end: it is a fork of another.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
