//! All loads: their actions, the published programs for which they stand, and their needs.

use crate::error::LoadError;
use crate::needs;
use crate::options::Options;
use crate::own::OwnLoad;

const MIB: u64 = 1 << 20;

/// The source package that is compiled unless the user gives another source. It has 500 C files, and the
/// kernel's own build system builds it.
pub const SOURCE_PACKAGE: &str = "busybox";

/// A load that can be put on the machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    name: &'static str,
    stands_for: &'static str,
    how: &'static str,
    pub(crate) program: Program,
    takes: Requirements,
}

/// The program that runs a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Stressors of stress-ng.
    Stress(Stress),
    /// Code of this crate.
    Own(OwnLoad),
    /// A compilation in a file system that is mounted for it.
    Compile(Mount),
}

/// A selection of stress-ng's stressors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stress {
    /// TCP connections over the loopback device.
    Sockets,
    /// Named pipes, and files in memory.
    FifosAndMaps,
    /// Matrices of floating point numbers.
    Matrices,
    /// Files in which holes are punched, and which are truncated and extended.
    Files,
    /// Random bytes that are executed as code.
    RandomCode,
    /// An endless loop.
    Loop,
}

/// The file system in which the source is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mount {
    /// The kernel's NFS server and client, over loopback.
    Nfs,
    /// A pass-through file system in user space.
    Fuse,
}

/// The memory and disk space that a load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// The load's part in the memory and disk space of all loads, relative to the other loads' parts.
    pub(crate) parts: u64,
    /// The memory that one worker needs at least, bytes.
    pub(crate) memory_bytes: u64,
    /// The disk space that one worker needs at least, bytes.
    pub(crate) disk_bytes: u64,
}

const fn takes(parts: u64, memory_mib: u64, disk_mib: u64) -> Requirements {
    Requirements { parts, memory_bytes: memory_mib * MIB, disk_bytes: disk_mib * MIB }
}

static ALL: [Load; 10] = [
    Load {
        name: "nfs-compile",
        stands_for: "NFS-COMPILE: a kernel, compiled again and again in an NFS mount over loopback",
        how: "busybox or --source, compiled by make with a job a CPU in an NFS 4 mount of the kernel's own \
            server on 127.0.0.1",
        program: Program::Compile(Mount::Nfs),
        takes: takes(4, 72, 120),
    },
    Load {
        name: "fuse-compile",
        stands_for: "the same where the kernel has no NFS; `all` takes it only there",
        how: "busybox or --source, compiled by make with a job a CPU in a FUSE mount (bindfs)",
        program: Program::Compile(Mount::Fuse),
        takes: takes(4, 72, 120),
    },
    Load {
        name: "ttcp",
        stands_for: "TTCP: large data sets, sent and received over loopback",
        how: "stress-ng --sock: TCP connections over a loopback device of their own",
        program: Program::Stress(Stress::Sockets),
        takes: takes(1, 8, 0),
    },
    Load {
        name: "fifos-mmap",
        stands_for: "FIFOS_MMAP: two processes with a FIFO between them, in turn with work on a mapped file",
        how: "stress-ng --fifo with one reader, 4 KiB at a time, beside --mmap --mmap-file",
        program: Program::Stress(Stress::FifosAndMaps),
        takes: takes(2, 16, 4),
    },
    Load {
        name: "p3-fpu",
        stands_for: "P3_FPU: operations on matrices of floating point numbers",
        how: "stress-ng --matrix: every method in turn on matrices of 128 by 128",
        program: Program::Stress(Stress::Matrices),
        takes: takes(1, 8, 0),
    },
    Load {
        name: "fs",
        stands_for: "FS: unnatural acts on files, such as large ones with holes in the middle, then \
            truncated and extended",
        how: "stress-ng --fpunch (holes), --fallocate (truncation and extension), --seek --seek-punch \
            (scattered writes and holes)",
        program: Program::Stress(Stress::Files),
        takes: takes(2, 16, 32),
    },
    Load {
        name: "crashme",
        stands_for: "CRASHME: random data, jumped to and executed",
        how: "stress-ng --opcode: random bytes, executed by children that may make no system call, as \
            nobody if started by root",
        program: Program::Stress(Stress::RandomCode),
        takes: takes(1, 8, 0),
    },
    Load {
        name: "user-cpu",
        stands_for: "Time-Sensitive Linux, figure 2: an infinite loop that takes as much CPU time as it gets",
        how: "stress-ng --cpu with the method `loop`",
        program: Program::Stress(Stress::Loop),
        takes: takes(1, 8, 0),
    },
    Load {
        name: "kernel-cpu",
        stands_for: "Time-Sensitive Linux, figure 3: a buffer of 8 MB, copied to a file by a single write",
        how: "own code, since stress-ng writes at most 4 MB at once: one write of 8 MB after the other to \
            the same place of a file",
        program: Program::Own(OwnLoad::KernelCpu),
        takes: takes(1, 12, 9),
    },
    Load {
        name: "file-system",
        stands_for: "Time-Sensitive Linux, figure 4: a tree of 13000 files and 180 MB, copied again and \
            again, then flushed",
        how: "own code, since stress-ng copies single files: a tree of as many files as --disk allows, \
            copied, flushed by syncfs, removed",
        program: Program::Own(OwnLoad::FileSystem),
        takes: takes(2, 8, 16),
    },
];

impl Load {
    /// The load with this name. Capital letters are allowed, and `_` in place of `-`.
    ///
    /// # Errors
    /// If there is no load with this name.
    pub fn by_name(name: &str) -> Result<&'static Self, LoadError> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        ALL.iter().find(|load| load.name == wanted).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|load| load.name).collect();
            LoadError::Unknown { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// All loads, including loads that cannot run on this machine.
    pub fn all() -> &'static [Self] {
        &ALL
    }

    /// The loads that `all` selects on this machine: every load that can run. The compilation over FUSE is
    /// among them only if the compilation over NFS cannot run.
    pub fn all_here() -> Vec<&'static Self> {
        let can = |load: &&Self| load.lack().is_none();
        let nfs = ALL.iter().any(|load| load.program == Program::Compile(Mount::Nfs) && can(&load));
        let is_spare = |load: &&Self| load.program == Program::Compile(Mount::Fuse) && nfs;
        ALL.iter().filter(can).filter(|load| !is_spare(load)).collect()
    }

    /// The load's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The published program for which the load stands, and the action of that program.
    pub fn stands_for(&self) -> &'static str {
        self.stands_for
    }

    /// The action of the load in place of that program.
    pub fn how(&self) -> &'static str {
        self.how
    }

    /// The programs and the parts of the kernel that the load needs.
    pub fn needs(&self) -> Vec<&'static str> {
        needs::of(self).into_iter().map(|need| need.name).collect()
    }

    /// The part that the load lacks on this machine, and the user's remedy; `None` if the load can run.
    pub fn lack(&self) -> Option<String> {
        needs::of(self).into_iter().find_map(|need| (need.lack)())
    }

    /// Whether the load compiles a source, which [`Options::source`] names.
    pub fn wants_source(&self) -> bool {
        matches!(self.program, Program::Compile(_))
    }

    pub(crate) fn takes(&self) -> Requirements {
        self.takes
    }

    /// Fails if the load lacks a part, before any load is started.
    pub(crate) fn check(&'static self, options: &Options) -> Result<(), LoadError> {
        if let Some(lack) = self.lack() {
            return Err(LoadError::Lacks { load: self.name, lack });
        }
        if self.wants_source() && options.source.is_none() {
            let lack = "it has no source to compile: name one with --source".to_owned();
            return Err(LoadError::Lacks { load: self.name, lack });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_article_s_capitals_are_names_too() {
        for name in ["NFS-COMPILE", "TTCP", "FIFOS_MMAP", "P3_FPU", "FS", "CRASHME"] {
            let load = Load::by_name(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(load.stands_for().starts_with(name), "{}: {}", load.name(), load.stands_for());
        }
    }

    #[test]
    fn a_name_that_is_none_is_answered_with_those_there_are() {
        let error = Load::by_name("tctp").expect_err("no such load").to_string();
        assert!(Load::all().iter().all(|load| error.contains(load.name())), "{error}");
    }
}
