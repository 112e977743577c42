//! The table of `spry top` as text: what is in each column, and which columns there is room for.

use std::fmt::Write as _;

use spry_control::{Status, Step, Task, TaskClass};
use spry_report::words::{duration, plain};

/// A column: its head, its width, whether figures are pushed to the right, and what is left out first.
pub struct Column {
    /// What stands above it.
    pub head: &'static str,
    /// Characters.
    pub width: usize,
    is_right: bool,
    /// The terminal must be this wide.
    from: usize,
    cell: fn(&Task) -> String,
}

const fn right(head: &'static str, width: usize, from: usize, cell: fn(&Task) -> String) -> Column {
    Column { head, width, is_right: true, from, cell }
}

const fn left(head: &'static str, width: usize, from: usize, cell: fn(&Task) -> String) -> Column {
    Column { head, width, is_right: false, from, cell }
}

/// All columns but the way, which takes what is left.
const COLUMNS: [Column; 10] = [
    right("LVL", 3, 0, |task| or_dash(task.level, |level| level.to_string())),
    left("CLASS", 7, 90, class),
    right("CPU%", 5, 0, |task| or_dash(task.cpu_share, |share| format!("{:.1}", share * 100.0))),
    right("WAIT", 7, 60, |task| or_dash(task.dispatch_us, |us| duration((us * 1_000.0) as u64))),
    right("QUANTUM", 7, 110, |task| or_dash(task.quantum_ms, |ms| format!("{ms} ms"))),
    right("FPS", 4, 70, |task| or_dash(task.frames_per_s, |rate| format!("{rate:.0}"))),
    right("INPUT", 5, 50, |task| rate(task.input_per_s)),
    right("DRAWN", 6, 66, |task| rate(task.output_per_s)),
    right("PID", 7, 0, |task| task.tgid.to_string()),
    left("NAME", 12, 0, |task| plain(&task.comm)),
];

/// The way's least width.
const WAY_LEAST: usize = 8;

fn class(task: &Task) -> String {
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

fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 0.1 => format!("{rate:.3}"),
        Some(rate) if rate < 100.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// The columns that so many characters have room for.
pub fn fitting(width: usize) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| column.from <= width).collect()
}

/// A line of the table, heads without a task.
pub fn line(task: Option<&Task>, width: usize) -> String {
    let mut line = String::new();
    for column in fitting(width) {
        let text = task.map_or_else(|| column.head.to_owned(), column.cell);
        let text = cut(&text, column.width);
        let gap = " ".repeat(column.width - text.chars().count());
        _ = if column.is_right { write!(line, "{gap}{text} ") } else { write!(line, "{text}{gap} ") };
    }
    let room = width.saturating_sub(line.chars().count());
    if room >= WAY_LEAST {
        // The end of a long way says more than its beginning.
        line +=
            &task.map_or_else(|| "WAY FROM THE DEVICE".to_owned(), |task| cut_front(&way(&task.path), room));
    }
    line.chars().take(width).collect::<String>().trim_end().to_owned()
}

/// `:1 > Xvfb > xterm > vi`.
pub fn way(path: &[Step]) -> String {
    let name = |step: &Step| match step.tgid {
        Some(_) => plain(&step.name),
        // What kind of device it is can be seen from its name.
        None => plain(step.name.rsplit(' ').next().unwrap_or_default()),
    };
    path.iter().map(name).collect::<Vec<_>>().join(" > ")
}

/// The whole table, for a pipe.
pub fn once(status: &Status, columns: u16) -> String {
    let width = usize::from(columns);
    let lines =
        std::iter::once(line(None, width)).chain(status.tasks.iter().map(|task| line(Some(task), width)));
    lines.fold(String::new(), |mut text, line| {
        text += &line;
        text.push('\n');
        text
    })
}

/// A time in the unit that suits it: `42 s`, `3 min`, `5 h`, `2 d`.
pub fn span(seconds: f64) -> String {
    match seconds {
        0.0..10.0 => format!("{seconds:.1} s"),
        10.0..120.0 => format!("{seconds:.0} s"),
        120.0..7_200.0 => format!("{:.0} min", seconds / 60.0),
        7_200.0..172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

/// At most `width` characters, with a sign that there were more.
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

    #[test]
    fn spans_are_read_at_a_glance() {
        assert_eq!([3.21, 42.0, 600.0, 40_000.0].map(span), ["3.2 s", "42 s", "10 min", "11 h"]);
    }
}
