//! The kernel's calls that sampling needs, made safe.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Time of the monotonic clock, ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Wall-clock time since the UNIX epoch, ns.
pub(crate) fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[inline]
fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Sleeps until a time of the monotonic clock; again, if something ends the sleep early.
#[inline]
pub(crate) fn sleep_until(ns: u64) {
    let time = timespec(ns);
    loop {
        // SAFETY: the pointer is to a timespec of our own; with an absolute time nothing is written back.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            )
        };
        if result != libc::EINTR {
            return;
        }
    }
}

/// A timer that expires at a time of the monotonic clock and every period after it, both ns.
pub(crate) fn timer(first_ns: u64, period_ns: u64) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    let timer = unsafe { OwnedFd::from_raw_fd(fd) };
    let setting = libc::itimerspec { it_interval: timespec(period_ns), it_value: timespec(first_ns) };
    // SAFETY: the pointer is to a setting of our own; the old one is not asked for.
    let result = unsafe {
        libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, std::ptr::null_mut())
    };
    if result == 0 { Ok(timer) } else { Err(io::Error::last_os_error()) }
}

/// Reads a number of the machine's width, as timers and real-time clocks give.
#[inline]
pub(crate) fn read_u64(fd: &OwnedFd) -> io::Result<u64> {
    let mut value = 0u64;
    loop {
        // SAFETY: the pointer and length are of a number of our own.
        let read = unsafe { libc::read(fd.as_raw_fd(), (&raw mut value).cast(), size_of::<u64>()) };
        if read == size_of::<u64>() as isize {
            return Ok(value);
        }
        let error = io::Error::last_os_error();
        if read >= 0 || error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

// Requests of <linux/rtc.h>: `_IO('p', 0x05)`, `_IO('p', 0x06)`, `_IOW('p', 0x0c, unsigned long)`.
const RTC_PIE_ON: libc::Ioctl = 0x7005;
const RTC_PIE_OFF: libc::Ioctl = 0x7006;
const RTC_IRQP_SET: libc::Ioctl =
    (0x4000_700c_u32 | ((size_of::<libc::c_ulong>() as u32) << 16)) as libc::Ioctl;

/// Sets how often a real-time clock interrupts, Hz.
pub(crate) fn set_rtc_rate(rtc: &OwnedFd, rate_hz: u32) -> io::Result<()> {
    // SAFETY: takes numbers.
    let result = unsafe { libc::ioctl(rtc.as_raw_fd(), RTC_IRQP_SET, libc::c_ulong::from(rate_hz)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a real-time clock interrupts.
#[derive(Clone, Copy)]
pub(crate) enum Interrupts {
    On,
    Off,
}

/// Switches a real-time clock's periodic interrupts.
pub(crate) fn switch_rtc(rtc: &OwnedFd, interrupts: Interrupts) -> io::Result<()> {
    let request = match interrupts {
        Interrupts::On => RTC_PIE_ON,
        Interrupts::Off => RTC_PIE_OFF,
    };
    // SAFETY: takes numbers.
    let result = unsafe { libc::ioctl(rtc.as_raw_fd(), request, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread's id.
pub(crate) fn tid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Puts the calling thread into the FIFO class at a priority of 1 to 99.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the pointer is to a parameter of our own.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The greatest real-time priority that this process may ask for without privilege.
pub(crate) fn real_time_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a limit of our own.
    unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) };
    limit.rlim_cur.min(99)
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
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

/// Keeps the memory that the process has now from being paged.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: changes no memory of ours.
    if unsafe { libc::mlockall(libc::MCL_CURRENT) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets memory be paged again.
pub(crate) fn unlock_memory() {
    // SAFETY: changes no memory of ours.
    unsafe { libc::munlockall() };
}

/// Has the calling thread's timers expire within a nanosecond; the real-time classes do anyway.
pub(crate) fn set_no_timer_slack() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Keeps signals from the calling thread: others of the process take them.
pub(crate) fn block_signals() {
    // SAFETY: an all-zero set is a valid place for the answer.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the pointers are to a set of our own; the old one is not asked for.
    unsafe {
        libc::sigfillset(&raw mut set);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Holds the CPUs out of every idle state that takes time to leave, while the file is open.
pub(crate) fn hold_idle_states_off() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(file)
}

/// Touches so much of the calling thread's stack that sampling never meets a page that is not there.
#[inline(never)]
pub(crate) fn touch_stack() {
    let mut pages = [0u8; 32 * 1024];
    for byte in pages.iter_mut().step_by(1024) {
        // SAFETY: the reference is to a byte of our own; a write that may not be left out.
        unsafe { std::ptr::write_volatile(byte, 1) };
    }
}
