//! Shows on the terminal what the lab is preparing.

use std::io::{self, IsTerminal};
use std::sync::Mutex;

use indicatif::{HumanBytes, ProgressBar};
use spry_lab::Event;

use crate::progress;

/// A line that shows what the lab does. It is removed when this value is dropped. If standard error is not
/// a terminal, no line is shown.
pub struct Steps(Mutex<Option<ProgressBar>>);

impl Steps {
    /// Makes a line that is shown.
    pub fn new() -> Steps {
        Steps(Mutex::new(io::stderr().is_terminal().then(progress::step)))
    }

    /// Makes a value that shows no line.
    pub fn hidden() -> Steps {
        Steps(Mutex::new(None))
    }

    /// Shows an event of the lab in the line.
    pub fn show(&self, event: Event<'_>) {
        let Ok(bar) = self.0.lock() else { return };
        let Some(bar) = bar.as_ref() else { return };
        match event {
            Event::Step(step) => {
                bar.set_prefix(step.to_owned());
                bar.set_message(String::new());
            }
            Event::Bytes { done, total } => {
                bar.set_message(format!("{} of {}", HumanBytes(done), HumanBytes(total)))
            }
            _ => {}
        }
        bar.tick();
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Ok(Some(bar)) = self.0.get_mut() {
            bar.finish_and_clear();
        }
    }
}
