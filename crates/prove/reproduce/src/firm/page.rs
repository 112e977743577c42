//! The study as one HTML page that needs no network and no scripts.

use std::fmt::Write as _;

use spry_latency::html::{section, table};
use spry_page::escape;
use spry_page::html::{END, Scripts, begin};
use spry_page::words::digits;

use super::text::alone;
use super::{LEFT_OUT, Row, SYSTEMS, Study, figures, rows};
use crate::boots::Shortfall;
use crate::draw;
use crate::ends::end_page;
use crate::study::Spread;

const STYLE: &str = include_str!("../page.css");

/// Makes the page. `release` is the kernel's, `command` is the command that makes the page again.
pub fn page(study: &Study, release: &str, undone: &Shortfall, command: &str) -> String {
    let title = "Firm timers: the figures of Time-Sensitive Linux";
    let own = [STYLE, draw::STYLE].concat();
    let mut out = begin(&format!("Spry: {title}"), &own, Scripts::Forbidden);
    _ = writeln!(
        out,
        "<h1>{title}</h1><p class=\"note\">Goel, Abeni, Krasic, Snow, Walpole 2002, Supporting \
         Time-Sensitive Applications on a Commodity OS, section 4.3.2 again: in the lab, Linux {}, one CPU, \
         one instruction a nanosecond. Medians of the seeds, and their spread. {}</p>",
        escape(release),
        escape(&alone(study))
    );
    let systems = SYSTEMS.iter().map(|system| vec![system.key.to_owned(), system.about.to_owned()]);
    section(&mut out, "Systems", &table(&["system", "what it is"], systems));
    for topic in figures::all(study) {
        let number = topic.figures.first().map_or("", |(number, _)| *number);
        let note = format!("<p class=\"note\">{}</p>", escape(&topic.note));
        let title = format!("Figure {number}: {}", topic.title);
        section(&mut out, &title, &(draw::figure(&topic, None) + &note));
    }
    let rows = rows(study);
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group).collect();
    groups.dedup();
    for group in groups {
        let lines = rows.iter().filter(|row| row.group == group).map(cells);
        let heads = ["", "system", "the paper", "the lab", "verdict"];
        section(&mut out, group, &table(&heads, lines));
    }
    end_page(&mut out, &LEFT_OUT, undone, command);
    out + END
}

fn cells(row: &Row) -> Vec<String> {
    let why = row.why.map(|why| format!(": {why}")).unwrap_or_default();
    vec![
        row.what.to_owned(),
        row.system.unwrap_or_default().to_owned(),
        row.published.map(digits).unwrap_or_default(),
        row.measured.map(Spread::words).unwrap_or_default(),
        row.verdict.map(|verdict| format!("{}{why}", verdict.words())).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn the_page_has_figures_rows_and_verdicts() {
        let page = page(&study(), "9-x", &Shortfall::default(), "spry reproduce time-sensitive --firm");
        for part in
            ["Figure 6", "Linux 9-x", "povray alone takes 10.0 s", "differs: the lab has no caches", "C_h"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg").count(), 2);
    }

    #[test]
    fn no_name_escapes() {
        let undone = Shortfall { failures: vec![("<script>".into(), "<script>".into())], missing: 0 };
        assert!(!page(&study(), "<script>", &undone, "<script>").contains("<script"));
    }
}
