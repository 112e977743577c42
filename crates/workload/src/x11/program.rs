//! `program`: a real program with a window on the scenario's display.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child::{Output, Program};
use super::client::Client;
use super::find::{self, Sought};
use super::{X11Error, files, observer, server, target, tree};
use crate::keys::Keys;
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::runner::sys::Woke;

/// The kind of task.
pub static PROGRAM: RealProgram = RealProgram;

/// How long a program may take to open its window unless the scenario says.
const PATIENCE_NS: u64 = 120_000_000_000;

/// Starts a program before the scenario begins, waits for its window, and ends it afterwards. Others measure what it draws:
/// `x11-frames` and `x11-typist`, with its task's name as their target.
#[derive(Debug)]
pub struct RealProgram;

#[derive(Debug)]
struct Playing {
    argv: Vec<String>,
    environment: Vec<(String, String)>,
    files: Vec<String>,
    sought: Sought,
    at: Option<(i16, i16)>,
    patience: Duration,
}

impl Kind for RealProgram {
    fn name(&self) -> &'static str {
        "program"
    }

    fn about(&self) -> &'static str {
        "a real program with a window; keys: argv, env, files, window_class, window_name, at, patience"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let argv = keys.texts("argv")?.ok_or_else(|| keys.missing("argv"))?;
        if argv.is_empty() {
            return Err(keys.mistake("argv", "\"argv\" must begin with the program's name"));
        }
        let mut environment = Vec::new();
        for setting in keys.texts("env")?.unwrap_or_default() {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(
                    keys.mistake("env", format!("\"env\" must be a list of NAME=VALUE, not \"{setting}\""))
                );
            };
            environment.push((name.into(), value.into()));
        }
        let files = keys.texts("files")?.unwrap_or_default();
        if let Some(strange) = files.iter().find(|file| !files::NAMES.contains(&file.as_str())) {
            let known = files::NAMES.join(", ");
            return Err(
                keys.mistake("files", format!("unknown file \"{strange}\"; a file is one of {known}"))
            );
        }
        let sought = Sought { class: keys.text("window_class")?, name: keys.text("window_name")? };
        let at = observer::place(keys)?;
        let patience = Duration::from_nanos(keys.duration_ns("patience")?.unwrap_or(PATIENCE_NS));
        Ok(Box::new(Playing { argv, environment, files, sought, at, patience }))
    }
}

impl Role for Playing {
    fn programs(&self) -> Vec<String> {
        self.argv.first().cloned().into_iter().collect()
    }

    fn files(&self) -> Vec<String> {
        self.files.clone()
    }

    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let display = observer::display(stage)?;
        let home = self.home(stage)?;
        let client = Client::connect(display)?;
        let mut program = self.start(stage, display, &home, &client)?;
        let start = stage.start_line()?;
        tree::adopt_class(program.tgid())
            .map_err(|source| X11Error::Kernel { what: "giving a program its task's class", source })?;
        while !stage.over() && stage.sleep_until(start.measure_from_ns) == Woke::Interrupted {}
        let before = tree::cpu_ns(program.tgid());
        while !stage.over() && stage.sleep_until(start.measure_to_ns) == Woke::Interrupted {}
        let after = tree::cpu_ns(program.tgid());
        program.check()?;
        program.end();
        let mut metrics = Metrics::new();
        let measured_ns = start.measure_to_ns - start.measure_from_ns;
        metrics.ratio("cpu_share", tree::cpu_between_ns(&before, &after) as f64 / measured_ns as f64);
        Ok(metrics)
    }
}

impl Playing {
    /// A directory of this task's own, in which it starts and lives, with the files that it asked for.
    fn home(&self, stage: &Stage) -> Result<PathBuf, X11Error> {
        let home = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&home)
            .map_err(|source| X11Error::File { path: home.clone(), source })?;
        for name in &self.files {
            let (file, link) = (files::provide(name, &files::cache())?, home.join(name));
            symlink(file, &link).map_err(|source| X11Error::File { path: link, source })?;
        }
        Ok(home)
    }

    fn start(&self, stage: &Stage, display: &str, home: &Path, client: &Client) -> Result<Program, X11Error> {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]);
        server::furnish(&mut command, display, home);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let before = find::present(client)?;
        let mut program = Program::start(command, Output::Log, home.join("output.log"), &self.argv[0])?;
        let seen = find::wait_for(client, &mut program, &before, &self.sought, self.patience)?;
        if let Some((x, y)) = self.at {
            client.move_to(seen.window, x.into(), y.into())?;
        }
        target::mark(client, seen.window, stage.task_name())?;
        Ok(program)
    }
}
