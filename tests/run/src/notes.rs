//! Notes of the lab's tests that have passed, and their runs under perturbations.
//!
//! The lab repeats every byte, so a test gives the same result if its guests get the same bytes. Such a test
//! is not run again. Its inputs are all programs, which may enter guests and run them, and the sources of the
//! test's own module: when a bound changes, only the tests of its module run again. A test program without
//! modules is an input of its own tests.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spry_lab::Cache;

use crate::arguments::Perturbations;
use crate::group::{self, Group};
use crate::pool::QueuedTest;
use crate::programs::Program;

/// The first perturbation's number of bytes; the others have multiples of it. It is a page and a few bytes.
const STEP_BYTES: u32 = 4099;

/// Environment variables that change the behaviour of a test have names with these beginnings.
const VARIABLES: [&str; 2] = ["SPRY_TEST_", "SPRY_LAB_"];

/// The notes for one set of inputs.
pub struct Notes {
    directory: PathBuf,
    /// The hash of all data that may enter a guest or change the behaviour of every test.
    inputs: u64,
    /// The hash of the sources of each module of a test program, by the program's source and the module. A
    /// program without modules has its own hash, with an empty name.
    modules: BTreeMap<(String, String), u64>,
}

impl Notes {
    /// Opens the notes for the present programs.
    ///
    /// # Errors
    /// If a program cannot be read, or the notes cannot be kept.
    pub fn open(directory: PathBuf, programs: &[Program]) -> Result<Notes> {
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let mut files = Vec::new();
        let mut modules = BTreeMap::new();
        for program in programs.iter().filter(|program| program.group == Group::Lab) {
            let source = Path::new(&program.source);
            files.push(program.dir.join("Cargo.toml"));
            files.extend(sources_in(&program.dir.join("src"))?);
            let mut of_program = modules_of(source)?;
            if of_program.is_empty() {
                of_program.insert(String::new(), vec![program.file.clone()]);
            } else {
                files.push(source.to_owned());
            }
            for (module, sources) in of_program {
                modules.insert((program.source.clone(), module), hash_of(&sources)?);
            }
        }
        if let Some(directory) = env::var_os("SPRY_PROGRAMS").map(PathBuf::from) {
            files.extend(programs_in(&directory)?);
            files.extend(programs_in(&directory.join("examples"))?);
        }
        files.sort();
        files.dedup();
        files.extend(lists());
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(hash_of(&files)?);
        variables().iter().for_each(|text| hasher.write(text.as_bytes()));
        Ok(Notes { directory, inputs: hasher.finish(), modules })
    }

    /// The tasks that have to run: a test of the lab that passed with the same inputs is left out, unless its
    /// result may depend on this machine.
    pub fn without_passed(&self, programs: &[Program], tasks: Vec<QueuedTest>) -> Vec<QueuedTest> {
        let is_left = |task: &QueuedTest| {
            !is_in_the_lab(programs, task)
                || group::depends_on_this_machine(&task.name)
                || !self.of(programs, task).exists()
        };
        tasks.into_iter().filter(is_left).collect()
    }

    /// The tasks under all perturbations, without the tasks that passed already. A perturbation does not
    /// affect tests without a lab, so they are left out.
    pub fn shaken(
        &self,
        asked: &Perturbations,
        programs: &[Program],
        tasks: Vec<QueuedTest>,
    ) -> Vec<QueuedTest> {
        let is_asked = |task: &QueuedTest| {
            is_in_the_lab(programs, task)
                && (asked.only.is_empty() || asked.only.iter().any(|part| task.name.contains(part)))
        };
        let tasks: Vec<QueuedTest> = tasks.into_iter().filter(is_asked).collect();
        let shaken = (1..=asked.count).flat_map(|number| {
            tasks.iter().map(move |task| QueuedTest { shake_bytes: number * STEP_BYTES, ..task.clone() })
        });
        shaken.filter(|task| !self.of(programs, task).exists()).collect()
    }

    /// Notes that a task has passed.
    pub fn note(&self, programs: &[Program], task: &QueuedTest) {
        if is_in_the_lab(programs, task) {
            // A note that cannot be kept costs another run, but no result.
            _ = fs::write(self.of(programs, task), task.shown(programs));
        }
    }

    fn of(&self, programs: &[Program], task: &QueuedTest) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.inputs);
        let module = task.name.split_once("::").map_or("", |(module, _)| module);
        let source = &programs[task.program].source;
        let hash_for = |module: &str| self.modules.get(&(source.clone(), module.to_owned()));
        hasher.write_u64(hash_for(module).or_else(|| hash_for("")).copied().unwrap_or(0));
        hasher.write(task.shown(programs).as_bytes());
        self.directory.join(format!("{:016x}", hasher.finish()))
    }
}

fn is_in_the_lab(programs: &[Program], task: &QueuedTest) -> bool {
    programs[task.program].group == Group::Lab
}

fn hash_of(files: &[PathBuf]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(&fs::read(file).with_context(|| file.display().to_string())?);
    }
    Ok(hasher.finish())
}

/// The Rust sources of a directory, in a fixed order.
fn sources_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    let mut sources: Vec<PathBuf> = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    sources.sort();
    Ok(sources)
}

/// The modules of a test program that has a `main.rs` in a directory of its own. Each has the sources of the
/// module itself, and of the modules that these import as `crate::`.
fn modules_of(source: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut modules = BTreeMap::new();
    let Some(directory) = source.parent().filter(|_| source.ends_with("main.rs")) else { return Ok(modules) };
    for file in sources_in(directory)? {
        let mut found = BTreeSet::new();
        let mut next = vec![file.clone()];
        while let Some(file) = next.pop() {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let names = text.split("crate::").skip(1).filter_map(|rest| {
                rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
            });
            next.extend(names.map(|name| directory.join(format!("{name}.rs"))).filter(|path| path.exists()));
            next.retain(|path| !found.contains(path));
            found.insert(file);
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        modules.insert(name, found.into_iter().collect());
    }
    Ok(modules)
}

/// The environment variables that change the behaviour of a test, in a fixed order.
fn variables() -> Vec<String> {
    let is_used = |name: &str| VARIABLES.iter().any(|beginning| name.starts_with(beginning));
    let set = env::vars().filter(|(name, _)| is_used(name)).map(|(name, value)| format!("{name}={value}\n"));
    let mut set: Vec<String> = set.collect();
    set.sort();
    set
}

/// The archive's lists in the lab's cache, in a fixed order: they determine the newest kernels, packages and
/// sources of the emulator. A cache that does not exist yet has none.
fn lists() -> Vec<PathBuf> {
    let inside = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let archives = inside(Cache::default_root().join("apt"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_its_own_sources_and_those_it_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tests/lab/main.rs");
        let modules = modules_of(&root).expect("the sources can be read");
        let names = |module: &str| -> Vec<String> {
            let stem = |path: &PathBuf| path.file_stem().expect("a file").to_string_lossy().into_owned();
            modules[module].iter().map(stem).collect()
        };
        assert_eq!(names("groups"), ["groups", "stack"]);
        assert_eq!(names("saved"), ["repeats", "saved"]);
        assert_eq!(names("ticks"), ["ticks"]);
        assert!(modules_of(Path::new("tests/storms.rs")).expect("nothing is read").is_empty());
    }
}
