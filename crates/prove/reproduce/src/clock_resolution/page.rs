//! The study as one HTML page that needs no network and no scripts.

use std::fmt::Write as _;

use spry_latency::html::{section, table};
use spry_page::escape;
use spry_page::html::{END, Scripts, begin};
use spry_page::words::digits;

use super::text::{HEADS, SHARES, SORTS, TABLE, findings, machines, published, thousands};
use super::{LEFT_OUT, Row, Study, Throughput, figures, rows, shares, throughputs};
use crate::boots::Shortfall;
use crate::draw;
use crate::ends::end_page;
use crate::study::Spread;

const STYLE: &str = include_str!("../page.css");

/// Makes the page. `releases` are the releases of the systems' kernels, `command` is the command that
/// makes it again.
pub fn page(study: &Study, releases: &[(&str, &str)], undone: &Shortfall, command: &str) -> String {
    let title = "Clock resolution: alarms at 100 and 20,000 Hz";
    let own = [STYLE, draw::STYLE].concat();
    let mut out = begin(&format!("Spry: {title}"), &own, Scripts::Forbidden);
    _ = writeln!(
        out,
        "<h1>{title}</h1><p class=\"note\">Etsion, Tsafrir, Feitelson 2003, Effects of Clock Resolution on \
         the Scheduling of Interactive and Soft Real-Time Processes, section 7 again. Medians of the seeds, \
         and their spread.</p>"
    );
    let lines: String = machines(releases).iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
    section(&mut out, "What was measured where", &format!("<ul>{lines}</ul>"));
    let rows = rows(study);
    if !rows.is_empty() {
        section(&mut out, TABLE, &tails(&rows));
    }
    let shares = shares(study).into_iter().map(|share| {
        let numbers = [digits(share.published), digits(share.expected), share.measured.words()];
        let words = [share.verdict.words().to_owned()];
        [share.n.to_string()].into_iter().chain(numbers).chain(words).collect::<Vec<_>>()
    });
    let heads = ["processes", "the paper", "worked out", "the lab", "verdict"];
    section(&mut out, SHARES, &table(&heads, shares));
    let bars = throughputs(study);
    if !bars.is_empty() {
        section(&mut out, SORTS, &sorting(&bars));
    }
    for topic in figures::all(study) {
        let note = format!("<p class=\"note\">{}</p>", escape(&topic.note));
        let number =
            topic.figures.first().map_or("", |(number, _)| number.split('-').next().unwrap_or(number));
        section(
            &mut out,
            &format!("Figure {number}: {}", topic.title),
            &(draw::figure(&topic, None) + &note),
        );
    }
    end_page(&mut out, &LEFT_OUT, undone, command);
    out + END
}

/// Table 6: the measured row below each row of the paper.
fn tails(rows: &[Row]) -> String {
    let mut heads = vec!["", "kernel", "from"];
    heads.extend(HEADS);
    heads.push("verdict");
    let mut lines = Vec::new();
    for row in rows {
        let mut add = |from: &str, values: [String; 4], verdict: &str| {
            let names = [row.name.clone(), row.system.to_owned(), from.to_owned()];
            lines.push(names.into_iter().chain(values).chain([verdict.to_owned()]).collect::<Vec<_>>());
        };
        add("the paper", published(row.published), "");
        if let Some(thesis) = row.thesis {
            add("the thesis", published(thesis), "");
        }
        let why = row.why.map(|why| format!(": {why}")).unwrap_or_default();
        add("the lab", row.measured.map(Spread::words), &format!("{}{why}", row.verdict.words()));
    }
    table(&heads, lines)
}

/// Figure 8: its bars as a table, and its findings.
fn sorting(bars: &[Throughput]) -> String {
    let rows = bars.iter().map(|bar| {
        let processor =
            format!("{}: {} (the paper: {})", bar.generation.key, bar.generation.about, bar.generation.then);
        let then = bar.published.map(thousands).unwrap_or_default();
        vec![processor, bar.system.to_owned(), then, thousands(bar.measured.median)]
    });
    let said: String = findings(bars).iter().map(|words| format!("<li>{}</li>", escape(words))).collect();
    table(&["processor", "system", "the paper", "the lab"], rows) + &format!("<ul>{said}</ul>")
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn the_page_has_the_paper_s_rows_the_lab_s_and_the_plots() {
        let page =
            page(&study(), &[("fast", "9-x")], &Shortfall::default(), "spry reproduce clock-resolution");
        for part in
            ["Table 6", "the thesis", "15096", "663 (662 to 664)", "differs: a woken process", "Linux 9-x"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.contains("Figure 8: what") && page.contains("3136"), "{page}");
        assert_eq!(page.matches("<svg").count(), 3);
    }

    #[test]
    fn no_name_escapes() {
        let undone = Shortfall { failures: vec![("<script>".into(), "<script>".into())], missing: 0 };
        assert!(!page(&study(), &[("<script>", "<script>")], &undone, "<script>").contains("<script"));
    }
}
