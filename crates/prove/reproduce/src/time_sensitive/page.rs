//! The study as one HTML page that needs no network and no scripts.

use std::fmt::Write as _;

use spry_latency::html::{section, table};
use spry_page::escape;
use spry_page::html::{END, Scripts, begin};
use spry_page::words::digits;

use super::published::LEFT_OUT;
use super::text::{aim, head};
use super::{LOADS, Load, Part, Row, SYSTEMS, Study, figures, findings, rows};
use crate::boots::Shortfall;
use crate::draw;
use crate::ends::end_page;

const STYLE: &str = include_str!("../page.css");

/// Makes the page; `command` is the command that makes it again.
pub fn page(study: &Study, undone: &Shortfall, command: &str) -> String {
    let title = "Acting on time: the figures of Time-Sensitive Linux";
    let own = [STYLE, draw::STYLE].concat();
    let mut out = begin(&format!("Spry: {title}"), &own, Scripts::Forbidden);
    _ = writeln!(
        out,
        "<h1>{title}</h1><p class=\"note\">Goel, Abeni, Krasic, Snow, Walpole 2002, Supporting \
         Time-Sensitive Applications on a Commodity OS, again: in the lab, one CPU, one instruction a \
         nanosecond. Medians of the seeds, and their spread; the worst seed decides.</p>"
    );
    let (rows, topics) = (rows(study), figures::all(study));
    for part in [Part::Table, Part::Skew] {
        let of: Vec<&Row> = rows.iter().filter(|row| row.part == part).collect();
        if of.is_empty() {
            continue;
        }
        let systems = SYSTEMS.iter().filter(|system| system.part == part);
        let systems = systems.map(|system| {
            let preempt = system.preempt.map(|model| format!(", preempt={model}")).unwrap_or_default();
            vec![system.key.to_owned(), system.about.to_owned(), format!("{}{preempt}", system.kernel)]
        });
        section(&mut out, head(part), &table(&["system", "what it is", "kernel"], systems));
        for load in LOADS.iter().filter(|load| load.part == part) {
            let beside: Vec<&Row> = of.iter().copied().filter(|row| row.load == load.key).collect();
            if beside.is_empty() {
                continue;
            }
            let drawn = figures::beside(&topics, load).map(|topic| {
                let note = format!("<p class=\"note\">{}</p>", escape(&topic.note));
                draw::figure(topic, None) + &note
            });
            let body = together(&beside) + &drawn.unwrap_or_default();
            section(&mut out, &title_of(load), &body);
        }
    }
    end(&mut out, study, undone, command);
    out + END
}

fn title_of(load: &Load) -> String {
    let part = match load.part {
        Part::Table => "table 1",
        Part::Skew => "sound and picture",
    };
    format!("{part} beside {}: {}", load.key, load.about)
}

/// The rows beside a load as a table.
fn together(rows: &[&Row]) -> String {
    let systems: Vec<&str> = rows[0].systems.iter().map(|(system, _)| *system).collect();
    let mut heads = vec!["", "the paper"];
    heads.extend(&systems);
    heads.push("aim");
    let lines = rows.iter().map(|row| {
        let published = row.published.iter().map(|(system, us)| format!("{} ({system})", digits(*us)));
        let of = |system: &&str| {
            let found = row.systems.iter().find(|(key, _)| key == system);
            found.map_or_else(|| "-".to_owned(), |(_, spread)| spread.words())
        };
        let mut cells = vec![row.what.clone(), published.collect::<Vec<_>>().join(", ")];
        cells.extend(systems.iter().map(of));
        cells.push(aim(row));
        cells
    });
    table(&heads, lines)
}

fn end(out: &mut String, study: &Study, undone: &Shortfall, command: &str) {
    let findings = findings(study).into_iter().map(|found| {
        let words = vec![found.finding.to_owned(), found.by.to_owned()];
        words.into_iter().chain([found.outcome.words().to_owned(), found.figures]).collect::<Vec<_>>()
    });
    let heads = ["the paper found", "by", "today", "values"];
    section(out, "What the paper found", &table(&heads, findings));
    end_page(out, &LEFT_OUT, undone, command);
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn the_page_has_the_paper_s_values_the_systems_and_the_verdicts() {
        let page = page(&study(), &Shortfall::default(), "spry reproduce time-sensitive");
        for part in ["Table 1", "5.00 (TSL)", "6.50 (6.00 to 7.00)", "missed", "as then", "Linux-SRT"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg").count(), 2);
    }

    #[test]
    fn no_name_escapes() {
        let undone = Shortfall { failures: vec![("<script>".into(), "<script>".into())], missing: 0 };
        assert!(!page(&study(), &undone, "<script>").contains("<script"));
    }
}
