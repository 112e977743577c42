//! Throttled tasks, and the quotas that cgroups have spent.

use std::sync::Arc;

use super::Tid;

/// A runnable task that is throttled. The event comes once when the task has lost its CPU, and again before
/// the task gets a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Throttled {
    /// The throttled thread.
    pub tid: Tid,
    /// The time for which the task has been throttled since the start of its current wait, ns; `None` at the
    /// start of the wait.
    pub throttled_ns: Option<u64>,
    /// The limit of the cgroup that has spent its quota.
    pub limit: Arc<Limit>,
}

/// The limit of a cgroup's run time, its quota (`cpu.max`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The cgroup's path in its hierarchy; empty if it is not known. At most [`Limit::PATH_BYTES_MAX`] bytes.
    pub group: Box<str>,
    /// The run time that all tasks of the group together may have in each period, ns.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
}

impl Limit {
    /// The longest path of a cgroup, bytes. Longer paths are cut.
    pub const PATH_BYTES_MAX: usize = 512;
}
