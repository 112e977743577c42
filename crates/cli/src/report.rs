//! The command `spry report`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use spry_analysis::{Engine, Options, Root, Selection, TaskPattern};
use spry_report::{html, json, text};

use crate::analyse::{Extent, analyse, useful_threads};
use crate::args::ReportArgs;
use crate::output::{self, say};
use crate::source::{self, FileReader};

/// Reads the trace once and prints the findings of the analyses, or writes them to a file.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let from_ns = args.from.map_or(0, |time| time.ns());
    let (reader, bytes) = source::open(&args.file, from_ns)?;
    let name = source::name_of(&args.file);
    let engine = engine(args, &reader, from_ns)?;
    let extent = if args.to.is_some() { Extent::Part } else { Extent::Whole };
    let threads = args.threads.map_or_else(useful_threads, usize::from);
    let findings = analyse(reader, engine, bytes, extent, threads).with_context(|| name.clone())?;
    if let (Some(number), true) = (args.task.as_deref(), findings.tasks.is_empty()) {
        if matches!(TaskPattern::parse(number), TaskPattern::Number(_)) {
            say!("spry: no task has the number {number}; a task of that name is `--task name:{number}`");
        }
    }
    let trace = &findings.trace;
    ensure!(
        trace.from_ns == 0 || trace.from_ns < trace.duration_ns,
        "{name}: the trace ends {:.3} s after its start, which is before --from; choose an earlier time",
        trace.duration_ns as f64 / 1e9
    );
    if let (Some(root), Some(graph)) = (&args.root, &findings.graph) {
        let known = graph.component.is_some();
        ensure!(
            known,
            "no process {root:?} in the graph; `--analysis graph` lists those that wake or are woken"
        );
    }
    if let Some(path) = &args.html {
        let failed = || format!("cannot write {}", path.display());
        let mut out = BufWriter::new(File::create(path).with_context(failed)?);
        html::write(&findings, &mut out).and_then(|()| out.flush()).with_context(failed)?;
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    if args.json {
        json::write(&findings, &mut out)?;
    } else if args.analysis.is_empty() {
        write!(out, "{}", text::summary(&findings, output::style(&args.text)))?;
    } else {
        for page in
            args.analysis.iter().filter_map(|name| text::analysis(name, &findings, output::style(&args.text)))
        {
            writeln!(out, "{page}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn engine(args: &ReportArgs, reader: &FileReader, from_ns: u64) -> Result<Engine> {
    let selection = Selection {
        tasks: args.task.as_deref().map(TaskPattern::parse),
        from_ns,
        to_ns: args.to.map(|time| time.ns()),
    };
    let mut options = Options { analyses: args.analysis.clone(), ..Options::default() };
    if !args.rates.is_empty() {
        options.rates_hz.clone_from(&args.rates);
    }
    options.root = args.root.as_deref().map(Root::parse);
    Ok(Engine::new(reader.header(), selection, options)?)
}
