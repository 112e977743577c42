//! Results as one page that opens without a network and needs no scripts.

use std::fmt::Write as _;

use spry_page::escape;
use spry_page::html::{self, END, Scripts, lines};
use spry_page::words::{count, duration, duration_f64, plain};

use crate::article::Article;
use crate::chart::{self, Columns, Series};
use crate::date::date;
use crate::results::Results;
use crate::summary::Summary;
use crate::text;
use crate::verdict::verdict;

const STYLE: &str = include_str!("style.css");

/// The beginning of every page.
pub fn begin(title: &str) -> String {
    let begin = html::begin(&format!("Spry: {title}"), STYLE, Scripts::Forbidden);
    format!("{begin}<h1>{}</h1>\n", escape(title))
}

/// Makes the page of a measurement.
pub fn page(results: &Results) -> String {
    let mut out = begin(&format!("Wake-up latency of {}", results.machine.kernel));
    for line in [text::machine(results), format!("Measured by {}", text::what(results))] {
        _ = writeln!(out, "<p class=\"note\">{}.</p>", escape(&line));
    }
    for lack in &results.lacks {
        _ = writeln!(out, "<p class=\"note bad\">{}.</p>", escape(lack));
    }
    let (raw, corrected) = (results.raw(), results.corrected());
    let (Some(raw_summary), Some(corrected_summary)) = (Summary::of(&raw), Summary::of(&corrected)) else {
        return out + "<p>No sample was taken.</p>\n" + END;
    };
    facts(&mut out, results, &raw_summary);
    let both = [
        Series { name: "raw", histogram: &raw },
        Series { name: "corrected for missed periods", histogram: &corrected },
    ];
    let series = if results.missed() > 0 { &both[..] } else { &both[..1] };
    section(&mut out, "How late", &(chart::legend(series) + &chart::draw(series, Columns::Fine)));
    section(&mut out, "Below each threshold", &below(&raw_summary, &corrected_summary));
    section(&mut out, "Figures", &figures(&raw_summary, &corrected_summary));
    section(&mut out, "Quantiles", &quantiles(&raw_summary, &corrected_summary));
    parts(&mut out, results);
    culprits(&mut out, results);
    threads(&mut out, results);
    if let Some(article) = Article::of(&raw) {
        let words = format!("<pre>{}</pre>", lines(&text::in_the_articles_way(&article)));
        section(&mut out, "In the article's way", &(chart::draw(&both[..1], Columns::Article) + &words));
    }
    _ = writeln!(
        out,
        "<section><h2>Command</h2><code>{}</code></section>",
        escape(&results.command.join(" "))
    );
    out + END
}

/// A section of a page; `body` is HTML.
pub fn section(out: &mut String, title: &str, body: &str) {
    _ = writeln!(out, "<section><h2>{}</h2><div class=\"scroll\">{body}</div></section>", escape(title));
}

fn facts(out: &mut String, results: &Results, raw: &Summary) {
    let Some(worst) = results.worst() else { return };
    let cpu = worst.cpu.map(|cpu| format!(", on CPU {cpu}")).unwrap_or_default();
    _ = writeln!(
        out,
        "<p id=\"verdict\">Of {} samples the longest was <b>{}</b> late, at {}, {:.3} s into the run{cpu}; \
         half were at most {} late. {} periods were missed.</p>",
        count(raw.count),
        duration(raw.max_ns),
        date(worst.at_unix_ns),
        worst.at_ns as f64 / 1e9,
        duration(raw.median_ns),
        count(results.missed())
    );
}

/// A table: the first column text, the others figures.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let class = |column: usize| if column == 0 { "" } else { " class=\"n\"" };
    let mut out = "<table><tr>".to_owned();
    for (column, name) in head.iter().enumerate() {
        _ = write!(out, "<th{}>{}</th>", class(column), escape(name));
    }
    out += "</tr>";
    for row in rows {
        out += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            _ = write!(out, "<td{}>{}</td>", class(column), escape(cell));
        }
        out += "</tr>\n";
    }
    out + "</table>"
}

fn below(raw: &Summary, corrected: &Summary) -> String {
    let rows = raw.percent_below.iter().zip(&corrected.percent_below).map(|((name, percent), (_, other))| {
        vec![format!("< {name} ms"), format!("{percent:.5} %"), format!("{other:.5} %")]
    });
    table(&["latency", "raw", "corrected"], rows)
}

fn figures(raw: &Summary, corrected: &Summary) -> String {
    let row = |name: &str, of: fn(&Summary) -> String| vec![name.to_owned(), of(raw), of(corrected)];
    let rows = [
        row("samples", |summary| count(summary.count)),
        row("minimum", |summary| duration(summary.min_ns)),
        row("mean", |summary| duration_f64(summary.mean_ns)),
        row("median", |summary| duration(summary.median_ns)),
        row("mode", |summary| duration(summary.mode_ns)),
        row("variance", |summary| {
            summary.variance_ns2.map_or_else(|| "-".into(), |ns2| format!("{:.4} us²", ns2 / 1e6))
        }),
        row("standard deviation", |summary| summary.sd_ns.map_or_else(|| "-".into(), duration_f64)),
        row("maximum", |summary| duration(summary.max_ns)),
    ];
    table(&["", "raw", "corrected"], rows)
}

fn quantiles(raw: &Summary, corrected: &Summary) -> String {
    let rows = raw.quantiles.iter().zip(&corrected.quantiles).map(|(estimate, other)| {
        vec![
            format!("{} %", estimate.quantile.percent()),
            duration(estimate.value_ns),
            text::interval(estimate),
            duration(other.value_ns),
        ]
    });
    let mut out = table(&["quantile", "raw", "95 % interval", "corrected"], rows);
    for warning in raw.warnings() {
        _ = write!(out, "<p class=\"note\">{}.</p>", escape(&warning));
    }
    out
}

fn parts(out: &mut String, results: &Results) {
    let Some(parts) = results.parts() else { return };
    let rows = parts.named().map(|(name, histogram)| {
        let name = name.trim_end_matches("_ns").to_owned();
        match Summary::of(histogram) {
            Some(summary) => vec![
                name,
                count(summary.count),
                duration_f64(summary.mean_ns),
                duration(summary.median_ns),
                duration(summary.max_ns),
            ],
            None => vec![name, "not seen".into()],
        }
    });
    section(out, "Parts", &table(&["part", "samples", "mean", "median", "maximum"], rows));
}

fn culprits(out: &mut String, results: &Results) {
    let words = verdict(results).map(|words| format!("<p>{}</p>", escape(&words))).unwrap_or_default();
    let Some(culprits) = &results.culprits else {
        if !words.is_empty() {
            section(out, "Verdict", &words);
        }
        return;
    };
    let rows = culprits.iter().map(|culprit| {
        vec![
            format!("{} {}", plain(&culprit.task), culprit.how.words()),
            count(culprit.count),
            duration(culprit.total_ns),
            duration(culprit.worst_ns),
            plain(&culprit.stack.join(" < ")),
        ]
    });
    section(out, "Causes of delays", &(words + &table(&["", "times", "total", "worst", "stack"], rows)));
}

fn threads(out: &mut String, results: &Results) {
    if results.threads.len() < 2 {
        return;
    }
    let words = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), duration_f64);
    let rows = results.threads.iter().map(|thread| {
        vec![
            thread.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}")),
            count(thread.latency.count()),
            count(thread.omitted.count()),
            words(thread.latency.mean_ns()),
            words(thread.latency.max_ns().map(|ns| ns as f64)),
        ]
    });
    section(out, "Threads", &table(&["thread", "samples", "missed", "mean", "maximum"], rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::results::{MeasuredMachine, SampledThread};
    use crate::source::Source;

    #[test]
    fn the_page_stands_alone_and_no_name_escapes() {
        let machine = MeasuredMachine { kernel: "</title><script>".into(), ..MeasuredMachine::default() };
        let mut results = Results::new(machine, Source::Nanosleep, 2048, 80);
        let mut latency = Histogram::default();
        latency.record_many(9_000, 1_000);
        latency.record(45_200_000);
        results.threads.push(SampledThread {
            cpu: Some(0),
            latency,
            omitted: Histogram::default(),
            max_at_ns: 0,
            parts: None,
        });
        results.command = vec!["spry".into(), "<script>".into()];
        let page = page(&results);
        assert!(
            !page.contains("<script") && !page.contains("http://") && !page.contains("https://"),
            "{page}"
        );
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("99.90010 %") && page.contains("maximum latency: 45.2ms"), "{page}");
    }

    #[test]
    fn a_page_of_nothing_says_so() {
        let page = page(&Results::new(MeasuredMachine::default(), Source::Rtc, 2048, 80));
        assert!(page.contains("No sample was taken") && page.ends_with("</html>\n"));
    }
}
