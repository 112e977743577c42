//! The terminal report of findings made by hand.

mod common;
#[path = "common/sample.rs"]
mod sample;

use common::assert_golden;
use spry_analysis::findings::Findings;
use spry_report::text::{self, Colour, Style};

const WIDE: u16 = 100;

fn plain() -> Style {
    Style::new(WIDE, Colour::Plain)
}

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "wider than {width}: {line}");
    }
}

#[test]
fn the_summary_is_stable() {
    assert_golden("all.summary.txt", &text::summary(&sample::small(sample::all_groups()), plain()));
    assert_golden("few.summary.txt", &text::summary(&sample::small(sample::few_groups()), plain()));
}

#[test]
fn every_page_is_stable() {
    for (name, groups) in [("all.pages.txt", sample::all_groups()), ("few.pages.txt", sample::few_groups())] {
        let findings = sample::small(groups);
        let pages: Vec<String> =
            text::analyses().map(|name| text::analysis(name, &findings, plain()).unwrap()).collect();
        assert_golden(name, &pages.join("\n"));
    }
}

#[test]
fn a_summary_of_thousands_of_tasks_fits_a_screen() {
    let findings = sample::large(3_000);
    for width in [80, 100, 120] {
        let text = text::summary(&findings, Style::new(width, Colour::Plain));
        assert_fits(&text, usize::from(width));
        assert!(text.lines().count() <= 45, "{} lines", text.lines().count());
    }
}

#[test]
fn pages_fit_the_width_and_say_what_was_lost() {
    let findings = sample::large(200);
    for name in text::analyses() {
        let page = text::analysis(name, &findings, plain()).unwrap();
        assert_fits(&page, usize::from(WIDE));
        assert!(page.contains("Events lost: 15: 15 on CPU 1"), "{name}");
    }
}

#[test]
fn empty_findings_make_a_summary_and_pages() {
    let findings = Findings::default();
    assert!(text::summary(&findings, plain()).contains("No event was lost"));
    for name in text::analyses() {
        assert!(text::analysis(name, &findings, plain()).is_some());
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let findings = sample::small(sample::all_groups());
    let coloured = text::summary(&findings, Style::new(WIDE, Colour::Ansi));
    let mut stripped = String::new();
    for (at, part) in coloured.split("\x1b[").enumerate() {
        stripped += if at == 0 { part } else { part.split_once('m').unwrap().1 };
    }
    assert_eq!(stripped, text::summary(&findings, plain()));
}

#[test]
fn an_unknown_analysis_has_no_page() {
    assert!(text::analysis("nothing", &Findings::default(), plain()).is_none());
}
