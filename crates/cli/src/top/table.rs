//! The table of `spry top` as text: the content of each column, and which columns fit the width.

use std::fmt::Write as _;

use spry_control::{Scope, Status, Step, TaskClass, TaskStatus};
use spry_page::words::{duration, rate};
use spry_report::words::plain;

/// A column of the table.
pub struct Column {
    /// The head above the column.
    pub head: &'static str,
    /// The width, characters.
    pub width: usize,
    is_right: bool,
    /// The column is shown if the terminal has at least this width, in characters.
    from: usize,
    cell: fn(&TaskStatus) -> String,
}

const fn right(head: &'static str, width: usize, from: usize, cell: fn(&TaskStatus) -> String) -> Column {
    Column { head, width, is_right: true, from, cell }
}

const fn left(head: &'static str, width: usize, from: usize, cell: fn(&TaskStatus) -> String) -> Column {
    Column { head, width, is_right: false, from, cell }
}

/// All columns except that of the way, which gets the rest of the width.
const COLUMNS: [Column; 10] = [
    right("LVL", 3, 0, |task| or_dash(task.level, |level| level.to_string())),
    left("CLASS", 7, 90, class),
    right("CPU%", 5, 0, |task| or_dash(task.cpu_share, |share| format!("{:.1}", share * 100.0))),
    right("WAIT", 7, 60, |task| or_dash(task.dispatch_us, |us| duration((us * 1_000.0) as u64))),
    right("QUANTUM", 7, 110, |task| or_dash(task.quantum_ms, |ms| format!("{ms} ms"))),
    right("FPS", 4, 70, |task| or_dash(task.frames_per_s, |rate| format!("{rate:.0}"))),
    right("INPUT", 5, 50, |task| or_dash(task.input_per_s, rate)),
    right("DRAWN", 6, 66, |task| or_dash(task.output_per_s, rate)),
    right("PID", 7, 0, |task| task.tgid.to_string()),
    left("NAME", 12, 0, |task| plain(&task.comm)),
];

/// The notice for a user that sees only their own processes.
const OWN: &str = "only your own programs and devices: others' are root's to see (`sudo spry top`)";

/// The least width of the way's column, in characters.
const WAY_LEAST: usize = 8;

fn class(task: &TaskStatus) -> String {
    let name = match task.class {
        TaskClass::Interactive => "in use",
        TaskClass::Other => "other",
        TaskClass::Idle => "idle",
        TaskClass::Kthread => "kernel",
        TaskClass::Daemon => "spry",
    };
    let mark = if task.by_hand { "*" } else { "" };
    format!("{name}{mark}")
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// The columns that fit a line of this width.
pub fn fitting(width: usize) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| column.from <= width).collect()
}

/// A line of the table for a task, or the line of the heads without a task.
pub fn line(task: Option<&TaskStatus>, width: usize) -> String {
    let mut line = String::new();
    for column in fitting(width) {
        let text = task.map_or_else(|| column.head.to_owned(), column.cell);
        let text = cut(&text, column.width);
        let gap = " ".repeat(column.width - text.chars().count());
        _ = if column.is_right { write!(line, "{gap}{text} ") } else { write!(line, "{text}{gap} ") };
    }
    let room = width.saturating_sub(line.chars().count());
    if room >= WAY_LEAST {
        // If the way is too long, its beginning is cut off, because its end is more important.
        line +=
            &task.map_or_else(|| "WAY FROM THE DEVICE".to_owned(), |task| cut_front(&way(&task.path), room));
    }
    line.chars().take(width).collect::<String>().trim_end().to_owned()
}

/// The way to a process, such as `:1 > Xvfb > xterm > vi`.
pub fn way(path: &[Step]) -> String {
    let name = |step: &Step| match step.tgid {
        Some(_) => plain(&step.name),
        // The kind of device can be recognised from its name, so only the last word is shown.
        None => plain(step.name.rsplit(' ').next().unwrap_or_default()),
    };
    path.iter().map(name).collect::<Vec<_>>().join(" > ")
}

/// The whole table, for output into a pipe. A line below it shows that processes of other users are left out.
pub fn once(status: &Status, columns: u16) -> String {
    let width = usize::from(columns);
    let lines =
        std::iter::once(line(None, width)).chain(status.tasks.iter().map(|task| line(Some(task), width)));
    let own = (status.scope == Scope::Own).then(|| format!("({OWN})"));
    lines.chain(own).fold(String::new(), |mut text, line| {
        text += &line;
        text.push('\n');
        text
    })
}

/// Cuts a text to at most `width` characters, and marks the cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

fn cut_front(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    std::iter::once('~').chain(text.chars().skip(length + 1 - width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_way_keeps_its_end() {
        assert_eq!(cut_front(":1 > Xvfb > xterm > vi", 12), "~ xterm > vi");
        assert_eq!(cut("a long name", 6), "a lon~");
    }

    #[test]
    fn heads_fit_eighty_columns_and_the_way_is_among_them() {
        let head = line(None, 80);
        assert!(head.chars().count() <= 80 && head.contains("WAY") && head.contains("FPS"), "{head}");
        assert!(line(None, 40).chars().count() <= 40);
    }
}
