//! The lab: prepares a machine from packages, and runs jobs on it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::build;
use crate::cache::{Cache, digest_of_file, key_of};
use crate::command::{found, run};
use crate::cpio;
use crate::doctor::{Finding, doctor};
use crate::error::{LabError, at};
use crate::fetch::Archive;
use crate::image::{Content, Image};
use crate::job::{FileSource, Job, Outcome, TRACE};
use crate::kernel::{Kernel, KernelChoice};
use crate::progress::{Event, Progress, Stop};
use crate::protocol::{ACCOUNT, Account, Failure, GuestCommand, GuestJob, JOB_PATH, shared};
use crate::scheduler::{Setup, Sign};
use crate::vm::{QEMU, Vm};

/// What the kernel is told on every boot.
const CMDLINE: &str = "console=ttyS0 quiet loglevel=4 nokaslr panic=-1 oops=panic softlockup_panic=1 \
    transparent_hugepage=never random.trust_cpu=on";
/// What it is told besides where its time is this machine's: on a busy one the check of its timers finds none, and that
/// of the clock finds it unstable, for which the kernel rewrites itself while it runs: more than the emulator bears on several CPUs.
const CMDLINE_REAL_TIME: &str = "no_timer_check tsc=nowatchdog";
/// How often a run is begun again at most.
const FAULTS_MAX: usize = 4;
/// Equal inputs fail alike, so the kernel has a parameter more then, which nobody reads: every moment is another one.
const AGAIN: &str = "spry.again";
/// How long a scheduler may take to load, milliseconds of the guest; the slowest peer takes 17 s.
const SCHEDULER_LIMIT_MS: u64 = 90_000;
/// Where Spry's programs and the scheduler under test are in the guest.
const BIN: &str = "/spry/bin";
/// Spry's own programs that a job may name without saying where they are.
const OWN: [&str; 2] = ["spry", "spry-runner"];
/// What a recording may need for its trace, MiB.
const TRACE_MIB: u32 = 512;

/// Where things are; what is not given is where it usually is.
#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// The cache; otherwise [`Cache::default_root`].
    pub cache: Option<PathBuf>,
    /// The archive of packages; otherwise that of this machine's apt.
    pub mirror: Option<String>,
    /// The directory with Spry's own programs; otherwise that of this program.
    pub programs: Option<PathBuf>,
}

/// What a machine is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSpec {
    /// The kernel.
    pub kernel: KernelChoice,
    /// Packages beside what every image holds.
    pub packages: BTreeSet<String>,
    /// Kernel modules to insert at boot, such as `uinput`; what is built in is left out.
    pub modules: BTreeSet<String>,
    /// The size of an ext4 file system in memory at `/scratch`, MiB; none if 0.
    pub scratch_mib: u32,
}

/// A machine that is ready to run jobs.
#[derive(Clone, Debug)]
pub struct LabMachine {
    /// Its kernel.
    pub kernel: Kernel,
    /// Its root file system.
    pub image: Image,
    initrd: PathBuf,
    scratch_mib: u32,
    qemu: String,
    qemu_digest: String,
}

impl LabMachine {
    /// Whether a scheduler can run on its kernel at all, as far as can be told without booting it.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self, setup: &Setup) -> Result<(), LabError> {
        let program = setup.program.as_ref().filter(|program| program.sign == Sign::SchedExt);
        program.map_or(Ok(()), |program| self.kernel.must_take(&program.file))
    }

    /// The emulator and its version, in its own words.
    pub fn emulator(&self) -> &str {
        &self.qemu
    }

    /// What results depend on beside the job: the emulator, the kernel, the image, each with its hash.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let image = key_of([self.image.digest.as_str(), &self.scratch_mib.to_string()]);
        [
            ("qemu", format!("{} {}", self.qemu, self.qemu_digest)),
            ("kernel", format!("{} {}", self.kernel.release, self.kernel.digest)),
            ("image", image),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// The lab.
#[derive(Clone, Debug)]
pub struct Lab {
    pub(crate) cache: Cache,
    pub(crate) archive: Archive,
    programs: PathBuf,
}

impl Lab {
    /// Opens the lab's cache; fetches nothing yet.
    ///
    /// # Errors
    /// Where the cache cannot be made, or no archive of packages is known.
    pub fn open(options: LabOptions) -> Result<Self, LabError> {
        let root = options.cache.unwrap_or_else(Cache::default_root);
        let cache = Cache::open(&root)?;
        let archive = Archive::open(&cache, options.mirror.as_deref())?;
        let programs = match options.programs {
            Some(programs) => programs,
            None => own_directory()?,
        };
        Ok(Self { cache, archive, programs })
    }

    /// The cache's directory.
    pub fn cache(&self) -> &Path {
        self.cache.root()
    }

    /// Fetches the newest lists of packages; machines prepared from now on are of newer packages, and their figures
    /// are not those of before.
    ///
    /// # Errors
    /// Where the archive cannot be reached, or its signatures not checked.
    pub fn refresh(&self, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
        self.archive.refresh(progress, stop)
    }

    /// Builds a small kernel with this tick rate from the distribution's source, unless it is there; takes 5 to 10
    /// minutes of all CPUs. [`KernelChoice::Built`] then finds it.
    ///
    /// # Errors
    /// Where the source cannot be had, or this machine lacks what building takes.
    pub fn build_kernel(&self, hz: u32, progress: &dyn Progress, stop: &Stop) -> Result<Kernel, LabError> {
        build::build(&self.cache, &self.archive, hz, progress, stop)?;
        Kernel::prepare(&KernelChoice::Built { hz }, &self.cache, &self.archive, progress, stop)
    }

    /// What the lab lacks on this machine, and how to get it. Works where [`Lab::open`] does not.
    pub fn doctor(options: &LabOptions, stop: &Stop) -> Vec<Finding> {
        doctor(options, stop)
    }

    /// Fetches and builds what a machine is made of, unless it is there.
    ///
    /// # Errors
    /// Where something cannot be had or built.
    pub fn prepare(
        &self,
        spec: &MachineSpec,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<LabMachine, LabError> {
        let qemu = run(Command::new(QEMU).arg("--version"), stop)?;
        let qemu = String::from_utf8_lossy(&qemu).lines().next().unwrap_or_default().to_owned();
        let kernel = Kernel::prepare(&spec.kernel, &self.cache, &self.archive, progress, stop)?;
        let mut packages = spec.packages.clone();
        if spec.scratch_mib > 0 {
            packages.insert("e2fsprogs".to_owned());
        }
        let image = Image::prepare(&packages, &self.cache, &self.archive, progress, stop)?;
        let initrd = self.initrd(&kernel, &image, spec, progress, stop)?;
        let qemu_digest = digest_of_file(&found(QEMU).unwrap_or_else(|| QEMU.into()))?;
        Ok(LabMachine { kernel, image, initrd, scratch_mib: spec.scratch_mib, qemu, qemu_digest })
    }

    /// The part of the first file system that does not depend on the job.
    fn initrd(
        &self,
        kernel: &Kernel,
        image: &Image,
        spec: &MachineSpec,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<PathBuf, LabError> {
        let mut modules: Vec<String> = spec.modules.iter().cloned().collect();
        if matches!(image.content, Content::Erofs { .. }) {
            modules.extend(["nd_pmem", "nd_e820", "erofs"].map(str::to_owned));
        }
        if spec.scratch_mib > 0 {
            modules.extend(["brd", "ext4"].map(str::to_owned));
        }
        let scratch = format!("{}", spec.scratch_mib);
        let recipe = [include_str!("lab.rs"), include_str!("guest/init.sh"), include_str!("cpio.rs")];
        let own = [kernel.digest.as_str(), image.digest.as_str(), scratch.as_str()];
        let key = key_of(recipe.into_iter().chain(own).chain(modules.iter().map(String::as_str)));
        let directory = self.cache.entry("initrds", &key, stop, |directory| {
            progress.tell(Event::Step("writing the first file system"));
            let names: Vec<&str> = modules.iter().map(String::as_str).collect();
            let archive = first_files(kernel, image, &names, spec.scratch_mib, stop)?;
            let path = directory.join("initrd");
            let mut bytes = Vec::new();
            archive.write(&mut bytes).map_err(at(&path))?;
            if let Content::Cpio(root) = &image.content {
                bytes.extend(fs::read(root).map_err(at(root))?);
            }
            fs::write(&path, bytes).map_err(at(&path))
        })?;
        Ok(directory.join("initrd"))
    }

    /// Boots, runs a job, and takes its results out. Several threads may do so at once. Where the emulator is known to
    /// have been at fault, the run is begun again; what comes of equal inputs is still equal.
    ///
    /// # Errors
    /// Where the job did not get through: the guest, the scheduler under test or this machine, each told apart.
    /// A command that ends with a status other than 0 is no error here.
    pub fn run(
        &self,
        machine: &LabMachine,
        job: &Job,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Outcome, LabError> {
        let mut job = Cow::Borrowed(job);
        let mut faults = Vec::new();
        loop {
            let error = match self.run_once(machine, &job, progress, stop) {
                Ok(outcome) => return Ok(Outcome { faults, ..outcome }),
                Err(error) => error,
            };
            match error.fault().filter(|_| faults.len() < FAULTS_MAX) {
                Some(fault) => faults.push(fault),
                None => return Err(error),
            }
            job.to_mut().cmdline.push(AGAIN.to_owned());
        }
    }

    fn run_once(
        &self,
        machine: &LabMachine,
        job: &Job,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Outcome, LabError> {
        let started = Instant::now();
        let directory = self.cache.run_directory()?;
        let initrd = directory.path().join("initrd");
        fs::copy(&machine.initrd, &initrd).map_err(at(&initrd))?;
        let archive = self.job_files(machine, job)?;
        let mut file = OpenOptions::new().append(true).open(&initrd).map_err(at(&initrd))?;
        let mut bytes = Vec::new();
        archive.write(&mut bytes).map_err(at(&initrd))?;
        file.write_all(&bytes).map_err(at(&initrd))?;
        drop((file, bytes));
        let image = match &machine.image.content {
            Content::Cpio(_) => None,
            Content::Erofs { path, mib } => Some((path.as_path(), *mib)),
        };
        let results_mib = if job.record.is_some() { job.results_mib.max(TRACE_MIB) } else { job.results_mib };
        let vm = Vm {
            kernel: &machine.kernel.image,
            initrd: &initrd,
            image,
            cmdline: [CMDLINE]
                .into_iter()
                .chain((job.cpus > 1).then_some(CMDLINE_REAL_TIME))
                .chain(job.cmdline.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
            shift: job.shift,
            cpus: job.cpus,
            caches: job.caches,
            seed: job.seed,
            memory_mib: u64::from(job.memory_mib),
            results_mib: u64::from(results_mib.max(1).next_power_of_two()),
            cpu_limit_s: job.cpu_limit_s,
            directory: directory.path(),
        };
        let finished = vm.run(progress, stop)?;
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
            faults: Vec::new(),
        })
    }

    /// The job's own part of the first file system.
    fn job_files(&self, machine: &LabMachine, job: &Job) -> Result<cpio::Archive, LabError> {
        let mut archive = cpio::Archive::new();
        let mut guest = GuestJob {
            settings: job.setup.settings.iter().map(|s| (s.path.clone(), s.value.clone())).collect(),
            scheduler: None,
            scheduler_sign: job.setup.program.as_ref().map(|program| program.sign).unwrap_or_default(),
            scheduler_limit_ms: SCHEDULER_LIMIT_MS,
            commands: job.commands.clone(),
            start_ms: u64::from(job.start_at_s) * 1000,
            scratch_mib: machine.scratch_mib,
        };
        if let (Some(record), Some(last)) = (&job.record, guest.commands.last_mut()) {
            last.argv.splice(0..0, recording(&record.groups));
        }
        let mut programs: BTreeSet<PathBuf> = BTreeSet::from([self.own_program("spry-guest")?]);
        for name in guest.commands.iter().flat_map(|GuestCommand { argv, .. }| argv) {
            if OWN.contains(&name.as_str()) {
                programs.insert(self.own_program(name)?);
            }
        }
        if let Some(program) = &job.setup.program {
            let name = format!("{BIN}/{}", file_name(&program.file));
            guest.scheduler = Some([name].into_iter().chain(program.args.iter().cloned()).collect());
            programs.insert(program.file.clone());
        }
        for program in &programs {
            machine.image.check(program)?;
            archive.file(&format!("{}/{}", &BIN[1..], file_name(program)), 0o755, program);
        }
        for (name, source) in &job.files {
            let name = name.trim_start_matches('/');
            match source {
                FileSource::Bytes(bytes) => archive.bytes(name, 0o644, bytes.clone()),
                FileSource::File(path) => {
                    machine.image.check(path)?;
                    let mode = fs::metadata(path).map_err(at(path))?.permissions().mode();
                    archive.file(name, if mode & 0o111 == 0 { 0o644 } else { 0o755 }, path)
                }
            };
        }
        let text = serde_json::to_vec(&guest).expect("texts and numbers can be written");
        archive.bytes(&JOB_PATH[1..], 0o644, text);
        Ok(archive)
    }

    fn own_program(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.programs.join(name);
        if path.is_file() { Ok(path) } else { Err(LabError::OwnProgram(path)) }
    }
}

/// Everything that a kernel needs before it has a root file system.
fn first_files(
    kernel: &Kernel,
    image: &Image,
    modules: &[&str],
    scratch_mib: u32,
    stop: &Stop,
) -> Result<cpio::Archive, LabError> {
    let mut archive = cpio::Archive::new();
    archive.directory("guest").directory("boot").directory("spry/bin").directory("modules");
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

/// What stands before a command that is recorded. Nothing is packed: that would take the guest's time.
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

/// The directory of this program; of a test, the one above.
pub(crate) fn own_directory() -> Result<PathBuf, LabError> {
    let own = env::current_exe().map_err(at(Path::new("this program")))?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let is_test = directory.file_name().is_some_and(|name| name == "deps");
    Ok(if is_test { directory.parent().unwrap_or(directory) } else { directory }.to_owned())
}
