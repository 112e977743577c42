//! The data that the lab and the first process of its guest exchange: a job for the guest, and a shared
//! memory for the results.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use spry_experiment::scheduler::Sign;

use crate::progress::Stage;

/// The file with the steps of the guest before it is saved.
pub const MACHINE_PATH: &str = "/spry/machine.json";
/// The file with the job's description, among the files that come through the shared memory.
pub const JOB: &str = "spry/job.json";
/// The guest's directory in which programs leave their results.
pub const RESULTS_DIRECTORY: &str = "/results";
/// The name of the guest's own account among the results.
pub const ACCOUNT: &str = "guest.json";
/// The name of the scheduler's output among the results.
pub const SCHEDULER_LOG: &str = ".scheduler.log";
/// The moment at which a booted machine is saved, milliseconds after the boot. By then the boot's
/// background work is done.
pub const SAVED_AT_MS: u64 = 4_000;
/// The port by which the guest pauses the machine, and the value that the guest writes to it (pvpanic).
pub const PAUSE: (u16, u8) = (0x505, 1);
/// The earliest moment at which commands may start, milliseconds after the boot. Before this moment the
/// kernel is still busy with the boot.
pub const SETTLED_MS: u64 = 8_000;
/// A start that was missed is moved to the next multiple of this time, milliseconds. So the commands start at
/// the same phase of all periods.
pub const START_STEP_MS: u64 = 4_000;

/// The steps of the guest before it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMachine {
    /// The size of an ext4 file system in memory, MiB; none if 0.
    pub scratch_mib: u32,
}

/// The job of the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestJob {
    /// The kernel's files that the guest writes, in order: path and value of each.
    pub settings: Vec<(String, String)>,
    /// The program of the scheduler under test and its arguments; `None`: no such program.
    pub scheduler: Option<Vec<String>>,
    /// The sign that shows that the scheduler is in charge.
    pub scheduler_sign: Sign,
    /// How long the scheduler may take to load, milliseconds.
    pub scheduler_limit_ms: u64,
    /// The programs that the guest runs, one after another.
    pub commands: Vec<GuestCommand>,
    /// The moment at which the first command starts, milliseconds after the boot.
    pub start_ms: u64,
    /// The seed of all random numbers in the guest from now on.
    pub seed: u64,
    /// The files of the job that are programs.
    pub programs: BTreeSet<String>,
}

/// A program that the guest runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables of the program's environment in addition to the guest's own.
    pub env: Vec<(String, String)>,
    /// How long the program may take, seconds of the guest's time.
    pub limit_s: u32,
}

/// The guest's account of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The start of the guest's own work, milliseconds after the boot.
    pub booted_ms: u64,
    /// The time at which the scheduler under test was in charge, milliseconds after the boot; `None` without
    /// such a scheduler.
    pub scheduler_loaded_ms: Option<u64>,
    /// The start of the first command, milliseconds after the boot.
    pub started_ms: u64,
    /// The time at which the results were complete, milliseconds after the boot.
    pub ended_ms: u64,
    /// The end of each command.
    pub commands: Vec<CommandEnd>,
    /// The reason why the guest did not finish its job; `None` if it did.
    pub failure: Option<Failure>,
}

/// The end of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// The exit status of the command; `None` if a signal killed it.
    pub exit: Option<i32>,
    /// The signal that killed the command; `None` if no signal did.
    pub signal: Option<i32>,
    /// The start of the command, milliseconds after the boot.
    pub start_ms: u64,
    /// The end of the command, milliseconds after the boot.
    pub end_ms: u64,
}

/// The reason why the guest did not finish its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The kernel refused a setting: path, value and reason.
    Setting(String, String, String),
    /// The scheduler under test did not load; the reason.
    SchedulerFailed(String),
    /// The scheduler under test was in charge and was removed; the reason.
    SchedulerEjected(String),
    /// A command did not end in time: the command, and its limit in seconds.
    TimedOut(String, u32),
    /// Another failure, in words.
    Other(String),
}

/// The shared memory: a head, then the names and contents of files. The lab writes a job into it. Later the
/// guest writes its results into it.
///
/// Bytes 0-7 of the head are `SPRYJOB1` or `SPRYLAB1`, bytes 8-11 the number of the stage, bytes 12-15
/// the number of files, bytes 16-23 the number of bytes after the head. Each file consists of the length
/// of its name (4 bytes), the length of its content (8 bytes), the name, and the content. All numbers
/// are little-endian.
pub mod shared {
    use std::io::{self, Write};

    use super::{BTreeMap, Stage};

    /// The first bytes of the memory while it holds a job.
    pub const JOB_MAGIC: &[u8; 8] = b"SPRYJOB1";
    /// The first bytes of the memory once the guest has read the job.
    pub const MAGIC: &[u8; 8] = b"SPRYLAB1";
    /// The size of the head, bytes.
    pub const HEAD: usize = 4096;

    /// The guest's stage according to the head.
    pub fn stage(head: &[u8]) -> Stage {
        let number = match head.get(..12) {
            Some([magic @ .., a, b, c, d]) if magic == MAGIC => u32::from_le_bytes([*a, *b, *c, *d]),
            _ => 0,
        };
        Stage::ALL.get(number as usize).copied().unwrap_or(Stage::Booting)
    }

    /// Makes the head of a memory with this number of files and bytes, at a stage.
    pub fn head(stage: Stage, files: u32, bytes: u64) -> [u8; 24] {
        let number = Stage::ALL.iter().position(|&other| other == stage).unwrap_or_default() as u32;
        let mut head = [0; 24];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&number.to_le_bytes());
        head[12..16].copy_from_slice(&files.to_le_bytes());
        head[16..].copy_from_slice(&bytes.to_le_bytes());
        head
    }

    /// The size of a memory that holds these files, bytes.
    pub fn job_len(files: &BTreeMap<String, Vec<u8>>) -> u64 {
        let len = |(name, content): (&String, &Vec<u8>)| (12 + name.len() + content.len()) as u64;
        HEAD as u64 + files.iter().map(len).sum::<u64>()
    }

    /// Writes a job's files in the format of the memory.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write_job(files: &BTreeMap<String, Vec<u8>>, to: &mut impl Write) -> io::Result<()> {
        let mut start = head(Stage::Booting, files.len() as u32, job_len(files) - HEAD as u64).to_vec();
        start[..8].copy_from_slice(JOB_MAGIC);
        start.resize(HEAD, 0);
        to.write_all(&start)?;
        files.iter().try_for_each(|(name, content)| {
            to.write_all(&file_head(name, content.len() as u64))?;
            to.write_all(name.as_bytes())?;
            to.write_all(content)
        })
    }

    /// The files of a memory that holds a job; `None` if it holds no job, or the job is damaged.
    pub fn job(memory: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
        memory.starts_with(JOB_MAGIC).then(|| files(memory)).flatten()
    }

    /// The two lengths that precede a file's name.
    pub fn file_head(name: &str, bytes: u64) -> [u8; 12] {
        let mut head = [0; 12];
        head[..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&bytes.to_le_bytes());
        head
    }

    /// The files of a memory; `None` if the memory is damaged. The caller checks the stage in the head.
    pub fn files(memory: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
        let head = memory.get(..24)?;
        let count = u32::from_le_bytes(head[12..16].try_into().ok()?);
        let mut rest = memory.get(HEAD..)?;
        let mut take = |len: usize| {
            let (taken, left) = (rest.get(..len)?, rest.get(len..)?);
            rest = left;
            Some(taken)
        };
        let mut files = BTreeMap::new();
        for _ in 0..count {
            let name_len = u32::from_le_bytes(take(4)?.try_into().ok()?) as usize;
            let len = u64::from_le_bytes(take(8)?.try_into().ok()?) as usize;
            let name = std::str::from_utf8(take(name_len)?).ok()?.to_owned();
            files.insert(name, take(len)?.to_vec());
        }
        Some(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_out_as_they_went_in() {
        let mut memory = vec![0; shared::HEAD];
        memory[..24].copy_from_slice(&shared::head(Stage::Done, 2, 0));
        for (name, content) in [("a.json", &b"{}"[..]), ("empty", b"")] {
            memory.extend(shared::file_head(name, content.len() as u64));
            memory.extend(name.as_bytes());
            memory.extend(content);
        }
        assert_eq!(shared::stage(&memory), Stage::Done);
        let files = shared::files(&memory).expect("it is whole");
        assert_eq!(files["a.json"], b"{}");
        assert_eq!(files["empty"], b"");
        assert_eq!(shared::files(&memory[..memory.len() - 6]), None, "a cut memory is told");
    }

    #[test]
    fn a_job_comes_out_as_it_went_in_and_is_no_result() {
        let files = BTreeMap::from([("spry/a".to_owned(), vec![1; 5000]), ("spry/b".to_owned(), Vec::new())]);
        let mut memory = Vec::new();
        shared::write_job(&files, &mut memory).expect("memory takes all");
        assert_eq!(memory.len() as u64, shared::job_len(&files));
        assert_eq!(shared::job(&memory), Some(files));
        assert_eq!(shared::stage(&memory), Stage::Booting);
        memory[..24].copy_from_slice(&shared::head(Stage::Done, 0, 0));
        assert_eq!(shared::job(&memory), None, "these are results");
    }

    #[test]
    fn unwritten_memory_is_of_a_guest_that_boots() {
        assert_eq!(shared::stage(&[0; 64]), Stage::Booting);
        assert_eq!(shared::stage(&[]), Stage::Booting);
    }
}
