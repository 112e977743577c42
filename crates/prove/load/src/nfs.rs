//! The kernel's NFS server in a network namespace of its own. It is started, mounted over the loopback device
//! of the namespace, and always ended: its threads belong to the kernel and outlive every process.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::mount::{MountFlags, UnmountFlags, mount_bind, unmount};
use spry_sys::namespace::{self, Kind, Kinds, Spread};

use crate::confine::mount;
use crate::error::{LoadError, of};
use crate::needs;

/// The file in a run's directory that keeps the network namespace reachable until its server has ended.
const PIN: &str = "netns";
/// The directory with the files that control the server.
const SWITCHES: &str = "/proc/fs/nfsd";

/// Keeps the calling process' network namespace reachable from outside. This must be done before the process
/// has mounts of its own.
pub(crate) fn pin(directory: &Path) -> Result<(), LoadError> {
    let pin = directory.join(PIN);
    File::create(&pin).map_err(crate::error::at(&pin))?;
    mount_bind(c"/proc/self/ns/net", &pin)
        .map_err(|error| of("keeping the network namespace of NFS")(error.into()))
}

/// Ends the server of a run that is over, if the run had one. Then it releases the namespace of the server.
pub(crate) fn release(directory: &Path) -> Result<(), LoadError> {
    let pin = directory.join(PIN);
    let Ok(namespace) = File::open(&pin) else { return Ok(()) };
    // A new thread enters the namespaces. It leaves them when it ends.
    let ended = thread::scope(|scope| scope.spawn(|| end_in(&namespace)).join());
    // If nothing was mounted there, the error is ignored.
    _ = unmount(&pin, UnmountFlags::DETACH);
    ended.unwrap_or_else(|_| Err(io::Error::other("the thread failed"))).map_err(of("ending the NFS server"))
}

fn end_in(file: &File) -> io::Result<()> {
    if namespace::enter(file.as_fd(), Kind::Network).is_err() {
        // The run was killed before it kept the namespace.
        return Ok(());
    }
    namespace::unshare(Kinds::NEWNS)?;
    namespace::spread_mounts(Spread::Not)?;
    if !Path::new(SWITCHES).exists() {
        return Ok(());
    }
    // A mount that other namespaces see would show the server of their namespace, so a new one is made.
    mount(c"nfsd", c"/proc/fs/nfsd", MountFlags::empty())?;
    end()
}

/// Ends the server. Its control files must be mounted.
pub(crate) fn end() -> io::Result<()> {
    fs::write(Path::new(SWITCHES).join("threads"), "0\n")
}

/// Serves a directory on 127.0.0.1 and mounts it. It uses NFS 4, which needs neither a portmapper
/// nor a lock daemon.
pub(crate) fn serve(directory: &Path, at: &Path) -> io::Result<()> {
    // If the modules are built into the kernel, nothing is loaded.
    for module in ["nfsd", "nfsv4"] {
        _ = Command::new("modprobe").args(["-q", module]).stderr(Stdio::null()).status();
    }
    private_state()?;
    mount(c"nfsd", c"/proc/fs/nfsd", MountFlags::empty())?;
    for (switch, text) in [("nfsv4gracetime", "10\n"), ("nfsv4leasetime", "10\n")] {
        fs::write(Path::new(SWITCHES).join(switch), text)?;
    }
    let export = format!("127.0.0.1:{}", directory.display());
    let options = "rw,no_root_squash,no_subtree_check,insecure,async,fsid=0";
    run("exportfs", &["-i", "-o", options, &export])?;
    run("rpc.mountd", &["--no-nfs-version", "3"])?;
    run("rpc.nfsd", &["--host", "127.0.0.1", "--no-udp", "--no-nfs-version", "3", "2"])?;
    // No client has a lock to reclaim, so the grace period ends now. A kernel without this file waits ten
    // seconds.
    _ = fs::write(Path::new(SWITCHES).join("v4_end_grace"), "Y\n");
    let options = "vers=4.2,proto=tcp,sec=sys";
    run("mount.nfs", &["127.0.0.1:/", &at.display().to_string(), "-o", options])
}

/// Gives the server's programs a place in memory for their files, apart from the machine's own files.
fn private_state() -> io::Result<()> {
    for place in [c"/var/lib/nfs", c"/run"] {
        mount(c"tmpfs", place, MountFlags::empty())?;
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
