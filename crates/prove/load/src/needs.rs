//! The needs of loads on a machine, and the user's remedy for a missing part.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use spry_sys::process;

use crate::suite::{Load, Mount, Program};

/// A program or a property of the machine that a load needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The name of the needed part.
    pub(crate) name: &'static str,
    /// Describes the missing part and the user's remedy; `None` if nothing is missing.
    pub(crate) lack: fn() -> Option<String>,
}

const NAMESPACES: Need = Need { name: "root or user namespaces", lack: no_namespaces };
const STRESS_NG: Need = Need { name: "stress-ng", lack: || no_program("stress-ng", "stress-ng") };
const MAKE: Need = Need { name: "make", lack: || no_program("make", "make") };
const CC: Need = Need { name: "gcc", lack: || no_program("gcc", "gcc libc6-dev") };
const TAR: Need = Need { name: "tar", lack: || no_program("tar", "tar") };
const BINDFS: Need = Need { name: "bindfs", lack: || no_program("bindfs", "bindfs") };
const FUSE: Need = Need { name: "/dev/fuse", lack: no_fuse };
const ROOT: Need = Need { name: "root", lack: not_root };
const NFS: Need = Need { name: "NFS server and client of the kernel", lack: no_nfs };
const EXPORTFS: Need = Need { name: "exportfs", lack: || no_program("exportfs", "nfs-kernel-server") };
const MOUNT_NFS: Need = Need { name: "mount.nfs", lack: || no_program("mount.nfs", "nfs-common") };

/// The needs of a load. The need that is hardest to meet comes first.
pub(crate) fn of(load: &Load) -> Vec<Need> {
    match load.program {
        Program::Own(_) => vec![NAMESPACES],
        Program::Stress(_) => vec![NAMESPACES, STRESS_NG],
        Program::Compile(Mount::Fuse) => vec![NAMESPACES, FUSE, BINDFS, MAKE, CC, TAR],
        Program::Compile(Mount::Nfs) => vec![NFS, ROOT, EXPORTFS, MOUNT_NFS, MAKE, CC, TAR],
    }
}

/// The path of a program. It is sought in `PATH` and in the administrator's directories of programs.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

fn no_program(name: &str, packages: &str) -> Option<String> {
    program(name)
        .is_none()
        .then(|| format!("{name} is missing: install it with `apt-get install {packages}`"))
}

fn not_root() -> Option<String> {
    (!process::is_root()).then(|| "only root may serve and mount NFS: run it with sudo".to_owned())
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn no_namespaces() -> Option<String> {
    if process::is_root() {
        return None;
    }
    let switches = [
        ("/proc/sys/user/max_user_namespaces", 0),
        ("/proc/sys/kernel/unprivileged_userns_clone", 0),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1),
    ];
    let off = switches.iter().find(|(path, off)| number(path) == Some(*off))?.0;
    let setting = off.trim_start_matches("/proc/sys/").replace('/', ".");
    Some(format!(
        "loads are confined by namespaces, which this kernel keeps from users ({setting}): run it with sudo"
    ))
}

fn no_fuse() -> Option<String> {
    let is_there = Path::new("/dev/fuse").exists() && (has_file_system("fuse") || has_module("fs/fuse/fuse"));
    (!is_there).then(|| "this kernel has no FUSE, or no /dev/fuse (`modprobe fuse`)".to_owned())
}

fn no_nfs() -> Option<String> {
    let server = has_file_system("nfsd") || has_module("fs/nfsd/nfsd");
    let client = has_file_system("nfs4") || has_module("fs/nfs/nfsv4");
    let missing = match (server, client) {
        (true, true) => return None,
        (false, true) => "NFS server (nfsd)",
        (true, false) => "NFS 4 client (nfs)",
        (false, false) => "NFS, neither server (nfsd) nor client (nfs)",
    };
    Some(format!("this kernel has no {missing}; fuse-compile does the same in a FUSE mount"))
}

fn has_file_system(name: &str) -> bool {
    let text = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    text.lines().any(|line| line.split_whitespace().last() == Some(name))
}

/// Whether the running kernel has a module. The path is below `kernel/` and has no file name extension.
fn has_module(path: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let base = format!("/lib/modules/{}/kernel/{path}.ko", release.trim());
    ["", ".xz", ".zst", ".gz"].iter().any(|end| Path::new(&format!("{base}{end}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_with_its_package() {
        assert_eq!(no_program("sh", "dash"), None);
        let lack = no_program("no-such-program", "some-package").expect("there is none");
        assert!(lack.contains("apt-get install some-package"), "{lack}");
    }

    #[test]
    fn a_file_system_is_found_by_its_whole_name_only() {
        assert!(has_file_system("proc"));
        assert!(!has_file_system("pro"));
        assert!(!has_module("fs/no-such/module"));
    }
}
