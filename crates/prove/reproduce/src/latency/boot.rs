//! One cell of the study of scheduler latency: the job of the virtual machine, and its results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Outcome};
use spry_latency::{LOAD_ENDED, RATE_DEFAULT_HZ, Results};

use super::{Cell, Kernel, Load};
use crate::boots::Boots;
use crate::error::Error;

/// The packages that the loads need in the image. The image is the same for every load.
const PACKAGES: [&str; 6] = ["gcc", "libc6-dev", "make", "nfs-common", "nfs-kernel-server", "stress-ng"];
/// The kernel modules that the load NFS-COMPILE needs.
const MODULES: [&str; 2] = ["nfsd", "nfsv4"];
/// A sample that is later than this counts as late, us. It is half of the article's first threshold, and
/// several times the duration of a wake-up.
const LATE_US: u64 = 50;
/// How long the loads may take to get ready, in addition to the time of the samples, seconds of
/// the guest's time.
const AROUND_S: u64 = 150;
/// The result files: the first measurement's samples, and the samples that were split.
const RESULTS: &str = "latency.json";
const SPLIT: &str = "split.json";
/// The directory of the source of NFS-COMPILE in the guest, and how many files the source has.
const SOURCE: &str = "/spry/source";
const FILES: usize = 12;

/// Starts the load NFS-COMPILE and waits until its compiler runs; then the samples begin. The lab gives this
/// load its source.
const BESIDE_COMPILE: &str = "\
spry load nfs-compile --source /spry/source --disk 256M --memory 256M >/tmp/load 2>&1 & load=$!
n=0
until pidof cc1 >/dev/null; do
    n=$((n + 1))
    if [ $n -gt 600 ] || ! kill -0 $load; then cat /tmp/load >&2; exit 1; fi
    sleep 0.1
done
";
/// Older emulators report a far return in random code as a fault of the kernel itself. The process is killed,
/// as after any other fault. With this setting the guest's kernel goes on, and counts such faults.
const SURVIVE: &str = "echo 0 >/proc/sys/kernel/panic_on_oops; dmesg -n 1\n";
const TELL: &str = "cat /sys/kernel/oops_count >/results/oopses\n";
/// The result file with the number of these faults.
const OOPSES: &str = "oopses";

/// Fails if the compilation has ended before the samples have been taken.
const STILL_COMPILES: &str = "kill -0 $load || { cat /tmp/load >&2; exit 1; }\n";

/// A cell: one boot of a kernel beside a load.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The kernel that is booted.
    pub kernel: &'static Kernel,
    /// The load beside which the samples are taken.
    pub load: &'static Load,
    /// The seed of the boot.
    pub seed: u64,
    /// How many samples are taken. A second measurement takes half as many, and splits them.
    pub samples: u64,
}

/// The parts of the machine.
///
/// # Errors
/// If the lab has no kernel of this name.
pub fn spec(kernel: &Kernel) -> Result<MachineSpec, Error> {
    Ok(MachineSpec {
        kernel: kernel.choice.parse()?,
        packages: PACKAGES.map(str::to_owned).into(),
        modules: MODULES.map(str::to_owned).into(),
        ..MachineSpec::default()
    })
}

impl Boots for Boot {
    type Cell = Cell;

    fn name(&self) -> String {
        format!("{}, {}, seed {}", self.kernel.key, self.load.key, self.seed)
    }
}

impl Boot {
    /// The name of the cell's file.
    pub fn file_name(&self) -> String {
        format!("{}-{}-seed{}", self.kernel.key, self.load.key, self.seed)
    }

    /// The script of the guest's shell.
    pub fn script(&self) -> String {
        let sample = format!("spry latency --quiet --cpus 0 --rate {RATE_DEFAULT_HZ}");
        let whole = format!("{sample} --samples {} -o /results/{RESULTS}", self.samples);
        let split =
            format!("{sample} --threshold {LATE_US} --samples {} -o /results/{SPLIT}", self.split_samples());
        match self.load.key {
            "nfs-compile" => format!("{BESIDE_COMPILE}{whole} && {split} || exit 1\n{STILL_COMPILES}"),
            "crashme" => {
                format!("{SURVIVE}{whole} --load crashme && {split} --load crashme || exit 1\n{TELL}")
            }
            load => format!("{whole} --load {load} && {split} --load {load}"),
        }
    }

    const fn split_samples(&self) -> u64 {
        self.samples / 2
    }

    /// The job of the virtual machine; `spry` is the path of the program `spry` on this machine.
    pub fn job(&self, spry: PathBuf) -> Job {
        let mut files = BTreeMap::from([("/spry/bin/spry".to_owned(), FileSource::File(spry))]);
        if self.load.key == "nfs-compile" {
            files.extend(source());
        }
        let argv = ["/bin/sh", "-c", &self.script()].map(str::to_owned).into();
        let sampling_s = self.samples.div_ceil(u64::from(RATE_DEFAULT_HZ));
        let limit_s = u32::try_from(3 * sampling_s + AROUND_S).unwrap_or(u32::MAX);
        Job {
            seed: self.seed,
            cmdline: self.kernel.preempt.iter().map(|model| format!("preempt={model}")).collect(),
            files,
            commands: vec![GuestCommand { argv, env: Vec::new(), limit_s }],
            // If the guest's code is interpreted, a second of a loaded guest takes a few seconds of this
            // machine.
            cpu_limit_s: 300 + 10 * u64::from(limit_s),
            ..Job::default()
        }
    }

    /// The results of the cell: of the first measurement, and of the second, which splits its samples.
    ///
    /// # Errors
    /// If the guest did not finish; the error contains the guest's output.
    pub fn results(&self, outcome: &Outcome) -> Result<[Results; 2], Error> {
        let said = || {
            let stderr = outcome.files.get("0.stderr").map(|bytes| String::from_utf8_lossy(bytes));
            let stderr = stderr.unwrap_or_default();
            stderr.trim().trim_start_matches("spry: ").to_owned()
        };
        let Some(ended) = outcome.commands.first() else {
            return Err(Error::Guest("nothing was run in the guest".to_owned()));
        };
        if ended.exit != Some(0) {
            return Err(Error::Guest(format!("in the guest (exit {:?}): {}", ended.exit, said())));
        }
        let measured = |file: &str, samples: u64| {
            let Some(bytes) = outcome.files.get(file) else {
                return Err(Error::Guest(format!("the guest left no {file}: {}", said())));
            };
            let wrong = |error| Error::Guest(format!("{file} of the guest is no measurement: {error}"));
            let mut results: Results = serde_json::from_slice(bytes).map_err(wrong)?;
            let taken = results.raw().count();
            if taken < samples {
                return Err(Error::Guest(format!("{taken} of {samples} samples were taken")));
            }
            // A measurement is useless if its load ended before it.
            if let Some(ended) = results.lacks.iter().find(|lack| lack.starts_with(LOAD_ENDED)) {
                return Err(Error::Guest(ended.clone()));
            }
            results.load = vec![self.load.key.to_owned()];
            Ok(results)
        };
        let mut both = [measured(RESULTS, self.samples)?, measured(SPLIT, self.split_samples())?];
        let count = outcome.files.get(OOPSES).map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
        if let Some(count) = count.filter(|count| count != "0") {
            both[0].lacks.push(format!(
                "the guest's kernel has oopsed {count} times beside this load, which the figures have in them"
            ));
        }
        Ok(both)
    }
}

/// The source that the load compiles: files with a few functions each. Each iteration compiles all files.
fn source() -> BTreeMap<String, FileSource> {
    let objects: Vec<String> = (0..FILES).map(|nth| format!("part{nth}.o")).collect();
    let make =
        format!("all: {}\n\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n\nclean:\n\trm -f *.o\n", objects.join(" "));
    let mut files = BTreeMap::from([("Makefile".to_owned(), make)]);
    for nth in 0..FILES {
        let mut text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n".to_owned();
        for function in 0..8 {
            text += &format!(
                "int f{nth}_{function}(const char *s, int n)\n{{\n\tint i, sum = {function};\n\
                 \tfor (i = 0; i < n && s[i]; i++)\n\
                 \t\tsum = sum * 31 + s[i];\n\tif (sum % 7 == {nth})\n\t\tprintf(\"%d %s\\n\", sum, s);\n\
                 \treturn abs(sum) + (int)strlen(s);\n}}\n\n"
            );
        }
        files.insert(format!("part{nth}.c"), text);
    }
    let file =
        |(name, text): (String, String)| (format!("{SOURCE}/{name}"), FileSource::Bytes(text.into_bytes()));
    files.into_iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{KERNELS, LOADS};

    #[test]
    fn every_kernel_is_in_the_lab_and_every_load_in_the_suite() {
        for kernel in &KERNELS {
            spec(kernel).unwrap_or_else(|error| panic!("{}: {error}", kernel.key));
        }
        for load in &LOADS {
            spry_load::Load::by_name(load.key).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn a_cell_boots_with_its_preemption_and_the_article_s_rate() {
        let boot = |load| Boot { kernel: &KERNELS[0], load, seed: 2, samples: 4_096 };
        for load in &LOADS {
            let job = boot(load).job("/bin/spry".into());
            assert_eq!((job.seed, job.cmdline), (2, vec!["preempt=none".to_owned()]));
            let script = boot(load).script();
            assert!(script.contains("--rate 2048 --samples 4096"), "{script}");
            assert!(script.contains("--rate 2048 --threshold 50 --samples 2048"), "{script}");
            assert!(script.contains(load.key), "{script}");
        }
        assert!(boot(&LOADS[0]).job("/bin/spry".into()).files.contains_key("/spry/source/Makefile"));
    }
}
