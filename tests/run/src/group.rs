//! Which test programs may run beside which others.

use std::str::FromStr;

use anyhow::{Result, bail};

/// What a test program asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Nothing: it may run beside anything.
    Pure,
    /// Virtual machines, whose time is not this machine's. It may run beside anything that is pure.
    Lab,
    /// No privilege, but the machine for itself: it plays scenarios in real time or has a display.
    Alone,
    /// The machine for itself, and root: it loads programs into the running kernel, or measures it.
    Root,
}

impl Group {
    /// Whether its tests run one after another, and nothing beside them.
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

/// The programs that are not pure, by the beginnings of their sources' paths. A new one is pure until it is named here.
pub const NOT_PURE: [(&str, Group); 8] = [
    ("crates/display/tests/", Group::Alone),
    ("crates/recorder/tests/", Group::Root),
    ("crates/scheduler/tests/", Group::Root),
    ("crates/workload/tests/runs.rs", Group::Alone),
    ("crates/workload/tests/x11_", Group::Alone),
    ("tests/lab/tests/", Group::Lab),
    ("tests/storm/tests/", Group::Lab),
    ("tests/system/tests/", Group::Root),
];

/// The group of the program with that source.
pub fn of(source: &str) -> Group {
    let found = NOT_PURE.iter().find(|(beginning, _)| source.starts_with(beginning));
    found.map_or(Group::Pure, |&(_, group)| group)
}
