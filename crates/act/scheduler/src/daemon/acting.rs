//! The actuator of the daemon: chosen at the start, and retried or replaced when the kernel removes it.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use spry_control::{ActuatorArg, Ejection, Knobs, QuantumClass, QuantumUs, RunArgs, State, Tuning};
use spry_policy::{Constants, Tgid, WakeRule};
use spry_reservations::Enforcer;

use super::by_hand::ManualOverrides;
use super::retry::{NextStep, Retry};
use crate::actuator::{Actuator, Class, Health, TickCount, Verdict};
use crate::collect::Collector;
use crate::fair::{Fair, FairOptions};
use crate::scx::{Scx, ScxOptions};

const EXT: &str = "/sys/kernel/sched_ext";

/// The kinds of actuators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Scx,
    Fair,
}

/// The present actuator, and the history of actuators.
pub struct ActuatorManager {
    wanted: ActuatorArg,
    background_share: u8,
    wake: WakeRule,
    /// The tick and the quanta that the actuator shall have.
    knobs: Knobs,
    /// `None` if the daemon only observes, or while no actuator works.
    actuator: Option<Box<dyn Actuator>>,
    is_observing: bool,
    since_ns: u64,
    retry: Retry,
    ejections: u64,
    /// Number of changes of the actuator.
    changes: u64,
    ejected: Option<(u64, String)>,
    /// The latest failure: of sched_ext at the start, of verdicts, of overrides or of the tuning.
    trouble: Option<String>,
}

impl ActuatorManager {
    /// Starts an actuator; none if the daemon only observes.
    ///
    /// # Errors
    /// If the requested actuator is not available; `auto` takes an actuator that is available.
    pub fn start(
        args: &RunArgs,
        constants: &Constants,
        collector: Option<&Collector>,
        now_ns: u64,
    ) -> Result<ActuatorManager> {
        let mut acting = ActuatorManager {
            wanted: args.actuator,
            background_share: args.background_share,
            wake: constants.wake,
            knobs: Knobs { tuning: args.tuning()?, ..Knobs::default() },
            actuator: None,
            is_observing: args.observe_only,
            since_ns: now_ns,
            retry: Retry::default(),
            ejections: 0,
            changes: 0,
            ejected: None,
            trouble: None,
        };
        if acting.is_observing {
            let turns = acting.knobs != Knobs::default();
            ensure!(!turns, "a daemon that only looks (--observe-only) turns no knobs");
            return Ok(acting);
        }
        let mut actuator = match args.actuator {
            ActuatorArg::Scx => acting.make(Kind::Scx, collector)?,
            ActuatorArg::Fair => acting.make(Kind::Fair, collector)?,
            ActuatorArg::Auto => match acting.make(Kind::Scx, collector) {
                Ok(actuator) => actuator,
                Err(error) => {
                    acting.trouble = Some(format!("not through sched_ext: {error:#}"));
                    acting.make(Kind::Fair, collector)?
                }
            },
        };
        if acting.knobs != Knobs::default() {
            actuator.tune(acting.knobs)?;
        }
        acting.actuator = Some(actuator);
        Ok(acting)
    }

    fn make(&self, kind: Kind, collector: Option<&Collector>) -> Result<Box<dyn Actuator>> {
        match kind {
            Kind::Scx => {
                ensure!(
                    Path::new(EXT).exists(),
                    "this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT): use --actuator fair, \
                     or a kernel that has it"
                );
                let Some(collector) = collector else {
                    bail!("sched_ext needs the collection, which did not load");
                };
                let options = ScxOptions {
                    background_share: u32::from(self.background_share),
                    wake: self.wake,
                    ..ScxOptions::default()
                };
                Ok(Box::new(Scx::load(collector, &options)?))
            }
            Kind::Fair => {
                let background_share = self.background_share.into();
                Ok(Box::new(Fair::start(FairOptions { background_share, ..FairOptions::default() })?))
            }
        }
    }

    /// Applies the verdicts through the actuator.
    pub fn apply(&mut self, verdicts: &[Verdict]) {
        let Some(actuator) = &mut self.actuator else { return };
        self.trouble = actuator.apply(verdicts).err().map(|error| format!("{}: {error:#}", actuator.name()));
    }

    /// Sets or removes (`None`) a manual override.
    ///
    /// # Errors
    /// If there is no actuator, or it cannot do this.
    pub fn set_by_hand(&mut self, tgid: Tgid, class: Option<Class>) -> Result<()> {
        match &mut self.actuator {
            Some(actuator) => actuator.set_by_hand(tgid, class),
            None if self.is_observing => bail!("the daemon only looks (--observe-only): it moves nobody"),
            None => {
                bail!("nothing acts at present: the kernel took the scheduler out (see `spry sched status`)")
            }
        }
    }

    /// The enforcer of reservations that goes with the actuator; `None` if there is none.
    pub fn enforcer(&self) -> Option<Box<dyn Enforcer>> {
        self.actuator.as_ref()?.enforcer()
    }

    /// Checks whether the actuator still acts. If not, plans a retry or starts another actuator. Returns
    /// messages for the user.
    pub fn check(
        &mut self,
        collector: Option<&Collector>,
        by_hand: &ManualOverrides,
        now_ns: u64,
    ) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(actuator) = &mut self.actuator {
            if let Health::Ejected(reason) = actuator.health() {
                said.push(format!(
                    "the kernel took the scheduler out: {reason}; tasks are with the kernel's own"
                ));
                self.actuator = None;
                self.ejections += 1;
                self.changes += 1;
                self.ejected = Some((now_ns, reason));
                said.extend(self.after_failure(collector, by_hand, self.since_ns, now_ns));
            }
        }
        if self.actuator.is_none() && self.retry.is_due(now_ns) {
            match self.make(Kind::Scx, collector) {
                Ok(actuator) => {
                    self.take_charge(actuator, by_hand, now_ns);
                    said.push("sched_ext is in charge again".to_owned());
                }
                Err(error) => {
                    said.push(format!("cannot be in charge again: {error:#}"));
                    said.extend(self.after_failure(collector, by_hand, now_ns, now_ns));
                }
            }
        }
        said
    }

    fn after_failure(
        &mut self,
        collector: Option<&Collector>,
        by_hand: &ManualOverrides,
        since_ns: u64,
        now_ns: u64,
    ) -> Option<String> {
        self.since_ns = now_ns;
        match (self.retry.failed(since_ns, now_ns), self.wanted) {
            (NextStep::TryAt(_), _) => None,
            (NextStep::GiveUp, ActuatorArg::Auto) => Some(match self.make(Kind::Fair, collector) {
                Ok(actuator) => {
                    self.take_charge(actuator, by_hand, now_ns);
                    "it failed too often: going on through what every kernel has".to_owned()
                }
                Err(error) => format!("it failed too often, and nothing else can act: {error:#}"),
            }),
            (NextStep::GiveUp, _) => Some("it failed too often: not trying again".to_owned()),
        }
    }

    fn take_charge(&mut self, mut actuator: Box<dyn Actuator>, by_hand: &ManualOverrides, now_ns: u64) {
        for (tgid, hand) in by_hand.all() {
            if let Err(error) = actuator.set_by_hand(tgid, Some(hand.class)) {
                self.trouble =
                    Some(format!("process {} could not be given its class again: {error:#}", tgid.0));
            }
        }
        if self.knobs != Knobs::default() {
            if let Err(error) = actuator.tune(self.knobs) {
                self.trouble = Some(format!("tick and quanta could not be turned again: {error:#}"));
            }
        }
        self.actuator = Some(actuator);
        self.since_ns = now_ns;
        self.changes += 1;
    }

    /// Removes the manual override of a process that has exited.
    pub fn forget_hand(&mut self, tgid: Tgid) {
        if let Some(actuator) = &mut self.actuator {
            actuator.forget_hand(tgid);
        }
    }

    /// Number of changes of the actuator.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// The actuator's name: `scx`, `fair`, or `none`.
    pub fn name(&self) -> &'static str {
        self.actuator.as_ref().map_or("none", |actuator| actuator.name())
    }

    /// Whether the daemon acts, only observes, or has lost its actuator.
    pub const fn state(&self) -> State {
        match (&self.actuator, self.is_observing) {
            (_, true) => State::Observing,
            (Some(_), _) => State::Acting,
            (None, _) => State::Ejected,
        }
    }

    /// The actuator's part of the status.
    pub fn account(&self, now_ns: u64) -> spry_control::ActingStatus {
        let ago_s = |then_ns: u64| now_ns.saturating_sub(then_ns) as f64 / 1e9;
        spry_control::ActingStatus {
            state: self.state(),
            since_s: ago_s(self.since_ns),
            ejections: self.ejections,
            ejected: self
                .ejected
                .as_ref()
                .map(|(at_ns, reason)| Ejection { ago_s: ago_s(*at_ns), reason: reason.clone() }),
            retry_in_s: self.retry.due_ns().map(|due_ns| due_ns.saturating_sub(now_ns) as f64 / 1e9),
        }
    }

    /// Sets the tick and the quantum of OTHER; `None` restores the scheduler's own.
    ///
    /// # Errors
    /// If there is no actuator, or it cannot set them.
    pub fn tune(&mut self, tuning: Option<Tuning>) -> Result<()> {
        self.turn(Knobs { tuning, ..self.knobs })
    }

    /// Sets the quantum of another class; `None` restores the scheduler's own.
    ///
    /// # Errors
    /// If there is no actuator, or it cannot set it.
    pub fn tune_class(&mut self, class: QuantumClass, quantum: Option<QuantumUs>) -> Result<()> {
        self.turn(Knobs { quanta: self.knobs.quanta.with(class, quantum), ..self.knobs })
    }

    fn turn(&mut self, knobs: Knobs) -> Result<()> {
        match &mut self.actuator {
            Some(actuator) => actuator.tune(knobs)?,
            None if self.is_observing => bail!("the daemon only looks (--observe-only): it turns no knobs"),
            None => {
                bail!("nothing acts at present: the kernel took the scheduler out (see `spry sched status`)")
            }
        }
        self.knobs = knobs;
        Ok(())
    }

    /// The tick and the quanta that are set.
    pub fn knobs(&self) -> Knobs {
        self.actuator.as_ref().map(|actuator| actuator.knobs()).unwrap_or_default()
    }

    /// The counts of each CPU's callbacks while a tick was set; `None` if the actuator has no tick.
    pub fn ticks(&self) -> Option<Vec<TickCount>> {
        self.actuator.as_ref()?.ticks()
    }

    /// The longest time for which the actuator's housekeeping in the kernel has occupied a CPU, ns.
    pub fn housekeeping_ns_longest(&self) -> Option<u64> {
        self.actuator.as_ref()?.housekeeping_ns_longest()
    }

    /// Warnings for the user about the actuator.
    pub fn warnings(&self) -> Vec<String> {
        let actuators = self.actuator.iter().flat_map(|actuator| actuator.warnings());
        self.trouble.iter().cloned().chain(actuators).collect()
    }
}
