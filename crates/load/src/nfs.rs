//! The kernel's NFS server in a network namespace of its own: started, mounted over its loopback, and always ended, since its
//! threads are the kernel's and outlive every process.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::confine::{mount, spread_mounts};
use crate::error::{LoadError, checked, of};
use crate::needs;

/// The file in a run's directory that keeps the network namespace reachable until its server has ended.
const PIN: &str = "netns";
/// Where the server's switches are.
const SWITCHES: &str = "/proc/fs/nfsd";

/// Keeps the calling process' network namespace reachable from outside: to be done before its mounts are its own.
pub(crate) fn pin(directory: &Path) -> Result<(), LoadError> {
    let pin = directory.join(PIN);
    File::create(&pin).map_err(crate::error::at(&pin))?;
    mount(c"/proc/self/ns/net", &text(&pin), None, libc::MS_BIND)
        .map_err(of("keeping the network namespace of NFS"))
}

/// Ends the server of a run that is over, if it had one, and lets its namespace go.
pub(crate) fn release(directory: &Path) -> Result<(), LoadError> {
    let pin = directory.join(PIN);
    let Ok(namespace) = File::open(&pin) else { return Ok(()) };
    // In a thread of its own, whose namespaces end with it.
    let ended = thread::scope(|scope| scope.spawn(|| end_in(&namespace)).join());
    let pin = text(&pin);
    // SAFETY: the text ends with 0. That it was not mounted is no error.
    unsafe { libc::umount2(pin.as_ptr(), libc::MNT_DETACH) };
    ended.unwrap_or_else(|_| Err(io::Error::other("the thread failed"))).map_err(of("ending the NFS server"))
}

fn end_in(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the calls change this thread alone.
    unsafe {
        if libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) == -1 {
            // A run that was killed before the namespace was kept.
            return Ok(());
        }
        checked(libc::unshare(libc::CLONE_NEWNS))?;
    }
    spread_mounts(libc::MS_PRIVATE)?;
    if !Path::new(SWITCHES).exists() {
        return Ok(());
    }
    // A mount that others see shows their namespace's server.
    mount(c"nfsd", c"/proc/fs/nfsd", Some(c"nfsd"), 0)?;
    end()
}

/// Ends the server whose switches are mounted.
pub(crate) fn end() -> io::Result<()> {
    fs::write(Path::new(SWITCHES).join("threads"), "0\n")
}

/// Serves a directory on 127.0.0.1 and mounts it: NFS 4, so that neither portmapper nor lock daemon is needed.
pub(crate) fn serve(directory: &Path, at: &Path) -> io::Result<()> {
    // Built in, there is nothing to load.
    for module in ["nfsd", "nfsv4"] {
        _ = Command::new("modprobe").args(["-q", module]).stderr(Stdio::null()).status();
    }
    private_state()?;
    mount(c"nfsd", c"/proc/fs/nfsd", Some(c"nfsd"), 0)?;
    for (switch, text) in [("nfsv4gracetime", "10\n"), ("nfsv4leasetime", "10\n")] {
        fs::write(Path::new(SWITCHES).join(switch), text)?;
    }
    let export = format!("127.0.0.1:{}", directory.display());
    let options = "rw,no_root_squash,no_subtree_check,insecure,async,fsid=0";
    run("exportfs", &["-i", "-o", options, &export])?;
    run("rpc.mountd", &["--no-nfs-version", "3"])?;
    run("rpc.nfsd", &["--host", "127.0.0.1", "--no-udp", "--no-nfs-version", "3", "2"])?;
    // Nobody has anything to reclaim. Kernels without the switch wait the ten seconds.
    _ = fs::write(Path::new(SWITCHES).join("v4_end_grace"), "Y\n");
    let options = "vers=4.2,proto=tcp,sec=sys";
    run("mount.nfs", &["127.0.0.1:/", &at.display().to_string(), "-o", options])
}

/// What the server's programs write down, in memory and apart from the machine's own.
fn private_state() -> io::Result<()> {
    for place in [c"/var/lib/nfs", c"/run"] {
        mount(c"tmpfs", place, Some(c"tmpfs"), 0)?;
    }
    for directory in ["sm", "sm.bak", "v4recovery", "nfsdcltrack", "rpc_pipefs"] {
        fs::create_dir(Path::new("/var/lib/nfs").join(directory))?;
    }
    for file in ["etab", "rmtab", "state"] {
        File::create(Path::new("/var/lib/nfs").join(file))?;
    }
    Ok(())
}

fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    let place = needs::program(program).ok_or_else(|| io::Error::other(format!("{program} is missing")))?;
    let status = Command::new(place).args(arguments).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program}: {status}"))) }
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_else(|_| CStr::to_owned(c""))
}
