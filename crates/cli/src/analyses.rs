//! The command `spry analyses`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use spry_analysis::analysis::{ALL, About};
use spry_trace::Group;

use crate::args::AnalysesArgs;

/// Prints each analysis with its description and with the groups of events that it needs.
pub fn run(args: &AnalysesArgs) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if args.json {
        let list: Vec<_> = ALL.iter().map(as_json).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for about in &ALL {
        let needs = names([&Group::Sched].into_iter().chain(about.needs));
        write!(out, "{:<10} {}\n{:<10} needs {needs}", about.name, about.tells, "")?;
        if !about.uses.is_empty() {
            write!(out, "; says more with {}", names(about.uses.iter().map(|(group, _)| group)))?;
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn names<'a>(groups: impl Iterator<Item = &'a Group>) -> String {
    let mut names: Vec<_> = groups.map(|group| group.name()).collect();
    names.dedup();
    names.join(", ")
}

fn as_json(about: &About) -> serde_json::Value {
    let needs: Vec<_> = [Group::Sched].iter().chain(about.needs).map(|group| group.name()).collect();
    let uses: Vec<_> =
        about.uses.iter().map(|(group, part)| json!({"group": group.name(), "part": part})).collect();
    json!({"name": about.name, "tells": about.tells, "needs": needs, "uses": uses})
}
