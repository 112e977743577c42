//! What the lab is preparing, on the terminal.

use std::io::{self, IsTerminal};
use std::sync::Mutex;

use indicatif::{HumanBytes, ProgressBar};
use spry_lab::Event;

use crate::progress;

/// A line that says what is being done; gone when it is dropped. Nothing where standard error is no terminal.
pub struct Steps(Mutex<Option<ProgressBar>>);

impl Steps {
    /// A line that is shown.
    pub fn new() -> Steps {
        Steps(Mutex::new(io::stderr().is_terminal().then(progress::step)))
    }

    /// No line.
    pub fn hidden() -> Steps {
        Steps(Mutex::new(None))
    }

    /// Shows what has happened.
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
