//! Notes of the lab's tests that have passed, and their runs under perturbations.
//!
//! The lab repeats every byte, so a test whose guests get the same bytes gives the same result. Such a test
//! is not run again.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arguments::Asked;
use crate::group::{self, Group};
use crate::pool::Task;
use crate::programs::Program;

/// The first perturbation's number of bytes; the others have multiples of it. It is a page and a few bytes.
const STEP_BYTES: u32 = 4099;

/// The environment variables that begin so change what a test does.
const VARIABLES: [&str; 2] = ["SPRY_TEST_", "SPRY_LAB_"];

/// The notes for one set of inputs.
pub struct Notes {
    directory: PathBuf,
    /// The hash of everything that may enter a guest or change what a test does.
    inputs: u64,
}

impl Notes {
    /// Opens the notes for the programs as they are now.
    ///
    /// # Errors
    /// If a program cannot be read, or the notes cannot be kept.
    pub fn open(directory: PathBuf, programs: &[Program]) -> Result<Notes> {
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let tests = programs.iter().filter(|program| program.group == Group::Lab);
        let mut files: Vec<PathBuf> = tests.map(|program| program.file.clone()).collect();
        if let Some(directory) = env::var_os("SPRY_PROGRAMS").map(PathBuf::from) {
            files.extend(programs_in(&directory)?);
            files.extend(programs_in(&directory.join("examples"))?);
        }
        files.sort();
        let mut hasher = DefaultHasher::new();
        files.extend(lists());
        for file in files {
            hasher.write(&fs::read(&file).with_context(|| file.display().to_string())?);
        }
        variables().iter().for_each(|text| hasher.write(text.as_bytes()));
        Ok(Notes { directory, inputs: hasher.finish() })
    }

    /// The tasks that have to run: a test of the lab that passed with the same inputs is left out, unless its
    /// result may depend on this machine.
    pub fn without_passed(&self, programs: &[Program], tasks: Vec<Task>) -> Vec<Task> {
        let is_left = |task: &Task| {
            !is_in_the_lab(programs, task)
                || group::depends_on_this_machine(&task.name)
                || !self.of(programs, task).exists()
        };
        tasks.into_iter().filter(is_left).collect()
    }

    /// The tasks under all perturbations, without those that passed already. Tests without a lab do not feel
    /// a perturbation and are left out.
    pub fn shaken(&self, asked: &Asked, programs: &[Program], tasks: Vec<Task>) -> Vec<Task> {
        let is_asked = |task: &Task| {
            is_in_the_lab(programs, task)
                && (asked.only.is_empty() || asked.only.iter().any(|part| task.name.contains(part)))
        };
        let tasks: Vec<Task> = tasks.into_iter().filter(is_asked).collect();
        let shaken = (1..=asked.count).flat_map(|number| {
            tasks.iter().map(move |task| Task { shake_bytes: number * STEP_BYTES, ..task.clone() })
        });
        shaken.filter(|task| !self.of(programs, task).exists()).collect()
    }

    /// Notes that a task has passed.
    pub fn note(&self, programs: &[Program], task: &Task) {
        if is_in_the_lab(programs, task) {
            // A note that cannot be kept costs another run, no result.
            _ = fs::write(self.of(programs, task), task.shown(programs));
        }
    }

    fn of(&self, programs: &[Program], task: &Task) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.inputs);
        hasher.write(task.shown(programs).as_bytes());
        self.directory.join(format!("{:016x}", hasher.finish()))
    }
}

fn is_in_the_lab(programs: &[Program], task: &Task) -> bool {
    programs[task.program].group == Group::Lab
}

/// The environment variables that change what a test does, in a fixed order.
fn variables() -> Vec<String> {
    let is_used = |name: &str| VARIABLES.iter().any(|beginning| name.starts_with(beginning));
    let set = env::vars().filter(|(name, _)| is_used(name)).map(|(name, value)| format!("{name}={value}\n"));
    let mut set: Vec<String> = set.collect();
    set.sort();
    set
}

/// The archive's lists in the lab's cache, in a fixed order: they say which kernels, packages and sources of
/// the emulator are the newest. A cache that does not exist yet has none.
fn lists() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("SPRY_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("spry")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/spry")));
    let inside = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let archives = cache.into_iter().flat_map(|cache| inside(cache.join("apt")));
    let files = archives.flat_map(|archive| inside(archive.path().join("lists"))).map(|entry| entry.path());
    let mut lists: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with("Release")).collect();
    lists.sort();
    lists
}

/// The files of a directory that end in no suffix: cargo's programs.
fn programs_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    // Cargo keeps each example under a second name, with a hash in it.
    let is_program = |path: &PathBuf| {
        path.is_file()
            && path.extension().is_none()
            && !path.file_name().is_some_and(|name| {
                name.to_string_lossy().rsplit_once('-').is_some_and(|(_, hash)| hash.len() == 16)
            })
    };
    Ok(paths.into_iter().filter(is_program).collect())
}
