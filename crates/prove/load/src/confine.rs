//! Confines loads: makes namespaces of processes, mounts, network and IPC, and gives the processes of a load
//! their limits, nice value and signals.

use std::ffi::CStr;
use std::fs;
use std::io;

use rustix::mount::MountFlags;
use spry_sys::namespace::{self, Kinds, Spread};
use spry_sys::settle::Setting;
use spry_sys::{Resource, process};

use crate::error::{LoadError, at, of};

/// The id of the user that has no rights. It is the same on every distribution.
const NOBODY: u32 = 65534;

/// Makes new namespaces, in which the calling process' next child is the first process. Unless this user is
/// root, the namespaces have this user only. The caller must have one thread only.
pub(crate) fn outside() -> Result<(), LoadError> {
    if !process::is_root() {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        unshare(Kinds::NEWUSER, "making a namespace of users (run it with sudo)")?;
        for (file, text) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/uid_map", format!("0 {user} 1")),
            ("/proc/self/gid_map", format!("0 {group} 1")),
        ] {
            fs::write(file, text).map_err(at(file.as_ref()))?;
        }
    }
    let kinds = Kinds::NEWPID | Kinds::NEWNET | Kinds::NEWIPC;
    unshare(kinds, "making namespaces of processes, network and IPC")
}

/// Gives the loads mounts that are invisible to outer processes, a /proc that shows the processes of this
/// namespace, and a loopback device.
pub(crate) fn inside() -> Result<(), LoadError> {
    unshare(Kinds::NEWNS, "making a namespace of mounts")?;
    // An unmount outside has its effect here too. A mount or unmount here does not change the mounts outside.
    namespace::spread_mounts(Spread::Inwards).map_err(of("keeping mounts from others"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"proc", c"/proc", flags).map_err(of("mounting /proc for the loads"))?;
    namespace::raise_loopback().map_err(of("switching the loopback device on"))
}

fn unshare(kinds: Kinds, what: &'static str) -> Result<(), LoadError> {
    namespace::unshare(kinds).map_err(of(what))
}

/// Mounts a file system of this kind.
pub(crate) fn mount(kind: &CStr, at: &CStr, flags: MountFlags) -> io::Result<()> {
    Ok(rustix::mount::mount(kind, at, kind, flags, None)?)
}

/// The user as which the processes of a load run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user that started the loads.
    Same,
    /// The user `nobody`.
    Nobody,
}

/// The settings of every process of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessSettings {
    pub(crate) nice: Option<i32>,
    /// How long a file that the process writes may become, bytes.
    pub(crate) file_bytes: u64,
    pub(crate) user: User,
}

impl ProcessSettings {
    /// Gives the calling process, a new child of the crew, these settings. It allocates no memory.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.all().try_for_each(|setting| setting.apply())
    }

    /// The settings, in the order in which a process can take them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Setting> + use<> {
        let user = match self.user {
            User::Same => None,
            User::Nobody => Some(Setting::User(NOBODY)),
        };
        let first = [Setting::DefaultSignals, Setting::OwnGroup];
        let limits = [(Resource::Fsize, self.file_bytes), (Resource::Core, 0)];
        let limits = limits.map(|(resource, most)| Setting::Limit(resource, most));
        first.into_iter().chain(self.nice.map(Setting::Nice)).chain(limits).chain(user)
    }
}

/// Gives a directory to the user as which a load runs.
pub(crate) fn give(path: &std::path::Path, user: User) -> io::Result<()> {
    match user {
        User::Same => Ok(()),
        User::Nobody => std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)),
    }
}
