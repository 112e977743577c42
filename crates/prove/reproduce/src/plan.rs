//! The cells that the thesis' figures need.

use spry_experiment::scheduler::SchedulerSpec;
use spry_experiment::{Plan, Vary};

use crate::application::{Application, OPENOFFICE};

/// The numbers of CPU hogs in the thesis, and in a quick study.
const STRESSERS: [u32; 6] = [0, 1, 2, 4, 6, 8];
const STRESSERS_QUICK: [u32; 3] = [0, 1, 8];

/// The numbers of CPU hogs beside the applications. Each application is measured alone in any case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loads {
    /// The thesis' numbers.
    Thesis,
    /// Fewer loads, and also the loads that the thesis names for an application. The slowest application is
    /// measured alone.
    Quick,
    /// The numbers in this list.
    These(Vec<u32>),
}

impl Loads {
    /// The numbers of CPU hogs in ascending order.
    pub fn all(&self) -> Vec<u32> {
        let mut loads = match self {
            Loads::Thesis => STRESSERS.to_vec(),
            Loads::Quick => STRESSERS_QUICK.to_vec(),
            Loads::These(loads) => loads.clone(),
        };
        loads.push(0);
        loads.sort_unstable();
        loads.dedup();
        loads
    }

    /// The numbers of CPU hogs with which an application is measured.
    pub fn of(&self, application: &Application) -> Vec<u32> {
        let wanted = match self {
            Loads::Quick if application.key == OPENOFFICE.key => Vec::new(),
            Loads::Quick => [self.all().as_slice(), application.named].concat(),
            Loads::Thesis | Loads::These(_) => self.all(),
        };
        application.beside.stressers(&wanted)
    }
}

/// Whether a cell's trace is kept after the values for the figures were taken from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traces {
    /// The trace stays in the study's directory.
    Kept,
    /// The trace is removed.
    Removed,
}

/// The selection of applications, loads and schedulers that are measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// The schedulers; the first scheduler stands for the original scheduler of the thesis.
    pub schedulers: Vec<SchedulerSpec>,
    /// The number of seeds. Each cell is run with the seeds from 1 to this number.
    pub seeds: u64,
    /// The applications, in the order in which they are measured.
    pub applications: Vec<&'static Application>,
    /// The loads beside the applications.
    pub loads: Loads,
    /// How many CPUs the machine has. The thesis' machine had one.
    pub cpus: u32,
    /// Whether traces are kept.
    pub traces: Traces,
    /// How many cells run side by side; `None`: as many as the machine can.
    pub jobs: Option<usize>,
}

impl Request {
    /// The number of all cells.
    pub fn cells(&self) -> usize {
        let loads = self.applications.iter().map(|application| self.loads.of(application).len());
        loads.sum::<usize>() * self.schedulers.len() * self.seeds as usize
    }

    /// The cells of one application.
    pub(crate) fn plan(&self, application: &Application) -> Plan {
        let loads: Vec<String> = self.loads.of(application).iter().map(ToString::to_string).collect();
        let sets = application.sets.iter().map(|(key, value)| format!("{key}={value}"));
        // The scenarios themselves name one CPU, so only another number must be set.
        let cpus = (self.cpus > 1).then(|| format!("cpus={}", self.cpus));
        let vary = sets.chain(cpus).chain([format!("stressers={}", loads.join(","))]);
        let vary = vary.map(|text| text.parse::<Vary>().expect("each has values, and none twice"));
        Plan { schedulers: self.schedulers.clone(), vary: vary.collect(), seeds: self.seeds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{ALL, EMACS, LOOP, MPLAYER};

    fn request(loads: Loads) -> Request {
        let schedulers = ["eevdf", "fifo"].map(|name| name.parse().unwrap()).into();
        let (applications, traces) = (ALL.into(), Traces::Removed);
        Request { schedulers, seeds: 1, applications, loads, cpus: 1, traces, jobs: None }
    }

    #[test]
    fn there_are_as_many_cells_as_the_help_says() {
        assert_eq!(request(Loads::Quick).cells(), 38);
        assert_eq!(request(Loads::Thesis).cells(), 66);
    }

    #[test]
    fn a_quick_look_measures_the_slowest_application_alone_only() {
        assert_eq!(Loads::These(vec![8, 2, 2]).of(&EMACS), [0, 2, 8]);
        assert_eq!(Loads::Quick.of(&OPENOFFICE), [0]);
        assert_eq!(Loads::Quick.of(&MPLAYER), [0, 1, 4, 6, 8]);
        assert_eq!(Loads::These(vec![8]).of(&MPLAYER), [0, 8]);
        assert_eq!(Loads::Thesis.of(&LOOP), [1]);
    }

    #[test]
    fn a_machine_of_several_cpus_is_asked_for() {
        let words = |request: &Request| {
            let plan = request.plan(&EMACS);
            plan.vary.iter().map(|vary| (vary.key().to_owned(), vary.values().len())).collect::<Vec<_>>()
        };
        let one = request(Loads::Quick);
        assert_eq!(words(&one), [("stressers".to_owned(), 3)]);
        let two = Request { cpus: 2, ..one };
        assert_eq!(words(&two), [("cpus".to_owned(), 1), ("stressers".to_owned(), 3)]);
    }
}
