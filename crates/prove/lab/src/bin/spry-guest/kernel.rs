//! The kernel services that the guest's first process uses: mounts, limits, the clock, the kernel's
//! messages, the restart.

use std::arch::asm;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit, setrlimit};
use spry_lab::protocol::PAUSE;
use spry_sys::clock::monotonic_ns;

use crate::process::{self, Waiter};

/// The guest's mounts: source, directory, type and options of each, and whether a job can run without it.
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
    // A small kernel may lack these file systems. A program that needs one reports the error itself.
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

/// Mounts the file systems that programs expect, and raises the limits that would stop programs.
pub fn mount_all() -> io::Result<()> {
    for (directory, kind, options, need) in MOUNTS {
        // In file systems that the kernel fills itself no directory can be made. In these the directory
        // exists already.
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
    for resource in [Resource::Memlock, Resource::Rtprio, Resource::Nice] {
        lift(resource, None);
    }
    lift(Resource::Nofile, Some(65536));
    std::env::set_current_dir("/tmp")
}

fn lift(resource: Resource, most: Option<u64>) {
    // Root may raise limits. If a kernel refuses, the old limits stay.
    _ = setrlimit(resource, Rlimit { current: most, maximum: most });
}

fn mount(source: &str, directory: &str, kind: &str, options: &str) -> io::Result<()> {
    let options = CString::new(options).map_err(io::Error::other)?;
    Ok(rustix::mount::mount(source, directory, kind, MountFlags::empty(), options.as_c_str())?)
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

/// Pauses the virtual machine at this instruction. Returns when the lab lets the machine continue.
pub fn pause_machine() -> io::Result<()> {
    let (port, word) = PAUSE;
    // SAFETY: ioperm takes numbers. The port belongs to a device of the emulator and has no other use.
    if unsafe { libc::ioperm(port.into(), 1, 1) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the port has been opened for this process, and writing to it changes no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") word, options(nomem, nostack, preserves_flags)) };
    Ok(())
}

/// The argument of the kernel's request for entropy: the number of bits, the number of bytes, then the bytes.
#[repr(C)]
struct Entropy {
    bits: i32,
    len: i32,
    bytes: [u8; 64],
}

/// The request that adds entropy to the kernel's generator of random numbers.
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
/// The request that makes the kernel's generator use the entropy at once.
const RNDRESEEDCRNG: libc::c_ulong = 0x5207;

/// Seeds the kernel's generator, so that all later random numbers depend on this number.
pub fn seed_chance(seed: u64) -> io::Result<()> {
    let mut entropy = Entropy { bits: 512, len: 64, bytes: [0; 64] };
    entropy.bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let device = File::open("/dev/urandom")?;
    // SAFETY: the structure is as the kernel declares it, and exists as long as the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &entropy) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The time since the boot, milliseconds.
pub fn uptime_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Sleeps until this moment, milliseconds after the boot.
pub fn sleep_until(moment_ms: u64) {
    spry_sys::clock::sleep_until(moment_ms * 1_000_000);
}

/// The kernel's messages that contain a word.
pub fn messages_with(word: &str) -> String {
    let mut buffer = vec![0_u8; 1 << 20];
    // SAFETY: the length that the call gets is the buffer's. The 3 selects all messages that the kernel still
    // has.
    let len = unsafe { libc::klogctl(3, buffer.as_mut_ptr().cast(), buffer.len() as i32) };
    let text = String::from_utf8_lossy(&buffer[..usize::try_from(len).unwrap_or(0)]).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
    lines.join("\n")
}

/// Ends the guest by a restart: every kernel can restart, and the emulator exits when the guest restarts.
pub fn restart() -> ! {
    // The guest has nothing left to do, and the lab holds the memory with the results.
    _ = rustix::system::reboot(rustix::system::RebootCommand::Restart);
    loop {
        std::thread::park();
    }
}
