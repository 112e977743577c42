//! The cgroups in which eyes run, one for each display: they bound memory, CPU and tasks, if the system has
//! cgroups of the second version and lets the daemon make some.

use std::cell::OnceCell;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The name of the cgroup for all eyes, below the daemon's own cgroup.
const NAME: &str = "spry-eyes";
/// The cgroup to which the daemon moves if its own cgroup was given to it: a cgroup that has processes itself
/// can have no cgroups below it that are bounded.
const DAEMON: &str = "daemon";
/// The marks of a cgroup that systemd has given to a service.
const DELEGATED: [&str; 2] = ["trusted.delegate", "user.delegate"];
/// The controllers that bound the eyes.
const CONTROLLERS: [&str; 3] = ["+cpu", "+memory", "+pids"];
/// The bounds of one display's eyes. Eyes take 3 MiB, and 0.4 % of a CPU beside a film. To look at a thousand
/// windows for the first time takes some ms, and must not be slowed down to seconds.
const BOUNDS: [(&str, &str); 3] =
    [("memory.max", "67108864"), ("pids.max", "1"), ("cpu.max", "20000 100000")];

/// The directory of all these cgroups.
#[derive(Debug, Default)]
pub(super) struct Pens {
    /// The directory is made when the first display is looked at: on a machine without displays
    /// nothing is changed.
    place: OnceCell<Option<PathBuf>>,
}

impl Pens {
    /// Makes the directory: below the root cgroup if the daemon is there, or below the daemon's own
    /// cgroup if that was given to it. In any other case nothing is made: other cgroups are for other
    /// programs to arrange.
    fn place(&self) -> Option<&PathBuf> {
        let own = || if geteuid().is_root() { own_cgroup() } else { None };
        self.place.get_or_init(|| own().and_then(|own| prepare(&own))).as_ref()
    }

    /// The file through which the eyes of a display enter their cgroup.
    pub(super) fn of_display(&self, number: u32) -> Option<File> {
        let pen = self.place()?.join(number.to_string());
        // If the cgroup is there already, it is used.
        _ = fs::create_dir(&pen);
        for (name, value) in BOUNDS {
            // If the system keeps a controller for itself, the write fails and nothing is bounded by it.
            _ = fs::write(pen.join(name), value);
        }
        OpenOptions::new().write(true).open(pen.join("cgroup.procs")).ok()
    }

    /// Removes the cgroups that are empty.
    pub(super) fn sweep(&self) {
        let place = self.place.get().into_iter().flatten();
        let entries = place.filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
        for pen in entries.filter(|entry| entry.path().is_dir()) {
            // A cgroup that has eyes in it cannot be removed and stays.
            _ = fs::remove_dir(pen.path());
        }
    }
}

impl Drop for Pens {
    fn drop(&mut self) {
        self.sweep();
        if let Some(Some(place)) = self.place.get() {
            _ = fs::remove_dir(place);
        }
    }
}

/// The directory of this process' cgroup.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount_point(&mounts)?.join(path))
}

/// The mount point of the second version of cgroups: the fifth word of its line in `mountinfo`.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

fn prepare(own: &Path) -> Option<PathBuf> {
    let is_root = !own.join("cgroup.type").exists();
    if !is_root {
        if !is_given(own) {
            return None;
        }
        step_aside(own);
    }
    let place = own.join(NAME);
    _ = fs::create_dir(&place);
    // The division of the root cgroup's CPU time among groups is left to the system: it affects the
    // scheduling of all tasks.
    let controllers = if is_root { &CONTROLLERS[1..] } else { &CONTROLLERS[..] };
    for directory in [own, &place] {
        for controller in controllers {
            _ = fs::write(directory.join("cgroup.subtree_control"), controller);
        }
    }
    place.is_dir().then_some(place)
}

/// Whether systemd has given a cgroup to the service that runs in it.
fn is_given(own: &Path) -> bool {
    DELEGATED.iter().any(|name| {
        let mut value = [0; 8];
        matches!(rustix::fs::getxattr(own, *name, &mut value), Ok(1) if value[0] == b'1')
    })
}

/// Moves the daemon's processes one cgroup down.
fn step_aside(own: &Path) {
    let aside = own.join(DAEMON);
    _ = fs::create_dir(&aside);
    let processes = fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines() {
        // The write fails for a process that has ended, which needs no place.
        _ = fs::write(aside.join("cgroup.procs"), process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let mounts = "24 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      30 24 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                      31 24 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point("24 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }
}
