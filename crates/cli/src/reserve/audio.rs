//! `spry reserve --audio`: a reservation for each thread that processes data of PipeWire's graph, kept
//! current until Ctrl-C.

mod busy;
mod class;
mod graph;
mod held;
mod said;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use spry_control::Client;

use self::busy::{AudioThread, Busy};
use self::graph::Node;
use self::held::GraphReservations;
use self::said::EventPrinter;
pub use self::said::Form;
use self::watch::{GraphChange, GraphWatch};
use crate::stopping;

/// The interval between checks of the reservations, and the pause between two searches for PipeWire.
const LOOK: Duration = Duration::from_secs(1);
/// How long PipeWire may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reserves for the graph, and keeps its reservations current until a signal comes.
pub fn run(socket: &Path, form: Form) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let said = EventPrinter::new(form);
    let mut held = GraphReservations::new(Client::connect(socket)?, said);
    let mut watch = GraphWatch::start()
        .context("cannot run pw-dump, which comes with PipeWire (Debian: pipewire-bin)")?;
    if watch.wait(PATIENCE) != GraphChange::Changed {
        bail!("PipeWire does not answer: run this as the session's user, with its XDG_RUNTIME_DIR");
    }
    let is_over = || stop.is_requested();
    let mut graph = Vec::new();
    let mut has_changed = true;
    while !is_over() {
        if has_changed {
            let now = watch.objects().nodes(&watch::periods()?);
            if now != graph {
                said.graph(&now)?;
                bring_current(&mut held, &now, &is_over)?;
                graph = now;
            }
        }
        held.grow()?;
        has_changed = match watch.wait(LOOK) {
            GraphChange::Same => false,
            GraphChange::Changed => true,
            GraphChange::Ended => {
                // PipeWire's own threads have ended. Threads of other programs may still wait for PipeWire.
                held.release_all()?;
                graph.clear();
                said.gone()?;
                watch = again(&is_over)?;
                true
            }
        };
    }
    held.release_all()?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until PipeWire is there again.
fn again(is_over: &dyn Fn() -> bool) -> Result<GraphWatch> {
    loop {
        let mut watch = GraphWatch::start()?;
        if is_over() || watch.wait(LOOK) == GraphChange::Changed {
            return Ok(watch);
        }
        sleep(LOOK);
    }
}

/// Measures the threads of these nodes, and reserves the CPU time that they need. Ends the reservations of
/// threads of other nodes.
fn bring_current(held: &mut GraphReservations, nodes: &[Node], is_over: &dyn Fn() -> bool) -> Result<()> {
    let threads = threads(nodes);
    held.keep_only(&threads)?;
    let measured = busy::measure(&threads, is_over);
    if is_over() {
        return Ok(());
    }
    // The shortest period comes first: if not all fit, these threads would miss more periods.
    let mut wanted: Vec<(&AudioThread, &Busy)> =
        threads.iter().zip(&measured).filter(|(_, busy)| busy.is_used()).collect();
    wanted.sort_by_key(|(thread, _)| (thread.period_ns, thread.tid));
    for (thread, busy) in wanted {
        held.reserve(thread, busy.budget_with_rare_ns(thread.period_ns), busy.high_ns())?;
    }
    held.is_current()
}

/// The threads that work for nodes, each once and with its shortest period.
fn threads(nodes: &[Node]) -> Vec<AudioThread> {
    let mut by_tid: BTreeMap<u32, AudioThread> = BTreeMap::new();
    for node in nodes {
        for thread in busy::threads_of(node.tgid, node.period_ns()) {
            let known = by_tid.entry(thread.tid).or_insert_with(|| thread.clone());
            known.period_ns = known.period_ns.min(thread.period_ns);
        }
    }
    by_tid.into_values().collect()
}
