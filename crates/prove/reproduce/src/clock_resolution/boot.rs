//! One cell of the study: the job of the virtual machine, and its measurement.

use std::collections::BTreeMap;

use serde_json::Value;
use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Outcome};

use super::sorts::{Generation, PROCESSES, SORTS, Sorting};
use super::{BootMeasurement, Case, Cell, System};
use crate::boots::Boots;
use crate::ends::GuestResults;
use crate::error::Error;

/// The scenario of alarms.
const ALARMS: &str = include_str!("../../../../../scenarios/alarms.toml");
/// The scenario of sorting.
const SORTING: &str = include_str!("../../../../../scenarios/sorts.toml");
/// The scenario's place in the guest.
const PLACE: &str = "/spry/scenario.toml";
/// The file with each signal's latency.
const TIMES: &str = "times.json";
/// The file with the run's metrics.
const RUN: &str = "run.json";
/// How much longer than the alarms the boot may take, seconds of the guest's time.
const AROUND_S: u32 = 120;

/// A cell: one boot of a system.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    pub(super) system: &'static System,
    pub(super) what: What,
    pub(super) seed: u64,
}

/// The object of a cell's measurement.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Alarms {
        case: &'static Case,
        /// How many alarms each process sets; each alarm takes half a second on average.
        alarms: u32,
    },
    Sorts {
        generation: &'static Generation,
        /// How long the sorted numbers are counted, seconds of the guest's time.
        seconds: u32,
    },
}

/// The parts of a system's machine.
pub(super) fn spec(system: &System) -> Result<MachineSpec, Error> {
    Ok(MachineSpec { kernel: system.kernel.parse()?, ..MachineSpec::default() })
}

impl Boots for Boot {
    type Cell = BootMeasurement;

    fn name(&self) -> String {
        format!("{}, {}, seed {}", self.system.key, self.what.key(), self.seed)
    }
}

impl What {
    /// The name of the measurement, for files and messages.
    fn key(&self) -> String {
        match self {
            What::Alarms { case, .. } => case.key(),
            What::Sorts { generation, .. } => format!("{SORTS}-{}", generation.key),
        }
    }

    fn seconds(&self) -> u32 {
        match self {
            What::Alarms { alarms, .. } => alarms.div_ceil(2),
            What::Sorts { seconds, .. } => *seconds,
        }
    }

    /// The power of 2 for the time of an instruction, ns.
    fn shift(&self) -> u8 {
        match self {
            What::Alarms { .. } => 0,
            What::Sorts { generation, .. } => generation.shift,
        }
    }

    /// The text of the scenario that is played.
    fn scenario(&self) -> &'static str {
        match self {
            What::Alarms { .. } => ALARMS,
            What::Sorts { .. } => SORTING,
        }
    }

    /// The scenario's variables that only this kind of cell has, and the runner's arguments.
    fn own(&self) -> (Vec<String>, Vec<String>) {
        match self {
            What::Alarms { case, .. } => (
                vec![
                    format!("kind={}", case.kind),
                    format!("n={}", case.n),
                    format!("stressers={}", case.loops),
                ],
                vec!["--times".to_owned(), format!("latency_ns=/results/{TIMES}")],
            ),
            What::Sorts { .. } => (vec![format!("n={PROCESSES}")], Vec::new()),
        }
    }
}

impl Boot {
    /// The name of the cell's file.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}-seed{}", self.system.key, self.what.key(), self.seed)
    }

    /// The text of the scenario, on which results depend.
    pub(super) fn scenario(&self) -> &'static str {
        self.what.scenario()
    }

    /// The command that plays the scenario in the guest.
    pub(super) fn argv(&self) -> Vec<String> {
        let (mut sets, own) = self.what.own();
        sets.push(format!("quantum_ms={}", self.system.quantum_ms));
        sets.push(format!("seconds={}", self.what.seconds()));
        let mut argv = ["spry-runner", "run", "--scenario", PLACE].map(str::to_owned).to_vec();
        sets.into_iter().for_each(|set| argv.extend(["--set".to_owned(), set]));
        argv.extend(["--seed".to_owned(), self.seed.to_string()]);
        argv.extend(["--work".to_owned(), format!("instructions:{}", self.what.shift())]);
        argv.extend(own);
        argv.extend(["--out".to_owned(), format!("/results/{RUN}")]);
        argv
    }

    /// The job of the virtual machine.
    pub(super) fn job(&self) -> Job {
        let limit_s = self.what.seconds() + AROUND_S;
        let scenario = FileSource::Bytes(self.scenario().as_bytes().to_vec());
        Job {
            shift: self.what.shift(),
            seed: self.seed,
            files: BTreeMap::from([(PLACE.to_owned(), scenario)]),
            commands: vec![GuestCommand { argv: self.argv(), env: Vec::new(), limit_s }],
            // A second of a guest with a fast tick takes a few seconds of this machine.
            cpu_limit_s: 300 + 10 * u64::from(limit_s),
            ..Job::default()
        }
    }

    /// The guest's measurement.
    ///
    /// # Errors
    /// If the guest did not finish, or no signal came and nothing was sorted; the error has the
    /// guest's output.
    pub(super) fn cell(&self, outcome: &Outcome) -> Result<BootMeasurement, Error> {
        let left = GuestResults::of(outcome, "spry-runner: ")?;
        let (system, seed) = (self.system.key.to_owned(), self.seed);
        match self.what {
            What::Alarms { case, .. } => {
                let late_ns: Vec<u64> = left.json(TIMES)?;
                if late_ns.is_empty() {
                    let words = "no alarm came within the time: ask for more (--alarms)";
                    return Err(Error::Guest(words.to_owned()));
                }
                Ok(BootMeasurement::Alarms(Cell { system, case: case.key(), seed, late_ns }))
            }
            What::Sorts { generation, seconds } => {
                let run: Value = left.json(RUN)?;
                let numbers = run["metrics"]["numbers_sorted"].as_u64().filter(|&numbers| numbers > 0);
                let numbers = numbers.ok_or_else(|| left.lacks("sorted number"))?;
                let generation = generation.key.to_owned();
                Ok(BootMeasurement::Sorts(Sorting { system, generation, seed, numbers, seconds }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock_resolution::{CASES, GENERATIONS, SYSTEMS};

    #[test]
    fn a_cell_plays_the_scenario_with_its_case_and_its_quantum() {
        let case = CASES.iter().find(|case| case.key() == "4-1-8cpu").expect("it is there");
        let boot = Boot { system: &SYSTEMS[1], what: What::Alarms { case, alarms: 81 }, seed: 3 };
        let job = boot.job();
        let words = job.commands[0].argv.join(" ");
        for part in ["kind=4%", "n=1", "stressers=8", "quantum_ms=0.1", "seconds=41", "--seed 3"] {
            assert!(words.contains(part), "{words}");
        }
        assert!(job.cmdline.is_empty() && job.files.contains_key(PLACE));
        assert_eq!(boot.file_name(), "fast-4-1-8cpu-seed3");
    }

    #[test]
    fn an_older_processor_is_a_slower_machine_and_another_file() {
        let boot = |generation| {
            let what = What::Sorts { generation, seconds: 5 };
            Boot { system: &SYSTEMS[0], what, seed: 1 }
        };
        let [older, newer] = GENERATIONS.each_ref().map(boot);
        assert_eq!((older.job().shift, newer.job().shift), (1, 0));
        assert_eq!(
            (older.file_name(), newer.file_name()),
            ("base-sort-8-older-seed1".to_owned(), "base-sort-8-newer-seed1".to_owned())
        );
        assert_ne!(older.argv(), newer.argv());
    }

    #[test]
    fn each_case_is_one_that_the_scenario_takes() {
        for system in &SYSTEMS {
            let alarms = CASES.iter().map(|case| What::Alarms { case, alarms: 500 });
            let sorts = GENERATIONS.iter().map(|generation| What::Sorts { generation, seconds: 5 });
            for what in alarms.chain(sorts) {
                let boot = Boot { system, what, seed: 1 };
                let argv = boot.argv();
                let sets = argv.windows(2).filter(|pair| pair[0] == "--set");
                let sets: Vec<(String, String)> = sets
                    .map(|pair| pair[1].split_once('=').expect("an assignment"))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                let scenario = spry_scenario::model::Scenario::parse_with(boot.scenario(), "x.toml", &sets);
                let scenario = scenario.unwrap_or_else(|mistake| panic!("{mistake}"));
                let quantum_us = if system.key == "base" { 60_000 } else { 100 };
                assert_eq!(scenario.machine.rr_quantum_us, Some(quantum_us));
            }
        }
    }
}
