//! The lab: it prepares a machine from packages, and runs jobs on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use spry_experiment::programs;
use spry_experiment::scheduler::{Setup, Sign};

use crate::build::{self, Variant};
use crate::cache::{Cache, digest_of_file, key_of};
use crate::cpio;
use crate::doctor::{Finding, doctor};
use crate::emulator::Emulator;
use crate::error::{LabError, at};
use crate::fetch::Archive;
use crate::image::{Content, Image};
use crate::job::{Beginning, FileSource, Job, Outcome, TRACE};
use crate::kernel::{Kernel, KernelChoice};
use crate::progress::{Event, Progress, Stop};
use crate::protocol::{
    ACCOUNT, Account, Failure, GuestCommand, GuestJob, GuestMachine, JOB, MACHINE_PATH, shared,
};
use crate::recipe::{code_of, commands_of};
use crate::saved::{self, CheckedMachines, MachineInUse, SavedMachine};
use crate::vm::{self, Hardware, Run, TURN_INSTRUCTIONS};

/// The boot parameters that the kernel gets on every boot.
const CMDLINE: &str = "console=ttyS0 quiet loglevel=4 nokaslr panic=-1 oops=panic softlockup_panic=1 \
    transparent_hugepage=never random.trust_cpu=on";
/// How long a scheduler may take to load, milliseconds of the guest's time. The slowest published
/// scheduler takes 17 s.
const SCHEDULER_LIMIT_MS: u64 = 90_000;
/// The directory of the guest that holds Spry's programs and the scheduler under test.
const BIN: &str = "/spry/bin";
/// The file of the guest with its unused bytes.
const SHAKE: &str = "spry/shake";
/// The program that is the guest's first process.
const INIT: &str = "spry-guest";
/// The programs of Spry that a job may name without a path.
const OWN: [&str; 2] = ["spry", "spry-runner"];
/// The space that the trace of a recording may need, MiB.
const TRACE_MIB: u32 = 512;

/// The directories and the archive that the lab uses. Each option has a default.
#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// The directory of the cache; `None`: [`Cache::default_root`].
    pub cache: Option<PathBuf>,
    /// The address of the archive of packages; `None`: the archive of this machine's apt.
    pub mirror: Option<String>,
    /// The directory with Spry's own programs; `None`: the directory of this program.
    pub programs: Option<PathBuf>,
    /// How many unused bytes each guest gets beside its job; `None`: the number in [`SHAKE_VARIABLE`], or
    /// none. Unused bytes change the addresses and the times of a run, but not its workload. A result must
    /// hold for any number of them.
    pub shake_bytes: Option<u32>,
}

/// The environment variable with the number of unused bytes that each guest gets.
pub const SHAKE_VARIABLE: &str = "SPRY_LAB_SHAKE";

/// The most unused bytes that a guest can get: 16 MiB.
pub const SHAKE_MOST_BYTES: u32 = 16 << 20;

/// The number of unused bytes that the environment sets.
fn shake_of_environment() -> Result<u32, LabError> {
    match std::env::var(SHAKE_VARIABLE) {
        Ok(text) if !text.is_empty() => match text.parse() {
            Ok(bytes) if bytes <= SHAKE_MOST_BYTES => Ok(bytes),
            _ => Err(LabError::Shake(text)),
        },
        _ => Ok(0),
    }
}

/// The parts of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSpec {
    /// The kernel that the machine boots.
    pub kernel: KernelChoice,
    /// The packages that the image holds in addition to the base packages of every image.
    pub packages: BTreeSet<String>,
    /// The source packages that the image holds in unpacked form.
    pub sources: BTreeSet<String>,
    /// The kernel modules that are inserted at boot, such as `uinput`. Modules that are built into the
    /// kernel are skipped.
    pub modules: BTreeSet<String>,
    /// The size of an ext4 file system in memory at `/scratch`, MiB; 0 for none.
    pub scratch_mib: u32,
}

/// A machine on which jobs can be run.
#[derive(Clone, Debug)]
pub struct LabMachine {
    /// The machine's kernel.
    pub kernel: Kernel,
    /// The machine's root file system.
    pub image: Image,
    /// The machine's emulator.
    pub emulator: Emulator,
    initrd: PathBuf,
    initrd_key: String,
    scratch_mib: u32,
    shake_bytes: u32,
}

impl LabMachine {
    /// Checks whether a scheduler can run on the machine's kernel, as far as a check without a boot can show.
    ///
    /// # Errors
    /// If the scheduler cannot run; the error has the reason.
    pub fn check(&self, setup: &Setup) -> Result<(), LabError> {
        let program = setup.program.as_ref().filter(|program| program.sign == Sign::SchedExt);
        program.map_or(Ok(()), |program| self.kernel.must_take(&program.file))
    }

    /// The inputs on which results depend, besides the job: the emulator, the kernel and the image,
    /// each with its hash.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let image = key_of([self.image.digest.as_str(), &self.scratch_mib.to_string()]);
        let mut inputs = vec![
            ("emulator", format!("{} {}", self.emulator.version, self.emulator.digest)),
            ("kernel", format!("{} {}", self.kernel.release, self.kernel.digest)),
            ("image", image),
        ];
        if self.shake_bytes > 0 {
            inputs.push(("shake", format!("{} unused bytes", self.shake_bytes)));
        }
        inputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The hardware of a job's machine, with a shared memory of `window_mib` MiB.
    fn hardware(&self, job: &Job, window_mib: u64) -> Hardware<'_> {
        let cmdline = [CMDLINE].into_iter().chain(job.cmdline.iter().map(String::as_str));
        Hardware {
            emulator: &self.emulator,
            kernel: &self.kernel.image,
            initrd: &self.initrd,
            image: match &self.image.content {
                Content::Cpio(_) => None,
                Content::Erofs { path, mib } => Some((path.as_path(), *mib)),
            },
            cmdline: cmdline.collect::<Vec<_>>().join(" "),
            shift: job.shift,
            topology: job.topology,
            memory_mib: u64::from(job.memory_mib),
            window_mib,
        }
    }

    fn about(&self, job: &Job) -> SavedMachine {
        SavedMachine {
            kernel: self.kernel.release.clone(),
            cpus: job.topology.cpus(),
            shift: job.shift,
            memory_mib: u64::from(job.memory_mib),
            packages: self.image.packages.len(),
            cmdline: job.cmdline.join(" "),
        }
    }
}

/// The model of time in a machine with this number of CPUs, in words. `shift` makes an instruction take 2 to
/// the power of `shift` nanoseconds. Every result contains this text.
pub fn model_of_time(shift: u32, cpus: u32) -> String {
    let instruction = format!("an instruction takes {} ns on each CPU", 1_u32 << shift);
    match cpus {
        // With one CPU the turns follow each other: their length has no effect on time.
        1 => instruction,
        _ => format!("{instruction}; {cpus} CPUs in turns of {TURN_INSTRUCTIONS} instructions"),
    }
}

/// The lab, with its cache, its archive and its options.
#[derive(Clone, Debug)]
pub struct Lab {
    pub(crate) cache: Cache,
    pub(crate) archive: Archive,
    programs: PathBuf,
    shake_bytes: u32,
    looked_at: CheckedMachines,
}

impl Lab {
    /// Opens the lab's cache. It fetches no package yet.
    ///
    /// # Errors
    /// If the cache cannot be made, or no archive of packages is known.
    pub fn open(options: LabOptions) -> Result<Self, LabError> {
        let root = options.cache.unwrap_or_else(Cache::default_root);
        let cache = Cache::open(&root)?;
        let archive = Archive::open(&cache, options.mirror.as_deref())?;
        let programs = match options.programs {
            Some(programs) => programs,
            None => programs::directory().map_err(at(Path::new("this program")))?,
        };
        let shake_bytes = options.shake_bytes.map_or_else(shake_of_environment, Ok)?;
        Ok(Self { cache, archive, programs, shake_bytes, looked_at: CheckedMachines::default() })
    }

    /// The directory of the cache.
    pub fn cache(&self) -> &Path {
        self.cache.root()
    }

    /// Fetches the newest lists of packages. Machines that are prepared later have newer packages, and the
    /// values measured on them differ from earlier values.
    ///
    /// # Errors
    /// If the archive cannot be reached, or its signatures cannot be checked.
    pub fn refresh(&self, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
        self.archive.refresh(progress, stop)
    }

    /// Builds a small kernel from the distribution's source, if the cache does not have it. `patch` is a file
    /// with a patch that is applied to the source; it gives the kernel a name of its own. This takes 10
    /// minutes on two CPUs. Afterwards [`KernelChoice::Built`] of the returned variant finds the kernel.
    ///
    /// # Errors
    /// If the source is not available, the patch does not fit it, or this machine lacks a tool of the build.
    pub fn build_kernel(
        &self,
        variant: &Variant,
        patch: Option<&Path>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<(Variant, Kernel), LabError> {
        let variant = build::build(&self.cache, &self.archive, variant, patch, progress, stop)?;
        let choice = KernelChoice::Built(variant.clone());
        let kernel = Kernel::prepare(&choice, &self.cache, &self.archive, progress, stop)?;
        Ok((variant, kernel))
    }

    /// The kernels that were built here, each with the release of its latest build.
    pub fn built_kernels(&self) -> Vec<(Variant, String)> {
        build::built_kernels(&self.cache)
    }

    /// Finds the lab's missing parts on this machine, and remedies. This works even if [`Lab::open`] fails.
    pub fn doctor(options: &LabOptions, stop: &Stop) -> Vec<Finding> {
        doctor(options, stop)
    }

    /// Fetches and builds the parts of a machine that the cache does not have.
    ///
    /// # Errors
    /// If a part is not available or cannot be built.
    pub fn prepare(
        &self,
        spec: &MachineSpec,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<LabMachine, LabError> {
        let emulator = Emulator::prepare(&self.cache, &self.archive, progress, stop)?;
        let kernel = Kernel::prepare(&spec.kernel, &self.cache, &self.archive, progress, stop)?;
        let mut packages = spec.packages.clone();
        if spec.scratch_mib > 0 {
            packages.insert("e2fsprogs".to_owned());
        }
        let image = Image::prepare(&packages, &spec.sources, &self.cache, &self.archive, progress, stop)?;
        let (initrd, initrd_key) = self.initrd(&kernel, &image, spec, progress, stop)?;
        let (scratch_mib, shake_bytes) = (spec.scratch_mib, self.shake_bytes);
        Ok(LabMachine { kernel, image, emulator, initrd, initrd_key, scratch_mib, shake_bytes })
    }

    /// Makes the guest's first file system. Returns its path and the hash of its inputs.
    fn initrd(
        &self,
        kernel: &Kernel,
        image: &Image,
        spec: &MachineSpec,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<(PathBuf, String), LabError> {
        let mut modules: Vec<String> = spec.modules.iter().cloned().collect();
        if matches!(image.content, Content::Erofs { .. }) {
            modules.extend(["nd_pmem", "nd_e820", "erofs"].map(str::to_owned));
        }
        if spec.scratch_mib > 0 {
            modules.extend(["brd", "ext4"].map(str::to_owned));
        }
        let scratch = format!("{}", spec.scratch_mib);
        let init = self.own_program(INIT)?;
        image.check(&init)?;
        let init_digest = digest_of_file(&init)?;
        let recipe = [
            code_of(include_str!("lab.rs")),
            code_of(include_str!("cpio.rs")),
            commands_of(include_str!("guest/init.sh")),
        ];
        let own = [kernel.digest.as_str(), image.digest.as_str(), scratch.as_str(), init_digest.as_str()];
        let key =
            key_of(recipe.iter().map(String::as_str).chain(own).chain(modules.iter().map(String::as_str)));
        let directory = self.cache.entry("initrds", &key, stop, |directory| {
            progress.tell(Event::Step("writing the first file system"));
            let names: Vec<&str> = modules.iter().map(String::as_str).collect();
            let archive = first_files(kernel, image, &init, &names, spec.scratch_mib, stop)?;
            let path = directory.join("initrd");
            let mut bytes = Vec::new();
            archive.write(&mut bytes).map_err(at(&path))?;
            if let Content::Cpio(root) = &image.content {
                bytes.extend(fs::read(root).map_err(at(root))?);
            }
            fs::write(&path, bytes).map_err(at(&path))
        })?;
        Ok((directory.join("initrd"), key))
    }

    /// Runs a job and returns its results. The job selects the point at which the machine begins. If the job
    /// continues a saved machine that the cache does not hold, the machine is booted and saved first. Several
    /// threads may call this at once.
    ///
    /// # Errors
    /// If the job failed. The error names the part that failed: the guest, the scheduler under test or this
    /// machine. A command that ends with a status other than 0 is not an error here.
    pub fn run(
        &self,
        machine: &LabMachine,
        job: &Job,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Outcome, LabError> {
        let started = Instant::now();
        let files = self.job_files(machine, job)?;
        let results_mib = if job.record.is_some() { job.results_mib.max(TRACE_MIB) } else { job.results_mib };
        let job_mib = shared::job_len(&files).div_ceil(1 << 20);
        let hardware = machine.hardware(job, u64::from(results_mib).max(job_mib).max(1).next_power_of_two());
        let saved = match job.begins {
            Beginning::FromMemory => Some(self.saved(machine, job, &hardware, progress, stop)?),
            Beginning::Booted => None,
        };
        let directory = self.cache.run_directory()?;
        let window = vm::window(directory.path());
        let mut memory = BufWriter::new(vm::reserve(&window, hardware.window_mib)?);
        shared::write_job(&files, &mut memory).and_then(|()| memory.flush()).map_err(at(&window))?;
        drop((memory, files));
        let run = Run { seed: job.seed, cpu_limit_s: job.cpu_limit_s, directory: directory.path() };
        let finished = match &saved {
            Some(saved) => hardware.resume(&saved.directory, &run, progress, stop)?,
            None => hardware.boot(&run, progress, stop)?,
        };
        let damaged = || LabError::Guest("its results are damaged".to_owned());
        let mut files = shared::files(&finished.memory).ok_or_else(damaged)?;
        let account = files.remove(ACCOUNT).ok_or_else(damaged)?;
        let account: Account = serde_json::from_slice(&account).map_err(|_| damaged())?;
        if let Some(failure) = account.failure {
            return Err(failed(failure, job, &finished.console));
        }
        Ok(Outcome {
            files,
            commands: account.commands,
            booted_ms: account.booted_ms,
            scheduler_loaded_ms: account.scheduler_loaded_ms,
            started_ms: account.started_ms,
            ended_ms: account.ended_ms,
            real: started.elapsed(),
            console: finished.console,
        })
    }

    /// The saved machine that a job continues.
    fn saved(
        &self,
        machine: &LabMachine,
        job: &Job,
        hardware: &Hardware<'_>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<MachineInUse, LabError> {
        let about = machine.about(job);
        let inputs = [machine.kernel.digest.as_str(), &machine.image.digest, &machine.initrd_key];
        saved::prepare(&self.cache, &self.looked_at, hardware, &inputs, &about, progress, stop)
    }

    /// The files that the guest gets with a job: the job's text, programs and other files.
    fn job_files(&self, machine: &LabMachine, job: &Job) -> Result<BTreeMap<String, Vec<u8>>, LabError> {
        let mut guest = GuestJob {
            settings: job.setup.settings.iter().map(|s| (s.path.clone(), s.value.clone())).collect(),
            scheduler: None,
            scheduler_sign: job.setup.program.as_ref().map(|program| program.sign).unwrap_or_default(),
            scheduler_limit_ms: SCHEDULER_LIMIT_MS,
            commands: job.commands.clone(),
            start_ms: u64::from(job.start_at_s) * 1000,
            seed: job.seed,
            programs: BTreeSet::new(),
        };
        if let (Some(record), Some(last)) = (&job.record, guest.commands.last_mut()) {
            last.argv.splice(0..0, recording(&record.groups));
        }
        let mut programs: BTreeSet<PathBuf> = BTreeSet::new();
        for name in guest.commands.iter().flat_map(|GuestCommand { argv, .. }| argv) {
            if OWN.contains(&name.as_str()) {
                programs.insert(self.own_program(name)?);
            }
        }
        if let Some(program) = &job.setup.program {
            let name = format!("{BIN}/{}", file_name(&program.file));
            guest.scheduler = Some([name].into_iter().chain(program.args.iter().cloned()).collect());
            programs.insert(program.file.clone());
            programs.extend(program.helper());
        }
        let mut files = BTreeMap::new();
        for program in &programs {
            machine.image.check(program)?;
            let name = format!("{}/{}", &BIN[1..], file_name(program));
            files.insert(name.clone(), fs::read(program).map_err(at(program))?);
            guest.programs.insert(name);
        }
        for (name, source) in &job.files {
            let name = name.trim_start_matches('/').to_owned();
            let content = match source {
                FileSource::Bytes(bytes) => bytes.clone(),
                FileSource::File(path) => {
                    machine.image.check(path)?;
                    let mode = fs::metadata(path).map_err(at(path))?.permissions().mode();
                    if mode & 0o111 != 0 {
                        guest.programs.insert(name.clone());
                    }
                    fs::read(path).map_err(at(path))?
                }
            };
            files.insert(name, content);
        }
        if machine.shake_bytes > 0 {
            files.insert(SHAKE.to_owned(), vec![0; machine.shake_bytes as usize]);
        }
        let text = serde_json::to_vec(&guest).expect("texts and numbers can be written");
        files.insert(JOB.to_owned(), text);
        Ok(files)
    }

    fn own_program(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.programs.join(name);
        if path.is_file() { Ok(path) } else { Err(LabError::OwnProgram(path)) }
    }
}

/// The files that a kernel needs before it has a root file system.
fn first_files(
    kernel: &Kernel,
    image: &Image,
    init: &Path,
    modules: &[&str],
    scratch_mib: u32,
    stop: &Stop,
) -> Result<cpio::Archive, LabError> {
    let mut archive = cpio::Archive::new();
    archive.directory("guest").directory("boot").directory("modules");
    archive.file(&format!("{}/{INIT}", &BIN[1..]), 0o755, init);
    let machine = serde_json::to_vec(&GuestMachine { scratch_mib }).expect("numbers can be written");
    archive.bytes(&MACHINE_PATH[1..], 0o644, machine);
    archive.directory("dev").device("dev/console", 5, 1);
    let mut order = String::new();
    for module in kernel.modules()?.closure(modules, stop)? {
        let name = format!("modules/{}.ko", module.name);
        archive.bytes(&name, 0o644, module.bytes);
        let parameters = match module.name.as_str() {
            "brd" => format!(" rd_nr=1 rd_size={}", u64::from(scratch_mib) << 10),
            _ => String::new(),
        };
        order.push_str(&format!("/{name}{parameters}\n"));
    }
    archive.bytes("modules/order", 0o644, order);
    if matches!(image.content, Content::Erofs { .. }) {
        archive.bytes("guest-on-pmem", 0o644, Vec::new());
    }
    if let Some(config) = &kernel.config {
        archive.file(&format!("boot/config-{}", kernel.release), 0o644, config);
    }
    archive.bytes("init", 0o755, include_str!("guest/init.sh"));
    archive.file("bin/busybox", 0o755, &image.busybox);
    Ok(archive)
}

/// The words that precede a command that is recorded. The trace is not compressed, because compression would
/// take CPU time of the guest.
fn recording(groups: &[String]) -> Vec<String> {
    let mut argv = vec!["spry".to_owned(), "record".to_owned(), "--quiet".to_owned()];
    argv.extend(["--machine", "lab", "--compress", "none", "--output"].map(str::to_owned));
    argv.push(format!("{}/{TRACE}", crate::protocol::RESULTS_DIRECTORY));
    if !groups.is_empty() {
        argv.extend(["--events".to_owned(), groups.join(",")]);
    }
    argv.push("--".to_owned());
    argv
}

fn failed(failure: Failure, job: &Job, console: &str) -> LabError {
    let name = job.setup.program.as_ref().map(|program| file_name(&program.file)).unwrap_or_default();
    match failure {
        Failure::Setting(path, value, reason) => LabError::Setting { path, value, reason },
        Failure::SchedulerFailed(reason) => LabError::SchedulerFailed { name, reason },
        Failure::SchedulerEjected(reason) => LabError::SchedulerEjected { name, reason },
        Failure::TimedOut(what, limit_s) => LabError::TimedOut {
            what: format!("`{what}` (the guest's time)"),
            limit_s: u64::from(limit_s),
            stage: crate::progress::Stage::Running.name().to_owned(),
            log: crate::error::tail(console, 10),
        },
        Failure::Other(what) => LabError::Guest(what),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
