//! What a machine must have and be before a run, and how it is put back after.

use std::fs;
use std::io;

use super::{RunError, sys};
use crate::programs;
use crate::scenario::model::Scenario;

/// Fails if a program is missing.
pub(super) fn check_programs(wanted: &[String]) -> Result<(), RunError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &&str| programs::find(program, &path).is_none();
    let missing: Vec<&str> = wanted.iter().map(String::as_str).filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(RunError::Machine(format!("not on PATH, but the scenario needs it: {}", missing.join(", "))))
}

/// Keeps the run to as many CPUs as the scenario names.
pub(super) fn take_cpus(scenario: &Scenario) -> Result<(), RunError> {
    let mut cpus = sys::affinity();
    if let Some(wanted) = scenario.machine.cpus {
        if cpus.len() < wanted as usize {
            let text = format!("the scenario wants {wanted} CPUs; this process may use {}", cpus.len());
            return Err(RunError::Machine(text));
        }
        cpus.truncate(wanted as usize);
        sys::set_affinity(&cpus).map_err(|error| RunError::Machine(format!("CPUs {cpus:?}: {error}")))?;
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

/// Puts the old quantum of the round-robin class back when dropped.
pub(super) struct RrQuantum(Option<String>);

/// Sets the quantum of the round-robin class.
pub(super) fn set_rr_quantum(ms: Option<u32>) -> Result<RrQuantum, RunError> {
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
            // It was written a moment ago; if that no longer goes, there is no one to tell.
            let _ = fs::write(RR_QUANTUM, before);
        }
    }
}
