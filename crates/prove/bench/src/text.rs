//! A report as text.

use std::fmt::Write as _;

use crate::papers::{Cost, papers};
use crate::report::{Figure, Report, Sort};
use crate::stats::Stats;

/// The report as a page of text. It ends with a line feed.
pub fn report(report: &Report) -> String {
    let mut out = head(report);
    own(&mut out, report);
    sort(&mut out, report);
    tables(&mut out, report);
    for lack in &report.lacks {
        _ = writeln!(out, "\n{}: {}.", lack.benchmark.name(), lack.reason);
    }
    for warning in report.warnings() {
        _ = writeln!(out, "\nNote: {warning}.");
    }
    out
}

fn head(report: &Report) -> String {
    let machine = &report.machine;
    let cycles = machine.cycles_per_ns.map(|rate| format!(", {rate:.3} cycles/ns")).unwrap_or_default();
    let class = match report.priority {
        0 => String::new(),
        priority => format!(", SCHED_FIFO {priority}"),
    };
    let interrupted = if report.interrupted { ", interrupted" } else { "" };
    format!(
        "Costs on CPU {} of {}{cycles}; Linux {}{class}; {:.0} s{interrupted}\n",
        report.cpu,
        machine.processor,
        machine.kernel,
        report.elapsed_ns as f64 / 1e9
    )
}

/// The mean and the standard deviation, such as `1.98 ± 0.66`; `1.98 ± -` if there is none. The size of the
/// mean determines the number of digits.
fn spread(mean: f64, sd: Option<f64>) -> String {
    let decimals = match mean.abs() {
        mean if mean >= 100.0 => 0,
        mean if mean >= 10.0 => 1,
        mean if mean >= 1.0 => 2,
        _ => 3,
    };
    let sd = sd.map_or_else(|| "-".to_owned(), |sd| format!("{sd:.decimals$}"));
    format!("{mean:.decimals$} ± {sd}")
}

fn cycles(report: &Report, stats: &Stats) -> String {
    let spread = |rate: f64| spread(stats.mean * rate, stats.sd.map(|sd| sd * rate));
    report.machine.cycles_per_ns.map_or_else(|| "-".to_owned(), spread)
}

fn own(out: &mut String, report: &Report) {
    let times = [
        (
            "context switch",
            report.switch.as_ref(),
            "a byte through a pipe between two processes: half a round trip, with its write and read",
        ),
        ("trap", report.trap.as_ref(), "getppid"),
        (
            "clock interrupt",
            report.interrupt.as_ref().map(|interrupt| &interrupt.figure),
            "what a loop that reads the clock loses to a tick",
        ),
        (
            "timer interrupt",
            report.sort.as_ref().map(|sort| &sort.expiry),
            "the same, to a timer that does nothing but expire",
        ),
    ];
    let times: Vec<_> =
        times.into_iter().filter_map(|(name, figure, what)| Some((name, figure?, what))).collect();
    if !times.is_empty() {
        _ = writeln!(
            out,
            "\n{:<17}{:>17}{:>17}{:>10}{:>10}{:>11}",
            "mean ± sd", "us", "cycles", "median", "samples", "set aside"
        );
    }
    for (name, figure, what) in times {
        let stats = &figure.stats;
        row(
            out,
            name,
            figure,
            &spread(stats.mean / 1e3, stats.sd.map(|sd| sd / 1e3)),
            &cycles(report, stats),
            stats.median / 1e3,
        );
        _ = writeln!(out, "    {what}");
    }
    if !report.cache.is_empty() {
        _ = writeln!(
            out,
            "\n{:<17}{:>17}{:>17}{:>10}{:>10}{:>11}",
            "mean ± sd", "MB/s", "block, KiB", "median", "samples", "set aside"
        );
    }
    for cache in &report.cache {
        let stats = &cache.figure.stats;
        let block = (cache.block_bytes / 1024).to_string();
        row(
            out,
            &format!("L{} copy", cache.level),
            &cache.figure,
            &spread(stats.mean, stats.sd),
            &block,
            stats.median,
        );
    }
    if !report.cache.is_empty() {
        out.push_str(
            "    memcpy whose source and destination fill half of the cache; 10^6 bytes copied a second\n",
        );
    }
}

fn row(out: &mut String, name: &str, figure: &Figure, first: &str, second: &str, median: f64) {
    let median = match median {
        median if median >= 100.0 => format!("{median:.0}"),
        median => format!("{median:.3}"),
    };
    _ = writeln!(
        out,
        "  {name:<15}{first:>17}{second:>17}{median:>10}{:>10}{:>11}",
        figure.stats.count, figure.set_aside
    );
}

fn sort(out: &mut String, report: &Report) {
    let Some(sort) = &report.sort else { return };
    _ = writeln!(
        out,
        "\nSorting {} KiB (half of L2), the same numbers at each rate of interrupts beside the clock's own",
        sort.array_bytes / 1024
    );
    _ = writeln!(
        out,
        "{:>8}{:>19}{:>9}{:>11}{:>16}{:>9}{:>11}{:>10}{:>12}",
        "+Hz", "ms", "samples", "set aside", "added, us", "added", "interrupts", "direct", "indirect"
    );
    for rate in &sort.rates {
        let stats = &rate.figure.stats;
        _ = write!(
            out,
            "{:>8}{:>19}{:>9}{:>11}",
            rate.rate_hz,
            spread(stats.mean / 1e6, stats.sd.map(|sd| sd / 1e6)),
            stats.count,
            rate.figure.set_aside
        );
        _ = writeln!(out, "{}", shares(sort, rate));
    }
    out.push_str(
        "    added: over the same sortings at +0, with its 95 % interval; direct: \
         interrupts times what one keeps a loop from\n    running; indirect: what is left of the time added \
         (caches, mostly)\n",
    );
    if !sort.left_out_hz.is_empty() {
        _ = writeln!(out, "    not at {:?} Hz: kernel.perf_event_max_sample_rate is below", sort.left_out_hz);
    }
    let paper = papers().sort;
    _ = writeln!(
        out,
        "    the article's Pentium III 664: {} ms at 100 Hz, {} ms at 10000 Hz:\n    {} us added by {} \
         interrupts, {} us direct, {} % indirect",
        paper.ms_at_100_hz,
        paper.ms_at_10000_hz,
        paper.added_us,
        paper.interrupts,
        paper.direct_us,
        paper.indirect_percent
    );
}

fn shares(sort: &Sort, rate: &crate::report::Rate) -> String {
    let Some(share) = sort.share(rate) else { return String::new() };
    let margin = share.margin_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns / 1e3));
    let added = format!("{:.1} ± {margin}", share.added_ns / 1e3);
    let base = sort.rates.first().map_or(f64::NAN, |base| base.figure.stats.mean);
    let indirect = share.indirect_percent().map_or_else(
        || if share.margin_ns.is_some() { "noise" } else { "-" }.to_owned(),
        |(percent, margin)| format!("{percent:.0} ± {margin:.0} %"),
    );
    format!(
        "{added:>16}{:>9}{:>11.1}{:>10}{indirect:>12}",
        format!("{:.2} %", 100.0 * share.added_ns / base),
        share.interrupts,
        format!("{:.1} us", share.direct_ns / 1e3)
    )
}

fn tables(out: &mut String, report: &Report) {
    if report.switch.is_none()
        && report.trap.is_none()
        && report.cache.is_empty()
        && report.interrupt.is_none()
    {
        return;
    }
    out.push_str(
        "\nBeside the article (Etsion, Tsafrir, Feitelson 2003, tables 1 and 2; mean ± standard deviation)\n",
    );
    let mut line = |cells: [String; 8]| {
        let [name, interrupt, interrupt_us, switch, switch_us, cache, trap, trap_us] = cells;
        let text = format!(
            "{name:<19}{interrupt:>15}{interrupt_us:>8}{switch:>14}{switch_us:>8}{cache:>15}{trap:>13}{trap_us:>7}"
        );
        _ = writeln!(out, "{}", text.trim_end());
    };
    line(["", "interrupt", "", "switch", "", "cache", "trap", ""].map(str::to_owned));
    line(["Processor", "cycles", "us", "cycles", "us", "MB/s", "cycles", "us"].map(str::to_owned));
    let cost = |cost: &Cost| [spread(cost.cycles, Some(cost.sd)), format!("{:.2}", cost.us)];
    for processor in &papers().processors {
        let [switch, switch_us] = cost(&processor.switch);
        let [trap, trap_us] = cost(&processor.trap);
        let [interrupt, interrupt_us] = cost(&processor.interrupt);
        let cache = spread(processor.cache.mb_s, Some(processor.cache.sd));
        line([processor.name.clone(), interrupt, interrupt_us, switch, switch_us, cache, trap, trap_us]);
        let [interrupt, interrupt_us] = cost(&processor.lean_interrupt);
        let none = String::new;
        line(["  without 8253".to_owned(), interrupt, interrupt_us, none(), none(), none(), none(), none()]);
    }
    let here = |figure: Option<&Figure>| match figure {
        Some(figure) => [cycles(report, &figure.stats), format!("{:.3}", figure.stats.mean / 1e3)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let [switch, switch_us] = here(report.switch.as_ref());
    let [trap, trap_us] = here(report.trap.as_ref());
    let [interrupt, interrupt_us] = here(report.interrupt.as_ref().map(|interrupt| &interrupt.figure));
    let mut caches = report.cache.iter().map(|cache| spread(cache.figure.stats.mean, cache.figure.stats.sd));
    let cache = caches.next().unwrap_or_else(|| "-".to_owned());
    line([
        "this CPU (cache: L1)".to_owned(),
        interrupt,
        interrupt_us,
        switch,
        switch_us,
        cache,
        trap,
        trap_us,
    ]);
    for cache in caches {
        let none = String::new;
        line(["  L2".to_owned(), none(), none(), none(), none(), cache, none(), none()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Lack, tests::report as measured};
    use crate::run::Benchmark;

    #[test]
    fn the_report_has_each_figure_beside_the_articles() {
        let mut results = measured();
        results.lacks.push(Lack { benchmark: Benchmark::Sort, reason: "no timer: run as root".into() });
        let text = report(&results);
        for part in [
            "1315 ± 425",
            "1.98 ± 0.64",
            "0.520 ± 0.245",
            "2512 ± 32",
            "91 ± 6 %",
            "noise",
            "722.0 ± 39.2",
            "14603 ± 436",
            "Athlon XP 1467",
            "sort: no timer: run as root.",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 132), "{text}");
    }

    #[test]
    fn a_benchmark_that_was_not_requested_is_not_shown() {
        let mut results = measured();
        (results.sort, results.trap, results.interrupt) = (None, None, None);
        let text = report(&results);
        assert!(
            !text.contains("Sorting") && !text.contains("getppid") && text.contains("context switch"),
            "{text}"
        );
    }
}
