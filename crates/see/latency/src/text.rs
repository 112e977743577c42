//! Results as text.

use std::fmt::Write as _;

use spry_page::words::{count, duration, duration_f64, plain};

use crate::article::Article;
use crate::date::date;
use crate::quantile::Estimate;
use crate::results::{End, Results};
use crate::summary::Summary;
use crate::verdict::verdict;

/// A page of text; ends with a line feed.
pub fn report(results: &Results) -> String {
    let mut out = head(results);
    let (raw, corrected) = (results.raw(), results.corrected());
    let (Some(raw_summary), Some(corrected_summary)) = (Summary::of(&raw), Summary::of(&corrected)) else {
        out += "\nNo sample was taken.\n";
        return out;
    };
    out += "\n";
    figures(&mut out, results, &raw_summary, &corrected_summary);
    quantiles(&mut out, &raw_summary, &corrected_summary);
    below(&mut out, &raw_summary, &corrected_summary);
    parts(&mut out, results);
    culprits(&mut out, results);
    threads(&mut out, results);
    if let Some(article) = Article::of(&raw) {
        out += &in_the_articles_way(&article);
    }
    out
}

/// The measurement's settings, in one sentence.
pub fn what(results: &Results) -> String {
    let class = match results.priority {
        0 => "an ordinary class".to_owned(),
        priority => format!("SCHED_FIFO {priority}"),
    };
    let threads = match results.threads.as_slice() {
        [one] => one
            .cpu
            .map_or_else(|| "one thread on any CPU".to_owned(), |cpu| format!("one thread on CPU {cpu}")),
        threads => format!("{} threads", threads.len()),
    };
    let load = plain(&results.load.join(", "));
    let load = if load.is_empty() { load } else { format!(", beside {load}") };
    let interrupted = match results.end {
        End::Complete => "",
        End::Interrupted => ", interrupted",
        End::Running => ", still running",
    };
    format!(
        "{}, {} a second, {threads} of {class}{load}, for {}{interrupted}",
        results.source.name(),
        results.rate_hz,
        duration(results.elapsed_ns)
    )
}

/// The machine in one sentence.
pub fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let preemption =
        machine.preemption.as_deref().map(|model| format!(", preemption {model}")).unwrap_or_default();
    let scheduler =
        machine.scheduler.as_deref().map(|name| format!(", scheduler {name}")).unwrap_or_default();
    plain(&format!("Kernel {} {}{preemption}{scheduler}", machine.kernel, machine.arch))
}

fn head(results: &Results) -> String {
    let mut out = format!("Wake-up latency: {}\n{}\n", what(results), machine(results));
    for lack in &results.lacks {
        _ = writeln!(out, "Note: {}", plain(lack));
    }
    out
}

fn figures(out: &mut String, results: &Results, raw: &Summary, corrected: &Summary) {
    _ = writeln!(out, "{:<20}{:>16}{:>16}", "", "raw", "corrected");
    let mut row = |name: &str, of: &dyn Fn(&Summary) -> String| {
        _ = writeln!(out, "  {name:<18}{:>16}{:>16}", of(raw), of(corrected));
    };
    row("samples", &|summary| count(summary.count));
    row("min", &|summary| duration(summary.min_ns));
    row("mean", &|summary| duration_f64(summary.mean_ns));
    row("median", &|summary| duration(summary.median_ns));
    row("mode", &|summary| duration(summary.mode_ns));
    row("variance", &|summary| {
        summary.variance_ns2.map_or_else(|| "-".into(), |ns2| format!("{:.4} us^2", ns2 / 1e6))
    });
    row("standard deviation", &|summary| summary.sd_ns.map_or_else(|| "-".into(), duration_f64));
    row("max", &|summary| duration(summary.max_ns));
    if let Some(worst) = results.worst() {
        let cpu = worst.cpu.map(|cpu| format!(", on CPU {cpu}")).unwrap_or_default();
        let seconds = worst.at_ns as f64 / 1e9;
        _ = writeln!(out, "The maximum was at {}, {seconds:.3} s into the run{cpu}.", date(worst.at_unix_ns));
    }
    let missed = results.missed();
    if missed > 0 {
        _ = writeln!(
            out,
            "{} periods were missed: their samples were due while a thread still waited for one before. \
             Corrected figures have them in.",
            count(missed)
        );
    }
    out.push('\n');
}

fn quantiles(out: &mut String, raw: &Summary, corrected: &Summary) {
    _ = writeln!(out, "{:<20}{:>16}{:>16}   95 % interval of raw", "quantile", "raw", "corrected");
    for (estimate, other) in raw.quantiles.iter().zip(&corrected.quantiles) {
        _ = writeln!(
            out,
            "  {:<18}{:>16}{:>16}   {}",
            format!("{} %", estimate.quantile.percent()),
            duration(estimate.value_ns),
            duration(other.value_ns),
            interval(estimate)
        );
    }
    for warning in raw.warnings() {
        _ = writeln!(out, "{warning}.");
    }
    out.push('\n');
}

/// An interval in words.
pub fn interval(estimate: &Estimate) -> String {
    let side = |side_ns: Option<u64>| side_ns.map_or_else(|| "unknown".to_owned(), duration);
    format!("{} to {}", side(estimate.low_ns), side(estimate.high_ns))
}

fn below(out: &mut String, raw: &Summary, corrected: &Summary) {
    _ = writeln!(out, "{:<20}{:>16}{:>16}", "below", "raw", "corrected");
    for ((name, percent), (_, other)) in raw.percent_below.iter().zip(&corrected.percent_below) {
        _ = writeln!(
            out,
            "  {:<18}{:>16}{:>16}",
            format!("{name} ms"),
            format!("{percent:.5} %"),
            format!("{other:.5} %")
        );
    }
    out.push('\n');
}

fn parts(out: &mut String, results: &Results) {
    let Some(parts) = results.parts() else { return };
    _ = writeln!(
        out,
        "{:<20}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "part", "samples", "mean", "median", "99.9 %", "max"
    );
    for (name, histogram) in parts.named() {
        let name = name.trim_end_matches("_ns");
        let Some(summary) = Summary::of(histogram) else {
            _ = writeln!(out, "  {name:<18}{:>12}", "not seen");
            continue;
        };
        let thousandth = summary.quantiles.iter().find(|estimate| estimate.quantile.name() == "0.999");
        _ = writeln!(
            out,
            "  {name:<18}{:>12}{:>12}{:>12}{:>12}{:>12}",
            count(summary.count),
            duration_f64(summary.mean_ns),
            duration(summary.median_ns),
            thousandth.map_or_else(|| "-".into(), |estimate| duration(estimate.value_ns)),
            duration(summary.max_ns)
        );
    }
    out.push('\n');
}

/// The most culprits that are shown, and the most frames of each.
const CULPRITS_SHOWN: usize = 10;
const FRAMES_SHOWN: usize = 4;

fn culprits(out: &mut String, results: &Results) {
    if let Some(words) = verdict(results) {
        _ = writeln!(out, "{words}\n");
    }
    let Some(culprits) = results.culprits.as_deref().filter(|culprits| !culprits.is_empty()) else { return };
    _ = writeln!(out, "{:<38}{:>8}{:>12}{:>12}", "cause of the delay", "times", "total", "worst");
    for culprit in &culprits[..culprits.len().min(CULPRITS_SHOWN)] {
        _ = writeln!(
            out,
            "  {:<36}{:>8}{:>12}{:>12}",
            format!("{} {}", plain(&culprit.task), culprit.how.words()),
            count(culprit.count),
            duration(culprit.total_ns),
            duration(culprit.worst_ns)
        );
        if !culprit.stack.is_empty() {
            let shown = &culprit.stack[..culprit.stack.len().min(FRAMES_SHOWN)];
            let more = if culprit.stack.len() > FRAMES_SHOWN { " < ..." } else { "" };
            _ = writeln!(out, "    {}{more}", plain(&shown.join(" < ")));
        }
    }
    if culprits.len() > CULPRITS_SHOWN {
        _ = writeln!(out, "  and {} more", count((culprits.len() - CULPRITS_SHOWN) as u64));
    }
    out.push('\n');
}

fn threads(out: &mut String, results: &Results) {
    if results.threads.len() < 2 {
        return;
    }
    _ = writeln!(
        out,
        "{:<20}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "thread", "samples", "missed", "min", "mean", "max"
    );
    for thread in &results.threads {
        let name = thread.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let latency = &thread.latency;
        let words = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), duration_f64);
        _ = writeln!(
            out,
            "  {name:<18}{:>12}{:>12}{:>12}{:>12}{:>12}",
            count(latency.count()),
            count(thread.omitted.count()),
            words(latency.min_ns().map(|ns| ns as f64)),
            words(latency.mean_ns()),
            words(latency.max_ns().map(|ns| ns as f64))
        );
    }
    out.push('\n');
}

/// The lines that the article prints below each graph.
pub fn in_the_articles_way(article: &Article) -> String {
    let mut out = "In the article's way (Williams 2002: buckets of 100 us, raw, each sample at the \
                   middle of its bucket)\n"
        .to_owned();
    _ = writeln!(out, "  {} buckets containing {} samples", article.buckets, article.samples);
    _ = writeln!(out, "  maximum latency: {:.1}ms", article.max_ms);
    _ = writeln!(out, "  Mean: {:.6}ms  Median: {:.2}ms", article.mean_ms, article.median_ms);
    _ = writeln!(out, "  Mode: {:.2}ms (occurred {} times)", article.mode_ms, article.mode_count);
    let variance = article.variance_ms2.map_or_else(|| "-".to_owned(), |ms2| format!("{ms2:.6e}"));
    let deviation = article.sd_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.6}"));
    _ = writeln!(out, "  Variance: {variance}  Standard Deviation: {deviation}");
    for (limit_ms, percent) in &article.percent_below_ms {
        _ = writeln!(out, "  {percent:.5}% of samples < {limit_ms}ms");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::culprits::{Culprit, How};
    use crate::histogram::Histogram;
    use crate::results::{MeasuredMachine, SampledThread};
    use crate::source::Source;
    use crate::split::PartHistograms;

    fn results() -> Results {
        let mut latency = Histogram::default();
        latency.record_many(9_000, 99_999);
        latency.record(45_200_000);
        let mut omitted = Histogram::default();
        omitted.record(400_000);
        let machine = MeasuredMachine {
            kernel: "6.12.1".into(),
            arch: "x86_64".into(),
            preemption: Some("voluntary".into()),
            ..MeasuredMachine::default()
        };
        let thread = SampledThread { cpu: Some(3), latency, omitted, max_at_ns: 1_500_000_000, parts: None };
        let mut results = Results::new(machine, Source::Nanosleep, 2048, 80);
        results.threads.push(thread);
        results.end = End::Complete;
        results.elapsed_ns = 48_828_125_000;
        results
    }

    #[test]
    fn the_report_says_what_how_much_and_when() {
        let text = report(&results());
        for part in [
            "nanosleep, 2048 a second, one thread on CPU 3 of SCHED_FIFO 80, for 48.8 s",
            "Kernel 6.12.1 x86_64, preemption voluntary",
            "1970-01-01 00:00:01 UTC, 1.500 s into the run, on CPU 3",
            "1 periods were missed",
            "100,000 samples are too few for the 99.999 % quantile: 1,000,000 needed",
            "99.99900 %",
            "2 buckets containing 100000 samples",
            "maximum latency: 45.2ms",
            "100.00000% of samples < 45.3ms",
        ] {
            assert!(text.contains(part), "no `{part}` in:\n{text}");
        }
        assert!(!text.contains("too few for the 99.99 %"), "{text}");
    }

    #[test]
    fn parts_that_this_kernel_cannot_show_are_told_as_not_seen() {
        let mut split = results();
        let mut parts = PartHistograms::default();
        parts.unseen_ns.record(9_000);
        split.threads[0].parts = Some(parts);
        let text = report(&split);
        assert!(text.contains("preemption            not seen"), "{text}");
        assert!(!report(&results()).contains("not seen"));
    }

    #[test]
    fn a_culprit_s_name_cannot_command_the_terminal() {
        let mut found = results();
        found.threads[0].parts = Some(PartHistograms::default());
        found.threads[0].parts.iter_mut().for_each(|parts| parts.preemption_ns.record(9_000));
        found.machine.scheduler = Some("a\x1b[2Jb".into());
        found.culprits = Some(vec![Culprit {
            task: "cc\x1b]0;title\x07\n1".into(),
            how: How::Ran,
            stack: vec!["do\u{202e}_work".into()],
            stacks: Vec::new(),
            waiters: Vec::new(),
            count: 1,
            total_ns: 9_000,
            worst_ns: 9_000,
        }]);
        let text = report(&found);
        assert_eq!(text.matches("cc?]0;title??1 ran before it").count(), 2, "{text}");
        assert!(text.contains("scheduler a?[2Jb") && text.contains("do?_work"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
    }

    #[test]
    fn an_empty_run_says_so() {
        let mut empty = results();
        empty.threads[0].latency = Histogram::default();
        empty.threads[0].omitted = Histogram::default();
        assert!(report(&empty).ends_with("No sample was taken.\n"));
    }
}
