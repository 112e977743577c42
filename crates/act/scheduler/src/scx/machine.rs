//! Facts about the machine that the scheduler needs: the CPUs of each last-level cache, and the features that
//! this kernel lacks.

use std::collections::BTreeMap;
use std::fs;
use std::ptr;

use anyhow::{Context, Result};

use super::skel::OpenSchedSkel;

/// The number of the last-level cache of each possible CPU, in order of CPUs.
pub(super) fn caches() -> Result<Vec<u16>> {
    let possible =
        fs::read_to_string("/sys/devices/system/cpu/possible").context("which CPUs there can be")?;
    let count = last_of_list(&possible).context("which CPUs there can be")? + 1;
    let mut numbers: BTreeMap<String, u16> = BTreeMap::new();
    let mut caches = Vec::with_capacity(count);
    for cpu in 0..count {
        let next = u16::try_from(numbers.len())?;
        // A CPU that is offline counts as part of the first cache until the scheduler is loaded again.
        caches.push(last_level(cpu).map_or(0, |shared| *numbers.entry(shared).or_insert(next)));
    }
    Ok(caches)
}

/// The list of CPUs that share a CPU's last-level cache, as the kernel writes it. `None` without a
/// third-level cache.
fn last_level(cpu: usize) -> Option<String> {
    let caches = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let mut last: Option<(u32, String)> = None;
    for entry in fs::read_dir(caches).ok()?.filter_map(Result::ok) {
        let read = |name| fs::read_to_string(entry.path().join(name)).ok();
        let level = read("level").and_then(|text| text.trim().parse().ok());
        let (Some(level), Some(shared)) = (level, read("shared_cpu_list")) else { continue };
        if last.as_ref().is_none_or(|(known, _)| level > *known) {
            last = Some((level, shared));
        }
    }
    // On most machines a second-level cache belongs to one core. CPUs without a third-level cache are grouped
    // together instead.
    last.filter(|(level, _)| *level > 2).map(|(_, shared)| shared)
}

/// The last number in a list of CPUs such as `0-3,8`.
fn last_of_list(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// Whether this kernel's sched_ext has an operation.
fn has(operation: &str) -> bool {
    scx_utils::compat::struct_has_field("sched_ext_ops", operation).unwrap_or(false)
}

/// Removes operations and flags that this kernel's sched_ext does not have.
pub(super) fn leave_out_what_the_kernel_lacks(skel: &mut OpenSchedSkel<'_>) {
    let ops = skel.struct_ops.spry_ops_mut();
    if !has("cgroup_init") {
        ops.cgroup_init = ptr::null_mut();
        ops.cgroup_exit = ptr::null_mut();
        ops.cgroup_move = ptr::null_mut();
        ops.cgroup_set_weight = ptr::null_mut();
    }
    if !has("cgroup_set_bandwidth") {
        ops.cgroup_set_bandwidth = ptr::null_mut();
    }
    if !is_real_time() {
        ops.tick = ptr::null_mut();
    }
    // If the kernel can put tasks back into queues at any time, the scheduler does so when a task wakes, and
    // `cpu_release` is deprecated.
    if scx_utils::compat::ksym_exists("scx_bpf_dsq_reenq").unwrap_or(false) {
        ops.cpu_release = ptr::null_mut();
    }
    let names = [
        "SCX_OPS_ENQ_LAST",
        "SCX_OPS_ENQ_EXITING",
        "SCX_OPS_ENQ_MIGRATION_DISABLED",
        "SCX_OPS_ALLOW_QUEUED_WAKEUP",
    ];
    let flag = |name| scx_utils::compat::read_enum("scx_ops_flags", name).unwrap_or(0);
    ops.flags = names.into_iter().map(flag).fold(0, |all, flag| all | flag);
}

/// Whether this is a real-time kernel, which gives BPF programs no timers.
pub(super) fn is_real_time() -> bool {
    let version = fs::read_to_string("/proc/sys/kernel/version");
    version.is_ok_and(|text| text.split_whitespace().any(|word| word == "PREEMPT_RT"))
}

/// Warnings for the user about settings that have no effect on this kernel.
pub(super) fn warnings() -> Vec<String> {
    let mut warnings = Vec::new();
    if !has("cgroup_set_weight") {
        warnings
            .push("the kernel does not tell schedulers of cgroups: cpu.weight is not honoured".to_owned());
    }
    if is_real_time() {
        warnings.push(
            "a real-time kernel lets schedulers have no timers: turns end at ticks, \
             or each half millisecond where many tasks wait; cpu.max is not honoured"
                .to_owned(),
        );
    } else if !has("cgroup_set_bandwidth") {
        warnings.push("the kernel does not tell schedulers of limits: cpu.max is not honoured".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::last_of_list;

    #[test]
    fn the_last_of_a_list_of_cpus_is_its_end() {
        assert_eq!(last_of_list("0\n"), Some(0));
        assert_eq!(last_of_list("0-3\n"), Some(3));
        assert_eq!(last_of_list("0-3,8,10-11\n"), Some(11));
        assert_eq!(last_of_list("\n"), None);
    }
}
