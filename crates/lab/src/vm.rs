//! One virtual machine: QEMU's arguments, its console, its results, and every way in which it can end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::spawn;
use crate::emulator::Fault;
use crate::error::{LabError, at, tail};
use crate::progress::{Event, Progress, Stage, Stop};
use crate::protocol::shared;

/// The program.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
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
/// How much of it a fault of the emulator is looked for in: the registers stand above the stack.
const FAULT_LINES: usize = 200;

/// What a virtual machine is made of.
#[derive(Debug)]
pub(crate) struct Vm<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: &'a Path,
    /// A file system for memory, and its size in MiB.
    pub(crate) image: Option<(&'a Path, u64)>,
    pub(crate) cmdline: String,
    pub(crate) shift: u8,
    pub(crate) cpus: u32,
    pub(crate) caches: u32,
    pub(crate) seed: u64,
    pub(crate) memory_mib: u64,
    pub(crate) results_mib: u64,
    pub(crate) cpu_limit_s: u64,
    /// An empty directory for the console and the results.
    pub(crate) directory: &'a Path,
}

/// How a machine ended that got through.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The shared memory.
    pub(crate) memory: Vec<u8>,
    /// What the kernel said.
    pub(crate) console: String,
}

impl Vm<'_> {
    fn console(&self) -> PathBuf {
        self.directory.join("console")
    }

    fn shared(&self) -> PathBuf {
        self.directory.join("shared")
    }

    fn command(&self) -> Result<Command, LabError> {
        let mut command = Command::new(QEMU);
        command.args(["-machine", "pc", "-accel", "tcg", "-cpu", "max", "-nodefaults"]);
        command.arg("-smp").arg(format!("{},sockets={}", self.cpus, self.caches));
        command.args(["-no-user-config", "-no-reboot", "-display", "none"]);
        command.args(["-rtc", "base=2026-01-01,clock=vm"]);
        // Virtual CPUs that share one count of instructions would each stand still while another runs.
        if self.cpus == 1 {
            command.arg("-icount").arg(format!("shift={},sleep=off", self.shift));
        }
        command.arg("-seed").arg(self.seed.to_string());
        command.arg("-serial").arg(format!("file:{}", self.console().display()));
        command.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initrd);
        let mut cmdline = self.cmdline.clone();
        let mut memory_mib = self.memory_mib;
        if let Some((path, mib)) = self.image {
            memory_mib += mib;
            if memory_mib > LOW_MEMORY_MIB || self.memory_mib < IMAGE_AT_MIB {
                return Err(LabError::Kernel(format!(
                    "the image takes {mib} MiB and the guest {} MiB, and both must fit into {LOW_MEMORY_MIB} MiB: \
                     leave packages out",
                    self.memory_mib
                )));
            }
            cmdline.push_str(&format!(" memmap={mib}M!{IMAGE_AT_MIB}M"));
            let address = IMAGE_AT_MIB << 20;
            command.arg("-device");
            command.arg(format!("loader,file={},addr={address:#x},force-raw=on", path.display()));
        }
        command.arg("-m").arg(memory_mib.to_string());
        command.arg("-append").arg(cmdline);
        let size_mib = self.results_mib;
        command.arg("-object").arg(format!(
            "memory-backend-file,id=results,mem-path={},size={size_mib}M,share=on",
            self.shared().display()
        ));
        command.args(["-device", "ivshmem-plain,memdev=results"]);
        Ok(command)
    }

    /// Boots, and waits until the guest is through.
    ///
    /// # Errors
    /// Where it does not get through, for what reason.
    pub(crate) fn run(&self, progress: &dyn Progress, stop: &Stop) -> Result<Finished, LabError> {
        let shared = reserve(&self.shared(), self.results_mib)?;
        let log = self.directory.join("qemu.log");
        let stderr = File::create(&log).map_err(at(&log))?;
        let mut command = self.command()?;
        let mut running = spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr))?;
        let status = self.watch(&mut running.child, &shared, progress, stop)?;
        drop(running);
        let console = self.read_console();
        let memory = fs::read(self.shared()).map_err(at(&self.shared()))?;
        let stage = shared::stage(&memory);
        if stage == Stage::Done {
            return Ok(Finished { memory, console });
        }
        if !status.success() {
            let stderr = tail(&fs::read_to_string(&log).unwrap_or_default(), LOG_LINES);
            return Err(LabError::Qemu { status: status.to_string(), stderr });
        }
        Err(died(stage, &console, self.cpus))
    }

    fn watch(
        &self,
        child: &mut std::process::Child,
        shared: &File,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<ExitStatus, LabError> {
        let mut told = None;
        let mut busy = (Duration::ZERO, Instant::now());
        loop {
            if let Some(status) = child.try_wait().map_err(at(Path::new(QEMU)))? {
                return Ok(status);
            }
            if stop.is_requested() {
                return Err(LabError::Interrupted);
            }
            let mut head = [0; 12];
            let _ = io::Seek::rewind(&mut &*shared).and_then(|()| (&mut &*shared).read_exact(&mut head));
            let stage = shared::stage(&head);
            if told != Some(stage) {
                progress.tell(Event::Guest(stage));
                told = Some(stage);
            }
            let used = cpu_time(child.id()).unwrap_or(busy.0);
            if used > busy.0 {
                busy = (used, Instant::now());
            }
            let timed_out = |what: &str, limit_s| LabError::TimedOut {
                what: what.to_owned(),
                limit_s,
                stage: stage.name().to_owned(),
                log: tail(&self.read_console(), LOG_LINES),
            };
            if used.as_secs() >= self.cpu_limit_s {
                return Err(timed_out("the virtual machine (this machine's CPU time)", self.cpu_limit_s));
            }
            if busy.1.elapsed() >= STILL {
                return Err(timed_out("the guest, which has halted (without any work)", STILL.as_secs()));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn read_console(&self) -> String {
        fs::read(self.console())
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Why a guest that rebooted or powered off without results did so.
fn died(stage: Stage, console: &str, cpus: u32) -> LabError {
    let log = tail(console, LOG_LINES);
    let fault = Fault::of(&tail(console, FAULT_LINES), cpus);
    let panic = console.lines().rev().find(|line| line.contains("Kernel panic"));
    match panic {
        Some(line) => {
            let reason = line.split("Kernel panic").nth(1).unwrap_or(line);
            let reason = reason.trim_start_matches(" - not syncing: ").trim().to_owned();
            LabError::Panic { reason, log, fault }
        }
        None => LabError::GuestDied { stage: stage.name().to_owned(), log, fault },
    }
}

/// A file of this size whose space the disk has already given: the guest's writes to it cannot fail later.
fn reserve(path: &Path, mib: u64) -> Result<File, LabError> {
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
        let error = died(Stage::Running, console, 1);
        assert!(
            matches!(&error, LabError::Panic { reason, .. } if reason == "sysrq triggered crash"),
            "{error}"
        );
        let error = died(Stage::Running, "[    1.0] all is well\n", 1);
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
