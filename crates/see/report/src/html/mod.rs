//! Findings as one HTML file that opens without a network: tables that need no scripts, charts that do.

mod data;
mod graph;
mod sections;
mod table;

use std::io::{self, Write};

use spry_analysis::findings::Findings;
use spry_page::escape_json;
use spry_page::html::{Scripts, begin};

use crate::words;

const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 4] = [
    include_str!("chart.js"),
    include_str!("timeline.js"),
    include_str!("billing.js"),
    include_str!("page.js"),
];

/// Writes the report. Its size is bounded: long tables are cut, with a note on the rest.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(findings: &Findings, mut out: impl Write) -> io::Result<()> {
    let title = format!("Spry: {} {}", findings.trace.kernel, findings.trace.machine);
    let data = serde_json::to_string(&data::Data::of(findings))?;
    out.write_all(begin(&words::plain(&title), STYLE, Scripts::Inline).as_bytes())?;
    out.write_all(sections::all(findings).as_bytes())?;
    writeln!(out, "</main>\n<script type=\"application/json\" id=\"data\">{}</script>", escape_json(&data))?;
    writeln!(out, "<script>\n\"use strict\";\n{}</script>", SCRIPTS.concat())?;
    writeln!(out, "</body></html>")
}
