//! One virtual machine: what it is made of, how it is booted once and saved, begun again from memory, and how it can end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cache::key_of;
use crate::command::{Running, spawn};
use crate::emulator::Emulator;
use crate::error::{LabError, at, tail};
use crate::monitor::{self, Monitor, MonitorError};
use crate::progress::{Event, Progress, Stage, Stop};
use crate::protocol::shared;
use crate::topology::Topology;

/// Where in the guest's memory a large root file system lies, MiB.
pub(crate) const IMAGE_AT_MIB: u64 = 1024;
/// What memory below 4 GiB the emulated machine has, MiB.
const LOW_MEMORY_MIB: u64 = 3072;
/// How often the guest is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A machine that uses no CPU time for so long waits for nothing that will come.
const STILL: Duration = Duration::from_secs(60);
/// How much of the console is shown when something went wrong.
const LOG_LINES: usize = 25;
/// How much CPU time of this machine a boot may take, seconds.
const BOOT_LIMIT_S: u64 = 300;
/// Whatever is random while the guest boots comes from this number; the job brings another.
const BOOT_SEED: u64 = 1;
/// Instructions that a CPU executes before it is the next one's turn: with an instruction a nanosecond each CPU hears of
/// another one at most so many nanoseconds late.
pub const TURN_INSTRUCTIONS: u32 = 2000;
/// The CPU that is emulated: all that the emulator can, but for what costs and shows nothing here. `monitor`: with several CPUs its
/// waiting spins. `erms`, `fsrm`: they have the kernel copy byte by byte, each an instruction. `la57`: a fifth level of
/// page tables. `rdrand`, `rdseed`: chance that the job's seed does not reach.
const CPU: &str = "max,-monitor,-erms,-fsrm,-la57,-rdrand,-rdseed";
/// The memory of a saved machine, and everything else of it.
pub(crate) const SAVED_FILES: [&str; 2] = ["memory", "state"];
/// What a machine is told so that it leaves out of the state the memory that is in files.
const SHARED_IS_LEFT_OUT: &str = "x-ignore-shared";

/// What a virtual machine is made of. Equal ones boot alike.
#[derive(Clone, Debug)]
pub(crate) struct Hardware<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: &'a Path,
    /// A file system for memory, and its size in MiB.
    pub(crate) image: Option<(&'a Path, u64)>,
    pub(crate) cmdline: String,
    pub(crate) shift: u8,
    pub(crate) topology: Topology,
    pub(crate) memory_mib: u64,
    /// The size of the memory that it shares with the lab: a job goes in, results come out.
    pub(crate) window_mib: u64,
}

/// How a machine ended that got through.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The shared memory.
    pub(crate) memory: Vec<u8>,
    /// What the kernel said since it was begun again.
    pub(crate) console: String,
}

/// Whether what the guest writes to its memory goes to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    ToTheFile,
    ToACopy,
}

impl Hardware<'_> {
    /// The hash of all that a boot depends on; `inputs` are the hashes of the files.
    pub(crate) fn key(&self, inputs: &[&str]) -> String {
        let numbers = [u64::from(self.shift), self.memory_mib, self.window_mib, u64::from(TURN_INSTRUCTIONS)];
        let numbers = numbers.map(|number| number.to_string());
        let topology = format!("{:?}", self.topology);
        let own = [
            include_str!("vm.rs"),
            include_str!("topology.rs"),
            &self.cmdline,
            &topology,
            &self.emulator.digest,
        ];
        key_of(own.into_iter().chain(numbers.iter().map(String::as_str)).chain(inputs.iter().copied()))
    }

    /// All of its memory, MiB.
    pub(crate) fn whole_memory_mib(&self) -> u64 {
        self.memory_mib + self.image.map_or(0, |(_, mib)| mib)
    }

    fn command(
        &self,
        memory: &Path,
        writes: Writes,
        seed: u64,
        directory: &Path,
    ) -> Result<Command, LabError> {
        let mut command = Command::new(&self.emulator.program);
        command.arg("-L").arg(&self.emulator.firmware).args(["-accel", "tcg", "-nodefaults"]);
        command.arg("-cpu").arg(format!("{CPU}{}", self.topology.cpu_properties()));
        let cache = self.topology.cache_property();
        command.arg("-machine").arg(format!("pc,memory-backend=memory,{cache}"));
        command.arg("-smp").arg(self.topology.smp());
        command.args(["-no-user-config", "-no-reboot", "-display", "none"]);
        command.args(["-rtc", "base=2026-01-01,clock=vm"]);
        let turn = match self.topology.cpus() {
            1 => String::new(),
            _ => format!(",turn={TURN_INSTRUCTIONS}"),
        };
        command.arg("-icount").arg(format!("shift={},sleep=off{turn}", self.shift));
        command.arg("-seed").arg(seed.to_string());
        command.arg("-serial").arg(format!("file:{}", console(directory).display()));
        command.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initrd);
        let mut cmdline = format!("{}{}", self.cmdline, self.topology.kernel_parameters());
        if let Some((path, mib)) = self.image {
            if self.whole_memory_mib() > LOW_MEMORY_MIB || self.memory_mib < IMAGE_AT_MIB {
                return Err(LabError::Kernel(format!(
                    "the image takes {mib} MiB and the guest {} MiB, and both must fit into {LOW_MEMORY_MIB} MiB: \
                     leave packages out",
                    self.memory_mib
                )));
            }
            cmdline.push_str(&format!(" memmap={mib}M!{IMAGE_AT_MIB}M"));
            let address = IMAGE_AT_MIB << 20;
            command.arg("-device");
            command.arg(format!("loader,file={},addr={address:#x},force-raw=on", in_option(path)));
        }
        command.arg("-append").arg(cmdline);
        let mib = self.whole_memory_mib();
        let share = match writes {
            Writes::ToTheFile => "on",
            Writes::ToACopy => "off",
        };
        command.arg("-m").arg(mib.to_string());
        command.arg("-object").arg(format!(
            "memory-backend-file,id=memory,mem-path={},size={mib}M,share={share}",
            in_option(memory)
        ));
        command.arg("-object").arg(format!(
            "memory-backend-file,id=window,mem-path={},size={}M,share=on",
            in_option(&window(directory)),
            self.window_mib
        ));
        // Only the master of shared memory may be saved.
        command.args(["-device", "ivshmem-plain,memdev=window,master=on"]);
        // By these the guest pauses the machine at an instruction of its own.
        command.args(["-device", "pvpanic", "-action", "panic=pause"]);
        command.args(monitor::ARGUMENTS);
        Ok(command)
    }

    fn start(mut command: Command, directory: &Path) -> Result<Running, LabError> {
        let log = log(directory);
        let stderr = File::create(&log).map_err(at(&log))?;
        spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr))
    }

    /// Boots until the guest pauses the machine, and saves it into a directory: its memory in one file, the rest in another.
    ///
    /// # Errors
    /// Where the guest does not get there, for what reason.
    pub(crate) fn save(&self, into: &Path, stop: &Stop) -> Result<(), LabError> {
        let [memory, state] = SAVED_FILES.map(|name| into.join(name));
        drop(reserve(&window(into), self.window_mib)?);
        let command = self.command(&memory, Writes::ToTheFile, BOOT_SEED, into)?;
        let mut running = Self::start(command, into)?;
        let mut used = Used::of(&running.child, BOOT_LIMIT_S);
        let mut go_on = || !stop.is_requested() && used.check().is_none();
        let saved = (|| {
            let mut monitor = Monitor::open(&mut running.child, &mut go_on)?;
            monitor.wait_for("STOP", &mut go_on)?;
            leave_shared_out(&mut monitor, &mut go_on)?;
            let uri = format!("file:{}", state.display());
            monitor.execute("migrate", json!({ "uri": uri }), &mut go_on)?;
            loop {
                let answer = monitor.execute("query-migrate", json!({}), &mut go_on)?;
                match answer["status"].as_str() {
                    Some("completed") => return Ok(()),
                    Some("failed" | "cancelled") => {
                        let reason = answer["error-desc"].as_str().unwrap_or_default().to_owned();
                        return Err(MonitorError::Refused { command: "save the machine", reason });
                    }
                    _ => thread::sleep(Duration::from_millis(5)),
                }
            }
        })();
        let saved = saved.map_err(|error| explained(error, &mut running, into, used.check(), stop));
        drop(running);
        saved?;
        [console(into), window(into), log(into)]
            .iter()
            .try_for_each(|path| fs::remove_file(path).map_err(at(path)))
    }

    /// Begins a saved machine again, with whatever stands in the window that the directory holds, and waits until the
    /// guest is through.
    ///
    /// # Errors
    /// Where it does not get through, for what reason.
    pub(crate) fn resume(
        &self,
        saved: &Path,
        run: &Run<'_>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Finished, LabError> {
        let [memory, state] = SAVED_FILES.map(|name| saved.join(name));
        let directory = run.directory;
        let mut command = self.command(&memory, Writes::ToACopy, run.seed, directory)?;
        command.args(["-incoming", "defer"]);
        let mut running = Self::start(command, directory)?;
        let mut used = Used::of(&running.child, run.cpu_limit_s);
        let mut go_on = || !stop.is_requested() && used.check().is_none();
        let begun = (|| {
            let mut monitor = Monitor::open(&mut running.child, &mut go_on)?;
            leave_shared_out(&mut monitor, &mut go_on)?;
            let uri = format!("file:{}", state.display());
            monitor.execute("migrate-incoming", json!({ "uri": uri }), &mut go_on)?;
            loop {
                let answer = monitor.execute("query-status", json!({}), &mut go_on)?;
                match answer["status"].as_str() {
                    Some("inmigrate") => thread::sleep(Duration::from_millis(2)),
                    _ => break,
                }
            }
            monitor.execute("cont", json!({}), &mut go_on)?;
            Ok(monitor)
        })();
        let monitor = begun.map_err(|error| explained(error, &mut running, directory, used.check(), stop))?;
        finish(running, monitor, used, run, progress, stop)
    }

    /// Boots a machine for one run, as it is booted to be saved, and lets it go on from where it would be saved.
    ///
    /// # Errors
    /// Where it does not get through, for what reason.
    pub(crate) fn boot(
        &self,
        run: &Run<'_>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Finished, LabError> {
        let directory = run.directory;
        let command = self.command(&directory.join("memory"), Writes::ToTheFile, BOOT_SEED, directory)?;
        let mut running = Self::start(command, directory)?;
        let mut used = Used::of(&running.child, BOOT_LIMIT_S + run.cpu_limit_s);
        let mut go_on = || !stop.is_requested() && used.check().is_none();
        let begun = (|| {
            let mut monitor = Monitor::open(&mut running.child, &mut go_on)?;
            monitor.wait_for("STOP", &mut go_on)?;
            monitor.execute("cont", json!({}), &mut go_on)?;
            Ok(monitor)
        })();
        let monitor = begun.map_err(|error| explained(error, &mut running, directory, used.check(), stop))?;
        finish(running, monitor, used, run, progress, stop)
    }
}

/// Waits until a guest that has its job is through. The monitor is kept open until then: an emulator whose input ends
/// would end, too.
fn finish(
    mut running: Running,
    monitor: Monitor,
    mut used: Used,
    run: &Run<'_>,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Finished, LabError> {
    let directory = run.directory;
    let status = watch(&mut running.child, directory, &mut used, progress, stop)?;
    drop((monitor, running));
    let memory = fs::read(window(directory)).map_err(at(&window(directory)))?;
    let stage = shared::stage(&memory);
    if stage == Stage::Done {
        return Ok(Finished { memory, console: read_console(directory) });
    }
    if !status.success() {
        return Err(ended(status, directory));
    }
    Err(died(stage, &read_console(directory)))
}

/// One run of a machine.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) seed: u64,
    pub(crate) cpu_limit_s: u64,
    /// It holds the window, and takes the console and the emulator's own words.
    pub(crate) directory: &'a Path,
}

/// What a lost channel to the emulator means.
fn explained(
    error: MonitorError,
    running: &mut Running,
    directory: &Path,
    limit: Option<Limit>,
    stop: &Stop,
) -> LabError {
    match (error, limit) {
        (MonitorError::GivenUp, _) if stop.is_requested() => LabError::Interrupted,
        (MonitorError::GivenUp, Some(limit)) => limit.error(Stage::Booting, directory),
        (MonitorError::GivenUp, None) => LabError::Interrupted,
        (error @ MonitorError::Refused { .. }, _) => {
            LabError::Qemu { status: error.to_string(), stderr: last_words(directory) }
        }
        (MonitorError::Ended, _) => match running.child.wait() {
            Ok(status) if status.success() => died(Stage::Booting, &read_console(directory)),
            Ok(status) => ended(status, directory),
            Err(error) => at(directory)(error),
        },
    }
}

fn leave_shared_out(monitor: &mut Monitor, go_on: &mut dyn FnMut() -> bool) -> Result<(), MonitorError> {
    let capability = json!({ "capabilities": [{ "capability": SHARED_IS_LEFT_OUT, "state": true }] });
    monitor.execute("migrate-set-capabilities", capability, go_on).map(drop)
}

/// A path as a part of an option, where a comma would end it.
fn in_option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn console(directory: &Path) -> PathBuf {
    directory.join("console")
}

/// The memory that the guest shares with the lab.
pub(crate) fn window(directory: &Path) -> PathBuf {
    directory.join("window")
}

fn log(directory: &Path) -> PathBuf {
    directory.join("emulator.log")
}

fn read_console(directory: &Path) -> String {
    let bytes = fs::read(console(directory));
    bytes.map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn last_words(directory: &Path) -> String {
    tail(&fs::read_to_string(log(directory)).unwrap_or_default(), LOG_LINES)
}

fn ended(status: ExitStatus, directory: &Path) -> LabError {
    // Its memory is a file. What it writes there when the disk is full ends it so.
    if status.signal() == Some(libc::SIGBUS) {
        return LabError::DiskFull { path: directory.to_owned(), needed_mib: 0 };
    }
    LabError::Qemu { status: status.to_string(), stderr: last_words(directory) }
}

/// What an emulator has used of this machine, and what it may.
struct Used {
    process: u32,
    limit_s: u64,
    used: Duration,
    since: Instant,
}

/// A limit that an emulator has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// CPU time of this machine, seconds.
    Cpu(u64),
    /// It does nothing.
    Still,
}

impl Limit {
    fn error(self, stage: Stage, directory: &Path) -> LabError {
        let (what, limit_s) = match self {
            Self::Cpu(limit_s) => ("the virtual machine (this machine's CPU time)", limit_s),
            Self::Still => ("the guest, which has halted (without any work)", STILL.as_secs()),
        };
        LabError::TimedOut {
            what: what.to_owned(),
            limit_s,
            stage: stage.name().to_owned(),
            log: tail(&read_console(directory), LOG_LINES),
        }
    }
}

impl Used {
    fn of(child: &Child, limit_s: u64) -> Self {
        Self { process: child.id(), limit_s, used: Duration::ZERO, since: Instant::now() }
    }

    /// Looks; the limit that has been reached, if one has.
    fn check(&mut self) -> Option<Limit> {
        let used = cpu_time(self.process).unwrap_or(self.used);
        if used > self.used {
            (self.used, self.since) = (used, Instant::now());
        }
        if used.as_secs() >= self.limit_s {
            return Some(Limit::Cpu(self.limit_s));
        }
        (self.since.elapsed() >= STILL).then_some(Limit::Still)
    }
}

fn watch(
    child: &mut Child,
    directory: &Path,
    used: &mut Used,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<ExitStatus, LabError> {
    let shared = File::open(window(directory)).map_err(at(&window(directory)))?;
    let mut told = None;
    loop {
        if let Some(status) = child.try_wait().map_err(at(directory))? {
            return Ok(status);
        }
        if stop.is_requested() {
            return Err(LabError::Interrupted);
        }
        let mut head = [0; 12];
        // A head that cannot be read says nothing, as one that nobody has written does.
        let _ = io::Seek::rewind(&mut &shared).and_then(|()| (&mut &shared).read_exact(&mut head));
        let stage = shared::stage(&head);
        if told != Some(stage) {
            progress.tell(Event::Guest(stage));
            told = Some(stage);
        }
        if let Some(limit) = used.check() {
            return Err(limit.error(stage, directory));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Why a guest that rebooted or powered off without results did so.
fn died(stage: Stage, console: &str) -> LabError {
    let log = tail(console, LOG_LINES);
    let panic = console.lines().rev().find(|line| line.contains("Kernel panic"));
    match panic {
        Some(line) => {
            let reason = line.split("Kernel panic").nth(1).unwrap_or(line);
            let reason = reason.trim_start_matches(" - not syncing: ").trim().to_owned();
            LabError::Panic { reason, log }
        }
        None => LabError::GuestDied { stage: stage.name().to_owned(), log },
    }
}

/// A file of this size whose space the disk has already given: the guest's writes to it cannot fail later.
pub(crate) fn reserve(path: &Path, mib: u64) -> Result<File, LabError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(at(path))?;
    let size = i64::try_from(mib << 20).map_err(|_| at(path)(io::Error::other("too large")))?;
    // SAFETY: posix_fallocate takes an open descriptor and numbers, and reports errors by its result.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
        0 => Ok(file),
        libc::ENOSPC => Err(LabError::DiskFull { path: path.to_owned(), needed_mib: mib }),
        error => Err(at(path)(io::Error::from_raw_os_error(error))),
    }
}

/// The CPU time that a process has used.
fn cpu_time(process: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // SAFETY: sysconf takes a number and no memory.
    let ticks_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    cpu_ticks(&text).map(|ticks| Duration::from_millis(ticks * 1000 / ticks_s.max(1) as u64))
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything, parentheses included.
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_from_a_guest_that_just_ended() {
        let console = "[    9.1] sysrq: Trigger a crash\r\n[    9.1] Kernel panic - not syncing: sysrq triggered crash\r\nmore";
        let error = died(Stage::Running, console);
        assert!(
            matches!(&error, LabError::Panic { reason, .. } if reason == "sysrq triggered crash"),
            "{error}"
        );
        let error = died(Stage::Running, "[    1.0] all is well\n");
        assert!(matches!(&error, LabError::GuestDied { stage, .. } if stage == "running"), "{error}");
    }

    #[test]
    fn a_program_s_name_may_hold_parentheses() {
        let stat = "12 (a) b) R 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20";
        assert_eq!(cpu_ticks(stat), Some(42));
    }

    #[test]
    fn space_that_the_disk_has_not_is_reported_before_the_guest_starts() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = reserve(&directory.path().join("shared"), 1 << 32).expect_err("nobody has 4 EiB");
        assert!(!matches!(error, LabError::Interrupted), "{error}");
    }
}
