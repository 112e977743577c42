//! All figures on one HTML page that needs no network and no scripts.

use std::fmt::Write as _;

use spry_page::escape;
use spry_page::html::{END, Scripts, begin};
use spry_page::words::count_f64;

use crate::application;
use crate::claims::{Outcome, Verdict};
use crate::draw;
use crate::figure::{Plot, Topic};
use crate::study::Study;
use crate::words;

const STYLE: &str = include_str!("page.css");

/// The facts on the page besides the figures.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The kernel's release.
    pub kernel: String,
    /// The command line of the run.
    pub command: Vec<String>,
    /// The digest of all measured values.
    pub digest: String,
    /// The cells that failed, each with its error.
    pub failures: Vec<(String, String)>,
    /// How many cells were not begun or not finished.
    pub missing: usize,
}

/// The HTML of the page.
pub fn page(study: &Study, topics: &[Topic], verdicts: &[Verdict], about: &Circumstances) -> String {
    let mut out = head(study, verdicts, about);
    for topic in topics {
        section(&mut out, topic, verdicts);
    }
    applications(&mut out);
    end(&mut out, about);
    out
}

fn head(study: &Study, verdicts: &[Verdict], about: &Circumstances) -> String {
    let title = "Interactive processes: the thesis' figures";
    let own = [STYLE, draw::STYLE].concat();
    let mut out = begin(&format!("Spry: {title}"), &own, Scripts::Forbidden);
    _ = writeln!(out, "<h1>{title}</h1>");
    let original = study.original().unwrap_or_default();
    let others: Vec<&str> = study.others().iter().map(String::as_str).collect();
    let beside = if others.is_empty() {
        String::new()
    } else {
        format!("; figures of chapter 9 are of {}", words::list(&others))
    };
    let mut seeds: Vec<u64> = study.cells.iter().map(|cell| cell.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let spread = match seeds.len() {
        0 | 1 => "One seed: the spread is unknown.".to_owned(),
        many => format!("Medians of {many} seeds; a line through a dot is their spread."),
    };
    _ = writeln!(
        out,
        "<p class=\"note\">Etsion's thesis, chapters 6 and 9, again: recorded in the lab with kernel {}, {}, \
         one instruction a nanosecond on each. {} Where the thesis has Linux 2.4's scheduler, \
         figures of chapter 6 are of {}{}. {spread}</p>",
        escape(&about.kernel),
        if study.cpus == 1 { "one CPU".to_owned() } else { format!("{} CPUs", study.cpus) },
        study.other_machine().unwrap_or_default(),
        escape(original),
        escape(&beside)
    );
    for scheduler in &study.schedulers {
        let of: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.scheduler == *scheduler).collect();
        let count = |outcome| of.iter().filter(|verdict| verdict.outcome == outcome).count();
        let empty = of.iter().filter(|verdict| verdict.cannot_fail.is_some()).count();
        _ = writeln!(
            out,
            "<p class=\"note\"><b>{}</b>: of {} findings {} are reproduced{}, {} are not, \
             {} could not be measured.</p>",
            escape(scheduler),
            of.len(),
            count(Outcome::Reproduced),
            if empty > 0 { format!(" ({empty} of all cannot fail)") } else { String::new() },
            count(Outcome::NotReproduced),
            count(Outcome::NotMeasured)
        );
    }
    if about.missing > 0 {
        _ = writeln!(
            out,
            "<p class=\"note\">{} cells are not there yet: the same command goes on with them.</p>",
            about.missing
        );
    }
    match study.lost_events() {
        0 => {}
        lost => _ = writeln!(out, "<p class=\"note\">{lost} events were lost while recording.</p>"),
    }
    out
}

fn section(out: &mut String, topic: &Topic, verdicts: &[Verdict]) {
    let shown = |number: &str| topic.panels.iter().any(|panel| panel.figure == number);
    let numbers: Vec<&str> =
        topic.figures.iter().map(|figure| figure.0).filter(|number| shown(number)).collect();
    let word = if numbers.len() == 1 { "Figure" } else { "Figures" };
    _ = writeln!(out, "<section><h2>{word} {}: {}</h2>", words::list(&numbers), escape(topic.title));
    for (number, caption) in topic.figures.iter().filter(|figure| shown(figure.0)) {
        _ = writeln!(out, "<p class=\"caption\"><b>{number}</b> {}</p>", escape(caption));
    }
    _ = writeln!(
        out,
        "<p class=\"note\">{}</p><div class=\"scroll\">{}</div>",
        escape(&topic.note),
        draw::figure(topic, None)
    );
    for verdict in verdicts.iter().filter(|verdict| numbers.contains(&verdict.figure)) {
        let class = match verdict.outcome {
            Outcome::Reproduced => "yes",
            Outcome::NotReproduced => "no",
            Outcome::NotMeasured => "none",
        };
        let empty = verdict.cannot_fail.map(|reason| format!(" It cannot fail: {reason}."));
        _ = writeln!(
            out,
            "<p class=\"found {class}\">The thesis ({}): <span class=\"says\">{}</span><br><b \
             class=\"{class}\">{}</b> with {}: {}{}</p>",
            verdict.figure,
            escape(verdict.found),
            verdict.outcome.words(),
            escape(&verdict.scheduler),
            escape(&verdict.because),
            escape(&empty.unwrap_or_default())
        );
    }
    table(out, topic);
    *out += "</section>\n";
}

/// A table of the values of a topic's curves and stacks.
fn table(out: &mut String, topic: &Topic) {
    let mut rows = String::new();
    for panel in &topic.panels {
        let mut row = |name: &str, at: String, value: f64| {
            _ = write!(
                rows,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{at}</td><td class=\"n\">{}</td></tr>",
                escape(&panel.scheduler),
                escape(name),
                count_f64(value)
            );
        };
        match &panel.drawn {
            // The points of a distribution are too many for a table; they are only drawn.
            Plot::Curves(curves) => {
                for curve in curves.iter().filter(|curve| curve.points.len() <= 12) {
                    curve
                        .points
                        .iter()
                        .for_each(|point| row(curve.name, point.x.to_string(), point.y.median));
                }
            }
            Plot::Stacks(stacks) => {
                for stack in stacks {
                    let at = || stack.stressers.to_string();
                    stack.parts.iter().for_each(|part| row(part.name, at(), part.value.median));
                    stack.lost_percent.iter().for_each(|lost| row("frames lost", at(), lost.median));
                }
            }
            Plot::Bars(_) => {}
        }
    }
    if rows.is_empty() {
        return;
    }
    _ = writeln!(
        out,
        "<details><summary>Numbers</summary><table><tr><th>scheduler</th><th></th><th class=\"n\">{}</th><th \
         class=\"n\">{}</th></tr>{rows}</table></details>",
        escape(topic.x.label),
        escape(topic.y.label)
    );
}

fn applications(out: &mut String) {
    *out += "<section><h2>What stands for the thesis' applications</h2>\n<table>";
    for application in application::ALL {
        let mut sets = String::new();
        application.sets.iter().for_each(|(key, value)| _ = write!(sets, " {key}={value}"));
        _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td><code>{}{sets}</code></td></tr>",
            escape(application.name),
            escape(application.stands),
            escape(application.scenario)
        );
    }
    *out += "</table></section>\n";
}

fn end(out: &mut String, about: &Circumstances) {
    if !about.failures.is_empty() {
        *out += "<section><h2>Cells that came to nothing</h2>\n<table>";
        for (cell, error) in &about.failures {
            _ = write!(out, "<tr><td>{}</td><td>{}</td></tr>", escape(cell), escape(error));
        }
        *out += "</table></section>\n";
    }
    _ = write!(
        out,
        "<section><h2>To repeat it</h2><p><code>{}</code></p><p class=\"note\">Equal inputs give equal \
         figures: digest <code>{}</code>. <code>results.json</code> beside this page has every figure and \
         what went in.</p></section>{END}",
        escape(&about.command.join(" ")),
        escape(&about.digest)
    );
}
