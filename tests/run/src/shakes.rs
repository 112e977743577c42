//! Runs of the lab's tests under perturbations, and notes of what passed.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arguments::Asked;
use crate::group::Group;
use crate::pool::Task;
use crate::programs::Program;

/// The first perturbation's number of bytes; the others have multiples of it. It is a page and a few bytes.
const STEP_BYTES: u32 = 4099;

/// The perturbations of one run, and what passed before with the same programs.
pub struct Shakes {
    asked: Asked,
    /// The hash of all programs that may enter a guest.
    inputs: u64,
}

impl Shakes {
    /// Opens the notes for the programs as they are now.
    ///
    /// # Errors
    /// If a program cannot be read, or the notes cannot be kept.
    pub fn open(asked: Asked, programs: &[Program]) -> Result<Shakes> {
        fs::create_dir_all(&asked.kept).with_context(|| asked.kept.display().to_string())?;
        let mut files: Vec<PathBuf> = programs.iter().map(|program| program.file.clone()).collect();
        if let Some(directory) = std::env::var_os("SPRY_PROGRAMS").map(PathBuf::from) {
            files.extend(files_in(&directory)?);
            files.extend(files_in(&directory.join("examples"))?);
        }
        files.sort();
        let mut hasher = DefaultHasher::new();
        for file in files {
            hasher.write(&fs::read(&file).with_context(|| file.display().to_string())?);
        }
        Ok(Shakes { asked, inputs: hasher.finish() })
    }

    /// The tasks under all perturbations, without those that passed already. Tests without a lab do not feel
    /// a perturbation and are left out.
    pub fn of(&self, programs: &[Program], tasks: Vec<Task>) -> Vec<Task> {
        let is_asked = |task: &Task| {
            programs[task.program].group == Group::Lab
                && (self.asked.only.is_empty() || self.asked.only.iter().any(|part| task.name.contains(part)))
        };
        let tasks: Vec<Task> = tasks.into_iter().filter(is_asked).collect();
        let shaken = (1..=self.asked.count).flat_map(|number| {
            tasks.iter().map(move |task| Task { shake_bytes: number * STEP_BYTES, ..task.clone() })
        });
        shaken.filter(|task| !self.note_of(programs, task).exists()).collect()
    }

    /// Notes that a task has passed.
    pub fn note(&self, programs: &[Program], task: &Task) {
        // A note that cannot be kept costs another run, no result.
        _ = fs::write(self.note_of(programs, task), task.shown(programs));
    }

    fn note_of(&self, programs: &[Program], task: &Task) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.inputs);
        hasher.write(task.shown(programs).as_bytes());
        self.asked.kept.join(format!("{:016x}", hasher.finish()))
    }
}

/// The files of a directory that end in no suffix: cargo's programs.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
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
