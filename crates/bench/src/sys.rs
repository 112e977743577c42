//! The kernel's calls that benchmarks need, made safe.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Time of the monotonic clock, ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How far the tick is apart, ns: what the coarse clock goes by.
pub(crate) fn tick_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often the calling thread has given the CPU away, or lost it.
pub(crate) fn switches() -> i64 {
    // SAFETY: an all-zero record is a valid place for the answer.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a record of our own.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw + usage.ru_nivcsw
}

/// A system call that does next to nothing, made by its number, so that no library answers it.
#[inline]
pub(crate) fn trap() -> i64 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// Lets the calling thread run on this CPU alone.
pub(crate) fn set_cpu(cpu: u32) -> io::Result<()> {
    if cpu as usize >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a set of no CPUs is all zeros.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the CPU's bit is within the set.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the pointer is to a set of the size given.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
}

/// The CPUs that the calling thread may run on, in order.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    // SAFETY: a set of no CPUs is all zeros.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a set of the size given.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: the bits asked for are within the set.
    (0..libc::CPU_SETSIZE as u32).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) }).collect()
}

/// Puts the calling thread, and the processes that it starts, into the FIFO class at a priority of 1 to 99.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the pointer is to a parameter of our own.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A pipe: where it is read, and where it is written.
fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers of our own.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the descriptors are new, and nobody else's.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

/// Another process, which sends every byte back that it is sent. It ends with this one, or when it is dropped.
pub(crate) struct Partner {
    tgid: libc::pid_t,
    clock: libc::clockid_t,
    to: Option<File>,
    from: File,
}

impl Partner {
    /// Starts it, on the calling thread's CPUs and in its class.
    pub(crate) fn start() -> io::Result<Partner> {
        let (theirs, to) = pipe()?;
        let (from, back) = pipe()?;
        // SAFETY: the child makes nothing but system calls.
        let tgid = unsafe { libc::fork() };
        check(tgid)?;
        if tgid == 0 {
            echo(theirs.as_raw_fd(), back.as_raw_fd(), &[to.as_raw_fd(), from.as_raw_fd()]);
        }
        let mut partner = Partner { tgid, clock: 0, to: Some(to), from };
        // SAFETY: the pointer is to a number of our own.
        let error = unsafe { libc::clock_getcpuclockid(tgid, &raw mut partner.clock) };
        if error == 0 { Ok(partner) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Sends a byte, and waits until it is back.
    #[inline]
    pub(crate) fn exchange(&self) -> io::Result<()> {
        let Some(to) = &self.to else { return Err(io::ErrorKind::BrokenPipe.into()) };
        if pass(to.as_raw_fd(), self.from.as_raw_fd()) { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// CPU time that it has used, ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
        clock_ns(self.clock)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // It ends where its pipe does.
        self.to = None;
        // SAFETY: the child has not been waited for, so the number is still its; its status is not asked for.
        unsafe { libc::waitpid(self.tgid, std::ptr::null_mut(), 0) };
    }
}

/// Writes a byte into one pipe and reads one from another.
#[inline]
fn pass(to: libc::c_int, from: libc::c_int) -> bool {
    let mut byte = 0u8;
    // SAFETY: the pointer and length are of a byte of our own.
    unsafe {
        retried(|| libc::write(to, (&raw const byte).cast(), 1))
            && retried(|| libc::read(from, (&raw mut byte).cast(), 1))
    }
}

/// Whether a call passes a byte; again, if a signal ends it early.
#[inline]
fn retried(mut call: impl FnMut() -> libc::ssize_t) -> bool {
    loop {
        match call() {
            1 => return true,
            // SAFETY: the thread's own error number.
            -1 if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            _ => return false,
        }
    }
}

/// What the other process does, until nobody can write to it any more.
fn echo(from: libc::c_int, to: libc::c_int, others: &[libc::c_int]) -> ! {
    // SAFETY: takes numbers; the ends of the pipes that are not this process' are closed, or their end would never be seen.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        for &fd in others {
            libc::close(fd);
        }
    }
    let mut byte = 0u8;
    // SAFETY: the pointer and length are of a byte of our own.
    while retried(|| unsafe { libc::read(from, (&raw mut byte).cast(), 1) })
        // SAFETY: as above.
        && retried(|| unsafe { libc::write(to, (&raw const byte).cast(), 1) })
    {}
    // SAFETY: ends the process; nothing of the parent's is run or flushed.
    unsafe { libc::_exit(0) }
}

/// `struct perf_event_attr` of <linux/perf_event.h>, as far as its first version went.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const PERF_IOC_ENABLE: libc::Ioctl = 0x2400;
const PERF_IOC_DISABLE: libc::Ioctl = 0x2401;

/// A timer whose expiry costs an interrupt and nothing else: no signal, no wake-up, no record. It goes while the thread that
/// made it runs.
///
/// It is perf's `cpu-clock` with no buffer to write into. A timerfd that nobody reads expires once, a POSIX timer without a
/// signal is never armed.
pub(crate) struct Timer(OwnedFd);

impl Timer {
    /// One that is not going yet, with a period of at least 10 us.
    pub(crate) fn new(period_ns: u64) -> io::Result<Timer> {
        let attr = PerfEventAttr {
            kind: PERF_TYPE_SOFTWARE,
            size: size_of::<PerfEventAttr>() as u32,
            config: PERF_COUNT_SW_CPU_CLOCK,
            sample_period: period_ns,
            flags: DISABLED | EXCLUDE_KERNEL,
            ..PerfEventAttr::default()
        };
        const CLOSE_ON_EXEC: libc::c_ulong = 8;
        // SAFETY: the pointer is to a description of the size that it says; this thread, any CPU, no group.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, CLOSE_ON_EXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(Timer(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }))
    }

    /// Starts it, with what was left of its period.
    pub(crate) fn start(&self) -> io::Result<()> {
        // SAFETY: takes numbers.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), PERF_IOC_ENABLE, 0) })
    }

    /// Stops it.
    pub(crate) fn stop(&self) -> io::Result<()> {
        // SAFETY: takes numbers.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), PERF_IOC_DISABLE, 0) })
    }
}
