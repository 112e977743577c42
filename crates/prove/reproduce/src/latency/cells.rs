//! Runs the cells of the study: old and present kernels beside the article's loads. Each cell has a
//! boot of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use spry_experiment::{Stop, digest, programs};
use spry_lab::{Event, Lab, LabMachine, Progress, digest_of_file};

use super::boot::{Boot, spec};
use super::{Cell, Kernel, Load, Study, json as report, page, text};
use crate::boots::{self, BootStudy, Shortfall, StudyProgress};
use crate::directory::{Directory, KeptCell};
use crate::error::Error;
use crate::written::StudyTexts;

/// The selection of kernels and loads that are measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernels to measure.
    pub kernels: Vec<&'static Kernel>,
    /// The loads beside each kernel.
    pub loads: Vec<&'static Load>,
    /// The number of seeds. Each cell is run with the seeds from 1 to this number.
    pub seeds: u64,
    /// How many samples a cell takes, without the split samples.
    pub samples: u64,
    /// How many virtual machines run side by side; `None`: as many as this machine can have.
    pub jobs: Option<usize>,
}

impl Request {
    /// All cells: first every kernel beside every load with the first seed, then the same for
    /// each further seed.
    fn boots(&self) -> Vec<Boot> {
        let mut boots = Vec::new();
        for seed in 1..=self.seeds {
            for &load in &self.loads {
                let of = |&kernel| Boot { kernel, load, seed, samples: self.samples };
                boots.extend(self.kernels.iter().map(of));
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
    /// The path of the program that the guest runs; and the hashes of the programs on which results depend.
    spry: PathBuf,
    programs: [String; 2],
}

impl BootStudy for Laboratory {
    type Request = Request;
    type Cell = Cell;

    const NAME: &'static str = "scheduler-latency";

    fn open(request: &Request, lab: Lab, progress: &dyn Progress, stop: &Stop) -> Result<Laboratory, Error> {
        let spry = programs::own("spry")?;
        let programs = [digest_of_file(&spry)?, digest_of_file(&programs::own("spry-guest")?)?];
        let mut machines = BTreeMap::new();
        for kernel in &request.kernels {
            if !machines.contains_key(kernel.choice) {
                machines.insert(kernel.choice, lab.prepare(&spec(kernel)?, progress, stop)?);
            }
        }
        Ok(Laboratory { lab, machines, spry, programs })
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
        let summary = text(study, undone);
        let mut results = report(study, undone);
        let machines = self.machines.iter().map(|(kernel, machine)| (*kernel, machine.inputs()));
        let inputs: BTreeMap<&str, _> = machines.collect();
        if let Value::Object(object) = &mut results {
            object.insert("digest".to_owned(), json!(digest::of_json(&object["loads"])));
            object.insert("seeds".to_owned(), json!(request.seeds));
            object.insert("samples".to_owned(), json!(request.samples));
            object.insert("inputs".to_owned(), json!({ "machines": inputs, "programs": self.programs }));
        }
        StudyTexts::put(directory, &page(study, undone, command), summary, &results)
    }

    fn name(cell: &Cell) -> String {
        format!("{}, {}, seed {}", cell.kernel, cell.load, cell.seed)
    }
}

impl Laboratory {
    /// The hash of everything on which the results of a cell depend.
    fn inputs(&self, boot: &Boot) -> String {
        digest::of_json(&json!({
            "machine": self.machines[boot.kernel.choice].inputs(),
            "programs": self.programs,
            "preempt": boot.kernel.preempt,
            "script": boot.script(),
            "seed": boot.seed,
        }))
    }

    fn boot(&self, boot: &Boot, directory: &Directory, stop: &Stop) -> Result<Cell, Error> {
        let machine = &self.machines[boot.kernel.choice];
        let outcome = self.lab.run(machine, &boot.job(self.spry.clone()), &|_: Event<'_>| {}, stop)?;
        let [results, split] = boot.results(&outcome)?;
        let file = directory.subdirectory("latency")?.join(format!("{}.json", boot.file_name()));
        results.save(&file)?;
        let (kernel, load) = (boot.kernel.key.to_owned(), boot.load.key.to_owned());
        let cell = Cell { kernel, load, seed: boot.seed, results, split };
        let kept = KeptCell { inputs: self.inputs(boot), cell };
        directory.keep(&boot.file_name(), &kept)?;
        Ok(kept.cell)
    }
}
