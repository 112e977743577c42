//! Results as one HTML page that needs no network and no scripts, and as one picture.

use std::fmt::Write as _;

use spry_page::html::{END, Scripts, begin, lines};
use spry_page::{escape, style};

use crate::chart::{self, Drawing, Layout};
use crate::metric::Metric;
use crate::model::{Results, load_words};
use crate::table;

const PAGE_STYLE: &str = include_str!("page.css");
const CHART_STYLE: &str = include_str!("chart.css");

/// The HTML page of the results.
pub fn page(results: &Results, command: &[String]) -> String {
    let layout = Layout::of(results);
    let metrics = results.metrics();
    let shown = metrics.iter().filter(|metric| table::is_shown(results, metric));
    let (main, others): (Vec<&Metric>, Vec<&Metric>) = shown.partition(|metric| results.is_main(metric));
    let mut out = head(results);
    // If the results have no main metric, all metrics are shown unfolded.
    let (open, closed) = if main.is_empty() { (others, main) } else { (main, others) };
    for metric in open {
        section(&mut out, results, metric, &layout);
    }
    failures(&mut out, results);
    if !closed.is_empty() {
        out += "<details><summary>Everything else that was measured</summary>\n";
        for metric in closed {
            section(&mut out, results, metric, &layout);
        }
        out += "</details>\n";
    }
    repeat(&mut out, results, command);
    out + END
}

fn head(results: &Results) -> String {
    let title = format!("{} on {}", results.scenario, results.machine);
    let own = [PAGE_STYLE, CHART_STYLE].concat();
    let mut out = begin(&format!("Spry: {title}"), &own, Scripts::Forbidden);
    _ = writeln!(out, "<h1>{}</h1>", escape(&title));
    let spread = match results.seeds() {
        0 | 1 => "One seed: the spread is unknown.".to_owned(),
        seeds => format!("Every dot is one of {seeds} seeds; lines and figures are medians."),
    };
    let recorded = if results.inputs.is_recorded() { " Recorded, which changes what happens." } else { "" };
    _ = writeln!(out, "<p class=\"note\">Kernel {}. {spread}{recorded}</p>", escape(&results.kernel));
    out
}

fn section(out: &mut String, results: &Results, metric: &Metric, layout: &Layout<'_>) {
    _ = writeln!(out, "<section><h2>{}</h2>", escape(&table::heading(results, metric)));
    *out += &layout.legend();
    let Drawing { svg, width, height } = chart::row(results, metric, layout);
    _ = writeln!(
        out,
        "<div class=\"scroll\"><svg class=\"chart\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">{svg}</svg></div>"
    );
    figures(out, results, metric);
    *out += "</section>\n";
}

fn figures(out: &mut String, results: &Results, metric: &Metric) {
    let format = table::format(results, metric);
    let loads = results.loads();
    let keys =
        loads.first().map(|load| load.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
    _ = write!(out, "<div class=\"scroll\"><table><tr><th>{}</th>", escape(&keys));
    for scheduler in results.schedulers() {
        _ = write!(out, "<th class=\"n\">{}</th>", escape(scheduler));
    }
    *out += "</tr>";
    for load in loads {
        _ = write!(out, "<tr><td>{}</td>", escape(&table::row_name(load)));
        for scheduler in results.schedulers() {
            let text = results.sample(scheduler, load, metric).map(|sample| format.with_spread(&sample));
            _ = write!(out, "<td class=\"n\">{}</td>", text.as_deref().unwrap_or("-"));
        }
        *out += "</tr>";
    }
    *out += "</table></div>\n";
}

fn failures(out: &mut String, results: &Results) {
    if results.failures.is_empty() {
        return;
    }
    *out += "<section><h2 class=\"bad\">Cells that came to nothing</h2>\n";
    for failure in &results.failures {
        let load = load_words(&failure.vary);
        let name = format!("{} {load} seed {}", failure.scheduler, failure.seed);
        _ = writeln!(out, "<h3>{}</h3><pre>{}</pre>", escape(&name), lines(&failure.error));
    }
    *out += "</section>\n";
}

fn repeat(out: &mut String, results: &Results, command: &[String]) {
    _ = writeln!(
        out,
        "<details><summary>To repeat it</summary>\n<p><code>{}</code></p>\n<table>\
         <tr><td>digest of the figures</td><td><code>{}</code></td></tr>\
         <tr><td>hash of the inputs</td><td><code>{}</code></td></tr>",
        escape(&command.join(" ")),
        escape(&results.digest),
        escape(&results.inputs.hash)
    );
    for (name, value) in &results.inputs.parts {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        _ = writeln!(out, "<tr><td>{}</td><td><code>{}</code></td></tr>", escape(name), escape(&value));
    }
    *out += "</table>\n<table><tr><th>scheduler</th><th>load</th><th>seed</th><th>digest</th></tr>";
    for cell in &results.cells {
        _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            escape(&cell.scheduler),
            escape(&load_words(&cell.vary)),
            cell.seed,
            escape(&cell.digest)
        );
    }
    *out += "</table>\n<p class=\"note\">In the lab, equal inputs give equal figures, \
             digit for digit.</p></details>\n";
}

/// Draws the scenario's main metrics as one SVG file; `None` if there are none.
pub fn picture(results: &Results) -> Option<String> {
    let layout = Layout::of(results);
    let metrics = results.metrics();
    let mut body = String::new();
    let (mut width, mut y) = (0.0_f64, 38.0);
    for metric in metrics.iter().filter(|metric| table::is_shown(results, metric) && results.is_main(metric))
    {
        let Drawing { svg, width: row_width, height } = chart::row(results, metric, &layout);
        let heading = escape(&table::heading(results, metric));
        _ = write!(body, "<g transform=\"translate(10 {y:.0})\"><text x=\"0\" y=\"4\">{heading}</text>");
        _ = write!(body, "<g transform=\"translate(0 10)\">{svg}</g></g>");
        width = width.max(row_width + 20.0);
        y += height + 30.0;
    }
    let title = escape(&format!("{} on {}, kernel {}", results.scenario, results.machine, results.kernel));
    (!body.is_empty()).then(|| {
        let style = style::picture(&body, CHART_STYLE);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{width:.0}\" \
             height=\"{y:.0}\" viewBox=\"0 0 {width:.0} {y:.0}\">\n<style>\n{style}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/><text class=\"title\" x=\"10\" \
             y=\"22\">{title}</text>{body}</svg>\n"
        )
    })
}
