//! The command `spry compare`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use spry_experiment::compare::Comparison;
use spry_experiment::directory;
use spry_latency::Results;
use spry_latency::compare::{self as latencies, Basis, Pooling};

use crate::args::CompareArgs;
use crate::input::NamedPath;
use crate::output::{self, say};
use crate::source;

/// Compares results of scenarios, or of latency measurements. The content of the files decides
/// which kind it is.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    let results = args.results.iter().map(|path| NamedPath::new(path)).collect::<Result<Vec<_>>>()?;
    for result in &results {
        fs::metadata(&result.path).with_context(|| format!("cannot read {}", result.name))?;
        if source::is_trace(&result.path) {
            bail!(
                "{0} is a trace, and compare takes results of `spry run` and `spry latency -o`; `spry report {0}` \
                 shows it",
                result.name
            );
        }
    }
    let (latencies, others): (Vec<&NamedPath>, Vec<&NamedPath>) =
        results.iter().partition(|result| Results::are_in(&result.path));
    let worse = match (latencies.first(), others.first()) {
        (Some(_), None) => of_latencies(args, &results)?,
        (None, _) => of_scenarios(args, &results)?,
        (Some(one), Some(other)) => bail!(
            "{} holds latencies (`spry latency -o`) and {} does not: compare results of one kind at a time",
            one.name,
            other.name
        ),
    };
    if args.fail_if_worse && worse > 0 {
        say!("spry: {worse} figures are worse by more than their spread");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all latency results side by side. Returns how many values are worse than those of
/// the first results.
fn of_latencies(args: &CompareArgs, results: &[NamedPath]) -> Result<usize> {
    let load = |result: &NamedPath| {
        Ok((result.name.clone(), Results::load(&result.path).map_err(|error| result.told(error))?))
    };
    let results = results.iter().map(load).collect::<Result<Vec<_>>>()?;
    let pooling = if args.pool { Pooling::Alike } else { Pooling::Each };
    let basis = if args.corrected { Basis::Corrected } else { Basis::Raw };
    let comparison = latencies::Comparison::of(results, pooling, basis)?;
    if let Some(path) = &args.html {
        let page = latencies::page(&comparison);
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        output::print(&format!("{}\n", serde_json::to_string(&latencies::json(&comparison))?))?;
    } else {
        output::print(&latencies::text(&comparison, output::columns(args.width).into()))?;
    }
    Ok(comparison.worse())
}

/// Compares the first results of scenarios with each of the others. Returns how many values are worse than
/// those of the first results.
fn of_scenarios(args: &CompareArgs, results: &[NamedPath]) -> Result<usize> {
    let only_latencies = [
        ("--pool", args.pool),
        ("--corrected", args.corrected),
        ("--json", args.json),
        ("--html", args.html.is_some()),
    ];
    let (base, others) = results.split_first().context("nothing to compare")?;
    let first = directory::read(&base.path).map_err(|error| base.told(error))?;
    if let Some((name, _)) = only_latencies.into_iter().find(|(_, is_given)| *is_given) {
        bail!("{name} is for latencies (`spry latency -o`), and {} holds a scenario's results", base.name);
    }
    let mut worse = 0;
    for other in others {
        let second = directory::read(&other.path).map_err(|error| other.told(error))?;
        let comparison = Comparison::of(&first, &second)?;
        let (one, two) = names(Path::new(&base.name), Path::new(&other.name));
        let text = comparison.text(&one, &two);
        output::print(&format!("{} and {}\n{text}\n", base.name, other.name))?;
        worse += comparison.worse();
    }
    Ok(worse)
}

/// The heads of the columns: the last part of each path, or the whole paths if these parts are the same.
fn names(first: &Path, second: &Path) -> (String, String) {
    let last = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let (one, two) = (last(first), last(second));
    if one == two { ("first".to_owned(), "second".to_owned()) } else { (one, two) }
}
