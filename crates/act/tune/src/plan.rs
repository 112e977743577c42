//! The settings that fulfil a wish on this kernel, decided before anything is set.

use spry_setting::Setting;

use crate::error::TuneError;
use crate::kernel::{self, Ends, Kernel, SliceTrial};
use crate::wish::{Class, Reach, Wish};

/// A slice of a command, and of the tasks that it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The slice of this process, ns.
    pub before_ns: u64,
    /// The slice that the command gets, ns.
    pub now_ns: u64,
}

/// The settings that fulfil a wish.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The slice of the command. The command takes it itself, between fork and exec.
    pub slice: Option<Slice>,
    /// The settings of the machine, in the order in which they are made.
    pub settings: Vec<Setting>,
    /// The quantum that round-robin tasks must have afterwards, us.
    pub(crate) round_robin_us: Option<u64>,
    /// The requested tick rate, if it is the rate that the kernel was built with, Hz. Nothing is set for it.
    pub tick_hz: Option<u64>,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
}

impl Plan {
    /// Decides which settings fulfil a wish. Changes nothing.
    ///
    /// # Errors
    /// If this kernel cannot do it; the error gives the reason, and what the user can do.
    pub fn of(wish: &Wish, kernel: &Kernel) -> Result<Plan, TuneError> {
        let mut plan = Plan::default();
        if let Some(asked_hz) = wish.tick_hz {
            let own_hz = kernel::own_tick_hz();
            if asked_hz != own_hz {
                return Err(TuneError::FixedTick { asked_hz, own_hz });
            }
            plan.tick_hz = Some(own_hz);
        }
        match (wish.quantum_us, wish.class, wish.reach) {
            (None, _, _) => {}
            (Some(_), Class::RoundRobin, Reach::Machine) => return Err(TuneError::AllRoundRobin),
            (Some(quantum_us), Class::RoundRobin, Reach::Command) => {
                plan.settings.push(kernel.round_robin(quantum_us)?);
                plan.round_robin_us = Some(quantum_us);
            }
            (Some(quantum_us), Class::Fair, reach) => plan.fair(quantum_us, reach, kernel)?,
        }
        Ok(plan)
    }

    fn fair(&mut self, quantum_us: u64, reach: Reach, kernel: &Kernel) -> Result<(), TuneError> {
        if let Some(scheduler) = kernel.sched_ext_scheduler() {
            return Err(TuneError::SchedExt(scheduler));
        }
        match reach {
            Reach::Command => self.slice = Some(slice(quantum_us, kernel::try_slice(quantum_us * 1000)?)?),
            Reach::Machine => self.settings.push(kernel.base_slice(quantum_us)),
        }
        let (is_short, tick_us) = (quantum_us < kernel::tick_us(), kernel::tick_us());
        match kernel.ends() {
            Ends::OnTime => {}
            Ends::With(setting) => self.settings.push(setting),
            Ends::AtTicks(why) if is_short => return Err(TuneError::Tick { quantum_us, tick_us, why }),
            Ends::AtTicks(why) => {
                self.notes.push(format!("slices end at this kernel's ticks, one every {tick_us} us: {why}"));
            }
            Ends::Unknown(why) => {
                self.notes
                    .push(format!("{why}: where it is off, slices end at ticks, one every {tick_us} us"));
            }
        }
        Ok(())
    }
}

/// The slice of the command, if the kernel gives the quantum that is asked for.
fn slice(quantum_us: u64, tried: SliceTrial) -> Result<Slice, TuneError> {
    match tried.given_ns {
        0 => Err(TuneError::NoSlices),
        given if given == quantum_us * 1000 => Ok(Slice { before_ns: tried.before_ns, now_ns: given }),
        // A kernel without slices of single tasks reports the machine's slice.
        given if given == tried.before_ns => Err(TuneError::NoSlices),
        given => Err(TuneError::OtherSlice { asked_us: quantum_us, given_us: given / 1000 }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const WISH: Wish =
        Wish { quantum_us: Some(3000), tick_hz: None, class: Class::Fair, reach: Reach::Machine };

    fn kernel(features: &str) -> (tempfile::TempDir, Kernel) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        fs::write(path.join("features"), features).expect("it can be written");
        let kernel =
            Kernel { sched: path.clone(), sysctl: path.clone(), sched_ext: path.clone(), state: path };
        (dir, kernel)
    }

    #[test]
    fn a_slice_is_what_the_kernel_gives_or_an_error() {
        let tried = |given_ns| slice(50, SliceTrial { before_ns: 700_000, given_ns });
        assert_eq!(tried(50_000).ok(), Some(Slice { before_ns: 700_000, now_ns: 50_000 }));
        assert!(matches!(tried(0), Err(TuneError::NoSlices)));
        assert!(matches!(tried(700_000), Err(TuneError::NoSlices)));
        let said = tried(100_000).expect_err("it is another one").to_string();
        assert!(said.contains("50 us is 100 us") && said.contains("--all"), "{said}");
    }

    #[test]
    fn the_machine_s_slice_comes_with_hrtick_where_that_is_off() {
        let (_dir, kernel) = kernel("NO_HRTICK");
        let plan = Plan::of(&WISH, &kernel).expect("it can be");
        let values: Vec<&str> = plan.settings.iter().map(|setting| setting.value.as_str()).collect();
        assert_eq!((values, plan.slice, plan.notes.len()), (vec!["3000000", "HRTICK"], None, 0));
    }

    #[test]
    fn a_slice_under_a_tick_needs_hrtick() {
        let (_dir, kernel) = kernel("NOTHING");
        let short = Wish { quantum_us: Some(50), ..WISH };
        let said = Plan::of(&short, &kernel).expect_err("it would end at a tick").to_string();
        assert!(said.contains("no HRTICK") && said.lines().count() == 1, "{said}");
        let long = Wish { quantum_us: Some(100_000), ..WISH };
        assert_eq!(Plan::of(&long, &kernel).expect("it can be").notes.len(), 1);
    }

    #[test]
    fn a_tick_is_the_kernel_s_own_or_an_error_with_a_way_out() {
        let (_dir, kernel) = kernel("HRTICK");
        let own = kernel::own_tick_hz();
        let wish = |hz| Wish { quantum_us: None, tick_hz: Some(hz), ..WISH };
        let plan = Plan::of(&wish(own), &kernel).expect("it is so already");
        assert_eq!((plan.tick_hz, plan.settings.len()), (Some(own), 0));
        let said = Plan::of(&wish(20_000 - u64::from(own == 20_000)), &kernel).expect_err("it is fixed");
        let said = said.to_string();
        assert!(said.contains(&format!("{own} times")) && said.contains("--quantum-us 50 --all"), "{said}");
    }

    #[test]
    fn round_robin_has_one_quantum_for_the_machine() {
        let (_dir, kernel) = kernel("HRTICK");
        let wish = |reach| Wish { class: Class::RoundRobin, reach, ..WISH };
        let plan = Plan::of(&wish(Reach::Command), &kernel).expect("it can be");
        assert_eq!((plan.settings.len(), plan.round_robin_us, plan.slice), (1, Some(3000), None));
        let refused = Plan::of(&wish(Reach::Machine), &kernel).expect_err("there is but one");
        assert!(refused.is_wrong_usage());
    }

    #[test]
    fn a_sched_ext_scheduler_has_slices_of_its_own() {
        let (dir, kernel) = kernel("HRTICK");
        fs::write(dir.path().join("state"), "enabled").expect("it can be written");
        assert!(matches!(Plan::of(&WISH, &kernel), Err(TuneError::SchedExt(_))));
        let robin = Wish { class: Class::RoundRobin, reach: Reach::Command, ..WISH };
        assert!(Plan::of(&robin, &kernel).is_ok());
    }
}
