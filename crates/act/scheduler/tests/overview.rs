//! Tests the numbers in the overview of the algorithm at the head of `sched.bpf.c`: each is the default value
//! of a knob in the code.

use std::fs;
use std::path::Path;

use spry_policy::Constants;
use spry_scheduler::scx::ScxOptions;

const MS: u64 = 1_000_000;

fn program(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bpf/sched").join(name);
    fs::read_to_string(path).expect("the program is there")
}

/// The overview's words, one space between two of them.
fn overview() -> String {
    let source = program("sched.bpf.c");
    let from = source.find("/*\n * The scheduler for sched_ext").expect("the overview begins so");
    let (text, _) = source[from..].split_once("*/").expect("a comment ends");
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '*']));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The default value of a knob.
fn knob(name: &str) -> u64 {
    let knobs = program("knobs.bpf.h");
    let of = |line: &str| line.strip_prefix("const volatile ")?.split_once(' ')?.1.split_once(" = ").map(own);
    let found = knobs.lines().filter_map(of).find(|(known, _)| known == name);
    let (_, value) = found.unwrap_or_else(|| panic!("no knob {name}"));
    value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.trim_end_matches(';').to_owned())
}

/// The value of a macro.
fn macro_of(file: &str, name: &str) -> u64 {
    let text = program(file);
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("#define "));
    let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {file}"))
}

/// A number of seconds with at most one decimal.
fn seconds(ns: u64) -> String {
    let tenths = ns / (100 * MS);
    assert_eq!(ns % (100 * MS), 0, "{ns} ns");
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// All sentences of the overview that have a number of the code, with the code's values.
fn sentences() -> Vec<String> {
    let percent = |name| format!("{} %", knob(name));
    let ms = |name| format!("{} ms", knob(name) / MS);
    let (daemon, kthread) = (percent("daemon_percent"), percent("kthread_percent"));
    let (each, share) = (percent("each_percent"), percent("share_percent"));
    let below = ms("below_slice_ns");
    let (few_ns, many_ns) = (seconds(knob("age_few_ns")), seconds(knob("age_many_ns")));
    vec![
        format!("first come, first served {daemon} of a CPU"),
        format!("first come, first served {kthread} of a CPU, {each} a thread"),
        format!("least virtual time {share} at least, in turns"),
        format!("first come, first served {share} at least, in turns"),
        format!("until the next period of {} begins", ms("budget_period_ns")),
        format!("that ran less than {} us since it was charged", knob("uncharged_ns") / 1_000),
        format!("The turns of each take {share} of the time, {below} each at most."),
        format!("With up to {} waiting tasks, each of them has a turn within {few_ns} s.", knob("few_tasks")),
        format!("it is within {many_ns} s, and the turns may then exceed their {share}."),
        format!("they have {} of a CPU together with DAEMON", percent("servers_percent")),
        format!("Every {}, housekeeping pulls", ms("housekeeping_ns")),
    ]
}

#[test]
fn the_numbers_of_the_overview_are_those_of_the_code() {
    let mut rest = overview();
    for sentence in sentences() {
        assert_eq!(rest.matches(&sentence).count(), 1, "`{sentence}` is not in: {rest}");
        rest = rest.replace(&sentence, "");
    }
    let numbers = rest.split(|sign: char| !sign.is_ascii_digit() && sign != '.');
    let left: Vec<&str> =
        numbers.map(|number| number.trim_matches('.')).filter(|number| !number.is_empty()).collect();
    // A nice value, the display server's level, an empty queue's count, a version, a chapter, and a version.
    assert_eq!(left, ["0", "0", "0", "6.12", "8.3", "2.4"], "a number stands in no sentence above: {rest}");
}

#[test]
fn the_words_for_numbers_in_the_overview_are_those_of_the_code() {
    let (text, second_ns) = (overview(), 1_000 * MS);
    assert_eq!(Constants::default().period_ns, second_ns);
    assert!(text.contains("About once a second it writes a verdict"), "{text}");
    assert_eq!(macro_of("state.bpf.h", "QUEUES\t"), 8);
    assert!(text.contains("a group of eight queues: one for each class, and two more"), "{text}");
    // The daemon sets this knob anew when it loads the programs.
    assert_eq!(u64::from(ScxOptions::default().background_share), knob("share_percent"));
}
