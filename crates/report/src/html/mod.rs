//! Findings as one HTML file that opens without a network: tables that need no scripts, charts that do.

mod data;
mod graph;
mod sections;
mod table;

use std::io::{self, Write};

use spry_analysis::findings::Findings;
use spry_markup::{escape, escape_json};

use crate::words;

const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 4] = [
    include_str!("chart.js"),
    include_str!("timeline.js"),
    include_str!("billing.js"),
    include_str!("page.js"),
];
/// Nothing may be loaded, whatever a name manages to say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// Writes the report. Its size is bounded: long tables are cut, and say so.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(findings: &Findings, mut out: impl Write) -> io::Result<()> {
    let title = format!("Spry: {} {}", findings.trace.kernel, findings.trace.machine);
    let data = serde_json::to_string(&data::Data::of(findings))?;
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <title>{}</title>\n<style>\n{STYLE}</style></head><body><main>",
        escape(&words::plain(&title))
    )?;
    out.write_all(sections::all(findings).as_bytes())?;
    writeln!(out, "</main>\n<script type=\"application/json\" id=\"data\">{}</script>", escape_json(&data))?;
    writeln!(out, "<script>\n\"use strict\";\n{}</script>", SCRIPTS.concat())?;
    writeln!(out, "</body></html>")
}
