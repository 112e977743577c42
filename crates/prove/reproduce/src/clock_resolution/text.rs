//! The study of clock resolution as text.

use std::fmt::Write as _;

use spry_page::words::digits;

use super::{
    GENERATIONS, LEFT_OUT, MACHINE, Row, SYSTEMS, Share, Study, Tail, Throughput, loss_percent, rows, shares,
    throughputs, upgrade,
};
use crate::boots::Shortfall;
use crate::ends::end_text;
use crate::study::Spread;

/// The heads of the columns of table 6.
pub(super) const HEADS: [&str; 4] = ["90 %", "95 %", "99 %", "longest"];

/// The heading of table 6.
pub(super) const TABLE: &str = "Table 6: latencies of alarm signals, us";
/// The heading of the shares of figure 7.
pub(super) const SHARES: &str = "Figure 7: signals to processes that always compute, within a tick, 100 Hz";

/// The heading of figure 8.
pub(super) const SORTS: &str = "Figure 8: numbers that 8 competing processes sort, thousands per second";

/// A published tail in words.
pub(super) fn published(tail: Tail) -> [String; 4] {
    [tail.p90, tail.p95, tail.p99, tail.max].map(digits)
}

/// The origin of the figures, in a sentence for each machine.
pub(super) fn machines(releases: &[(&str, &str)]) -> Vec<String> {
    let of = |(system, release): &(&str, &str)| {
        let about = SYSTEMS.iter().find(|known| known.key == *system).map_or("", |known| known.about);
        format!("{system}: Linux {release} in the lab, one CPU, one instruction a nanosecond; {about}")
    };
    [format!("the paper: {MACHINE}")].into_iter().chain(releases.iter().map(of)).collect()
}

/// The text of the whole study, with the releases of the systems' kernels. It ends with a line feed.
pub fn report(study: &Study, releases: &[(&str, &str)], undone: &Shortfall) -> String {
    let mut out = "Clock resolution (Etsion, Tsafrir, Feitelson 2003), section 7\n".to_owned();
    machines(releases).iter().for_each(|line| _ = writeln!(out, "  {line}"));
    let rows = rows(study);
    if !rows.is_empty() {
        _ = writeln!(out, "\n{TABLE}");
        line(&mut out, "", &HEADS.map(str::to_owned));
    }
    for row in &rows {
        table_row(&mut out, row);
    }
    let agree = rows.iter().filter(|row| row.verdict == super::Verdict::AsThen).count();
    if !rows.is_empty() {
        _ = writeln!(out, "  {agree} of {} rows are as then: 90 and 95 % within a tick or 5 %", rows.len());
    }
    let shares = shares(study);
    if !shares.is_empty() {
        _ = writeln!(out, "\n{SHARES}");
    }
    shares.iter().for_each(|share| _ = writeln!(out, "  {}", share_line(share)));
    let bars = throughputs(study);
    if !bars.is_empty() {
        _ = writeln!(out, "\n{SORTS}");
    }
    bars.iter().for_each(|bar| _ = writeln!(out, "  {}", bar_line(bar)));
    findings(&bars).iter().for_each(|words| _ = writeln!(out, "  {words}"));
    end_text(&mut out, &LEFT_OUT, undone);
    out
}

fn table_row(out: &mut String, row: &Row) {
    _ = writeln!(out, "  {}, {}: {} ({} signals)", row.name, row.system, row.verdict.words(), row.signals);
    line(out, "the paper", &published(row.published));
    if let Some(thesis) = row.thesis {
        line(out, "the thesis", &published(thesis));
    }
    line(out, "the lab", &row.measured.map(Spread::words));
    row.why.iter().for_each(|why| _ = writeln!(out, "    because {why}"));
}

/// A share of figure 7 in a line.
fn share_line(share: &Share) -> String {
    format!(
        "{} {}: {} (the paper {}, worked out {}): {}",
        share.n,
        if share.n == 1 { "process" } else { "processes" },
        share.measured.words(),
        digits(share.published),
        digits(share.expected),
        share.verdict.words()
    )
}

/// Thousands of numbers in words.
pub(super) fn thousands(numbers: f64) -> String {
    format!("{:.0}", numbers / 1e3)
}

/// A bar of figure 8 in a line.
fn bar_line(bar: &Throughput) -> String {
    let Throughput { generation, system, published, measured } = bar;
    let spread = if measured.low < measured.high {
        format!(" ({} to {})", thousands(measured.low), thousands(measured.high))
    } else {
        String::new()
    };
    let then = published.map(|numbers| format!(" (the paper {}, {})", thousands(numbers), generation.then));
    let then = then.unwrap_or_default();
    format!("{} processor, {system}: {}{spread}{then}", generation.key, thousands(measured.median))
}

/// The findings of figure 8: the paper's conclusion with its verdict, and the cost of the fast system.
pub(super) fn findings(bars: &[Throughput]) -> Vec<String> {
    let upgrade = upgrade(bars).map(|upgrade| {
        format!(
            "the newer processor with the fast system sorts {:.2} times as much as the older with the base \
             system (the paper {:.2}): {}",
            upgrade.measured,
            upgrade.published,
            upgrade.verdict.words()
        )
    });
    let losses = GENERATIONS.iter().filter_map(|generation| {
        let percent = loss_percent(bars, generation)?;
        let key = generation.key;
        Some(format!("on the {key} processor the fast system sorts {percent:.1} % less than the base system"))
    });
    upgrade.into_iter().chain(losses).collect()
}

fn line(out: &mut String, name: &str, values: &[String; 4]) {
    _ = write!(out, "    {name:<12}");
    values.iter().for_each(|value| _ = write!(out, "{value:>28}"));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn the_paper_s_values_precede_measured_ones_with_a_verdict() {
        let undone = Shortfall { failures: vec![("fast, 2-8, seed 1".into(), "it died".into())], missing: 3 };
        let text = report(&study(), &[("base", "9-spry-100hz")], &undone);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        assert!(at("CONT, 8 processes, fast: as then (200 signals)") < at("663 (662 to 664)"));
        assert!(
            at("the paper: Pentium III 664 MHz, Linux 2.4.8") < at("base: Linux 9-spry-100hz in the lab")
        );
        at("4%, 1 process and 8 CPU-bound, base: differs");
        at("3 of 4 rows are as then");
        at("8 processes: 0.16 (the paper 0.16, worked out 0.12): as then");
        at("older processor, base: 4000 (the paper 2559, Pentium III 664 MHz)");
        at("sorts 1.75 times as much as the older with the base system (the paper 1.23): as then");
        at("on the newer processor the fast system sorts 12.5 % less");
        at("Failed: fast, 2-8, seed 1: it died");
        at("3 cells are not there yet");
    }
}
