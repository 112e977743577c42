//! Tests that handmade traces give the right figures and verdicts.

use spry_analysis::TraceTotals;
use spry_reproduce::application::{Application, EMACS, LOOP, QUAKE, QUAKE_DEMO, XINE};
use spry_reproduce::claims::{self, Outcome, Verdict};
use spry_reproduce::draw;
use spry_reproduce::interactive;
use spry_reproduce::measurement::{Frames, MeasuredTime, Measurement, Party, Quanta, engine};
use spry_reproduce::page::{self, Circumstances};
use spry_reproduce::study::{Cell, Study};
use spry_reproduce::text;
use spry_trace::event::{Comm, Context, Event, PrevState, Switch, TaskInfo, Wakeup, WakeupKind, Waking};
use spry_trace::{Group, Groups, Header, Stamped, Tgid, Tid};

use PrevState::{Preempted, Sleeping};

const START_NS: u64 = 3_000_000_000;
const MS: u64 = 1_000_000;
const PLAYER: u32 = 10;
const DECODER: u32 = 11;
const SERVER: u32 = 20;
const HOG: u32 = 30;

/// Compares a text with a golden file of this crate.
fn assert_golden(name: &str, text: &str) {
    spry_test_run::assert_golden(env!("CARGO_MANIFEST_DIR"), name, text);
}

fn switch(prev: u32, next: u32, prev_state: PrevState) -> Event {
    let (prev, next) = (Tid(prev), Tid(next));
    Event::Switch(Switch { prev, next, prev_state, prev_prio: 120, next_prio: 120, stolen_ns: 0 })
}

/// Events in the order of time. Times count from the start of the trace.
struct Tape(Vec<Stamped>);

impl Tape {
    fn at(&mut self, ms: u64, event: Event) {
        self.0.push(Stamped { time_ns: START_NS + ms * MS, cpu: 0, event });
    }

    fn wake(&mut self, ms: u64, waker: u32, wakee: u32, context: Context) {
        let (waker, wakee) = (Tid(waker), Tid(wakee));
        self.at(ms, Event::Waking(Waking { waker, wakee, context }));
        self.at(ms, Event::Wakeup(Wakeup { tid: wakee, target_cpu: 0, kind: WakeupKind::Again }));
    }
}

/// The program that has the CPU while the film's tasks do not have it.
#[derive(Clone, Copy)]
enum Neighbour {
    Nobody,
    Hog,
}

/// A film's trace of 2 s. In each period the decoder wakes up, waits, and works 12 ms; the X server waits 1
/// ms and works 4 ms; the displayer works 1 ms.
fn film(decoder_waits_ms: u64, beside: Neighbour) -> (Header, Vec<Stamped>) {
    let header = Header {
        cpus: 1,
        hz: Some(250),
        tick_phase_ns: vec![Some(0)],
        start_ns: START_NS,
        groups: Groups::NONE.with(Group::Sched),
        ..Header::default()
    };
    let (other, left) = match beside {
        Neighbour::Nobody => (0, PrevState::Runnable),
        Neighbour::Hog => (HOG, Preempted),
    };
    let mut tape = Tape(Vec::new());
    let names = [
        (PLAYER, PLAYER, "player"),
        (DECODER, PLAYER, "decoder"),
        (SERVER, SERVER, "Xvfb"),
        (HOG, HOG, "stresser"),
    ];
    for (tid, tgid, name) in names {
        let comm = Comm::new(name.as_bytes());
        tape.at(0, Event::Task(TaskInfo::new(Tid(tid), Tgid(tgid), comm)));
    }
    for start_ms in (0..2000).step_by(40) {
        let runs_ms = start_ms + decoder_waits_ms;
        tape.wake(start_ms, other, DECODER, Context::Hardirq);
        tape.at(runs_ms, switch(other, DECODER, left));
        tape.wake(runs_ms + 11, DECODER, SERVER, Context::Task);
        tape.at(runs_ms + 12, switch(DECODER, SERVER, Sleeping));
        tape.wake(runs_ms + 16, SERVER, PLAYER, Context::Task);
        tape.at(runs_ms + 16, switch(SERVER, PLAYER, Sleeping));
        tape.at(runs_ms + 17, switch(PLAYER, other, Sleeping));
    }
    (header, tape.0)
}

/// The measurement of the film's trace. It covers one second, from the middle of a period to the
/// middle of a period.
fn measured(decoder_waits_ms: u64, beside: Neighbour, shown: f64) -> Measurement {
    let (header, events) = film(decoder_waits_ms, beside);
    let from_ns = START_NS + 500 * MS;
    let window = MeasuredTime { from_ns, to_ns: from_ns + 1000 * MS };
    let mut engine = engine(&header, window).unwrap();
    for event in &events {
        _ = engine.push(event);
    }
    let findings = engine.finish(TraceTotals::default());
    Measurement::of(&findings, &XINE, Some(Frames { due: 25.0, shown })).unwrap()
}

fn close(one: f64, two: f64) -> bool {
    (one - two).abs() < 1e-6
}

#[test]
fn a_trace_gives_figures_of_its_thread_with_the_most_cpu_time() {
    let measured = measured(2, Neighbour::Hog, 20.0);
    let film = &measured.application;
    assert!(close(film.cpu_percent, 32.5), "12 and 1 ms of 40: {}", film.cpu_percent);
    assert_eq!(film.thread, "decoder");
    assert!(close(film.dispatch_mean_ns.unwrap(), 2e6));
    assert!(close(film.waiting_percent.unwrap(), 100.0 * 2.0 / 14.0));
    assert_eq!(film.voluntary_percent(), Some(100.0));
    let server = measured.x_server.as_ref().unwrap();
    assert!(close(server.cpu_percent, 10.0) && close(server.dispatch_mean_ns.unwrap(), 1e6));
    let hog = measured.stressers.as_ref().unwrap();
    assert!(close(hog.cpu_percent, 57.5) && hog.voluntary_percent() == Some(0.0));
    assert!(close(measured.idle_percent, 0.0) && close(measured.others_percent, 0.0));
    assert!(close(measured.frames.unwrap().lost_percent(), 20.0));
}

#[test]
fn quanta_are_told_by_their_lengths() {
    let quanta = measured(0, Neighbour::Nobody, 25.0).application.quanta;
    assert_eq!(quanta.count, 50);
    let median_ns = quanta.median_ns.unwrap();
    assert!(median_ns.abs_diff(MS) < MS / 100, "{median_ns}");
    assert_eq!(quanta.short_part(), Some(0.5), "the displayer's; the decoder's last 12 ms");
    let part = |ns: f64| quanta.cdf().into_iter().rfind(|point| point.0 <= ns).unwrap().1;
    assert_eq!((part(0.5e6), part(5e6), part(20e6)), (0.0, 0.5, 1.0));
    assert_eq!(quanta.distance(&quanta), Some(0.0));
    let twice = Quanta::joined([&quanta, &quanta].into_iter());
    assert_eq!((twice.count, twice.distance(&quanta)), (100, Some(0.0)));
    assert_eq!(Quanta::default().short_part(), None);
}

#[test]
fn events_outside_the_measured_time_do_not_count() {
    let (header, mut events) = film(0, Neighbour::Nobody);
    // After the measured time a third program takes the CPU, to the end of the trace.
    events.retain(|event| event.time_ns < START_NS + 1600 * MS);
    events.push(Stamped { time_ns: START_NS + 1600 * MS, cpu: 0, event: switch(0, 99, PrevState::Runnable) });
    let window = MeasuredTime { from_ns: START_NS + 500 * MS, to_ns: START_NS + 1500 * MS };
    let mut engine = engine(&header, window).unwrap();
    events.iter().for_each(|event| _ = engine.push(event));
    let found = Measurement::of(&engine.finish(TraceTotals::default()), &XINE, None).unwrap();
    assert!(close(found.others_percent, 0.0) && close(found.idle_percent, 57.5), "{found:?}");
    assert_eq!(found.frames, None);
}

#[test]
fn a_trace_without_the_application_has_no_figures() {
    let (header, events) = film(0, Neighbour::Nobody);
    let window = MeasuredTime { from_ns: START_NS, to_ns: START_NS + 1000 * MS };
    let mut engine = engine(&header, window).unwrap();
    events.iter().for_each(|event| _ = engine.push(event));
    assert_eq!(Measurement::of(&engine.finish(TraceTotals::default()), &EMACS, None), None);
}

fn cell(scheduler: &str, application: &Application, stressers: u32, measurement: Measurement) -> Cell {
    let (scheduler, application) = (scheduler.to_owned(), application.key.to_owned());
    Cell { scheduler, application, stressers, seed: 1, measurement }
}

/// A film under two schedulers: the first lets load delay it, the second does not.
fn films() -> Study {
    let cells = vec![
        cell("old", &XINE, 0, measured(0, Neighbour::Nobody, 25.0)),
        cell("old", &XINE, 8, measured(20, Neighbour::Hog, 5.0)),
        cell("new", &XINE, 0, measured(0, Neighbour::Nobody, 25.0)),
        cell("new", &XINE, 8, measured(1, Neighbour::Hog, 25.0)),
    ];
    Study { schedulers: vec!["old".to_owned(), "new".to_owned()], stressers: vec![0, 8], cpus: 1, cells }
}

#[test]
fn figures_of_small_traces_are_stable() {
    let topics = interactive::topics(&films());
    let lines: Vec<String> =
        topics.iter().map(|topic| serde_json::to_string(topic).unwrap() + "\n").collect();
    assert_golden("films.json", &lines.concat());
    let lost = topics.iter().find(|topic| topic.figures[0].0 == "6.6").unwrap();
    assert_golden("figure-6.6.svg", &draw::file(lost, "6.6"));
    assert_golden("films.txt", &text::summary(&films(), &claims::verdicts(&films())));
}

#[test]
fn figures_of_both_chapters_are_paired_with_shared_axes() {
    for topic in interactive::topics(&films()) {
        let numbers: Vec<&str> = topic.panels.iter().map(|panel| panel.figure).collect();
        let expected = [topic.figures[0].0, topic.figures[topic.figures.len() - 1].0];
        assert_eq!(numbers, expected, "{}", topic.title);
    }
}

#[test]
fn chapter_9_figures_show_a_third_scheduler_beside_the_second() {
    let mut study = films();
    study.schedulers.push("spry:--policy thesis".to_owned());
    study.cells.extend([(0, Neighbour::Nobody), (8, Neighbour::Hog)].map(|(stressers, beside)| {
        cell("spry:--policy thesis", &XINE, stressers, measured(1, beside, 25.0))
    }));
    let topics = interactive::topics(&study);
    for number in ["9.1", "9.2", "9.4"] {
        let topic = topics.iter().find(|topic| topic.figures.iter().any(|figure| figure.0 == number));
        let topic = topic.unwrap_or_else(|| panic!("{number} is not drawn"));
        let shown = topic.panels.iter().filter(|panel| panel.figure == number);
        let schedulers: Vec<&str> = shown.map(|panel| panel.scheduler.as_str()).collect();
        assert_eq!(schedulers, ["new", "spry:--policy thesis"], "{number}");
        let svg = draw::file(topic, number);
        assert!(svg.contains(&format!("{number}: spry:--policy thesis")), "{svg}");
    }
}

#[test]
fn an_svg_file_needs_no_variables_and_the_page_loads_nothing() {
    let study = films();
    let topics = interactive::topics(&study);
    for topic in &topics {
        for (number, _) in &topic.figures {
            let svg = draw::file(topic, number);
            assert!(!svg.contains("var(") && svg.starts_with("<svg xmlns="), "{svg}");
        }
    }
    let about = Circumstances {
        kernel: "<b>".to_owned(),
        command: vec!["spry".to_owned()],
        digest: "d".to_owned(),
        failures: vec![("a cell".to_owned(), "it & all".to_owned())],
        missing: 3,
    };
    let page = page::page(&study, &topics, &claims::verdicts(&study), &about);
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("<b>,"));
    assert!(page.contains("it &amp; all") && page.contains("3 cells are not there yet"));
}

fn outcome<'a>(verdicts: &'a [Verdict], figure: &str, part: &str) -> &'a Verdict {
    let mut found =
        verdicts.iter().filter(|verdict| verdict.figure == figure && verdict.found.contains(part));
    let verdict = found.next().unwrap_or_else(|| panic!("no finding of {figure} says {part:?}"));
    assert!(found.next().is_none(), "several say {part:?}");
    verdict
}

#[test]
fn claims_of_delay_hold_only_where_load_delays() {
    let verdicts = claims::verdicts(&films());
    let is = |figure, part, expected| {
        let verdict = outcome(&verdicts, figure, part);
        assert_eq!(verdict.outcome, expected, "{verdict:?}");
    };
    is("6.6", "the more stressers", Outcome::Reproduced);
    is("9.4", "constant", Outcome::Reproduced);
    is("6.6", "1 stresser", Outcome::NotMeasured);
    // Quake was not measured, so Quake and Xine together have no verdict.
    is("6.3", "Quake and Xine", Outcome::NotMeasured);
    is("9.1", "no effect", Outcome::NotMeasured);
    let mut swapped = films();
    swapped.schedulers.reverse();
    let verdicts = claims::verdicts(&swapped);
    assert_eq!(outcome(&verdicts, "6.6", "the more stressers").outcome, Outcome::NotReproduced);
    assert_eq!(outcome(&verdicts, "9.4", "constant").outcome, Outcome::NotReproduced);
}

/// A measurement that has only the CPU time, switches and quanta of an application.
fn taking(cpu_percent: f64, switches: u64, voluntary: u64, within: Vec<u64>) -> Measurement {
    let count = within.last().copied().unwrap_or(0);
    let application = Party {
        cpu_percent,
        thread: "t".to_owned(),
        dispatch_mean_ns: Some(1_000.0),
        waiting_percent: Some(1.0),
        switches,
        voluntary,
        quanta: Quanta { count, median_ns: Some(1), short: 0, within },
    };
    Measurement {
        window_ns: 1_000_000_000,
        lost_events: 0,
        application,
        x_server: None,
        stressers: None,
        others_percent: 0.0,
        idle_percent: 0.0,
        frames: None,
    }
}

#[test]
fn a_game_halved_by_one_hog_is_reported_as_a_loop() {
    let steps = Quanta::lengths_ns().count();
    let long = |count: usize| (0..steps).map(|at| if at > 60 { count as u64 } else { 0 }).collect::<Vec<_>>();
    let short = (0..steps).map(|_| 9).collect::<Vec<u64>>();
    let study = |beside_one: f64, demo: Vec<u64>| Study {
        schedulers: vec!["old".to_owned()],
        stressers: vec![0, 1, 8],
        cpus: 1,
        cells: vec![
            cell("old", &QUAKE, 0, taking(98.0, 10, 5, short.clone())),
            cell("old", &QUAKE, 1, taking(beside_one, 10, 5, short.clone())),
            cell("old", &QUAKE, 8, taking(11.0, 10, 5, short.clone())),
            cell("old", &QUAKE_DEMO, 0, taking(99.0, 100, 8, demo)),
            cell("old", &LOOP, 1, taking(99.5, 100, 3, long(40))),
        ],
    };
    let like = claims::verdicts(&study(50.0, long(30)));
    let unlike = claims::verdicts(&study(90.0, short.clone()));
    for (figure, part) in [("6.7", "half"), ("6.2", "strikingly")] {
        assert_eq!(outcome(&like, figure, part).outcome, Outcome::Reproduced, "{figure}");
        assert_eq!(outcome(&unlike, figure, part).outcome, Outcome::NotReproduced, "{figure}");
    }
    assert_eq!(outcome(&like, "6.8", "demonstration").outcome, Outcome::Reproduced);
    assert_eq!(outcome(&like, "6.1", "endless loop").outcome, Outcome::Reproduced);
}
