//! Shows the progress of a study that is made of boots of the lab.

use std::io::{self, IsTerminal};
use std::time::Instant;

use indicatif::ProgressBar;
use spry_reproduce::StudyProgress;

use crate::output::say;
use crate::progress;

/// Shows the progress of a study.
pub struct Meter {
    began: Instant,
    /// Whether a bar is shown.
    shown: bool,
    bar: Option<ProgressBar>,
    /// Whether progress is printed in lines if there is no terminal for a bar.
    lines: bool,
    kept: usize,
    all: usize,
    ran: usize,
}

impl Meter {
    /// A meter that shows nothing if the command is to be quiet.
    pub fn new(is_quiet: bool) -> Meter {
        let shown = !is_quiet && io::stderr().is_terminal();
        let (began, lines) = (Instant::now(), !is_quiet && !shown);
        Meter { began, shown, bar: None, lines, kept: 0, all: 0, ran: 0 }
    }

    /// Shows a message of a study; `name` returns the name of a cell.
    pub fn show<C>(&mut self, told: StudyProgress<'_, C>, name: impl Fn(&C) -> String) {
        match told {
            StudyProgress::Begins { kept, all } => {
                (self.kept, self.all) = (kept, all);
                self.bar = (self.shown && kept < all).then(|| progress::cells(all));
                if self.lines && kept > 0 {
                    say!("spry: {kept} of {all} cells are there already");
                }
            }
            StudyProgress::Measured(cell) => {
                self.ran += 1;
                if self.lines {
                    let (done, all) = (self.kept + self.ran, self.all);
                    say!("spry: {done} of {all}: {}", name(cell));
                }
            }
            StudyProgress::Failed { cell, error } => {
                self.ran += 1;
                let words = format!("spry: {cell}: {error}");
                match &self.bar {
                    Some(bar) => bar.println(words),
                    None => say!("{words}"),
                }
            }
            StudyProgress::Goes => self.draw(),
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    fn draw(&self) {
        let Some(bar) = &self.bar else { return };
        let done = self.kept + self.ran;
        let left = match self.ran {
            0 => String::new(),
            ran => {
                let left = self.began.elapsed() / ran as u32 * (self.all - done) as u32;
                format!(", about {} min left", left.as_secs().div_ceil(60))
            }
        };
        bar.set_length(self.all as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{done} of {} cells{left}", self.all));
    }
}
