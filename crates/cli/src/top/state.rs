//! The state of the screen of `spry top`, and how keys change it.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use spry_control::{Explanation, Status, TaskStatus};

use crate::args::SortArg;
use crate::explain::Ink;

/// The action that a key requires of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Action {
    /// The caller has nothing to do.
    None,
    /// The program must end.
    Quit,
    /// The caller must ask the daemon about [`State::explained`].
    Explain,
}

/// The content of the middle of the screen.
#[derive(Clone, PartialEq, Debug)]
pub enum View {
    /// The table of all processes.
    Table,
    /// The explanation of one process: the number of the process, and the daemon's answer once it has come.
    Explanation(u32, Option<Result<Box<Explanation>, String>>),
    /// The list of all warnings.
    Warnings,
}

/// Everything that the screen shows.
#[derive(Clone, Debug)]
pub struct State {
    /// The latest status. Its tasks are sorted.
    pub status: Option<Status>,
    /// Why no newer status has come; `None` if the daemon answers.
    pub lost: Option<String>,
    /// The content of the middle of the screen.
    pub view: View,
    /// The column by which the table is sorted.
    pub sort: SortArg,
    /// The characters with which lines are drawn.
    pub ink: Ink,
    /// The number of the chosen process. The process stays chosen when its row changes.
    chosen: Option<u32>,
    /// The row of the chosen process. If that process is no longer shown, the process in this row is chosen.
    at: usize,
}

impl State {
    /// The state before the first status has come.
    pub const fn new(sort: SortArg, ink: Ink) -> State {
        State { status: None, lost: None, view: View::Table, sort, ink, chosen: None, at: 0 }
    }

    /// Shows a new status.
    pub fn show(&mut self, mut status: Status) {
        sort(&mut status.tasks, self.sort);
        self.status = Some(status);
        self.lost = None;
        self.settle();
    }

    /// Shows why the daemon cannot be reached.
    pub fn lose(&mut self, why: String) {
        self.lost = Some(why);
    }

    /// Shows the daemon's answer about the explained process.
    pub fn explain(&mut self, answer: Result<Explanation, String>) {
        if let View::Explanation(_, shown) = &mut self.view {
            *shown = Some(answer.map(Box::new));
        }
    }

    /// The process with the open explanation.
    pub const fn explained(&self) -> Option<u32> {
        match &self.view {
            View::Explanation(tgid, _) => Some(*tgid),
            _ => None,
        }
    }

    /// The row that is chosen.
    pub const fn row(&self) -> usize {
        self.at
    }

    /// Carries out a key's command. Returns the action that is left to the caller.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        match key.code {
            _ if is_interrupt => return Action::Quit,
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc | KeyCode::Backspace => self.view = View::Table,
            KeyCode::Char('w') => {
                self.view = if self.view == View::Warnings { View::Table } else { View::Warnings };
            }
            KeyCode::Enter if self.view == View::Table => {
                if let Some(tgid) = self.chosen {
                    self.view = View::Explanation(tgid, None);
                    return Action::Explain;
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.at + 1),
            KeyCode::PageUp => self.choose(self.at.saturating_sub(10)),
            KeyCode::PageDown => self.choose(self.at + 10),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            KeyCode::Char(letter) => self.sort_by(letter),
            _ => {}
        }
        Action::None
    }

    fn sort_by(&mut self, letter: char) {
        self.sort = match letter {
            'l' => SortArg::Level,
            'c' => SortArg::Cpu,
            'i' => SortArg::Input,
            'o' => SortArg::Output,
            'd' => SortArg::Dispatch,
            'n' => SortArg::Name,
            _ => return,
        };
        if let Some(status) = &mut self.status {
            sort(&mut status.tasks, self.sort);
        }
        self.settle();
    }

    fn tasks(&self) -> &[TaskStatus] {
        self.status.as_ref().map_or(&[], |status| &status.tasks)
    }

    fn choose(&mut self, at: usize) {
        if self.view != View::Table {
            return;
        }
        self.at = at.min(self.tasks().len().saturating_sub(1));
        self.chosen = self.tasks().get(self.at).map(|task| task.tgid);
    }

    /// Finds the row in which the chosen process is now. If the process is not shown any more, chooses the
    /// process that is in its old row.
    fn settle(&mut self) {
        let found = self.chosen.and_then(|tgid| self.tasks().iter().position(|task| task.tgid == tgid));
        self.at = found.unwrap_or(self.at).min(self.tasks().len().saturating_sub(1));
        self.chosen = self.tasks().get(self.at).map(|task| task.tgid);
    }
}

/// Sorts the tasks by a column: the lowest level, the first name, or the greatest value comes first. Unknown
/// values come last. If two values are equal, the task with the lower level comes first, then the task with
/// the lower number.
pub fn sort(tasks: &mut [TaskStatus], by: SortArg) {
    let most = |a: Option<f64>, b: Option<f64>| {
        let value = |x: Option<f64>| x.unwrap_or(f64::NEG_INFINITY);
        value(b).total_cmp(&value(a))
    };
    let level = |task: &TaskStatus| task.level.map_or(u16::MAX, u16::from);
    let tie = |a: &TaskStatus, b: &TaskStatus| level(a).cmp(&level(b)).then(a.tgid.cmp(&b.tgid));
    tasks.sort_by(|a, b| {
        let first = match by {
            SortArg::Level => level(a).cmp(&level(b)).then(most(a.cpu_share, b.cpu_share)),
            SortArg::Cpu => most(a.cpu_share, b.cpu_share),
            SortArg::Input => most(a.input_per_s, b.input_per_s),
            SortArg::Output => most(a.output_per_s, b.output_per_s),
            SortArg::Dispatch => most(a.dispatch_us, b.dispatch_us),
            SortArg::Name => a.comm.cmp(&b.comm),
        };
        if first == Ordering::Equal { tie(a, b) } else { first }
    });
}
