//! The knobs that are in force while a command runs.

use serde::Serialize;
use spry_setting::Setting;
use spry_sys::settle;

use crate::book::{Back, Holder};
use crate::error::{TuneError, of};
use crate::guardian::Guardian;
use crate::kernel::{self, HRTICK, Kernel};
use crate::plan::Plan;

/// Which tasks a knob is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The command, and the tasks that it starts.
    Command,
    /// The whole machine.
    Machine,
}

/// The value of a knob.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A quantum or a slice, ns.
    Ns(u64),
    /// The rate of the tick, Hz.
    Hz(u64),
    /// A switch that is on.
    On,
    /// A switch that is off.
    Off,
}

/// A knob, with its value before and now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Knob {
    /// Its name: `slice`, `base slice`, `round-robin quantum`, `HRTICK`, `tick`.
    pub name: &'static str,
    /// Which tasks it is for.
    pub scope: Scope,
    /// The value that was in force.
    pub before: Value,
    /// The value that is in force now.
    pub now: Value,
}

/// A plan that is in force. When this is dropped, or its process is killed, the settings of the machine
/// are given back.
#[derive(Debug)]
pub struct AppliedPlan {
    plan: Plan,
    knobs: Vec<Knob>,
    /// The guardian ends before its holder is dropped.
    guardian: Option<Guardian>,
    holder: Option<Holder>,
}

impl AppliedPlan {
    /// Puts a plan in force. If the plan has settings of the machine, the process is forked first: its copy
    /// is the guardian.
    ///
    /// # Errors
    /// If the kernel refuses a setting, or keeps another value. Settings made before are given back.
    pub fn new(plan: Plan, kernel: &Kernel) -> Result<AppliedPlan, TuneError> {
        let mut tuned = AppliedPlan { plan, knobs: Vec::new(), guardian: None, holder: None };
        if let Some(slice) = tuned.plan.slice {
            let (before, now) = (Value::Ns(slice.before_ns), Value::Ns(slice.now_ns));
            tuned.knobs.push(Knob { name: "slice", scope: Scope::Command, before, now });
        }
        if let Some(hz) = tuned.plan.tick_hz {
            let (before, now) = (Value::Hz(hz), Value::Hz(hz));
            tuned.knobs.push(Knob { name: "tick", scope: Scope::Machine, before, now });
        }
        if !tuned.plan.settings.is_empty() {
            tuned.set(kernel)?;
        }
        tuned.check_round_robin()?;
        Ok(tuned)
    }

    fn set(&mut self, kernel: &Kernel) -> Result<(), TuneError> {
        // A setting that this user may not write needs no book.
        for setting in &self.plan.settings {
            may_write(setting)?;
        }
        let holder = self.holder.insert(Holder::new(&kernel.state)?);
        self.guardian = Some(Guardian::start(holder).map_err(of("starting the guardian"))?);
        for setting in &self.plan.settings {
            let before = holder.set(setting)?;
            self.knobs.push(knob(&before, setting));
        }
        Ok(())
    }

    /// Checks that a round-robin task has the quantum that was asked for.
    fn check_round_robin(&self) -> Result<(), TuneError> {
        let (Some(asked_us), Some(given_ns)) = (self.plan.round_robin_us, kernel::round_robin_ns()) else {
            return Ok(());
        };
        let (given_us, tick_us) = (given_ns / 1000, kernel::tick_us());
        if given_us == asked_us { Ok(()) } else { Err(TuneError::WholeTicks { asked_us, given_us, tick_us }) }
    }

    /// The knobs that were set, with the values that were in force before.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// Notes for the user, one line each.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// The settings that the command's process gets between its fork and its program.
    pub fn settings_of_command(&self) -> Vec<settle::Setting> {
        let slice = self.plan.slice.map(|slice| settle::Setting::Slice(slice.now_ns));
        slice.into_iter().collect()
    }

    /// Gives back the settings of the machine. Returns the outcome for each setting.
    ///
    /// # Errors
    /// If the book cannot be read or written.
    pub fn give_back(mut self) -> Result<Vec<Back>, TuneError> {
        self.holder.take().map_or_else(|| Ok(Vec::new()), |holder| holder.give_back())
    }
}

impl Drop for AppliedPlan {
    fn drop(&mut self) {
        if let Some(holder) = &self.holder {
            // Settings that are left stay in the book: the guardian tries again, then the next process.
            _ = holder.give_back();
        }
        self.guardian = None;
    }
}

/// Checks that this process may write a setting. Changes nothing.
fn may_write(setting: &Setting) -> Result<(), TuneError> {
    let opened = std::fs::OpenOptions::new().write(true).open(&setting.path);
    opened.map(drop).map_err(crate::error::refused(setting))
}

/// A knob of the machine as it is shown.
fn knob(before: &Setting, now: &Setting) -> Knob {
    let name = if now.switch().is_some() {
        HRTICK
    } else if now.path.ends_with("base_slice_ns") {
        "base slice"
    } else {
        "round-robin quantum"
    };
    Knob { name, scope: Scope::Machine, before: value(before), now: value(now) }
}

/// The value of a setting. Its unit follows from the end of the file's name.
fn value(setting: &Setting) -> Value {
    if setting.switch().is_some() {
        return if setting.value == HRTICK { Value::On } else { Value::Off };
    }
    let unit_ns = match setting.path.rsplit_once('_') {
        Some((_, "ms")) => 1_000_000,
        Some((_, "us")) => 1_000,
        _ => 1,
    };
    Value::Ns(setting.value.parse().unwrap_or(0) * unit_ns)
}

#[cfg(test)]
mod tests;
