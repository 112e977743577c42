//! What a machine must have before a run, what the run changes about it, and how the change is undone.

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

const RR_QUANTUM: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// The old quantum of the round-robin class. When this value is dropped, the kernel gets the old quantum
/// back.
pub(crate) struct RrQuantum(Option<String>);

/// Sets the quantum of the round-robin class.
pub(crate) fn set_rr_quantum(ms: Option<u32>) -> Result<RrQuantum, RunError> {
    let Some(ms) = ms else { return Ok(RrQuantum(None)) };
    let wrong = |error: io::Error| {
        let help = if error.kind() == io::ErrorKind::PermissionDenied { ": it needs root" } else { "" };
        RunError::Machine(format!("rr_quantum_ms: {RR_QUANTUM}: {error}{help}"))
    };
    let before = fs::read_to_string(RR_QUANTUM).map_err(wrong)?;
    if before.trim() == ms.to_string() {
        return Ok(RrQuantum(None));
    }
    fs::write(RR_QUANTUM, ms.to_string()).map_err(wrong)?;
    Ok(RrQuantum(Some(before)))
}

impl Drop for RrQuantum {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // The same file could be written before, so an error is not expected here, and a `drop` cannot
            // report one.
            let _ = fs::write(RR_QUANTUM, before);
        }
    }
}
