//! Tables of the HTML report: readable without scripts, sortable with them.

use std::fmt::Write as _;

use spry_page::escape;

/// A value in a table.
pub(super) enum Cell {
    /// Text, sorted as text.
    Text(String),
    /// A figure as shown, and its value to sort by.
    Figure(String, f64),
    /// The value is not in the trace.
    Unknown,
}

impl Cell {
    /// A figure, or unknown.
    pub(super) fn of<T>(value: Option<T>, show: impl FnOnce(T) -> (String, f64)) -> Cell {
        value.map_or(Cell::Unknown, |value| {
            let (text, value) = show(value);
            Cell::Figure(text, value)
        })
    }

    pub(super) fn duration(ns: u64) -> Cell {
        Cell::Figure(spry_page::words::duration(ns), ns as f64)
    }

    /// A duration that may be below 0, or unknown.
    pub(super) fn signed_duration(ns: Option<i64>) -> Cell {
        Cell::of(ns, |ns| (spry_page::words::duration_f64(ns as f64), ns as f64))
    }

    pub(super) fn count(number: u64) -> Cell {
        Cell::Figure(spry_page::words::count(number), number as f64)
    }

    /// A number, or unknown.
    pub(super) fn maybe_count(number: Option<u64>) -> Cell {
        number.map_or(Cell::Unknown, Cell::count)
    }

    /// A share, or unknown.
    pub(super) fn percent(share: Option<f64>) -> Cell {
        Cell::of(share, |share| (spry_page::words::percent(share), share))
    }

    /// A duration, or unknown.
    pub(super) fn maybe_duration(ns: Option<u64>) -> Cell {
        Cell::of(ns, |ns| (spry_page::words::duration(ns), ns as f64))
    }
}

/// A table with a head.
pub(super) struct Table {
    html: String,
    rows: usize,
    rows_max: usize,
}

impl Table {
    /// A table with these columns; at most `rows_max` rows are written.
    pub(super) fn new(columns: &[&str], rows_max: usize) -> Table {
        let mut html = String::from("<div class=\"scroll\"><table class=\"sortable\"><thead><tr>");
        for column in columns {
            _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
        }
        html += "</tr></thead><tbody>";
        Table { html, rows: 0, rows_max }
    }

    /// Adds a row, unless the table is full.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.row_with("", cells);
    }

    /// A row with attributes of its `tr`.
    pub(super) fn row_with(&mut self, attributes: &str, cells: impl IntoIterator<Item = Cell>) {
        self.rows += 1;
        if self.rows > self.rows_max {
            return;
        }
        _ = write!(self.html, "<tr{attributes}>");
        for cell in cells {
            _ = match cell {
                Cell::Text(text) => write!(self.html, "<td>{}</td>", escape(&text)),
                Cell::Figure(text, value) => {
                    write!(self.html, "<td class=\"n\" data-v=\"{value}\">{}</td>", escape(&text))
                }
                Cell::Unknown => {
                    write!(
                        self.html,
                        "<td class=\"n unknown\" data-v=\"-1\" title=\"not in this trace\">–</td>"
                    )
                }
            };
        }
        self.html += "</tr>\n";
    }

    /// The table, and how many rows were left out.
    pub(super) fn finish(mut self) -> String {
        self.html += "</tbody></table></div>";
        if self.rows > self.rows_max {
            let left = spry_page::words::count((self.rows - self.rows_max) as u64);
            _ = write!(self.html, "<p class=\"note\">{left} more rows are in the JSON report.</p>");
        }
        self.html
    }
}
