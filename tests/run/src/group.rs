//! The groups of test programs: they decide which programs may run side by side.

use std::str::FromStr;

use anyhow::{Result, bail};

/// The demands of a test program on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The program has no special demands: it may run beside any other.
    Pure,
    /// The program runs virtual machines, and their time is not this machine's time: it may run beside any
    /// program that is not alone.
    Lab,
    /// The program needs no privilege, but the machine for itself: it plays scenarios in real time
    /// or has a display.
    Alone,
    /// The program needs root and the machine for itself: it loads programs into the running kernel, or
    /// measures the kernel.
    Root,
}

impl Group {
    /// Whether the tests of the group run one after another, with nothing beside them.
    pub fn is_alone(self) -> bool {
        matches!(self, Group::Alone | Group::Root)
    }
}

impl FromStr for Group {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Group> {
        Ok(match name {
            "pure" => Group::Pure,
            "lab" => Group::Lab,
            "alone" => Group::Alone,
            "root" => Group::Root,
            _ => bail!("there is no group '{name}': pure, lab, alone or root"),
        })
    }
}

/// The groups of programs, by the beginnings of their sources' paths. The first entry that fits counts, so
/// that a pure program may lie among others. A new program is pure until it is named here.
pub const GROUPS: [(&str, Group); 9] = [
    ("crates/act/scheduler/tests/headers.rs", Group::Pure),
    ("crates/know/display/tests/", Group::Alone),
    ("crates/see/recorder/tests/", Group::Root),
    ("crates/act/scheduler/tests/", Group::Root),
    ("crates/prove/runner/tests/runs.rs", Group::Alone),
    ("crates/prove/runner/tests/x11_", Group::Alone),
    ("tests/lab/tests/", Group::Lab),
    ("tests/storm/tests/", Group::Lab),
    ("tests/system/tests/", Group::Root),
];

/// Parts of the names of lab tests with results that may depend on this machine: on its load, its disk, its
/// signals and the lab's cache. They always run.
const OF_THIS_MACHINE: [&str; 3] = ["repeat", "saved::", "disk::"];

/// Whether the result of a lab test may depend on more than the inputs of its guests.
pub fn depends_on_this_machine(test: &str) -> bool {
    // Tests without a module are in `failures.rs` or are storms. Storms depend on their guests alone.
    OF_THIS_MACHINE.iter().any(|part| test.contains(part)) || !(test.contains("::") || test.contains("storm"))
}

/// The group of the program with this source.
pub fn of(source: &str) -> Group {
    let found = GROUPS.iter().find(|(beginning, _)| source.starts_with(beginning));
    found.map_or(Group::Pure, |&(_, group)| group)
}
