//! Checks a machine before a run, changes its settings for the run, and restores them afterwards.

use std::fs;
use std::io;

use spry_scenario::model::Scenario;
use spry_sys::cpus::{Cpus, allowed_cpus};

use crate::{RunError, programs};

/// Fails if one of the programs is missing.
pub(crate) fn check_programs(wanted: &[String]) -> Result<(), RunError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &&str| programs::find(program, &path).is_none();
    let missing: Vec<&str> = wanted.iter().map(String::as_str).filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(RunError::Machine(format!("not on PATH, but the scenario needs it: {}", missing.join(", "))))
}

/// Restricts the run to as many CPUs as the scenario names.
pub(crate) fn take_cpus(scenario: &Scenario) -> Result<(), RunError> {
    let mut cpus = allowed_cpus();
    if let Some(wanted) = scenario.machine.cpus {
        if cpus.len() < wanted as usize {
            let text = format!("the scenario wants {wanted} CPUs; this process may use {}", cpus.len());
            return Err(RunError::Machine(text));
        }
        cpus.truncate(wanted as usize);
        let held = Cpus::of(cpus.iter().copied()).and_then(|cpus| cpus.hold(0));
        held.map_err(|error| RunError::Machine(format!("CPUs {cpus:?}: {error}")))?;
    }
    for task in &scenario.tasks {
        if let Some(cpu) = task.affinity.iter().find(|cpu| !cpus.contains(cpu)) {
            let text = format!("task {}: there is no CPU {cpu} for it; the run has {cpus:?}", task.name);
            return Err(RunError::Machine(text));
        }
    }
    Ok(())
}

/// The kernel's setting of the quantum of the round-robin class, ms.
const RR_QUANTUM_MS: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";
/// The same quantum, us. Kernels that the lab builds with a fast tick have this setting.
const RR_QUANTUM_US: &str = "/proc/sys/kernel/sched_rr_timeslice_us";

/// The old quantum of the round-robin class, and its setting. When this value is dropped, the kernel gets the
/// old quantum back.
pub(crate) struct RrQuantum(Option<(&'static str, String)>);

/// The setting for a quantum of `us` microseconds, and the value that is written to it.
fn rr_setting(us: u32) -> (&'static str, u32) {
    if us % 1000 == 0 { (RR_QUANTUM_MS, us / 1000) } else { (RR_QUANTUM_US, us) }
}

/// Sets the quantum of the round-robin class, us.
pub(crate) fn set_rr_quantum(us: Option<u32>) -> Result<RrQuantum, RunError> {
    let Some(us) = us else { return Ok(RrQuantum(None)) };
    let (path, value) = rr_setting(us);
    let wrong = |error: io::Error| {
        let help = match error.kind() {
            io::ErrorKind::PermissionDenied => ": it needs root",
            io::ErrorKind::NotFound if path == RR_QUANTUM_US => {
                ": this kernel's quanta are whole milliseconds; shorter ones take a kernel of 5000 Hz or \
                 more (spry lab kernel build --hz 20000)"
            }
            _ => "",
        };
        RunError::Machine(format!("rr_quantum_ms: {path}: {error}{help}"))
    };
    let before = fs::read_to_string(path).map_err(wrong)?;
    if before.trim() == value.to_string() {
        return Ok(RrQuantum(None));
    }
    fs::write(path, value.to_string()).map_err(wrong)?;
    Ok(RrQuantum(Some((path, before))))
}

impl Drop for RrQuantum {
    fn drop(&mut self) {
        if let Some((path, before)) = &self.0 {
            // The same file could be written before, so an error is not expected here, and a `drop` cannot
            // report one.
            let _ = fs::write(path, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_of_whole_milliseconds_is_set_on_any_kernel() {
        assert_eq!(rr_setting(60_000), (RR_QUANTUM_MS, 60));
        assert_eq!(rr_setting(100), (RR_QUANTUM_US, 100));
        assert_eq!(rr_setting(1_500), (RR_QUANTUM_US, 1_500));
    }
}
