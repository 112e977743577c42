//! Runs the cells of the study, each in a boot of its own, and writes the results.

use std::path::PathBuf;

use serde_json::{Value, json};
use spry_experiment::{Stop, digest, programs};
use spry_lab::{Event, Lab, LabMachine, Progress, Variant, digest_of_file};

use super::boot::{Boot, PICTURE, PICTURE_QUICK, spec};
use super::{CASES, Case, Cell, KERNEL, SYSTEMS, Study, System, figures, json as report, page, text};
use crate::boots::{self, BootStudy, Shortfall, StudyProgress};
use crate::directory::{Directory, KeptCell};
use crate::draw;
use crate::error::Error;
use crate::written::StudyTexts;

/// The size of the picture that the ray tracer renders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Picture {
    /// The size of the study.
    Whole,
    /// A quarter of it, for a quick look.
    Quick,
}

/// The selection of the paper's measurements that are repeated.
#[derive(Clone, Debug)]
pub struct Request {
    /// The systems; those that a case does not have are left out there.
    pub systems: Vec<&'static System>,
    /// The cases. The ray tracer alone is always measured, too.
    pub cases: Vec<&'static Case>,
    /// The number of seeds. Each cell is run with the seeds from 1 to this number.
    pub seeds: u64,
    /// The size of the picture.
    pub picture: Picture,
    /// How many virtual machines run side by side; `None`: as many as this machine can have.
    pub jobs: Option<usize>,
}

impl Request {
    /// The systems and cases of a quick look: timers at ticks, hard timers, the longest overshoot of figure 8
    /// and soft timers, in figures 6 and 8.
    pub fn quick() -> (Vec<&'static System>, Vec<&'static Case>) {
        let systems = ["ticks", "hard", "firm-500", "soft"];
        let systems = SYSTEMS.iter().filter(|system| systems.contains(&system.key));
        let cases = CASES.iter().filter(|case| !matches!(case.figure, Some("7")));
        (systems.collect(), cases.collect())
    }

    /// All cells: every case on every system that it has, with one seed after another.
    fn boots(&self) -> Vec<Boot> {
        let picture = match self.picture {
            Picture::Whole => PICTURE,
            Picture::Quick => PICTURE_QUICK,
        };
        let mut boots = Vec::new();
        for seed in 1..=self.seeds {
            for case in CASES.iter().filter(|case| case.figure.is_none() || self.cases.contains(case)) {
                let systems = SYSTEMS.iter().filter(|system| case.has(system));
                // Without the ray tracer alone and without hard timers no other cell says anything.
                let systems = systems.filter(|system| system.key == "hard" || self.systems.contains(system));
                boots.extend(systems.map(|system| Boot { system, case, seed, picture }));
            }
        }
        boots
    }
}

/// The lab with everything that a cell needs.
#[derive(Debug)]
pub struct Laboratory {
    lab: Lab,
    machine: LabMachine,
    runner: PathBuf,
    /// The hashes of the programs in the guest.
    programs: [(String, String); 2],
}

impl BootStudy for Laboratory {
    type Request = Request;
    type Cell = Cell;

    const NAME: &'static str = "time-sensitive-firm";

    fn open(_: &Request, lab: Lab, progress: &dyn Progress, stop: &Stop) -> Result<Laboratory, Error> {
        is_built(&lab.built_kernels())?;
        let runner = programs::own("spry-runner")?;
        let digest = |path: &PathBuf| digest_of_file(path);
        let programs = [
            ("spry-guest".to_owned(), digest(&programs::own("spry-guest")?)?),
            ("spry-runner".to_owned(), digest(&runner)?),
        ];
        let machine = lab.prepare(&spec()?, progress, stop)?;
        Ok(Laboratory { lab, machine, runner, programs })
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
        for topic in &figures::all(study) {
            for (number, _) in &topic.figures {
                directory.put(&format!("figure-{number}.svg"), &draw::file(topic, number))?;
            }
        }
        let release = &self.machine.kernel.release;
        let summary = text(study, release, undone);
        let mut results = report(study, undone);
        if let Value::Object(object) = &mut results {
            object.insert("digest".to_owned(), json!(digest::of_json(&object["cells"])));
            object.insert("seeds".to_owned(), json!(request.seeds));
            object.insert("kernel".to_owned(), json!(release));
            let inputs = json!({ "machine": self.machine.inputs(), "programs": self.programs });
            object.insert("inputs".to_owned(), inputs);
        }
        StudyTexts::put(directory, &page(study, release, undone, command), summary, &results)
    }

    fn name(cell: &Cell) -> String {
        format!("{}, {}, seed {}", cell.system, cell.case, cell.seed)
    }
}

impl Laboratory {
    /// The hash of everything on which the results of a cell depend.
    fn inputs(&self, boot: &Boot) -> String {
        digest::of_json(&json!({
            "machine": self.machine.inputs(),
            "programs": self.programs,
            "cmdline": boot.job(&self.runner).cmdline,
            "script": boot.script(),
            "seed": boot.seed,
        }))
    }

    fn boot(&self, boot: &Boot, directory: &Directory, stop: &Stop) -> Result<Cell, Error> {
        let outcome = self.lab.run(&self.machine, &boot.job(&self.runner), &|_: Event<'_>| {}, stop)?;
        let kept = KeptCell { inputs: self.inputs(boot), cell: boot.cell(&outcome)? };
        directory.keep(&boot.file_name(), &kept)?;
        Ok(kept.cell)
    }
}

/// Checks that the study's kernel was built. The error names the command that builds it.
fn is_built(built: &[(Variant, String)]) -> Result<(), Error> {
    let variant: Variant = KERNEL.parse()?;
    if built.iter().any(|(known, _)| *known == variant) {
        return Ok(());
    }
    Err(Error::Guest(format!(
        "the kernel of this study is built first (some 10 minutes, once): `{}`",
        variant.command()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(systems: &[&str], cases: &[&str]) -> Request {
        Request {
            systems: SYSTEMS.iter().filter(|system| systems.contains(&system.key)).collect(),
            cases: CASES.iter().filter(|case| cases.contains(&case.key)).collect(),
            seeds: 1,
            picture: Picture::Whole,
            jobs: None,
        }
    }

    #[test]
    fn a_missing_kernel_is_named_with_its_command_in_one_line() {
        let error = is_built(&[]).expect_err("it was not built").to_string();
        assert!(error.contains("`spry lab kernel build --hz 100 --firm`"), "{error}");
        assert_eq!(error.lines().count(), 1);
        is_built(&[(KERNEL.parse().expect("a name"), String::new())]).expect("it is there");
    }

    #[test]
    fn each_case_is_run_beside_hard_timers_and_the_ray_tracer_alone() {
        let boots = request(&["firm-500", "soft"], &["20-1ms"]).boots();
        let names: Vec<String> = boots.iter().map(Boot::file_name).collect();
        assert_eq!(names, ["hard-none-seed1", "hard-20-1ms-seed1", "firm-500-20-1ms-seed1"]);
        let all: Vec<&str> = SYSTEMS.iter().map(|system| system.key).collect();
        assert_eq!(request(&all, &["20-10ms", "50-10ms", "20-1ms"]).boots().len(), 21);
        let (systems, cases) = Request::quick();
        let quick = Request { systems, cases, ..request(&[], &[]) };
        assert_eq!(quick.boots().len(), 8);
    }
}
