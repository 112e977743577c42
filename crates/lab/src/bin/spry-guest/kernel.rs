//! What the guest asks of its kernel: mounts, limits, the clock, its messages, the end.

use std::arch::asm;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use spry_lab::protocol::PAUSE;

use crate::process::{self, Waiter};

/// Source, directory, type, options; whether the job can do without it.
const MOUNTS: [(&str, &str, &str, Need); 16] = [
    ("/proc", "proc", "", Need::Must),
    ("/sys", "sysfs", "", Need::Must),
    ("/tmp", "tmpfs", "mode=1777", Need::Must),
    ("/run", "tmpfs", "mode=755", Need::Must),
    ("/root", "tmpfs", "mode=700", Need::Must),
    ("/results", "tmpfs", "mode=755,size=90%", Need::Must),
    ("/var/tmp", "tmpfs", "mode=1777", Need::Must),
    ("/var/log", "tmpfs", "mode=755", Need::Must),
    ("/var/lib/xkb", "tmpfs", "mode=755", Need::Must),
    ("/dev/shm", "tmpfs", "mode=1777", Need::Must),
    ("/dev/pts", "devpts", "gid=5,mode=620,ptmxmode=666", Need::Must),
    // A trimmed kernel may lack these; what needs them says so itself.
    ("/sys/fs/cgroup", "cgroup2", "", Need::May),
    ("/sys/fs/bpf", "bpf", "", Need::May),
    ("/sys/kernel/debug", "debugfs", "", Need::May),
    ("/sys/kernel/tracing", "tracefs", "", Need::May),
    ("/dev/mqueue", "mqueue", "", Need::May),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Must,
    May,
}

/// Mounts what programs expect, and lifts limits that would stop them.
pub fn mount_all() -> io::Result<()> {
    for (directory, kind, options, need) in MOUNTS {
        // Those on file systems of the kernel's own cannot be made, and need not be.
        let _ = fs::create_dir(directory);
        if let Err(error) = mount(kind, directory, kind, options) {
            if need == Need::Must {
                return Err(io::Error::new(error.kind(), format!("{directory}: {error}")));
            }
        }
    }
    let sockets = "/tmp/.X11-unix";
    fs::create_dir(sockets)?;
    fs::set_permissions(sockets, fs::Permissions::from_mode(0o1777))?;
    for resource in [libc::RLIMIT_MEMLOCK, libc::RLIMIT_RTPRIO, libc::RLIMIT_NICE] {
        lift(resource, libc::RLIM_INFINITY);
    }
    lift(libc::RLIMIT_NOFILE, 65536);
    std::env::set_current_dir("/tmp")
}

fn lift(resource: libc::__rlimit_resource_t, value: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the structure lives as long as the call. Root may lift limits; a kernel that refuses leaves the old ones.
    unsafe { libc::setrlimit(resource, &limit) };
}

fn mount(source: &str, directory: &str, kind: &str, options: &str) -> io::Result<()> {
    let text = |text: &str| CString::new(text).map_err(io::Error::other);
    let (source, directory, kind, options) = (text(source)?, text(directory)?, text(kind)?, text(options)?);
    // SAFETY: all four are strings that end in a zero and live as long as the call.
    let result = unsafe {
        libc::mount(source.as_ptr(), directory.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes an ext4 file system in memory and mounts it at `/scratch`.
pub fn make_scratch(waiter: &mut Waiter) -> Result<(), String> {
    let argv =
        ["mke2fs", "-q", "-F", "-t", "ext4", "-U", "00000000-0000-4000-8000-000000000002", "/dev/ram0"];
    let argv: Vec<String> = argv.map(str::to_owned).into();
    let log = "/run/mke2fs";
    let child = process::start(&argv, &[], log, log).map_err(|error| format!("mke2fs: {error}"))?;
    let status = waiter.wait(child, uptime_ms() + 60_000);
    if status.map(process::exit_or_signal) != Some((Some(0), None)) {
        return Err(format!("mke2fs failed: {}", fs::read_to_string(log).unwrap_or_default()));
    }
    mount("/dev/ram0", "/scratch", "ext4", "").map_err(|error| format!("/scratch: {error}"))
}

/// Pauses the machine at this very instruction; returns when it goes on.
pub fn pause_machine() -> io::Result<()> {
    let (port, word) = PAUSE;
    // SAFETY: ioperm takes numbers; the port is the emulator's own and of no other use.
    if unsafe { libc::ioperm(port.into(), 1, 1) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the port has been opened for this process, and writing to it changes no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") word, options(nomem, nostack, preserves_flags)) };
    Ok(())
}

/// What the kernel takes for entropy: how many bits and bytes there are, then these.
#[repr(C)]
struct Entropy {
    bits: i32,
    len: i32,
    bytes: [u8; 64],
}

/// Adds to the kernel's entropy.
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
/// Has the kernel's generator begin anew from its entropy.
const RNDRESEEDCRNG: libc::c_ulong = 0x5207;

/// Has whatever is random from now on come from this number.
pub fn seed_chance(seed: u64) -> io::Result<()> {
    let mut entropy = Entropy { bits: 512, len: 64, bytes: [0; 64] };
    entropy.bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let device = File::open("/dev/urandom")?;
    // SAFETY: the structure is as the kernel declares it, and lives as long as the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &entropy) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Time since boot, milliseconds.
pub fn uptime_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives as long as the call; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Sleeps until a moment after boot.
pub fn sleep_until(moment_ms: u64) {
    let span = Duration::from_millis(moment_ms);
    let time = libc::timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
    loop {
        // SAFETY: the structure lives as long as the call; with an absolute time nothing is written back.
        let result = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut())
        };
        if result != libc::EINTR {
            return;
        }
    }
}

/// The kernel's messages that hold a word.
pub fn messages_with(word: &str) -> String {
    let mut buffer = vec![0_u8; 1 << 20];
    // SAFETY: the buffer is as long as is said. 3 reads all messages that are still there.
    let len = unsafe { libc::klogctl(3, buffer.as_mut_ptr().cast(), buffer.len() as i32) };
    let text = String::from_utf8_lossy(&buffer[..usize::try_from(len).unwrap_or(0)]).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
    lines.join("\n")
}

/// Ends the guest: the emulator takes a restart for the end, and every kernel can restart.
pub fn restart() -> ! {
    // SAFETY: there is nothing left to do; results are in memory that is not the guest's.
    unsafe { libc::reboot(libc::RB_AUTOBOOT) };
    loop {
        std::thread::park();
    }
}
