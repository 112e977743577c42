//! Tests that rt-app's JSON is read as rt-app reads it, and that unsupported parts are named.

use spry_scenario::model::{Action, Class, Scenario};
use spry_scenario::program::{ObjectKind, Step, TimerMode, TimerRef};

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "x.json").unwrap_or_else(|mistake| panic!("{mistake}"))
}

fn said(text: &str) -> String {
    match Scenario::parse(text, "x.json") {
        Ok(_) => "nothing".into(),
        Err(mistake) => mistake.to_string(),
    }
}

fn steps(scenario: &Scenario, task: usize) -> &[Step] {
    match &scenario.tasks[task].action {
        Action::Steps(program) => &program.steps,
        Action::Kind(kind) => panic!("rt-app has no kind {}", kind.name()),
    }
}

#[test]
fn comments_trailing_commas_and_repeated_keys_are_accepted() {
    let scenario = parse(
        "{ /* a comment */ \"tasks\" : { \"a\" : { // another\n \"run\" : 10, \"sleep\" : 20, \"run\" : 30, \
         \"suspend\", } },\n\
         \"global\" : { \"duration\" : 2 } }",
    );
    assert_eq!(scenario.duration_ns, 2_000_000_000);
    assert!(matches!(
        steps(&scenario, 0),
        [Step::Run { ns: 10_000 }, Step::Sleep { ns: 20_000 }, Step::Run { ns: 30_000 }, Step::Suspend(_)]
    ));
}

#[test]
fn words_that_begin_alike_are_told_apart() {
    let scenario = parse(
        "{ \"tasks\": { \"a\": { \"run0\": 1, \"runtime\": 2, \"mem\": 3, \"memrun_x\": { \"type\": \
         \"read\", \"size\": 64, \"count\": 4 }, \"sync\": { \"ref\": \"c\", \"mutex\": \"m\" }, \
         \"sem_wait\": \"s\", \"unlock\": \"m\" } } }",
    );
    let found: Vec<&str> = steps(&scenario, 0)
        .iter()
        .map(|step| match step {
            Step::Run { .. } => "run",
            Step::RunFor { .. } => "runtime",
            Step::Memory(memory) if memory.size == 64 => "memrun",
            Step::Memory(_) => "mem",
            Step::Sync { .. } => "sync",
            Step::Wait { .. } => "sem_wait",
            Step::Unlock(_) => "unlock",
            _ => "?",
        })
        .collect();
    assert_eq!(found, ["run", "runtime", "mem", "memrun", "sync", "sem_wait", "unlock"]);
}

#[test]
fn phases_repeat_and_change_class_and_cpus() {
    let scenario = parse(
        "{ \"tasks\": { \"a\": { \"loop\": 2, \"cpus\": [0], \"phases\": { \"p\": \
         { \"loop\": 3, \"run\": 5 }, \"q\": { \"policy\": \"SCHED_FIFO\", \"cpus\": [1], \
         \"run\": 6 } } } } }",
    );
    assert_eq!(scenario.tasks[0].affinity, [0]);
    let [Step::Repeat(first), Step::Become { class, affinity }, Step::Repeat(second)] = steps(&scenario, 0)
    else {
        panic!("{:?}", steps(&scenario, 0));
    };
    assert_eq!((first.times, second.times), (Some(3), Some(1)));
    assert_eq!(*class, Some(Class::Fifo(10)));
    assert_eq!(affinity.as_deref(), Some(&[1][..]));
}

#[test]
fn timers_are_shared_unless_they_are_unique() {
    let scenario = parse(
        "{ \"tasks\": { \"a\": { \"timer\": { \"ref\": \"unique\", \"period\": 100 }, \"timer2\": { \"ref\": \
         \"tick\", \"period\": 7, \"mode\": \"absolute\" } } } }",
    );
    let [
        Step::Timer { timer: first, .. },
        Step::Timer { timer: second, period_ns: 7000, mode: TimerMode::Absolute },
    ] = steps(&scenario, 0)
    else {
        panic!("{:?}", steps(&scenario, 0));
    };
    assert_eq!(*first, TimerRef::Own(0));
    assert!(matches!(second, TimerRef::Shared(_)));
}

#[test]
fn a_barrier_waits_for_all_instances_that_name_it() {
    let scenario = parse(
        "{ \"tasks\": { \"a\": { \"instance\": 3, \"barrier\": \"b\" }, \"c\": { \"barrier\": \
         \"b\", \"run\": 1 } } }",
    );
    assert_eq!(scenario.objects[0].kind, ObjectKind::Barrier(4));
}

#[test]
fn classes_take_their_parameters() {
    let class = |properties: &str| {
        parse(&format!("{{ \"tasks\": {{ \"a\": {{ {properties}, \"run\": 1 }} }} }}")).tasks[0].class
    };
    assert_eq!(class("\"priority\": -7"), Some(Class::Other { nice: -7, slice_ns: 0 }));
    assert_eq!(class("\"dl-runtime\": 100"), Some(Class::Other { nice: 0, slice_ns: 100_000 }));
    assert_eq!(
        class("\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2, \"dl-period\": 9"),
        Some(Class::Deadline { budget_ns: 2000, deadline_ns: 9000, period_ns: 9000 })
    );
}

#[test]
fn texts_may_have_every_escape_of_json() {
    let scenario = parse(
        r#"{ "tasks": { "caf\u00e9": { "lock": "\ud83d\ude00", "unlock": "\b\f\r\n\t\"\\\/", "run": 1 } } }"#,
    );
    assert_eq!(scenario.tasks[0].name, "café");
    let names: Vec<&str> = scenario.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["mutex 😀", "mutex \u{8}\u{c}\r\n\t\"\\/"]);
    let raw = parse("{ \"tasks\": { \"a\tb\": { \"run\": 1 } } }");
    assert_eq!(raw.tasks[0].name, "a\tb", "rt-app's reader takes a tab as it is");
    for wrong in [r"\ud83d", r"\x41", r"\u12", r"\"] {
        let found = said(&format!(r#"{{ "tasks": {{ "a{wrong}": {{ "run": 1 }} }} }}"#));
        assert!(found.contains("this is not JSON: a"), "{wrong}: {found}");
    }
}

#[test]
fn what_looks_like_a_comment_or_a_comma_in_a_text_is_text() {
    let scenario = parse(
        "{ \"tasks\": { \"a // b /* c */ d,}\": { \"cpus\": [0, 1, ], \"lock\": \"/*\", \"run\": 1, // \"x\n\
         \"unlock\": \"*/\", } /* } */, }, }",
    );
    assert_eq!(scenario.tasks[0].name, "a // b /* c */ d,}");
    assert_eq!(scenario.tasks[0].affinity, [0, 1]);
    let names: Vec<&str> = scenario.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["mutex /*", "mutex */"]);
}

/// A file as workload generators write it: numbered phases, every key that only rt-app's own logs need.
const GENERATED: &str = r#"{
    "tasks": {
        "half": {
            "loop": 1,
            "policy": "SCHED_OTHER",
            "phases": {
                "p000001": { "loop": 300, "run": 2000, "timer": { "ref": "half", "period": 4000 }, "cpus": [1] }
            },
            "delay": 0
        }
    },
    "global": { "duration": -1, "calibration": 247, "default_policy": "SCHED_OTHER", "logstats": false,
        "ftrace": "loop", "lock_pages": false }
}"#;

#[test]
fn a_generated_file_runs_with_a_note_of_what_is_passed_over() {
    for text in [GENERATED.to_owned(), GENERATED.replace('\n', "\r\n"), GENERATED.replace([' ', '\n'], "")] {
        let scenario = parse(&text);
        let notes = scenario.notes.join("\n");
        for key in ["logstats", "ftrace", "lock_pages"] {
            assert!(notes.contains(key), "{key}: {notes}");
        }
        let steps = steps(&scenario, 0);
        let repeat = steps.iter().find_map(|step| match step {
            Step::Repeat(phase) => Some(phase),
            _ => None,
        });
        let repeat = repeat.unwrap_or_else(|| panic!("{steps:?}"));
        assert_eq!(repeat.times, Some(300), "{steps:?}");
        assert!(
            matches!(
                repeat.steps[..],
                [Step::Run { ns: 2_000_000 }, Step::Timer { period_ns: 4_000_000, .. }]
            ),
            "{:?}",
            repeat.steps
        );
    }
}

#[test]
fn keys_that_rt_app_passes_over_are_noted() {
    let scenario = parse(
        "{ \"tasks\": { \"half\": { \"loop\": 1, \"__comment\": \"x\", \"phases\": { \"p\": { \"loop\": 300, \"run\": 2000,\n\
         \"origin\": { \"tool\": 1 }, \"timer\": { \"ref\": \"half\", \"period\": 4000 } } }, \"delay\": 0 } },\n\
         \"global\": { \"duration\": -1, \"logstats\": false, \"ftrace\": \"loop\", \"kernel_hint\": null } }",
    );
    let notes = scenario.notes.join("\n");
    for (line, key) in [(1, "__comment"), (2, "origin"), (3, "kernel_hint")] {
        assert!(
            notes.contains(&format!("line {line}: \"{key}\" is not known and is passed over")),
            "{notes}"
        );
    }
    assert!(notes.contains("logstats, ftrace"), "{notes}");
    assert!(matches!(steps(&scenario, 0), [Step::Repeat(phase)] if phase.steps.len() == 2));
}

#[test]
fn unsupported_and_wrong_keys_are_named_with_their_line() {
    let cases = [
        (
            "{ \"tasks\": { \"a\": {\n \"run\": 1,\n \"util_min\": 5 } } }",
            "x.json:3: \"util_min\" is not supported: ",
        ),
        (
            "{ \"tasks\": { \"a\": {\n \"rum\": 1 } } }",
            "x.json:2: unknown key of rt-app \"rum\"; did you mean \"run\"?",
        ),
        ("{ \"tasks\": { \"a\": { \"run\": -1 } } }", "x.json:1: \"run\" must be 0 or more, not -1"),
        ("{ \"tasks\": { \"a\": { \"fork\": \"b\" } } }", "x.json:1: unknown task \"b\""),
        ("{ \"tasks\": { \"a\": { \"loop\": 3 } } }", "x.json:1: task \"a\" has no events"),
        ("{ \"global\": { } }", "x.json:1: there are no \"tasks\""),
        (
            "{ \"tasks\": { \"a\": { \"run\": 1 } }, \"global\": {\n \"duratoin\": 1 } }",
            "x.json:2: unknown key of \"global\" \"duratoin\"; did you mean \"duration\"?",
        ),
        (
            "{ \"tasks\": {\n \"a\": { \"run\" 1 } } }",
            "x.json:2: this is not JSON: a comma or } is missing, at \"1\"",
        ),
        ("{ \"tasks\": ", "x.json:1: this is not JSON: a value is missing, at the end of the file"),
    ];
    for (text, expected) in cases {
        let found = said(text);
        assert!(found.starts_with(expected), "\n{text}: {found}\nexpected {expected}");
    }
}
