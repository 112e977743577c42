//! The study as one HTML page that needs no network and no scripts.

use std::fmt::Write as _;

use spry_latency::article::Article;
use spry_latency::chart::{self, Columns, Series};
use spry_latency::compare::{Column, RULE};
use spry_latency::html::{begin, section, table};
use spry_latency::verdict::verdict;
use spry_latency::{Histogram, Results, THRESHOLDS};
use spry_page::escape;
use spry_page::html::END;
use spry_page::words::count;

use super::{
    HEADS, KERNELS, Load, LoadComparison, PUBLISHED, RANKED_AT, Study, culprit, culprits, found, notes,
    order, ranks, row,
};
use crate::boots::Shortfall;

/// Makes the page; `command` is the command that makes it again.
pub fn page(study: &Study, undone: &Shortfall, command: &str) -> String {
    let mut out = begin("Scheduler latency: the article's kernels and today's");
    _ = writeln!(
        out,
        "<p class=\"note\">Williams 2002, Measuring Scheduler Latency, again: in the lab, one CPU, \
         one instruction a nanosecond. Times are counts of instructions: they are to be held against each \
         other, not against the article's.</p>"
    );
    section(&mut out, "All loads", &together(study));
    for (load, measured) in study.loads() {
        beside(&mut out, load, &measured);
    }
    undone.put_on_page(&mut out);
    let command = format!("<code>{}</code><p class=\"note\">{}</p>", escape(command), escape(RULE));
    section(&mut out, "To repeat it", &command);
    out + END
}

/// The present kernels beside all loads together, drawn and described in the way of the article. The
/// article's own values stand below.
fn together(study: &Study) -> String {
    let sums: Vec<(&str, Histogram)> =
        KERNELS.iter().filter_map(|kernel| Some((kernel.key, study.together(kernel)?))).collect();
    let series: Vec<Series<'_>> = sums.iter().map(|(name, histogram)| Series { name, histogram }).collect();
    let mut heads = vec!["kernel".to_owned(), "samples".into(), "max".into(), "mean".into(), "sd".into()];
    heads.extend(THRESHOLDS.iter().map(|(name, _)| format!("< {name} ms")));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    type Ms = (f64, f64, Option<f64>);
    let line = |name: &str, samples: u64, (max, mean, sd): Ms, percents: &mut dyn Iterator<Item = f64>| {
        let sd = sd.map_or_else(|| "-".to_owned(), |sd| format!("{sd:.4} ms"));
        let figures = [count(samples), format!("{max:.1} ms"), format!("{mean:.4} ms"), sd];
        let percents = percents.map(|percent| format!("{percent:.5} %"));
        [name.to_owned()].into_iter().chain(figures).chain(percents).collect::<Vec<_>>()
    };
    let today = sums.iter().filter_map(|(name, histogram)| {
        let article = Article::of(histogram)?;
        let mut percents = THRESHOLDS.iter().filter_map(|&(_, ns)| histogram.percent_below(ns));
        Some(line(name, article.samples, (article.max_ms, article.mean_ms, article.sd_ms), &mut percents))
    });
    let then = PUBLISHED.iter().map(|kernel| {
        let mut percents = THRESHOLDS.iter().map(|&(_, ns)| kernel.percent_below(ns as f64 / 1e6));
        let name = format!("{} (the article)", kernel.name);
        line(&name, 5_000_000, (kernel.max_ms, kernel.mean_ms, Some(kernel.sd_ms)), &mut percents)
    });
    let words = "Each kernel's latencies beside all loads, in the article's buckets of 100 us, \
                 each taken for its middle. The article ran its loads at once; here they run one after \
                 another, and are added up.";
    format!(
        "{legend}{}<p class=\"note\">The same finer:</p>{}<p class=\"note\">{words}</p>{}",
        chart::draw(&series, Columns::Article),
        chart::draw(&series, Columns::Fine),
        table(&heads, today.chain(then)),
        legend = chart::legend(&series),
    )
}

fn beside(out: &mut String, load: &Load, beside: &LoadComparison) {
    let comparison = &beside.comparison;
    let series: Vec<Series<'_>> = comparison
        .columns
        .iter()
        .map(|column| Series { name: &column.name, histogram: &column.histogram })
        .collect();
    let mut heads = vec!["place"];
    heads.extend(HEADS);
    let ranked = ranks(comparison, RANKED_AT);
    let rows = ranked
        .iter()
        .map(|(place, column)| [place.to_string()].into_iter().chain(row(column)).collect::<Vec<_>>());
    let mut body = format!(
        "<p class=\"note\">{}</p>{}{}{}<p>{}: {}</p>",
        escape(load.stands_for),
        chart::legend(&series),
        chart::draw(&series, Columns::Fine),
        table(&heads, rows),
        escape(&RANKED_AT.words()),
        escape(&order(comparison, RANKED_AT))
    );
    for found in found(beside) {
        _ = write!(body, "<p><b>The article</b> {}</p>", escape(&found.words()));
        for because in &found.because {
            _ = write!(body, "<p class=\"note\">{}</p>", escape(because));
        }
    }
    body += "<h3>Why late</h3>";
    beside.kernels().for_each(|(column, split)| why(&mut body, column, split));
    section(out, &format!("Beside {}", load.key), &body);
}

fn why(body: &mut String, column: &Column, split: &Results) {
    let words = verdict(split).unwrap_or_default();
    _ = write!(body, "<p><b>{}</b>: {}</p><ul>", escape(&column.name), escape(&words));
    let lines = culprits(split).iter().map(culprit).chain(notes(column, split));
    lines.for_each(|line| _ = write!(body, "<li class=\"note\">{}</li>", escape(&line)));
    *body += "</ul>";
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, study};
    use super::*;

    #[test]
    fn the_page_overlays_the_kernels_beside_the_article_s_four() {
        let page = page(&study(), &Shortfall::default(), "spry reproduce scheduler-latency");
        for part in
            ["Beside fs", "Beside ttcp", "preempt + low-latency (the article)", "92.84442 %", "as then"]
        {
            assert!(page.contains(part), "{part}");
        }
        // Two drawings are of all loads together, and each of the two loads has one.
        assert_eq!(page.matches("<svg").count(), 4);
    }

    #[test]
    fn no_name_escapes() {
        let mut study = Study { cells: vec![cell("stable-none", "fs", 1, &[(9_000, 100)])] };
        study.cells[0].results.lacks.push("<script>".to_owned());
        let undone = Shortfall { failures: vec![("<script>".into(), "<script>".into())], missing: 0 };
        let page = page(&study, &undone, "<script>");
        assert!(!page.contains("<script"), "{page}");
    }
}
