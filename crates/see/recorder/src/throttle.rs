//! The tasks that are throttled, and the cgroups with the limits.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spry_trace::Tid;
use spry_trace::event::{Limit, Throttled};

use crate::wire::{
    SPRY_QUEUE_BEGINS, SPRY_QUEUE_ENDS, SPRY_SCHEDULER_BEGINS, SPRY_SCHEDULER_ENDS, spry_quota, spry_throttle,
};

/// The most directories that are searched for a cgroup; below, the greatest depth of the search.
const DIRECTORIES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 64;

/// The throttled tasks, and the limits that were recorded so far.
#[derive(Default)]
pub(crate) struct Throttles {
    limits: HashMap<u64, Arc<Limit>>,
    waiting: HashMap<Tid, ThrottledTask>,
}

/// A throttled task: its CPU, and the throttled time of its queue up to the start of the wait, ns.
struct ThrottledTask {
    cpu: usize,
    so_far_ns: u64,
    limit: Arc<Limit>,
}

impl Throttles {
    /// Learns a cgroup's limit.
    pub(crate) fn limit(&mut self, quota: &spry_quota) {
        let &spry_quota { group, quota_ns, period_ns, .. } = quota;
        let known = self.limits.get(&group);
        if known.is_none_or(|known| (known.quota_ns, known.period_ns) != (quota_ns, period_ns)) {
            let path = known.map_or_else(|| path_of(group), |known| known.group.clone());
            self.limits.insert(group, Arc::new(Limit { group: path, quota_ns, period_ns }));
        }
    }

    /// The event that follows from a record, if any.
    pub(crate) fn see(&mut self, cpu: usize, raw: &spry_throttle) -> Option<Throttled> {
        let (tid, ns) = (Tid(raw.tid), raw.ns);
        match raw.says {
            SPRY_QUEUE_BEGINS => {
                let limit = self.limit_of(raw.group);
                let waiting = ThrottledTask { cpu, so_far_ns: ns, limit: Arc::clone(&limit) };
                self.waiting.insert(tid, waiting);
                Some(Throttled { tid, throttled_ns: None, limit })
            }
            SPRY_QUEUE_ENDS => {
                let waiting = self.waiting.remove(&tid)?;
                // Each CPU has a queue of its own. The task's wait in the first queue is unknown.
                let throttled_ns = (waiting.cpu == cpu).then(|| ns.checked_sub(waiting.so_far_ns))??;
                Some(Throttled { tid, throttled_ns: Some(throttled_ns), limit: waiting.limit })
            }
            SPRY_SCHEDULER_BEGINS => {
                Some(Throttled { tid, throttled_ns: None, limit: self.limit_of(raw.group) })
            }
            SPRY_SCHEDULER_ENDS => {
                Some(Throttled { tid, throttled_ns: Some(ns), limit: self.limit_of(raw.group) })
            }
            // No program writes another number.
            _ => None,
        }
    }

    fn limit_of(&self, group: u64) -> Arc<Limit> {
        let unknown = || Arc::new(Limit { group: "".into(), quota_ns: 0, period_ns: 0 });
        self.limits.get(&group).cloned().unwrap_or_else(unknown)
    }
}

/// The path of the cgroup with this id, in the hierarchy of the CPU controller; empty if it is not found.
fn path_of(id: u64) -> Box<str> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let found = hierarchy(&mounts).and_then(|root| {
        let path = find(&root, id)?;
        Some(format!("/{}", path.strip_prefix(&root).ok()?.display()))
    });
    let mut path = found.unwrap_or_default();
    while path.len() > Limit::PATH_BYTES_MAX {
        path.pop();
    }
    path.into()
}

/// The mount point of the hierarchy with the CPU controller: a hierarchy of version 1 that has the
/// controller, or else the hierarchy of version 2.
fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let parsed = mounts.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut words = file_system.split(' ');
        Some((mount.split(' ').nth(4)?, words.next()?, words.nth(1)?))
    });
    let mut second = None;
    for (place, kind, options) in parsed {
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => return Some(place.into()),
            "cgroup2" => second = Some(place.into()),
            _ => {}
        }
    }
    second
}

/// The directory under `root` that has this inode.
fn find(root: &Path, inode: u64) -> Option<PathBuf> {
    let mut left = vec![(root.to_owned(), 0)];
    let mut looked_at = 0;
    while let Some((directory, depth)) = left.pop() {
        looked_at += 1;
        if fs::metadata(&directory).is_ok_and(|metadata| metadata.ino() == inode) {
            return Some(directory);
        }
        if depth == DEPTH_MAX || looked_at == DIRECTORIES_MAX {
            continue;
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push((entry.path(), depth + 1));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(tid: u32, says: u32, ns: u64) -> spry_throttle {
        spry_throttle { tid, says, ns, group: 1, ..spry_throttle::default() }
    }

    #[test]
    fn a_task_is_throttled_as_long_as_its_queue_was_meanwhile() {
        let mut throttles = Throttles::default();
        assert_eq!(throttles.see(0, &raw(7, SPRY_QUEUE_ENDS, 500)), None);
        let begun = throttles.see(0, &raw(7, SPRY_QUEUE_BEGINS, 500)).unwrap();
        assert_eq!((begun.tid, begun.throttled_ns, &*begun.limit.group), (Tid(7), None, ""));
        let over = throttles.see(0, &raw(7, SPRY_QUEUE_ENDS, 590)).unwrap();
        assert_eq!(over.throttled_ns, Some(90));
        assert_eq!(throttles.see(0, &raw(7, SPRY_QUEUE_ENDS, 600)), None);
        // On another CPU, or where the count went back, the throttled time is unknown.
        for (cpu, so_far_ns) in [(1, 590), (0, 400)] {
            throttles.see(0, &raw(7, SPRY_QUEUE_BEGINS, 500)).unwrap();
            assert_eq!(throttles.see(cpu, &raw(7, SPRY_QUEUE_ENDS, so_far_ns)), None);
        }
    }

    #[test]
    fn a_scheduler_tells_itself_how_long_a_task_waited() {
        let mut throttles = Throttles::default();
        let quota = spry_quota { group: 1, quota_ns: 5, period_ns: 50, ..spry_quota::default() };
        throttles.limit(&quota);
        // The task may come to another CPU meanwhile, and may have been woken into its wait.
        let told = [(0, SPRY_SCHEDULER_BEGINS, None), (3, SPRY_SCHEDULER_ENDS, Some(90))];
        for (cpu, says, throttled_ns) in told {
            let throttled = throttles.see(cpu, &raw(7, says, 90)).unwrap();
            assert_eq!((throttled.tid, throttled.throttled_ns), (Tid(7), throttled_ns));
            assert_eq!((throttled.limit.quota_ns, throttled.limit.period_ns), (5, 50));
        }
        assert_eq!(throttles.see(3, &raw(7, SPRY_QUEUE_ENDS, 600)), None);
    }

    #[test]
    fn the_cpu_controller_s_hierarchy_is_found_in_both_versions() {
        let first = "30 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                     31 24 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct\n";
        let second = "40 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let both = format!("{second}{first}");
        for (mounts, place) in
            [(first, "/sys/fs/cgroup/cpu"), (second, "/sys/fs/cgroup"), (&both, "/sys/fs/cgroup/cpu")]
        {
            assert_eq!(hierarchy(mounts), Some(PathBuf::from(place)));
        }
        assert_eq!(hierarchy("odd\n - cgroup\n1 2 3 - cgroup x cpu\n"), None);
    }
}
