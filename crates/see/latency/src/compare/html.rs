//! A comparison as one page, with the distributions over each other as the article draws them.

use std::fmt::Write as _;

use spry_page::escape;
use spry_page::html::END;

use crate::chart::{self, Columns, Series};
use crate::compare::{Comparison, POINTS, RULE, text};
use crate::html::{begin, section, table};

/// Makes the page of a comparison.
pub fn page(comparison: &Comparison) -> String {
    let names: Vec<&str> = comparison.columns.iter().map(|column| column.name.as_str()).collect();
    let mut out = begin(&format!("Wake-up latencies: {}", names.join(", ")));
    for column in &comparison.columns {
        let line = format!("{}: {}.", column.name, text::described(column));
        _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&line));
    }
    let series: Vec<Series<'_>> = comparison
        .columns
        .iter()
        .map(|column| Series { name: &column.name, histogram: &column.histogram })
        .collect();
    let title = format!("How late, {}", comparison.basis.name());
    section(&mut out, &title, &(chart::legend(&series) + &chart::draw(&series, Columns::Fine)));
    section(&mut out, "More than noise?", &differences(comparison));
    let head: Vec<&str> = [""].into_iter().chain(names).collect();
    let rows = text::rows(comparison)
        .into_iter()
        .map(|(name, cells)| [name].into_iter().chain(cells).collect::<Vec<_>>());
    section(&mut out, "Figures", &table(&head, rows));
    let words = "Buckets of 100 us (Williams 2002).";
    let article = format!("<p class=\"note\">{words}</p>{}", chart::legend(&series));
    section(&mut out, "In the article's way", &(article + &chart::draw(&series, Columns::Article)));
    let files = comparison.columns.iter().flat_map(|column| &column.runs).map(|run| escape(&run.file));
    section(&mut out, "Files", &format!("<code>{}</code>", files.collect::<Vec<_>>().join("<br>")));
    out + END
}

fn differences(comparison: &Comparison) -> String {
    let rows = POINTS.iter().map(|&point| vec![point.words(), text::order(comparison, point)]);
    let mut out = table(&["at", "in order"], rows);
    for sentence in text::sentences(comparison) {
        _ = write!(out, "<p>{}</p>", escape(&sentence));
    }
    _ = write!(out, "<p class=\"note\">{}</p>", escape(RULE));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Pooling;
    use crate::compare::tests::{compared, results};

    #[test]
    fn the_page_overlays_all_and_no_name_escapes() {
        let of = |ns| results("</title><script>", &[(ns, 1_000), (4_500_000, 3)]);
        let names: Vec<String> = (0..7).map(|nth| format!("<script>{nth}.json")).collect();
        let files: Vec<_> =
            names.iter().zip(1..).map(|(name, nth)| (name.as_str(), of(nth * 9_000))).collect();
        let page = page(&compared(&files, Pooling::Each));
        assert!(
            !page.contains("<script") && !page.contains("http://") && !page.contains("https://"),
            "{page}"
        );
        assert_eq!((page.matches("<svg").count(), page.matches("<path class=\"curve").count()), (2, 14));
        // The seventh curve has the colour of the first one, and is dashed.
        assert!(page.contains("curve s0 dashed"), "{page}");
    }
}
