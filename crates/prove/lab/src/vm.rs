//! One virtual machine: its parts, its boot and its saved state, its continuation from memory, and the ways
//! in which it can end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use spry_sys::process::stat_fields;

use crate::cache::key_of;
use crate::command::{RunningProgram, spawn};
use crate::emulator::Emulator;
use crate::error::{LabError, at, tail};
use crate::monitor::{self, Monitor, MonitorError};
use crate::progress::{Event, Progress, Stage, Stop};
use crate::protocol::shared;
use crate::recipe::code_of;
use crate::topology::Topology;

/// The address in the guest's memory at which a large root file system lies, MiB.
pub(crate) const IMAGE_AT_MIB: u64 = 1024;
/// How much memory below 4 GiB the emulated machine has, MiB.
const LOW_MEMORY_MIB: u64 = 3072;
/// The interval at which the lab checks the guest.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// If a machine uses no CPU time for this long, it waits for an event that does not come.
const STILL: Duration = Duration::from_secs(60);
/// How many lines of the console an error shows.
const LOG_LINES: usize = 25;
/// How much CPU time of this machine a boot may take, seconds.
const BOOT_LIMIT_S: u64 = 300;
/// The seed of all random numbers while the guest boots. The job has another seed for the time after.
const BOOT_SEED: u64 = 1;
/// How many instructions a CPU executes before the next CPU's turn. If an instruction takes a nanosecond, a
/// CPU sees the effects of each other CPU at most this many nanoseconds late.
pub const TURN_INSTRUCTIONS: u32 = 2000;
/// The length of a turn on a machine with one CPU, where each turn is followed by another turn of the same
/// CPU. Without turns, timers of the host's time would end runs, and the CPU would sleep or not depending on
/// the load of the host's threads: on a busy host, an interrupt after idle time came some ns later.
const TURN_OF_ONE_CPU: u32 = 1_000_000;
/// The emulated CPU. It has all features of the emulator, except features that are expensive and not needed
/// here. `monitor`: with several CPUs, waiting by it spins. `erms`, `fsrm`: with them the kernel copies byte
/// by byte, with an instruction for each byte. `la57`: a fifth level of page tables. `rdrand`, `rdseed`:
/// random numbers on which the job's seed has no effect.
const CPU: &str = "max,-monitor,-erms,-fsrm,-la57,-rdrand,-rdseed";
/// The files of a saved machine: its memory, and the rest of its state.
pub(crate) const SAVED_FILES: [&str; 2] = ["memory", "state"];
/// The capability with which the emulator leaves memory that is in files out of the saved state.
const SHARED_IS_LEFT_OUT: &str = "x-ignore-shared";

/// The parts of a virtual machine. Machines of equal hardware boot in the same way.
#[derive(Clone, Debug)]
pub(crate) struct Hardware<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: &'a Path,
    /// The file system that is put into the memory, and its size in MiB; `None` if the image
    /// is in the initrd.
    pub(crate) image: Option<(&'a Path, u64)>,
    pub(crate) cmdline: String,
    pub(crate) shift: u8,
    pub(crate) topology: Topology,
    pub(crate) memory_mib: u64,
    /// The size of the memory that the machine shares with the lab, MiB. Jobs and results pass through it.
    pub(crate) window_mib: u64,
}

/// The state that a machine returns after its job.
#[derive(Debug)]
pub(crate) struct FinalState {
    /// The content of the memory that the guest shares with the lab.
    pub(crate) memory: Vec<u8>,
    /// The kernel's messages since the machine continued.
    pub(crate) console: String,
}

/// Whether the guest's writes to its memory change the file of the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    ToTheFile,
    ToACopy,
}

/// How many instructions a turn of a CPU has on a machine with this number of CPUs.
const fn turn_of(cpus: u32) -> u32 {
    if cpus == 1 { TURN_OF_ONE_CPU } else { TURN_INSTRUCTIONS }
}

impl Hardware<'_> {
    /// The hash of everything on which a boot depends. `inputs` are the hashes of the files.
    pub(crate) fn key(&self, inputs: &[&str]) -> String {
        let turn = u64::from(turn_of(self.topology.cpus()));
        let numbers = [u64::from(self.shift), self.memory_mib, self.window_mib, turn];
        let numbers = numbers.map(|number| number.to_string());
        let topology = format!("{:?}", self.topology);
        let code = [include_str!("vm.rs"), include_str!("topology.rs")].map(code_of);
        let code = code.iter().map(String::as_str);
        let own = [&self.cmdline, &topology, &self.emulator.digest].map(String::as_str);
        let numbers = numbers.iter().map(String::as_str);
        key_of(code.chain(own).chain(numbers).chain(inputs.iter().copied()))
    }

    /// The size of all of the machine's memory, MiB.
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
        let turn = turn_of(self.topology.cpus());
        command.arg("-icount").arg(format!("shift={},sleep=off,turn={turn}", self.shift));
        command.arg("-seed").arg(seed.to_string());
        command.arg("-serial").arg(format!("file:{}", console(directory).display()));
        command.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initrd);
        let mut cmdline = format!("{}{}", self.cmdline, self.topology.kernel_parameters());
        if let Some((path, mib)) = self.image {
            if self.whole_memory_mib() > LOW_MEMORY_MIB || self.memory_mib < IMAGE_AT_MIB {
                return Err(LabError::Kernel(format!(
                    "the image takes {mib} MiB and the guest {} MiB, and both must fit into {LOW_MEMORY_MIB} \
                     MiB: leave packages out",
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
        // The emulator can only save a machine that is the master of its shared memory.
        command.args(["-device", "ivshmem-plain,memdev=window,master=on"]);
        // With this device and this action the guest can pause the machine at a chosen instruction.
        command.args(["-device", "pvpanic", "-action", "panic=pause"]);
        command.args(monitor::ARGUMENTS);
        Ok(command)
    }

    fn start(mut command: Command, directory: &Path) -> Result<RunningProgram, LabError> {
        let log = log(directory);
        let stderr = File::create(&log).map_err(at(&log))?;
        spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr))
    }

    /// Boots the machine until the guest pauses it, and saves it into a directory: its memory in one file,
    /// the rest of its state in another.
    ///
    /// # Errors
    /// If the guest does not reach the pause; the error has the reason.
    pub(crate) fn save(&self, into: &Path, stop: &Stop) -> Result<(), LabError> {
        let [memory, state] = SAVED_FILES.map(|name| into.join(name));
        drop(reserve(&window(into), self.window_mib)?);
        let command = self.command(&memory, Writes::ToTheFile, BOOT_SEED, into)?;
        let mut running = Self::start(command, into)?;
        let mut used = Usage::of(&running.child, BOOT_LIMIT_S);
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

    /// Continues a saved machine with the job that is in the window of the directory. Waits until the guest
    /// has finished. The window is the memory that the guest shares with the lab.
    ///
    /// # Errors
    /// If the guest does not finish; the error has the reason.
    pub(crate) fn resume(
        &self,
        saved: &Path,
        run: &Run<'_>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<FinalState, LabError> {
        let [memory, state] = SAVED_FILES.map(|name| saved.join(name));
        let directory = run.directory;
        let mut command = self.command(&memory, Writes::ToACopy, run.seed, directory)?;
        command.args(["-incoming", "defer"]);
        let mut running = Self::start(command, directory)?;
        let mut used = Usage::of(&running.child, run.cpu_limit_s);
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

    /// Boots a machine for one run, in the same way as a machine that is to be saved. The machine then
    /// continues without being saved.
    ///
    /// # Errors
    /// If the guest does not finish; the error has the reason.
    pub(crate) fn boot(
        &self,
        run: &Run<'_>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<FinalState, LabError> {
        let directory = run.directory;
        let command = self.command(&directory.join("memory"), Writes::ToTheFile, BOOT_SEED, directory)?;
        let mut running = Self::start(command, directory)?;
        let mut used = Usage::of(&running.child, BOOT_LIMIT_S + run.cpu_limit_s);
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

/// Waits until a guest that has its job has finished. The monitor stays open until then, because the emulator
/// ends when its input ends.
fn finish(
    mut running: RunningProgram,
    monitor: Monitor,
    mut used: Usage,
    run: &Run<'_>,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<FinalState, LabError> {
    let directory = run.directory;
    let status = watch(&mut running.child, directory, &mut used, progress, stop)?;
    drop((monitor, running));
    let memory = fs::read(window(directory)).map_err(at(&window(directory)))?;
    let stage = shared::stage(&memory);
    if stage == Stage::Done {
        return Ok(FinalState { memory, console: read_console(directory) });
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
    /// The directory that holds the window. The console and the emulator's messages are written into
    /// it.
    pub(crate) directory: &'a Path,
}

/// The error that explains why the channel to the emulator was lost.
fn explained(
    error: MonitorError,
    running: &mut RunningProgram,
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

/// A path as a part of an option of the emulator. A comma in the path is doubled, because a single
/// comma ends the part.
fn in_option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn console(directory: &Path) -> PathBuf {
    directory.join("console")
}

/// The file of the memory that the guest shares with the lab.
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
    // The guest's memory is a file. If the disk is full, a write to the memory ends the emulator with this
    // signal.
    if status.signal() == Some(libc::SIGBUS) {
        return LabError::DiskFull { path: directory.to_owned(), needed_mib: 0 };
    }
    LabError::Qemu { status: status.to_string(), stderr: last_words(directory) }
}

/// The resources of this machine that an emulator has used, and the most that it may use.
struct Usage {
    process: u32,
    limit_s: u64,
    used: Duration,
    since: Instant,
}

/// A limit that an emulator has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// The emulator has used this much CPU time, seconds.
    Cpu(u64),
    /// The emulator uses no CPU time any more.
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

impl Usage {
    fn of(child: &Child, limit_s: u64) -> Self {
        Self { process: child.id(), limit_s, used: Duration::ZERO, since: Instant::now() }
    }

    /// Measures the emulator's CPU time. Returns the limit that the emulator has reached; `None` if it has
    /// reached no limit.
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
    used: &mut Usage,
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
        // If the head cannot be read or has not been written yet, the stage is unknown.
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

/// The reason why a guest rebooted or powered off without results.
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

/// Makes a file of this size. The disk space is allocated now, so that the guest's later writes cannot fail.
pub(crate) fn reserve(path: &Path, mib: u64) -> Result<File, LabError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(at(path))?;
    match spry_sys::file::reserve(&file, mib << 20) {
        Ok(()) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            Err(LabError::DiskFull { path: path.to_owned(), needed_mib: mib })
        }
        Err(error) => Err(at(path)(error)),
    }
}

/// The CPU time that a process has used.
fn cpu_time(process: u32) -> Option<Duration> {
    let line = fs::read(format!("/proc/{process}/stat")).ok()?;
    let ticks_s = rustix::param::clock_ticks_per_second();
    cpu_ticks(&line).map(|ticks| Duration::from_millis(ticks * 1000 / ticks_s.max(1)))
}

fn cpu_ticks(line: &[u8]) -> Option<u64> {
    let mut fields = stat_fields(line)?.skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_from_a_guest_that_just_ended() {
        let console = "[    9.1] sysrq: Trigger a crash\r\n[    9.1] Kernel panic - not syncing: \
                       sysrq triggered crash\r\nmore";
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
        assert_eq!(cpu_ticks(stat.as_bytes()), Some(42));
    }

    #[test]
    fn missing_disk_space_is_reported_before_the_guest_starts() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = reserve(&directory.path().join("shared"), 1 << 32).expect_err("nobody has 4 EiB");
        assert!(!matches!(error, LabError::Interrupted), "{error}");
    }
}
