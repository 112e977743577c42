//! Tests that answers with data of other users are reduced to the caller's part.

use spry_control::{
    ActingStatus, Credit, CreditKind, Device, Ejection, GraphSize, Neighbour, PolicyName, Quanta, Rounds,
    State, Status, TickCost, Ticks, TimerSlack,
};

use super::*;

/// A caller that owns the processes from number 100 on, and display :1.
struct Caller;

impl Ownership for Caller {
    fn has_process(&self, tgid: u32) -> bool {
        tgid >= 100
    }

    fn has_device(&self, name: &str) -> bool {
        ["display :1", ":1", "report", "/run/report.sock"].contains(&name)
    }
}

fn step(tgid: u32, weight: Option<u32>) -> Step {
    Step {
        tgid: Some(tgid),
        name: format!("p{tgid}"),
        level: Some(1),
        weight,
        input_per_s: Some(3.0),
        output_per_s: Some(0.5),
    }
}

fn device(name: &str) -> Step {
    Step {
        tgid: None,
        name: name.to_owned(),
        level: None,
        weight: None,
        input_per_s: None,
        output_per_s: None,
    }
}

fn process(tgid: u32, path: Vec<Step>) -> TaskStatus {
    TaskStatus {
        tgid,
        comm: format!("p{tgid}"),
        class: TaskClass::Interactive,
        level: Some(3),
        distance: Some(4),
        shortcut: Some(8),
        input_per_s: Some(3.0),
        output_per_s: Some(0.5),
        quantum_ms: Some(50.0),
        cpu_share: Some(0.25),
        frames_per_s: Some(25.0),
        dispatch_us: Some(31.0),
        by_hand: false,
        path,
    }
}

fn is_in_use(mut task: TaskStatus) -> bool {
    redact(&mut task, &Caller);
    task.level.is_some()
}

fn whole(tasks: Vec<TaskStatus>) -> Status {
    let named = |name: &str, kind: &str| Device {
        name: name.to_owned(),
        kind: kind.to_owned(),
        state: "watched".to_owned(),
        tgid: None,
    };
    let reason = "runnable task stall (secret[7] failed to run for 30 s)".to_owned();
    Status {
        scope: Scope::All,
        actuator: "scx".to_owned(),
        uptime_s: 9.0,
        policy_ns_last: Some(1),
        housekeeping_ns_longest: Some(8),
        tuning: None,
        quanta: Quanta::default(),
        ticks: Some(Ticks { over_s: 1.0, all: TickCost::new(9, 9, 9), cpus: Vec::new() }),
        timer_slack: Some(TimerSlack {
            in_use_ns: 1,
            in_use_threads: 2,
            background_ns: 3,
            background_threads: 4,
        }),
        tasks,
        lost_edges: Some(2),
        tgid: 50,
        version: "1".to_owned(),
        policy: PolicyName::Default,
        acting: ActingStatus {
            state: State::Acting,
            since_s: 9.0,
            ejections: 1,
            ejected: Some(Ejection { ago_s: 2.0, reason }),
            retry_in_s: None,
        },
        rounds: Rounds { regular: 9, early: Some(4), missed: 0, longest_ns: Some(5) },
        graph: Some(GraphSize { processes: 6, recycled: 7 }),
        devices: vec![
            named(":0", "x11"),
            named(":1", "x11"),
            named("/dev/pts/3", "terminal"),
            named("/run/report.sock", "report"),
        ],
        daemon_cpu_share: Some(0.01),
        warnings: vec!["7 lines of user 1000 were not counted".to_owned()],
    }
}

#[test]
fn of_a_status_the_caller_s_part_is_left() {
    let own = process(101, vec![device("display :1"), step(100, None), step(101, None)]);
    let others = process(7, vec![device("display :1"), step(7, None)]);
    let told = status(whole(vec![own.clone(), others]), vec!["for all".to_owned()], &Caller);
    assert_eq!(told.scope, Scope::Own);
    assert_eq!(told.tasks, [own], "what is wholly their own is as it was");
    let names: Vec<&str> = told.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, [":1", "/run/report.sock"]);
    assert_eq!(told.warnings, ["for all"]);
    assert_eq!(
        (told.policy_ns_last, told.lost_edges, told.daemon_cpu_share, told.graph),
        (None, None, None, None)
    );
    assert_eq!((told.housekeeping_ns_longest, told.ticks, told.timer_slack), (None, None, None));
    assert_eq!(told.rounds, Rounds { regular: 9, early: None, missed: 0, longest_ns: None });
    assert_eq!((told.tgid, told.acting.ejections), (50, 1), "what is the same to all stays");
    assert!(!told.acting.ejected.unwrap().reason.contains("secret"));
}

#[test]
fn a_device_s_server_may_be_another_s_and_is_only_named() {
    let mut task = process(101, vec![device("display :1"), step(7, None), step(101, Some(2))]);
    redact(&mut task, &Caller);
    assert_eq!(task.level, Some(3));
    let server = &task.path[1];
    assert_eq!((server.tgid, server.name.as_str()), (Some(7), "p7"));
    assert_eq!(
        (server.level, server.weight, server.input_per_s, server.output_per_s),
        (None, None, None, None)
    );
    assert_eq!(task.path[2], step(101, Some(2)));
}

#[test]
fn a_way_over_others_is_no_use() {
    let own = |path| is_in_use(process(101, path));
    assert!(own(vec![device("display :1"), step(101, None)]));
    assert!(own(vec![step(100, None), step(101, Some(1))]), "a compositor of their own");
    assert!(!own(vec![device("display :0"), step(100, None), step(101, None)]), "another's display");
    assert!(!own(vec![device("display :1"), step(7, None), step(8, Some(1)), step(101, Some(1))]));
    assert!(!own(vec![device("display :1"), step(100, None), step(7, Some(1)), step(101, Some(1))]));
    assert!(!own(vec![step(7, None), step(101, Some(1))]), "another's compositor");
    assert!(!own(vec![device("display :1"), step(7, None)]), "nobody's own");
    assert!(!own(vec![device("display :1")]));
    assert!(!own(Vec::new()));
}

#[test]
fn a_process_not_shown_in_use_looks_like_any_other() {
    let path = vec![device("display :0"), step(7, None), step(101, Some(1))];
    let told = status(whole(vec![process(101, path.clone())]), Vec::new(), &Caller);
    let mut plain = process(101, Vec::new());
    plain.class = TaskClass::Other;
    (plain.level, plain.distance, plain.shortcut, plain.quantum_ms) = (None, None, None, None);
    (plain.input_per_s, plain.output_per_s, plain.frames_per_s) = (None, None, None);
    assert_eq!(told.tasks, [plain.clone()]);
    let mut by_hand = TaskStatus { by_hand: true, ..process(101, path) };
    redact(&mut by_hand, &Caller);
    assert_eq!(by_hand, TaskStatus { by_hand: true, class: TaskClass::Interactive, ..plain });
}

fn explained(task: TaskStatus) -> Explanation {
    let neighbour = |tgid| Neighbour { tgid, comm: format!("p{tgid}"), weight: 5, level: Some(1) };
    Explanation {
        scope: Scope::All,
        credits_of: Some(101),
        task,
        in_use: true,
        credits: vec![Credit { kind: CreditKind::Draws, half_edges: 1 }],
        depends_on: Some(vec![neighbour(7), neighbour(102)]),
        needed_by: Some(vec![neighbour(103), neighbour(8)]),
        edge_length: 2,
        set_by_uid: None,
        state: State::Acting,
        actuator: "scx".to_owned(),
    }
}

#[test]
fn of_an_explanation_the_caller_s_part_is_left() {
    let own = process(101, vec![device("display :1"), step(100, None), step(101, None)]);
    let told = explanation(explained(own.clone()), &Caller).unwrap();
    let tgids = |list: &Option<Vec<Neighbour>>| -> Vec<u32> {
        list.iter().flatten().map(|neighbour| neighbour.tgid).collect()
    };
    assert_eq!((tgids(&told.depends_on), tgids(&told.needed_by)), (vec![102], vec![103]));
    assert_eq!(
        (told.task, told.in_use, told.credits_of, told.credits.len()),
        (own.clone(), true, Some(101), 1)
    );
    let by_another = Explanation { credits_of: Some(7), ..explained(own.clone()) };
    let told = explanation(by_another, &Caller).unwrap();
    assert_eq!((told.credits_of, told.credits.len()), (None, 0));
    let over_another = TaskStatus { path: vec![step(7, None), step(101, Some(1))], ..own };
    let told = explanation(explained(over_another), &Caller).unwrap();
    assert_eq!((told.in_use, told.credits_of, told.credits.len()), (false, None, 0));
    assert_eq!(explanation(explained(process(7, Vec::new())), &Caller), None);
}
