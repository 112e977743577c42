//! One cell of the study: the job of the virtual machine, and its measurement.

use std::collections::BTreeMap;
use std::path::Path;

use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Outcome};

use super::{Case, Cell, Expiry, KERNEL, System};
use crate::boots::Boots;
use crate::ends::GuestResults;
use crate::error::Error;

/// The packages of the ray tracer, with its benchmark's scene.
const PACKAGES: [&str; 3] = ["povray", "povray-examples", "povray-includes"];
/// The scene; photons, which the quality leaves out, would take ten times as long as the picture.
const SCENE: &str = "/usr/share/doc/povray/examples/advanced/benchmark/benchmark.pov";
/// No window and no file; one thread.
const POVRAY: &str = "povray -D -F -GA +Q8 +WT1";
/// The width and the height of the picture.
pub(super) const PICTURE: [u32; 2] = [128, 96];
pub(super) const PICTURE_QUICK: [u32; 2] = [64, 48];
/// The file with the measurement.
const COST: &str = "cost.json";
/// How long the boot may take, seconds of the guest's time.
const LIMIT_S: u32 = 240;

/// A cell: one boot of a system with a case.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    pub(super) system: &'static System,
    pub(super) case: &'static Case,
    pub(super) seed: u64,
    /// The width and the height of the picture.
    pub(super) picture: [u32; 2],
}

/// The parts of the machine.
pub(super) fn spec() -> Result<MachineSpec, Error> {
    Ok(MachineSpec {
        kernel: KERNEL.parse()?,
        packages: PACKAGES.map(str::to_owned).into(),
        ..MachineSpec::default()
    })
}

impl Boots for Boot {
    type Cell = Cell;

    fn name(&self) -> String {
        format!("{}, {}, seed {}", self.system.key, self.case.key, self.seed)
    }
}

impl Boot {
    /// The name of the cell's file.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}-seed{}", self.system.key, self.case.key, self.seed)
    }

    /// The script of the guest's shell.
    pub(super) fn script(&self) -> String {
        let overshoot_us = match self.system.expiry {
            Expiry::AtTick | Expiry::Hard => -1,
            Expiry::Overshoot(us) => us,
        };
        let [width, height] = self.picture;
        format!(
            "export HOME=/tmp; cd /tmp\n\
             echo {overshoot_us} >/proc/sys/kernel/firm_overshoot_us || exit 1\n\
             exec spry-runner timers --out /results/{COST} {} {} -- {POVRAY} +I{SCENE} +W{width} +H{height}\n",
            self.case.processes, self.case.period_us
        )
    }

    /// The job of the virtual machine, with the runner.
    pub(super) fn job(&self, runner: &Path) -> Job {
        let argv = ["/bin/sh", "-c", &self.script()].map(str::to_owned).into();
        Job {
            seed: self.seed,
            cmdline: match self.system.expiry {
                Expiry::AtTick => ["highres=off", "nohz=off"].map(str::to_owned).into(),
                Expiry::Hard | Expiry::Overshoot(_) => Vec::new(),
            },
            files: BTreeMap::from([(
                "/spry/bin/spry-runner".to_owned(),
                FileSource::File(runner.to_path_buf()),
            )]),
            commands: vec![GuestCommand { argv, env: Vec::new(), limit_s: LIMIT_S }],
            cpu_limit_s: 300 + 10 * u64::from(LIMIT_S),
            ..Job::default()
        }
    }

    /// The guest's measurement.
    ///
    /// # Errors
    /// If the guest did not finish; the error has its output.
    pub(super) fn cell(&self, outcome: &Outcome) -> Result<Cell, Error> {
        let left = GuestResults::of(outcome, "spry-runner: ")?;
        let cost = left.json(COST)?;
        Ok(Cell { system: self.system.key.to_owned(), case: self.case.key.to_owned(), seed: self.seed, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firm::{CASES, SYSTEMS};

    fn boot(system: &str, case: &str) -> Boot {
        let system = SYSTEMS.iter().find(|known| known.key == system).expect("a system");
        let case = CASES.iter().find(|known| known.key == case).expect("a case");
        Boot { system, case, seed: 2, picture: PICTURE }
    }

    #[test]
    fn a_cell_sets_the_overshoot_and_has_the_processes_of_its_case() {
        let boot = boot("firm-500", "20-1ms");
        let script = boot.script();
        assert!(script.contains("echo 500 >/proc/sys/kernel/firm_overshoot_us"), "{script}");
        assert!(script.contains("20 1000 -- povray"), "{script}");
        assert_eq!(boot.file_name(), "firm-500-20-1ms-seed2");
        assert_eq!(boot.job(Path::new("/spry-runner")).cmdline, Vec::<String>::new());
    }

    #[test]
    fn timers_at_ticks_are_the_kernel_s_without_high_resolution() {
        let boot = boot("ticks", "20-10ms");
        assert_eq!(boot.job(Path::new("/spry-runner")).cmdline, ["highres=off", "nohz=off"]);
        assert!(boot.script().contains("echo -1 >"));
        spec().expect("the kernel's name is known");
    }
}
