//! Runs the cells of the study, each in a boot of its own, and writes the results.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spry_experiment::{Stop, digest, programs};
use spry_lab::{Event, Lab, LabMachine, Progress, Variant, digest_of_file};

use super::boot::{Boot, What, spec};
use super::{BootMeasurement, Case, Generation, SORTS, Study, System, figures, json as report, page, text};
use crate::boots::{self, BootStudy, Shortfall, StudyProgress};
use crate::directory::{Directory, KeptCell};
use crate::draw;
use crate::error::Error;
use crate::written::StudyTexts;

/// Spry's programs in a guest. If one of them changes, all cells are measured anew.
const PROGRAMS: [&str; 2] = ["spry-guest", "spry-runner"];

/// The selection of the paper's measurements that are repeated.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernels with their quanta.
    pub systems: Vec<&'static System>,
    /// The cases of table 6 and figure 7.
    pub cases: Vec<&'static Case>,
    /// The processors of figure 8.
    pub generations: Vec<&'static Generation>,
    /// The number of seeds. Each cell is run with the seeds from 1 to this number.
    pub seeds: u64,
    /// How many alarms each process sets. A cell takes half a second of the guest's time for each.
    pub alarms: u32,
    /// How long the sorted numbers of figure 8 are counted, seconds of the guest's time, from 1.
    pub sort_s: u32,
    /// How many virtual machines run side by side; `None`: as many as this machine can have.
    pub jobs: Option<usize>,
}

impl Request {
    /// All cells: every case and every processor on every system, first with the first seed.
    fn boots(&self) -> Vec<Boot> {
        let alarms = self.cases.iter().map(|&case| What::Alarms { case, alarms: self.alarms });
        let sorts =
            self.generations.iter().map(|&generation| What::Sorts { generation, seconds: self.sort_s });
        let whats: Vec<What> = alarms.chain(sorts).collect();
        let mut boots = Vec::new();
        for seed in 1..=self.seeds {
            for &what in &whats {
                boots.extend(self.systems.iter().map(|&system| Boot { system, what, seed }));
            }
        }
        boots
    }
}

/// The lab with everything that a cell needs.
#[derive(Debug)]
pub struct Laboratory {
    lab: Lab,
    /// The prepared machines, by the systems' keys.
    machines: BTreeMap<&'static str, LabMachine>,
    /// The hashes of the programs on which results depend.
    programs: BTreeMap<String, String>,
}

impl BootStudy for Laboratory {
    type Request = Request;
    type Cell = BootMeasurement;

    const NAME: &'static str = "clock-resolution";

    fn open(request: &Request, lab: Lab, progress: &dyn Progress, stop: &Stop) -> Result<Laboratory, Error> {
        all_built(&request.systems, &lab.built_kernels())?;
        let mut programs = BTreeMap::new();
        for name in PROGRAMS {
            programs.insert(name.to_owned(), digest_of_file(&programs::own(name)?)?);
        }
        let mut machines = BTreeMap::new();
        for system in &request.systems {
            machines.insert(system.key, lab.prepare(&spec(system)?, progress, stop)?);
        }
        Ok(Laboratory { lab, machines, programs })
    }

    fn measure(
        &self,
        request: &Request,
        directory: &Directory,
        stop: &Stop,
        tell: &mut dyn FnMut(StudyProgress<'_, BootMeasurement>),
    ) -> (Vec<BootMeasurement>, Shortfall) {
        let kept = |boot: &Boot| directory.kept(&boot.file_name(), &self.inputs(boot));
        let run = |boot: &Boot| self.boot(boot, directory, stop);
        boots::measure(&request.boots(), request.jobs, stop, &kept, &run, tell)
    }

    fn write(
        &self,
        request: &Request,
        directory: &Directory,
        (cells, undone): (Vec<BootMeasurement>, &Shortfall),
        command: &str,
    ) -> Result<StudyTexts, Error> {
        let study = &cells.into_iter().collect::<Study>();
        for topic in &figures::all(study) {
            for (number, _) in &topic.figures {
                directory.put(&format!("figure-{number}.svg"), &draw::file(topic, number))?;
            }
        }
        let releases: Vec<(&str, &str)> = self
            .machines
            .iter()
            .map(|(system, machine)| (*system, machine.kernel.release.as_str()))
            .collect();
        let summary = text(study, &releases, undone);
        let mut results = report(study, undone);
        let machines: BTreeMap<&str, _> =
            self.machines.iter().map(|(system, machine)| (*system, machine.inputs())).collect();
        if let Value::Object(object) = &mut results {
            let cells = json!([object["cells"], object["sorts"]]);
            object.insert("digest".to_owned(), json!(digest::of_json(&cells)));
            object.insert("seeds".to_owned(), json!(request.seeds));
            object.insert("alarms".to_owned(), json!(request.alarms));
            object.insert("sort_s".to_owned(), json!(request.sort_s));
            object.insert("kernels".to_owned(), releases.iter().copied().collect());
            object.insert("inputs".to_owned(), json!({ "machines": machines, "programs": self.programs }));
        }
        StudyTexts::put(directory, &page(study, &releases, undone, command), summary, &results)
    }

    fn name(cell: &BootMeasurement) -> String {
        match cell {
            BootMeasurement::Alarms(cell) => format!("{}, {}, seed {}", cell.system, cell.case, cell.seed),
            BootMeasurement::Sorts(cell) => {
                format!("{}, {SORTS}-{}, seed {}", cell.system, cell.generation, cell.seed)
            }
        }
    }
}

impl Laboratory {
    /// The hash of everything on which the results of a cell depend.
    fn inputs(&self, boot: &Boot) -> String {
        digest::of_json(&json!({
            "machine": self.machines[boot.system.key].inputs(),
            "programs": self.programs,
            "scenario": boot.scenario(),
            "command": boot.argv(),
        }))
    }

    fn boot(&self, boot: &Boot, directory: &Directory, stop: &Stop) -> Result<BootMeasurement, Error> {
        let machine = &self.machines[boot.system.key];
        let outcome = self.lab.run(machine, &boot.job(), &|_: Event<'_>| {}, stop)?;
        let kept = KeptCell { inputs: self.inputs(boot), cell: boot.cell(&outcome)? };
        directory.keep(&boot.file_name(), &kept)?;
        Ok(kept.cell)
    }
}

/// Checks that the kernels of these systems were built. The error names the commands that build the others.
fn all_built(systems: &[&System], built: &[(Variant, String)]) -> Result<(), Error> {
    let mut commands = Vec::new();
    for system in systems {
        let variant: Variant = system.kernel.parse()?;
        if !built.iter().any(|(known, _)| *known == variant) {
            commands.push(format!("`{}`", variant.command()));
        }
    }
    if commands.is_empty() {
        return Ok(());
    }
    Err(Error::Guest(format!(
        "the kernels of this study are built first (some 10 minutes each, once): {}",
        commands.join(" and ")
    )))
}

#[cfg(test)]
mod tests {
    use super::super::{CASES, GENERATIONS, SYSTEMS};
    use super::*;

    #[test]
    fn missing_kernels_are_named_with_their_commands_in_one_line() {
        let systems: Vec<&System> = SYSTEMS.iter().collect();
        let error = all_built(&systems, &[]).expect_err("none was built").to_string();
        let words =
            "`spry lab kernel build --hz 100 --periodic` and `spry lab kernel build --hz 20000 --periodic`";
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
        let built: Vec<(Variant, String)> =
            SYSTEMS.iter().map(|system| (system.kernel.parse().expect("a name"), String::new())).collect();
        all_built(&systems, &built).expect("both are there");
        let error = all_built(&systems, &built[..1]).expect_err("one is missing").to_string();
        assert!(error.contains("--hz 20000") && !error.contains("--hz 100 "), "{error}");
    }

    #[test]
    fn every_case_is_run_on_both_systems_seed_after_seed() {
        let request = Request {
            systems: SYSTEMS.iter().collect(),
            cases: vec![&CASES[5], &CASES[0]],
            generations: vec![&GENERATIONS[0]],
            seeds: 2,
            alarms: 80,
            sort_s: 2,
            jobs: None,
        };
        let names: Vec<String> = request.boots().iter().map(Boot::file_name).collect();
        assert_eq!(names.len(), 12);
        assert_eq!(names[..3], ["base-cont-8-seed1", "fast-cont-8-seed1", "base-blk-2-seed1"]);
        assert_eq!(names[5], "fast-sort-8-older-seed1");
        assert!(names[6..].iter().all(|name| name.ends_with("seed2")));
    }
}
