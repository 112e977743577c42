//! Task groups in the way of rt-app: control groups for threads, below the control group of the runner. They
//! are removed at the end of the run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use spry_scenario::model::{Action, Scenario};
use spry_scenario::program::Step;
use spry_sys::process;

use crate::RunError;

/// The control group below which the run makes its groups, and the version of its hierarchy. The version
/// decides by which file a thread joins a group.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    path: PathBuf,
    version: Version,
}

/// The two versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Version 1: the CPU controller has a hierarchy of its own.
    One,
    /// Version 2: all controllers share one hierarchy, and a group for threads must be marked as "threaded".
    Two,
}

impl Base {
    /// Finds the control group of the calling process in the hierarchy that has the CPU controller; `None` if
    /// no hierarchy has it.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (at, kind, options) = (Path::new(words.next()?), words.next()?, words.next()?);
            let (version, within) = match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    let of_cpu = |line: &&str| {
                        line.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == "cpu"))
                    };
                    (Version::One, own.lines().find(of_cpu)?)
                }
                "cgroup2" => (Version::Two, own.lines().find(|line| line.starts_with("0::"))?),
                _ => return None,
            };
            let path = at.join(within.splitn(3, ':').nth(2)?.trim_start_matches('/'));
            let has_cpu = || {
                fs::read_to_string(path.join("cgroup.controllers"))
                    .is_ok_and(|c| c.split_whitespace().any(|c| c == "cpu"))
            };
            (version == Version::One || has_cpu()).then(|| Self { path: path.clone(), version })
        })
    }

    /// Moves the calling thread into the group of this name; "/" is the group of the runner itself.
    pub(crate) fn join(&self, name: &str) -> Result<(), RunError> {
        let file = if self.version == Version::One { "tasks" } else { "cgroup.threads" };
        let path = self.path.join(name.trim_matches('/')).join(file);
        fs::write(&path, process::tid().to_string())
            .map_err(|error| RunError::Failed(format!("task group {name}: {}: {error}", path.display())))
    }

    fn make(&self, name: &str, made: &mut Vec<PathBuf>) -> io::Result<()> {
        let mut path = self.path.clone();
        for part in name.split('/').filter(|part| !part.is_empty()) {
            if self.version == Version::Two {
                // Without the CPU controller the groups below would have no effect.
                fs::write(path.join("cgroup.subtree_control"), "+cpu")?;
            }
            path.push(part);
            if !path.is_dir() {
                fs::create_dir(&path)?;
                made.push(path.clone());
                if self.version == Version::Two {
                    fs::write(path.join("cgroup.type"), "threaded")?;
                }
            }
        }
        Ok(())
    }
}

/// The groups of a run. When this value is dropped, the groups that the run made are removed.
pub(crate) struct Groups {
    made: Vec<PathBuf>,
    /// The control group below which the run's groups are; `None` if no task names a group.
    pub base: Option<Base>,
}

impl Groups {
    /// Makes the groups that a scenario's tasks name.
    pub(crate) fn make(scenario: &Scenario) -> Result<Self, RunError> {
        let mut groups = Self { made: Vec::new(), base: None };
        for name in names(scenario) {
            let base = Base::find().ok_or_else(|| {
                RunError::Machine(
                    "task groups need control groups with the CPU controller; none are mounted".into(),
                )
            })?;
            base.make(&name, &mut groups.made)
                .map_err(|error| RunError::Machine(format!("task group {name}: {error} (it needs root)")))?;
            groups.base = Some(base);
        }
        Ok(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // The kernel does not remove a group while another process has threads in it. Such a group stays.
            let _ = fs::remove_dir(path);
        }
    }
}

fn names(scenario: &Scenario) -> Vec<String> {
    let mut names = Vec::new();
    for task in &scenario.tasks {
        names.extend(task.group.clone());
        if let Action::Steps(program) = &task.action {
            program.visit(&mut |step| {
                if let Step::JoinGroup(name) = step {
                    names.push(name.clone());
                }
            });
        }
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}
