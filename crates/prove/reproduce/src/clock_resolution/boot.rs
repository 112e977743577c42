//! One cell of the study: the job of the virtual machine, and what it measured.

use std::collections::BTreeMap;

use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Outcome};

use super::{Case, Cell, System};
use crate::boots::Boots;
use crate::error::Error;

/// The scenario that is played.
const SCENARIO: &str = include_str!("../../../../../scenarios/alarms.toml");
/// The scenario's place in the guest.
const PLACE: &str = "/spry/alarms.toml";
/// The file with each signal's latency.
const TIMES: &str = "times.json";
/// How much longer than the alarms the boot may take, seconds of the guest's time.
const AROUND_S: u32 = 120;

/// A cell: one boot of a system with a case.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    pub(super) system: &'static System,
    pub(super) case: &'static Case,
    pub(super) seed: u64,
    /// How many alarms each process sets; it takes half a second for each in the mean.
    pub(super) alarms: u32,
}

/// The parts of which a system's machine is made.
pub(super) fn spec(system: &System) -> Result<MachineSpec, Error> {
    Ok(MachineSpec { kernel: system.kernel.parse()?, ..MachineSpec::default() })
}

impl Boots for Boot {
    type Cell = Cell;

    fn name(&self) -> String {
        format!("{}, {}, seed {}", self.system.key, self.case.key(), self.seed)
    }
}

impl Boot {
    /// The name of the cell's file.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}-seed{}", self.system.key, self.case.key(), self.seed)
    }

    fn seconds(&self) -> u32 {
        self.alarms.div_ceil(2)
    }

    /// The command that plays the scenario in the guest.
    pub(super) fn argv(&self) -> Vec<String> {
        let sets = [
            format!("kind={}", self.case.kind),
            format!("n={}", self.case.n),
            format!("stressers={}", self.case.loops),
            format!("quantum_ms={}", self.system.quantum_ms),
            format!("seconds={}", self.seconds()),
        ];
        let mut argv = ["spry-runner", "run", "--scenario", PLACE].map(str::to_owned).to_vec();
        sets.into_iter().for_each(|set| argv.extend(["--set".to_owned(), set]));
        argv.extend(["--seed".to_owned(), self.seed.to_string()]);
        argv.extend(["--work", "instructions:0"].map(str::to_owned));
        argv.extend(["--times".to_owned(), format!("latency_ns=/results/{TIMES}")]);
        argv.extend(["--out", "/results/run.json"].map(str::to_owned));
        argv
    }

    /// The job of the virtual machine.
    pub(super) fn job(&self) -> Job {
        let limit_s = self.seconds() + AROUND_S;
        let scenario = FileSource::Bytes(SCENARIO.as_bytes().to_vec());
        Job {
            seed: self.seed,
            files: BTreeMap::from([(PLACE.to_owned(), scenario)]),
            commands: vec![GuestCommand { argv: self.argv(), env: Vec::new(), limit_s }],
            // A second of a guest with a fast tick takes a few seconds of this machine.
            cpu_limit_s: 300 + 10 * u64::from(limit_s),
            ..Job::default()
        }
    }

    /// What the guest measured.
    ///
    /// # Errors
    /// If the guest did not finish, or no signal came; the error has what the guest said.
    pub(super) fn cell(&self, outcome: &Outcome) -> Result<Cell, Error> {
        let text = |file: &str| {
            outcome.files.get(file).map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default()
        };
        let said = || text("0.stderr").trim().replace("spry-runner: ", "");
        match outcome.commands.first().and_then(|ended| ended.exit) {
            Some(0) => {}
            exit => return Err(Error::Guest(format!("in the guest (exit {exit:?}): {}", said()))),
        }
        let late_ns: Vec<u64> = serde_json::from_str(&text(TIMES))
            .map_err(|_| Error::Guest(format!("the guest left no {TIMES}: {}", said())))?;
        if late_ns.is_empty() {
            return Err(Error::Guest("no alarm came within the time: ask for more (--alarms)".to_owned()));
        }
        let (system, case) = (self.system.key.to_owned(), self.case.key());
        Ok(Cell { system, case, seed: self.seed, late_ns })
    }
}

/// The text of the scenario, on which results depend.
pub(super) const fn scenario() -> &'static str {
    SCENARIO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock_resolution::{CASES, SYSTEMS};

    #[test]
    fn a_cell_plays_the_scenario_with_its_case_and_its_quantum() {
        let case = CASES.iter().find(|case| case.key() == "4-1-8cpu").expect("it is there");
        let boot = Boot { system: &SYSTEMS[1], case, seed: 3, alarms: 81 };
        let job = boot.job();
        let words = job.commands[0].argv.join(" ");
        for part in ["kind=4%", "n=1", "stressers=8", "quantum_ms=0.1", "seconds=41", "--seed 3"] {
            assert!(words.contains(part), "{words}");
        }
        assert!(job.cmdline.is_empty() && job.files.contains_key(PLACE));
        assert_eq!(boot.file_name(), "fast-4-1-8cpu-seed3");
    }

    #[test]
    fn each_case_is_one_that_the_scenario_takes() {
        for system in &SYSTEMS {
            for case in &CASES {
                let boot = Boot { system, case, seed: 1, alarms: 500 };
                let argv = boot.argv();
                let sets = argv.windows(2).filter(|pair| pair[0] == "--set");
                let sets: Vec<(String, String)> = sets
                    .map(|pair| pair[1].split_once('=').expect("an assignment"))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                assert_eq!(sets.len(), 5);
                let scenario = spry_scenario::model::Scenario::parse_with(scenario(), "alarms.toml", &sets);
                let scenario = scenario.unwrap_or_else(|mistake| panic!("{mistake}"));
                let quantum_us = if system.key == "base" { 60_000 } else { 100 };
                assert_eq!(scenario.machine.rr_quantum_us, Some(quantum_us));
            }
        }
    }
}
