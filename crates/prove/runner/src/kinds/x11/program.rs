//! `program`: a real program with a window on the scenario's display.

use std::path::{Path, PathBuf};
use std::time::Duration;

use spry_scenario::kinds::x11::Program;
use spry_scenario::metrics::Metrics;

use super::observer;
use crate::RunError;
use crate::stage::Stage;
use crate::x11::child;
use crate::x11::client::Client;
use crate::x11::{X11Error, files, find, target, tree};

/// Plays a program: starts it before the run begins, waits for its window, and ends it after the run. Other
/// tasks (`x11-frames`, `x11-typist`) measure what it draws; their target is this task's name.
pub(in crate::kinds) fn play(program: &Program, stage: &Stage) -> Result<Metrics, RunError> {
    let display = observer::display(stage)?;
    let home = home(program, stage)?;
    let client = Client::connect(display)?;
    let mut running = started(program, stage, display, &home, &client)?;
    let start = stage.start_line()?;
    stage.share_class(&running)?;
    stage.sleep_through(start.measure_from_ns);
    let before = stage.program_cpu_ns(&running);
    stage.sleep_through(start.measure_to_ns);
    let after = stage.program_cpu_ns(&running);
    running.check()?;
    running.end();
    let mut metrics = Metrics::new();
    let measured_ns = start.measure_to_ns - start.measure_from_ns;
    metrics.ratio("cpu_share", tree::cpu_between_ns(&before, &after) as f64 / measured_ns as f64);
    Ok(metrics)
}

/// Makes a directory of this task's own. The program starts there and has it as its home, with the files that
/// the task needs.
fn home(program: &Program, stage: &Stage) -> Result<PathBuf, X11Error> {
    let home = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
    stage.make_private_directory(&home).map_err(|source| X11Error::File { path: home.clone(), source })?;
    for name in &program.files {
        let (file, link) = (files::provide(name, &files::cache())?, home.join(name));
        stage.link(&file, &link).map_err(|source| X11Error::File { path: link, source })?;
    }
    Ok(home)
}

/// Starts the program and waits for its window.
fn started(
    program: &Program,
    stage: &Stage,
    display: &str,
    home: &Path,
    client: &Client,
) -> Result<child::Program, X11Error> {
    let before = find::present(client)?;
    let mut running = stage.start_program(&program.argv, &program.environment, display, home)?;
    let patience = Duration::from_nanos(program.patience_ns);
    let seen = find::wait_for(client, &mut running, &before, &program.sought, patience)?;
    if let Some((x, y)) = program.at {
        client.move_to(seen.window, x.into(), y.into())?;
    }
    target::mark(client, seen.window, stage.task_name())?;
    Ok(running)
}
