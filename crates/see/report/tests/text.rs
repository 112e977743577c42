//! The terminal report of findings made by hand.

mod common;
#[path = "common/sample.rs"]
mod sample;

use common::assert_golden;
use spry_analysis::findings::{Blame, Delays, Findings, Party};
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
fn tasks_that_are_not_in_the_trace_are_not_said_to_wait() {
    let mut found = sample::small(sample::all_groups());
    found.delays = Some(Delays::default());
    assert!(text::summary(&found, plain()).contains("No task waited for a CPU."));
    found.tasks.clear();
    let summary = text::summary(&found, plain());
    assert!(summary.contains("No task that was asked for was seen."), "{summary}");
    assert!(!summary.contains("No task waited"), "{summary}");
}

#[test]
fn the_summary_names_causes_that_are_no_tasks() {
    let mut found = sample::small(sample::few_groups());
    let delays = found.delays.as_mut().unwrap();
    let blame = delays.blame[0];
    let causes = |culprits: &[Party]| culprits.iter().map(|&culprit| Blame { culprit, ..blame }).collect();
    delays.blame = causes(&[Party::Quota, Party::Others, Party::Idle]);
    let summary = text::summary(&found, plain());
    for told in ["the quota of its group", "idle", "Why is not known: record group idle."] {
        assert!(summary.contains(told), "no `{told}` in {summary}");
    }
    assert!(!summary.contains("Many tasks"), "{summary}");
    found.delays.as_mut().unwrap().blame = causes(&[Party::Others]);
    assert!(text::summary(&found, plain()).contains("Many tasks shared in every wait"));
    found.delays.as_mut().unwrap().blame = Vec::new();
    assert!(text::summary(&found, plain()).contains("does not show what had the CPUs"));
}

#[test]
fn the_first_line_leaves_out_what_is_not_known() {
    let mut found = sample::small(sample::all_groups());
    (found.trace.cpus, found.trace.kernel) = (1, String::new());
    assert!(text::summary(&found, plain()).starts_with("1.00 s on 1 CPU, sim, 250 Hz"));
    let mut page = Vec::new();
    spry_report::html::write(&found, &mut page).unwrap();
    assert!(String::from_utf8(page).unwrap().contains("Unknown kernel (sim), 1 CPU, 250 Hz"));
    found.trace.kernel = "a\x1b[2Jb".into();
    assert!(text::summary(&found, plain()).contains("1 CPU, a?[2Jb sim"));
}

#[test]
fn a_life_without_length_has_no_rate_of_quanta() {
    let mut found = sample::small(sample::all_groups());
    let quanta = found.tasks.iter_mut().filter_map(|task| task.quanta.as_mut());
    quanta.for_each(|quanta| quanta.per_second = None);
    let page = text::analysis("quanta", &found, plain()).unwrap();
    let row = page.lines().find(|line| line.contains("cc1 200")).unwrap();
    assert!(row.split_whitespace().any(|cell| cell == "-"), "{row}");
    assert!(!text::summary(&found, plain()).contains("NaN"));
}

#[test]
fn a_task_without_wakeups_has_no_longest_one() {
    let mut found = sample::small(sample::all_groups());
    found.tasks.iter_mut().for_each(|task| task.wakeup = Some(Box::default()));
    let page = text::analysis("wakeup", &found, plain()).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.contains("cc1 200")).collect();
    let cells = |row: &&&str| row.split_whitespace().skip(2).collect::<Vec<_>>() == ["0", "-", "-"];
    assert_eq!(rows.iter().filter(cells).count(), 1, "{page}");
}

#[test]
fn more_channels_than_are_told_apart_are_told_as_more() {
    let mut found = sample::small(sample::all_groups());
    found.channels.as_mut().unwrap().seen = 32_769;
    let page = text::analysis("ipc", &found, plain()).unwrap();
    assert!(page.contains("More than 32,768 channels seen; at least 120 B went through"), "{page}");
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
