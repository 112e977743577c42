//! The parameters of a real program.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;
use crate::screen::{self, Place};

/// The generated files that a scenario may ask for: `clip.mpg` is a minute of MPEG-1, 352x288 pixels, 25
/// frames a second, with sound.
pub const FILES: [&str; 1] = ["clip.mpg"];

/// How long a program may take to open its window unless the scenario gives another time, ns.
const PATIENCE_NS: u64 = 120_000_000_000;

/// The task starts a real program with a window before the run begins, waits for the window, and ends the
/// program after the run. Other tasks (`x11-frames`, `x11-typist`) measure what the program draws; their
/// target is this task's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// The names and values of environment variables.
    pub environment: Vec<(String, String)>,
    /// The generated files that are in the program's directory, each one of [`FILES`].
    pub files: Vec<String>,
    /// The properties that the program's window must have.
    pub sought: SoughtWindow,
    /// The place to which the window is moved; `None`: it stays where it opened.
    pub at: Option<Place>,
    /// How long the program may take to open its window, ns.
    pub patience_ns: u64,
}

/// The properties of the sought window. Unless `class` or `name` is given, the window must belong to the
/// program or to a process that the program started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoughtWindow {
    /// A part of the window's `WM_CLASS`, for example `XTerm`.
    pub class: Option<String>,
    /// A text that the window's `WM_NAME` contains.
    pub name: Option<String>,
}

impl Parameters for Program {
    const NAME: &'static str = "program";
    const ABOUT: &'static str =
        "a real program with a window; keys: argv, env, files, window_class, window_name, at, patience";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
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
        if let Some(strange) = files.iter().find(|file| !FILES.contains(&file.as_str())) {
            let known = FILES.join(", ");
            return Err(
                keys.mistake("files", format!("unknown file \"{strange}\"; a file is one of {known}"))
            );
        }
        let sought = SoughtWindow { class: keys.text("window_class")?, name: keys.text("window_name")? };
        let at = screen::place(keys)?;
        let patience_ns = keys.duration_ns("patience")?.unwrap_or(PATIENCE_NS);
        Ok(Self { argv, environment, files, sought, at, patience_ns })
    }

    fn programs(&self) -> Vec<String> {
        self.argv.first().cloned().into_iter().collect()
    }

    fn files(&self) -> Vec<String> {
        self.files.clone()
    }

    fn needs_display(&self) -> bool {
        true
    }
}
