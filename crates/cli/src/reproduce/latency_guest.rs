//! One cell of the study of scheduler latency: what the virtual machine does, and what of that comes back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Outcome};
use spry_latency::{RATE_DEFAULT_HZ, Results};
use spry_reproduce::latency::{Kernel, Load};

use crate::latency::LOAD_ENDED;

/// What the loads need in the image, the same one beside every load.
const PACKAGES: [&str; 6] = ["gcc", "libc6-dev", "make", "nfs-common", "nfs-kernel-server", "stress-ng"];
/// The kernel's parts that NFS-COMPILE needs.
const MODULES: [&str; 2] = ["nfsd", "nfsv4"];
/// From when on samples count as late, us: half of the article's first threshold, and several times what a wake-up takes.
const LATE_US: u64 = 50;
/// What the loads may take beside the samples to get ready, seconds of the guest.
const AROUND_S: u64 = 150;
/// The result files: what was measured, and why it took so long.
const RESULTS: &str = "latency.json";
const SPLIT: &str = "split.json";
/// Where the source of NFS-COMPILE is in the guest, and how many files it has.
const SOURCE: &str = "/spry/source";
const FILES: usize = 12;

/// Another load is started, and waited for, before the samples: the compilation brings its source.
const BESIDE_COMPILE: &str = "\
spry load nfs-compile --source /spry/source --disk 256M --memory 256M >/tmp/load 2>&1 & load=$!
n=0
until pidof cc1 >/dev/null; do
    n=$((n + 1))
    if [ $n -gt 600 ] || ! kill -0 $load; then cat /tmp/load >&2; exit 1; fi
    sleep 0.1
done
";
/// Older emulators take a far return in random code for a fault of the kernel's own: such a process dies of it like of others, but the
/// machine goes on, and tells how often.
const SURVIVE: &str = "echo 0 >/proc/sys/kernel/panic_on_oops; dmesg -n 1\n";
const TELL: &str = "cat /sys/kernel/oops_count >/results/oopses\n";
/// What it tells.
const OOPSES: &str = "oopses";

/// It must still run when they are taken.
const STILL_COMPILES: &str = "kill -0 $load || { cat /tmp/load >&2; exit 1; }\n";

/// One boot.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The load.
    pub load: &'static Load,
    /// The seed.
    pub seed: u64,
    /// How many samples; half as many are split.
    pub samples: u64,
}

/// What the machine is made of.
///
/// # Errors
/// Where the lab does not know the kernel's name.
pub fn spec(kernel: &Kernel) -> Result<MachineSpec> {
    Ok(MachineSpec {
        kernel: kernel.choice.parse()?,
        packages: PACKAGES.map(str::to_owned).into(),
        modules: MODULES.map(str::to_owned).into(),
        scratch_mib: 0,
    })
}

impl Boot {
    /// How messages call it.
    pub fn name(&self) -> String {
        format!("{}, {}, seed {}", self.kernel.key, self.load.key, self.seed)
    }

    /// How its file is called.
    pub fn file_name(&self) -> String {
        format!("{}-{}-seed{}", self.kernel.key, self.load.key, self.seed)
    }

    /// What the guest's shell does.
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

    /// What the virtual machine does; `spry` is the program's path here.
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
            // Where it is interpreted, a second of a loaded guest takes a few of this machine's.
            cpu_limit_s: 300 + 10 * u64::from(limit_s),
            ..Job::default()
        }
    }

    /// What it measured, and split.
    ///
    /// # Errors
    /// Where it did not get through, in the guest's words.
    pub fn results(&self, outcome: &Outcome) -> Result<[Results; 2]> {
        let said = || {
            let stderr = outcome.files.get("0.stderr").map(|bytes| String::from_utf8_lossy(bytes));
            let stderr = stderr.unwrap_or_default();
            stderr.trim().trim_start_matches("spry: ").to_owned()
        };
        let ended = outcome.commands.first().context("nothing was run in the guest")?;
        ensure!(ended.exit == Some(0), "in the guest (exit {:?}): {}", ended.exit, said());
        let measured = |file: &str, samples: u64| {
            let Some(bytes) = outcome.files.get(file) else { bail!("the guest left no {file}: {}", said()) };
            let mut results: Results = serde_json::from_slice(bytes)
                .with_context(|| format!("{file} of the guest is no measurement"))?;
            let taken = results.raw().count();
            ensure!(taken >= samples, "{taken} of {samples} samples were taken");
            // What was measured without the load is no figure of it.
            if let Some(ended) = results.lacks.iter().find(|lack| lack.starts_with(LOAD_ENDED)) {
                bail!("{ended}");
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

/// The source that is compiled: files of a few functions each, of which each iteration compiles all.
fn source() -> BTreeMap<String, FileSource> {
    let objects: Vec<String> = (0..FILES).map(|nth| format!("part{nth}.o")).collect();
    let make =
        format!("all: {}\n\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n\nclean:\n\trm -f *.o\n", objects.join(" "));
    let mut files = BTreeMap::from([("Makefile".to_owned(), make)]);
    for nth in 0..FILES {
        let mut text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n".to_owned();
        for function in 0..8 {
            text += &format!(
                "int f{nth}_{function}(const char *s, int n)\n{{\n\tint i, sum = {function};\n\tfor (i = 0; i < n && s[i]; i++)\n\
                 \t\tsum = sum * 31 + s[i];\n\tif (sum % 7 == {nth})\n\t\tprintf(\"%d %s\\n\", sum, s);\n\treturn abs(sum) + (int)strlen(s);\n}}\n\n"
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
    use spry_reproduce::latency::{KERNELS, LOADS};

    #[test]
    fn every_kernel_is_one_of_the_lab_s_and_every_load_one_of_the_suite_s() {
        for kernel in &KERNELS {
            spec(kernel).unwrap_or_else(|error| panic!("{}: {error}", kernel.key));
        }
        for load in &LOADS {
            spry_load::Load::by_name(load.key).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn a_cell_boots_with_its_preemption_and_samples_as_the_article_did() {
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
