//! What passes between the lab and the first process of its guest: a job going in, and shared memory with results.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::progress::Stage;
use crate::scheduler::Sign;

/// Where the guest finds what it does before it is saved.
pub const MACHINE_PATH: &str = "/spry/machine.json";
/// The job among the files that come through the shared memory.
pub const JOB: &str = "spry/job.json";
/// Where programs leave what is to be taken out.
pub const RESULTS_DIRECTORY: &str = "/results";
/// The guest's own account among the results.
pub const ACCOUNT: &str = "guest.json";
/// What the scheduler under test printed, among the results.
pub const SCHEDULER_LOG: &str = ".scheduler.log";
/// When a machine is saved that has booted, milliseconds after boot: what a boot starts in the background is done then.
pub const SAVED_AT_MS: u64 = 4_000;
/// The port by which the guest pauses the machine, and what it writes there (pvpanic).
pub const PAUSE: (u16, u8) = (0x505, 1);
/// The earliest moment at which commands may start, milliseconds after boot: before it the kernel still settles.
pub const SETTLED_MS: u64 = 8_000;
/// A start that has been missed is put off to the next multiple of this, so that it falls on the same phase.
pub const START_STEP_MS: u64 = 4_000;

/// What the guest does before it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMachine {
    /// The size of an ext4 file system in memory, MiB; none if 0.
    pub scratch_mib: u32,
}

/// What the guest is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestJob {
    /// Files of the kernel to be written, in order: path and value.
    pub settings: Vec<(String, String)>,
    /// The scheduler under test: its program and arguments.
    pub scheduler: Option<Vec<String>>,
    /// By what that is known to be in charge.
    pub scheduler_sign: Sign,
    /// How long it may take to load, milliseconds.
    pub scheduler_limit_ms: u64,
    /// The programs to run one after another.
    pub commands: Vec<GuestCommand>,
    /// When the first of them starts, milliseconds after boot.
    pub start_ms: u64,
    /// Whatever is random from now on comes from this number.
    pub seed: u64,
    /// Which of the files that came with the job are programs.
    pub programs: BTreeSet<String>,
}

/// A program for the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables of its environment beyond the guest's own.
    pub env: Vec<(String, String)>,
    /// How long it may take, seconds of the guest's time.
    pub limit_s: u32,
}

/// What the guest says it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// When the guest's own work began, milliseconds after boot.
    pub booted_ms: u64,
    /// When the scheduler under test was in charge, milliseconds after boot.
    pub scheduler_loaded_ms: Option<u64>,
    /// When the first command started, milliseconds after boot.
    pub started_ms: u64,
    /// When the results were complete, milliseconds after boot.
    pub ended_ms: u64,
    /// How each command ended.
    pub commands: Vec<Ended>,
    /// What went wrong, if anything did.
    pub failure: Option<Failure>,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit status, if it left by itself.
    pub exit: Option<i32>,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// When it started, milliseconds after boot.
    pub start_ms: u64,
    /// When it ended, milliseconds after boot.
    pub end_ms: u64,
}

/// Why the guest did not do all of its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// A setting was refused: path, value and reason.
    Setting(String, String, String),
    /// The scheduler did not load.
    SchedulerFailed(String),
    /// The scheduler was in charge and was thrown out.
    SchedulerEjected(String),
    /// A command did not end in time: its words, and the limit in seconds.
    TimedOut(String, u32),
    /// Anything else, in words.
    Other(String),
}

/// The shared memory: a head, then the names and contents of files. The lab writes a job into it, the guest its results.
///
/// Bytes 0-7 `SPRYJOB1` or `SPRYLAB1`, 8-11 the stage's number, 12-15 how many files, 16-23 how many bytes after the
/// head. Each file is its name's length (4 bytes), its own (8 bytes), the name, the content; numbers are little-endian.
pub mod shared {
    use std::io::{self, Write};

    use super::{BTreeMap, Stage};

    /// What the memory starts with while it holds a job.
    pub const JOB_MAGIC: &[u8; 8] = b"SPRYJOB1";
    /// What the memory starts with once the guest has the job.
    pub const MAGIC: &[u8; 8] = b"SPRYLAB1";
    /// Bytes of the head.
    pub const HEAD: usize = 4096;

    /// The stage that the head tells.
    pub fn stage(head: &[u8]) -> Stage {
        let number = match head.get(..12) {
            Some([magic @ .., a, b, c, d]) if magic == MAGIC => u32::from_le_bytes([*a, *b, *c, *d]),
            _ => 0,
        };
        Stage::ALL.get(number as usize).copied().unwrap_or(Stage::Booting)
    }

    /// The head of a memory with so many files and bytes, at a stage.
    pub fn head(stage: Stage, files: u32, bytes: u64) -> [u8; 24] {
        let number = Stage::ALL.iter().position(|&other| other == stage).unwrap_or_default() as u32;
        let mut head = [0; 24];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&number.to_le_bytes());
        head[12..16].copy_from_slice(&files.to_le_bytes());
        head[16..].copy_from_slice(&bytes.to_le_bytes());
        head
    }

    /// How many bytes a memory takes that holds these files.
    pub fn job_len(files: &BTreeMap<String, Vec<u8>>) -> u64 {
        let len = |(name, content): (&String, &Vec<u8>)| (12 + name.len() + content.len()) as u64;
        HEAD as u64 + files.iter().map(len).sum::<u64>()
    }

    /// Writes a job's files as a memory holds them.
    ///
    /// # Errors
    /// As the writer.
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

    /// The files of a memory that holds a job; nothing if it holds none, or a damaged one.
    pub fn job(memory: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
        memory.starts_with(JOB_MAGIC).then(|| files(memory)).flatten()
    }

    /// What stands before a file's name.
    pub fn file_head(name: &str, bytes: u64) -> [u8; 12] {
        let mut head = [0; 12];
        head[..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&bytes.to_le_bytes());
        head
    }

    /// The files of a memory at the stage `Done`; nothing if it is damaged.
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
    fn memory_that_nobody_has_written_to_is_of_a_guest_that_boots() {
        assert_eq!(shared::stage(&[0; 64]), Stage::Booting);
        assert_eq!(shared::stage(&[]), Stage::Booting);
    }
}
