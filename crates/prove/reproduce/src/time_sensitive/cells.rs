//! Runs the cells of the study, each in a boot of its own, and writes the results.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spry_experiment::scheduler::{SchedulerSpec, peers_directory};
use spry_experiment::{Stop, digest, programs};
use spry_lab::{Event, Lab, LabMachine, Progress, digest_of_file};
use spry_runner::x11::files;

use super::boot::{Boot, Files, spec};
use super::{Cell, Daemon, Load, Part, Study, System, figures, json as report, page, text};
use crate::boots::{self, BootStudy, Shortfall, StudyProgress};
use crate::directory::{Directory, KeptCell};
use crate::draw;
use crate::error::Error;
use crate::written::StudyTexts;

/// Spry's programs in the guest.
const PROGRAMS: [&str; 4] = ["spry", "spry-runner", "spry-sched", "spry-eyes"];
/// The programs on which only systems with Spry's daemon depend.
const DAEMON: [&str; 2] = ["spry-sched", "spry-eyes"];

/// The selection of systems and loads that are measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// The systems to measure.
    pub systems: Vec<&'static System>,
    /// The loads of both parts.
    pub loads: Vec<&'static Load>,
    /// The number of seeds. Each cell is run with the seeds from 1 to this number.
    pub seeds: u64,
    /// The length of the measurement of budgets, and of the film, seconds.
    pub seconds: [u32; 2],
    /// How many virtual machines run side by side; `None`: as many as this machine can have.
    pub jobs: Option<usize>,
}

impl Request {
    /// All cells: every system beside every load of its part, with one seed after another.
    fn boots(&self) -> Vec<Boot> {
        let mut boots = Vec::new();
        for seed in 1..=self.seeds {
            for &load in &self.loads {
                let seconds = self.seconds[match load.part {
                    Part::Table => 0,
                    Part::Skew => 1,
                }];
                let systems = self.systems.iter().filter(|system| system.part == load.part);
                boots.extend(systems.map(|&system| Boot { system, load, seed, seconds }));
            }
        }
        boots
    }
}

/// The lab with everything that a cell needs.
#[derive(Debug)]
pub struct Laboratory {
    lab: Lab,
    /// The prepared machines, by the lab's names for their kernels.
    machines: BTreeMap<&'static str, LabMachine>,
    files: Files,
    /// The hashes of the files on which results depend.
    digests: BTreeMap<String, String>,
}

impl BootStudy for Laboratory {
    type Request = Request;
    type Cell = Cell;

    const NAME: &'static str = "time-sensitive";

    fn open(request: &Request, lab: Lab, progress: &dyn Progress, stop: &Stop) -> Result<Laboratory, Error> {
        let own = PROGRAMS.map(programs::own).into_iter().collect::<Result<Vec<_>, _>>()?;
        let clip =
            files::provide("clip.mpg", lab.cache()).map_err(|error| Error::Guest(error.to_string()))?;
        let peers = peers_directory(lab.cache());
        let daemon = |name: &str| name.parse::<SchedulerSpec>()?.setup(&peers);
        let daemons = [daemon("spry:--ceilings named")?, daemon("spry:--ceilings displays")?];
        let mut digests = BTreeMap::new();
        for path in own.iter().chain([&clip, &programs::own("spry-guest")?]) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            digests.insert(name, digest_of_file(path)?);
        }
        let mut machines = BTreeMap::new();
        for system in &request.systems {
            if !machines.contains_key(system.kernel) {
                machines.insert(system.kernel, lab.prepare(&spec(system)?, progress, stop)?);
            }
        }
        Ok(Laboratory { lab, machines, files: Files { programs: own, clip, daemons }, digests })
    }

    fn measure(
        &self,
        request: &Request,
        directory: &Directory,
        stop: &Stop,
        tell: &mut dyn FnMut(StudyProgress<'_, Cell>),
    ) -> (Vec<Cell>, Shortfall) {
        let kept = |boot: &Boot| directory.kept(&boot.file_name(), &self.inputs(boot));
        let run = |boot: &Boot| self.boot(boot, directory, stop);
        boots::measure(&request.boots(), request.jobs, stop, &kept, &run, tell)
    }

    fn write(
        &self,
        request: &Request,
        directory: &Directory,
        (cells, undone): (Vec<Cell>, &Shortfall),
        command: &str,
    ) -> Result<StudyTexts, Error> {
        let study = &Study { cells };
        let topics = figures::all(study);
        for topic in &topics {
            for (number, _) in topic.figures.iter().filter(|(number, _)| figures::is_drawn(topic, number)) {
                directory.put(&format!("figure-{number}.svg"), &draw::file(topic, number))?;
            }
        }
        let summary = text(study, undone);
        let mut results = report(study, undone);
        let machines = self.machines.iter().map(|(kernel, machine)| (*kernel, machine.inputs()));
        let inputs: BTreeMap<&str, _> = machines.collect();
        if let Value::Object(object) = &mut results {
            object.insert("digest".to_owned(), json!(digest::of_json(&object["cells"])));
            object.insert("seeds".to_owned(), json!(request.seeds));
            object.insert("seconds".to_owned(), json!(request.seconds));
            object.insert("inputs".to_owned(), json!({ "machines": inputs, "files": self.digests }));
        }
        StudyTexts::put(directory, &page(study, undone, command), summary, &results)
    }

    fn name(cell: &Cell) -> String {
        format!("{}, {}, seed {}", cell.system, cell.load, cell.seed)
    }
}

impl Laboratory {
    /// The hash of everything on which the results of a cell depend.
    fn inputs(&self, boot: &Boot) -> String {
        let needs = |name: &str| match boot.system.spry {
            Daemon::Absent => !DAEMON.contains(&name),
            Daemon::Runs | Daemon::WithCeilings => true,
        };
        let files: BTreeMap<_, _> = self.digests.iter().filter(|(name, _)| needs(name)).collect();
        digest::of_json(&json!({
            "machine": self.machines[boot.system.kernel].inputs(),
            "files": files,
            "preempt": boot.system.preempt,
            "script": boot.script(),
            "seed": boot.seed,
        }))
    }

    fn boot(&self, boot: &Boot, directory: &Directory, stop: &Stop) -> Result<Cell, Error> {
        let machine = &self.machines[boot.system.kernel];
        let outcome = self.lab.run(machine, &boot.job(&self.files), &|_: Event<'_>| {}, stop)?;
        let kept = KeptCell { inputs: self.inputs(boot), cell: boot.cell(&outcome)? };
        directory.keep(&boot.file_name(), &kept)?;
        Ok(kept.cell)
    }
}
