//! The layout of text: width, colour, tables, wrapped paragraphs.

use std::fmt::Write as _;

/// Whether the output understands ANSI colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// No escape sequences.
    Plain,
    /// ANSI escape sequences.
    Ansi,
}

/// The width and the colours that the text is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    width: usize,
    colour: Colour,
}

/// The meaning of a piece of text, which gives its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Heading,
    /// A fact that needs attention.
    Bad,
    /// A fact that is as it should be.
    Good,
    /// Less important.
    Faint,
    Plain,
}

impl Style {
    /// A style for lines of `columns` characters, but at least 60.
    pub fn new(columns: u16, colour: Colour) -> Style {
        Style { width: usize::from(columns).max(60), colour }
    }

    /// Characters a line.
    pub fn width(self) -> usize {
        self.width
    }

    /// The text in its colour.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match (self.colour, tone) {
            (Colour::Plain, _) | (_, Tone::Plain) => return text.to_owned(),
            (_, Tone::Heading) => "1",
            (_, Tone::Bad) => "1;31",
            (_, Tone::Good) => "32",
            (_, Tone::Faint) => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A heading on a line of its own.
    pub fn heading(self, text: &str) -> String {
        self.paint(Tone::Heading, text) + "\n"
    }

    /// A paragraph broken between words, each line painted.
    pub fn wrap(self, tone: Tone, indent: usize, text: &str) -> String {
        let room = self.width - indent;
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.last_mut().expect("there is always a line");
            if !line.is_empty() && length(line) + 1 + length(word) > room {
                lines.push(word.to_owned());
            } else {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
        }
        let margin = " ".repeat(indent);
        lines.iter().fold(String::new(), |mut out, line| {
            _ = writeln!(out, "{margin}{}", self.paint(tone, &cut(line, room)));
            out
        })
    }
}

/// The side to which a column's text is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Rows under a head, figures in the order of their importance.
///
/// Where the width does not suffice, text gives way first, then the last figures are left out.
pub(super) struct Table {
    head: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table: the first column is text, the columns after it are these figures.
    pub(super) fn new(first: &'static str, figures: &[&'static str]) -> Table {
        let figures = figures.iter().map(|&name| (name, Side::Right));
        Table { head: [(first, Side::Left)].into_iter().chain(figures).collect(), rows: Vec::new() }
    }

    /// One more column of text at the right end.
    pub(super) fn and_text(mut self, name: &'static str) -> Table {
        self.head.push((name, Side::Left));
        self
    }

    /// A row; as many cells as columns.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines, indented by two.
    pub(super) fn render(&self, style: Style) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|(name, _)| length(name)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(length(cell));
            }
        }
        self.fit(&mut widths, style.width());
        let head = self.head.iter().map(|&(name, _)| name.to_owned()).collect::<Vec<_>>();
        let mut out = self.line(style, Tone::Faint, &head, &widths);
        for row in &self.rows {
            out += &self.line(style, Tone::Plain, row, &widths);
        }
        out
    }

    /// Narrows columns to `room`; a width of 0 leaves the column out.
    fn fit(&self, widths: &mut [usize], room: usize) {
        let last = widths.len() - 1;
        let excess = |widths: &[usize]| {
            let used: usize = widths.iter().filter(|&&width| width > 0).map(|width| width + 2).sum();
            used.saturating_sub(room)
        };
        for (column, least) in [(last, 24), (0, 14), (last, 8)] {
            if self.head[column].1 == Side::Left {
                widths[column] = widths[column].saturating_sub(excess(widths)).max(widths[column].min(least));
            }
        }
        for column in (1..=last).rev().filter(|&column| self.head[column].1 == Side::Right) {
            if excess(widths) > 0 {
                widths[column] = 0;
            }
        }
    }

    fn line(&self, style: Style, tone: Tone, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        let columns = cells.iter().zip(widths).zip(&self.head).filter(|((_, width), _)| **width > 0);
        for ((cell, &width), (_, side)) in columns {
            let cell = cut(cell, width);
            let gap = " ".repeat(width - length(&cell));
            line += "  ";
            match side {
                Side::Left => line += &(cell + &gap),
                Side::Right => line += &(gap + &cell),
            }
        }
        style.paint(tone, line.trim_end()) + "\n"
    }
}

/// A bar of `width` characters, filled by a share of 0 to 1.
pub(super) fn bar(share: f64, width: usize) -> String {
    let filled = ((share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    "#".repeat(filled) + &".".repeat(width - filled)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// At most `width` characters, with a sign that there were more.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_asked() {
        let style = Style::new(60, Colour::Plain);
        let mut table = Table::new("name", &["a", "b"]).and_text("why");
        table.row([40, 6, 6, 90].map(|width| "x".repeat(width)));
        let text = table.render(style) + &style.wrap(Tone::Plain, 4, &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(Style::new(80, Colour::Plain).paint(Tone::Bad, "x"), "x");
        assert_eq!(Style::new(80, Colour::Ansi).paint(Tone::Bad, "x"), "\x1b[1;31mx\x1b[0m");
    }
}
