//! Figures that a trace cannot give are null in the JSON report and a dash on a terminal, never 0.

use std::collections::BTreeMap;

use serde_json::Value;
use spry_analysis::{Engine, Findings, Options, Selection, TraceTotals};
use spry_report::json::Json;
use spry_report::text::{self, Colour, Style};
use spry_trace::event::*;
use spry_trace::{Group, Groups, Header, Kind, Kinds};

const START_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;

/// Three tasks on two CPUs for a while, with events of every group and kind, and every figure above 0.
fn events() -> Vec<Stamped> {
    let mut events = Vec::new();
    let mut at = |us: u64, cpu: u16, event| {
        events.push(Stamped { time_ns: START_NS + us * US, cpu, event });
    };
    let switch = |prev: u32, prev_state, next: u32| {
        let stolen_ns = if prev == 0 { 0 } else { 700 };
        let (prev, next) = (Tid(prev), Tid(next));
        Event::Switch(Switch { prev, next, prev_state, prev_prio: 120, next_prio: 120, stolen_ns })
    };
    let waking = |waker: u32, wakee: u32| {
        Event::Waking(Waking { waker: Tid(waker), wakee: Tid(wakee), context: Context::Task })
    };
    let wakeup = |tid: u32, kind| Event::Wakeup(Wakeup { tid: Tid(tid), target_cpu: 0, kind });
    let ipc = |tid: u32, direction| {
        let channel = Channel { kind: ChannelKind::Pipe, id: 77 };
        Event::Ipc(Ipc { tid: Tid(tid), direction, channel, bytes: 8 })
    };
    for tid in [7u32, 8] {
        let comm = Comm::new(b"task");
        at(0, 0, Event::Task(TaskInfo::new(Tid(tid), Tgid(tid), comm)));
    }
    let fork = Fork { parent: Tid(8), child: Tid(9), child_tgid: Tgid(9), comm: Comm::new(b"child") };
    at(1, 1, switch(0, PrevState::Runnable, 8));
    at(2, 1, Event::Fork(fork));
    at(3, 1, wakeup(9, WakeupKind::New));
    at(6, 1, switch(8, PrevState::Runnable, 9));
    at(9, 1, switch(9, PrevState::Sleeping, 8));
    for round in 0..8 {
        let us = 100 * (round + 1);
        at(us, 0, switch(0, PrevState::Runnable, 7));
        at(us + 10, 0, switch(7, PrevState::Sleeping, 0));
        at(us + 11, 0, Event::IdleState(Some(1)));
        at(us + 12, 0, Event::Tick(Tick { due_ns: START_NS + (us + 11) * US }));
        at(us + 13, 0, Event::IrqEnter(Irq::LocalTimer));
        let timer = TimerExpire {
            tid: Tid(7),
            kind: TimerKind::Sleep,
            deadline_ns: START_NS + (us + 12) * US,
            latest_ns: START_NS + (us + 13) * US,
        };
        at(us + 14, 0, Event::TimerExpire(timer));
        at(us + 15, 0, Event::Waking(Waking { waker: Tid(0), wakee: Tid(7), context: Context::Hardirq }));
        at(us + 16, 0, wakeup(7, WakeupKind::Again));
        at(us + 17, 0, Event::IrqExit(Irq::LocalTimer));
        at(us + 18, 0, Event::IdleState(None));
        at(us + 18, 0, Event::NeedResched(NeedResched { tid: Tid(0), target_cpu: 0, urgency: Urgency::Now }));
        at(us + 19, 0, Event::ScheduleEnter);
        at(us + 20, 0, switch(0, PrevState::Runnable, 7));
        at(us + 21, 0, Event::ScheduleExit);
        at(us + 22, 0, ipc(7, Direction::Write));
        at(us + 23, 1, ipc(8, Direction::Read));
        at(us + 24, 0, Event::Mark(Mark { tid: Tid(7), text: "round".into() }));
        at(us + 25, 0, Event::IrqEnter(Irq::Device(5)));
        at(us + 27, 0, Event::IrqExit(Irq::Device(5)));
        at(us + 28, 0, switch(7, PrevState::Sleeping, 0));
        at(us + 30, 1, waking(8, 9));
        at(us + 31, 1, wakeup(9, WakeupKind::Again));
        at(us + 32, 1, Event::NeedResched(NeedResched { tid: Tid(8), target_cpu: 1, urgency: Urgency::Now }));
        at(us + 39, 1, Event::Stack(Stack { tid: Tid(8), frames: ["work".into()].into() }));
        at(us + 40, 1, switch(8, PrevState::Runnable, 9));
        at(us + 42, 1, waking(9, 7));
        at(us + 43, 1, wakeup(7, WakeupKind::Again));
        at(us + 44, 1, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 1, to_cpu: 0 }));
        at(us + 45, 1, Event::Migrate(Migrate { tid: Tid(8), from_cpu: 0, to_cpu: 1 }));
        at(us + 46, 1, Event::Migrate(Migrate { tid: Tid(9), from_cpu: 0, to_cpu: 1 }));
        at(us + 60, 1, switch(9, PrevState::Sleeping, 8));
    }
    events.sort_by_key(|stamped| stamped.time_ns);
    events
}

/// The group of an event, and the kinds of events that it proves.
fn belongs(event: &Event) -> (Group, Kinds) {
    let group = match event {
        Event::TimerExpire(_) => Group::Timer,
        Event::IrqEnter(_) | Event::IrqExit(_) | Event::SoftirqEnter(_) | Event::SoftirqExit(_) => Group::Irq,
        Event::NeedResched(_) | Event::ScheduleEnter | Event::ScheduleExit => Group::Resched,
        Event::Ipc(_) => Group::Ipc,
        Event::Mark(_) => Group::Mark,
        Event::Stack(_) => Group::Stack,
        Event::IdleState(_) => Group::Idle,
        _ => Group::Sched,
    };
    (group, Kinds::of(event))
}

/// The findings of a trace that lacks these groups and kinds.
fn findings(lacking: &[Group], kinds: &[Kind]) -> Findings {
    let groups = Groups::from_iter(Group::ALL.into_iter().filter(|group| !lacking.contains(group)));
    let header = Header {
        cpus: 2,
        hz: Some(10_000),
        tick_phase_ns: vec![Some(0); 2],
        start_ns: START_NS,
        groups,
        unproven: kinds.iter().copied().collect(),
        ..Header::default()
    };
    let mut engine = Engine::new(&header, Selection::default(), Options::default()).unwrap();
    for mut stamped in events() {
        let (group, signs) = belongs(&stamped.event);
        if let Event::Switch(switch) = &mut stamped.event {
            switch.stolen_ns *= i32::from(!kinds.contains(&Kind::Stolen));
        } else if lacking.contains(&group) || kinds.iter().any(|&kind| signs.contains(kind)) {
            continue;
        }
        engine.push(&stamped);
    }
    let end_ns = Some(START_NS + 1_000 * US);
    engine.finish(TraceTotals { bytes: 99, end_ns, ..TraceTotals::default() })
}

fn json(findings: &Findings) -> Value {
    serde_json::to_value(Json(findings)).unwrap()
}

/// How many numbers at each path are above or below 0, and how many are 0. Tasks and CPUs are kept apart.
fn figures(value: &Value, path: &str, into: &mut BTreeMap<String, (u64, u64)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                figures(field, &format!("{path}.{name}"), into);
            }
        }
        Value::Array(items) => {
            for item in items {
                let key = item.get("tid").or(item.get("cpu")).map_or(String::new(), Value::to_string);
                figures(item, &format!("{path}[{key}]"), into);
            }
        }
        Value::Number(number) => {
            let (figures, zeros) = into.entry(path.to_owned()).or_default();
            let is_zero = number.as_f64() == Some(0.0);
            *(if is_zero { zeros } else { figures }) += 1;
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn figures_of(findings: &Findings) -> BTreeMap<String, (u64, u64)> {
    let mut into = BTreeMap::new();
    figures(&json(findings), "", &mut into);
    into
}

/// Every value at a path such as `cpus[].irq_ns`.
fn at_path<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    path.split('.').fold(vec![value], |values, step| match step.strip_suffix("[]") {
        Some(step) => values.iter().flat_map(|value| value[step].as_array().into_iter().flatten()).collect(),
        None => values.iter().filter_map(|value| value.get(step)).collect(),
    })
}

/// The cases of missing events: each group, each kind, and sets that other recorders leave out together.
fn cases() -> Vec<(Vec<Group>, Vec<Kind>)> {
    let groups = Group::ALL.into_iter().filter(|&group| group != Group::Sched);
    let kinds = [Kind::Migration, Kind::Tick, Kind::Birth, Kind::Stolen];
    let mut cases: Vec<_> = groups.map(|group| (vec![group], Vec::new())).collect();
    cases.extend(kinds.map(|kind| (Vec::new(), vec![kind])));
    cases.push((Vec::new(), vec![Kind::Waking]));
    cases.push((Vec::new(), vec![Kind::Waking, Kind::Wakeup]));
    cases.push((vec![Group::Timer, Group::Irq, Group::Resched, Group::Ipc], Kind::ALL.to_vec()));
    cases
}

#[test]
fn no_figure_is_zero_because_its_events_are_missing() {
    let whole = figures_of(&findings(&[], &[]));
    for wanted in
        [".tasks[7].wakeups", ".tasks[7].blocked_ns", ".tasks[9].runnable_wait_ns", ".cpus[0].ticks"]
    {
        assert!(whole[wanted].0 > 0, "{wanted} is above 0 in the whole trace");
    }
    for (groups, kinds) in cases() {
        for (path, (figures, zeros)) in figures_of(&findings(&groups, &kinds)) {
            let told = whole.get(&path).map_or(0, |whole| whole.0);
            assert!(zeros == 0 || figures > 0 || told == 0, "without {groups:?} {kinds:?}: {path} is 0");
        }
    }
}

#[test]
fn each_missing_field_is_null_and_says_what_to_record() {
    for (groups, kinds) in cases() {
        let found = findings(&groups, &kinds);
        let report = json(&found);
        let missing = report["missing"].as_object().unwrap();
        assert!(!missing.is_empty(), "{groups:?} {kinds:?}");
        for path in missing.keys() {
            let values = at_path(&report, path);
            assert!(values.iter().all(|value| value.is_null()), "{groups:?} {kinds:?}: {path} is {values:?}");
        }
        let lacks: Vec<Kind> = found.trace.lacks.iter().collect();
        assert_eq!(lacks, kinds);
    }
}

#[test]
fn a_kind_that_turns_up_is_not_missing() {
    let header =
        Header { start_ns: START_NS, unproven: Kind::ALL.into_iter().collect(), ..Header::default() };
    let mut engine = Engine::new(&header, Selection::default(), Options::default()).unwrap();
    events().iter().for_each(|stamped| _ = engine.push(stamped));
    let found = engine.finish(TraceTotals::default());
    assert!(found.trace.lacks.is_empty());
    assert_eq!(json(&found)["trace"]["lacks"], serde_json::json!([]));
}

#[test]
fn switches_alone_make_dashes_and_one_line_of_advice() {
    let found = findings(&[], &Kind::ALL);
    let plain = Style::new(160, Colour::Plain);
    let summary = text::summary(&found, plain);
    let line = "No wake-ups in this file: record `sched_waking` too.";
    assert_eq!(summary.matches(line).count(), 1, "{summary}");
    assert!(summary.contains("Longest known wait: "), "{summary}");
    let row = summary.lines().find(|line| line.contains("task 7")).unwrap();
    assert!(row.split_whitespace().filter(|&cell| cell == "-").count() >= 3, "{row}");
    for (name, dashed) in [("dispatch", true), ("cpu", true), ("graph", false), ("wakeup", false)] {
        let page = text::analysis(name, &found, plain).unwrap();
        assert!(page.contains(line), "{page}");
        assert_eq!(page.contains(" - "), dashed, "{page}");
    }
}

#[test]
fn wake_ups_without_wakings_leave_out_the_wakers_alone() {
    let found = findings(&[], &[Kind::Waking]);
    let report = json(&found);
    assert!(report["edges"].is_null() && report["wakeup"].is_null() && report["frames"].is_null());
    let sleeper = found.tasks.iter().find(|task| task.who.tid == Tid(7)).unwrap();
    assert!(sleeper.blocked_ns.unwrap() > 0 && sleeper.wakeups.unwrap() > 0);
    let summary = text::summary(&found, Style::new(160, Colour::Plain));
    assert!(summary.contains("No wakings in this file"), "{summary}");
}

#[test]
fn wake_ups_that_are_missing_in_part_are_counted() {
    let mut found = findings(&[], &[]);
    found.trace.oddities.missing_wakeup = 20;
    let summary = text::summary(&found, Style::new(160, Colour::Plain));
    assert!(summary.contains("20 wake-ups are missing."), "{summary}");
    found.trace.oddities.missing_wakeup = 0;
    assert!(!text::summary(&found, Style::new(160, Colour::Plain)).contains("are missing"));
}
