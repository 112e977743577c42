//! The daemon's answers: root gets everything, each user gets the user's own part, and no user learns the
//! keys of another user.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spry_system_tests::desk::{Daemon, Desk, Program, as_nobody, await_some};
use spry_system_tests::{need_root, spry};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;
/// The number of a user without a display and without input.
const STRANGER: u32 = 65_533;
/// The number of no existing process: the kernel's largest number is 2^22.
const ABSENT: u32 = 4_194_305;

/// The number of answers that shows whether they differ.
const ENOUGH: usize = 100;
/// A busy machine gives that many answers after this time at the latest.
const PATIENCE: Duration = Duration::from_secs(60);

const LETTER: &str =
    "iDear all, this is a letter that takes a while to type, and nobody will ever read it. Yours, xdotool";
const HUNDRED: &str =
    "iA hundred keys in three seconds are a person in a hurry, and what they are is not to be counted, ok";

/// A daemon, a desk of root, a desk of the user `nobody`, and for each user a program that only waits.
struct World {
    directory: TempDir,
    daemon: Daemon,
    roots: Desk,
    nobodys: Desk,
    nobodys_sleep: Program,
    strangers_sleep: Program,
}

fn as_stranger(command: &mut Command) -> &mut Command {
    command.uid(STRANGER).gid(STRANGER)
}

impl World {
    fn new() -> World {
        let directory = tempfile::tempdir().expect("scratch space");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let daemon = Daemon::start(directory.path(), &["--observe-only", "--trust-synthetic"]);
        World {
            roots: Desk::new(),
            nobodys: Desk::of_nobody(),
            nobodys_sleep: Program::start(as_nobody(Command::new("sleep").arg("600"))),
            strangers_sleep: Program::start(as_stranger(Command::new("sleep").arg("600"))),
            directory,
            daemon,
        }
    }

    fn ask(&self, uid: u32, question: &Value) -> Value {
        Connection::of(uid, &self.daemon.socket).ask(question)
    }

    fn status(&self, uid: u32) -> Value {
        self.ask(uid, &json!({"ask": "status"}))["status"].take()
    }

    fn explain(&self, uid: u32, tgid: u32) -> Value {
        self.ask(uid, &json!({"ask": "explain", "tgid": tgid}))
    }

    /// The output of `spry` when a user runs it.
    fn says(&self, uid: u32, args: &[&str]) -> String {
        let program = self.directory.path().join("spry");
        if !program.exists() {
            fs::copy(spry(), &program).expect("a copy");
        }
        let mut command = Command::new(program);
        command.env("SPRY_SOCKET", &self.daemon.socket).args(args).uid(uid).gid(uid);
        let output = command.output().expect("spry starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("spry prints UTF-8")
    }
}

/// Calls `act` in a thread that changes to another user and then ends: the kernel takes the user of a
/// connection or of a message from the thread that makes it.
fn as_user<T: Send + 'static>(uid: u32, act: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        let user = rustix::fs::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(user, user, user).expect("root may be anybody");
        act()
    });
    thread.join().expect("it is done")
}

/// A connection of a user to the daemon.
struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    fn of(uid: u32, socket: &Path) -> Connection {
        let socket = PathBuf::from(socket);
        let stream = as_user(uid, || UnixStream::connect(socket).expect("the daemon listens"));
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
        Connection { stream: BufReader::new(stream) }
    }

    fn say(&mut self, question: &Value) {
        writeln!(self.stream.get_mut(), "{question}").expect("the daemon hears");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the daemon answers");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Asks a question. If the user has asked too many questions in this second, it asks again later.
    fn ask(&mut self, question: &Value) -> Value {
        loop {
            self.say(question);
            let answer = self.hear();
            if answer["error"]["kind"] != "busy" {
                return answer;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn task(status: &Value, tgid: u32) -> Option<&Value> {
    status["tasks"].as_array().expect("a list").iter().find(|task| task["tgid"] == tgid)
}

/// An answer as text, in which the number of the queried process is replaced.
fn without(answer: &Value, tgid: u32) -> String {
    answer.to_string().replace(&tgid.to_string(), "N")
}

#[test]
fn each_row_of_the_table_is_as_it_says() {
    need_root();
    let world = World::new();
    let _typists = [world.roots.type_text(LETTER), world.nobodys.type_text(LETTER)];
    let has_level = |status: &Value, tgid| task(status, tgid).is_some_and(|task| !task["level"].is_null());
    await_some("both editors in use, to root", || {
        let status = world.status(0);
        [&world.roots, &world.nobodys].iter().all(|desk| has_level(&status, desk.editor)).then_some(())
    });
    await_some("the owner's editor in use, to the owner", || {
        has_level(&world.status(NOBODY), world.nobodys.editor).then_some(())
    });
    processes_are_the_caller_s_own(&world);
    use_is_told_to_its_owner_with_the_whole_way(&world);
    devices_are_the_caller_s_own(&world);
    figures_that_follow_everybody_are_root_s(&world);
    another_user_s_process_is_refused_as_one_that_is_not_there(&world);
    neighbours_are_the_caller_s_own(&world);
    warnings_that_tell_of_users_are_root_s(&world);
    a_watch_tells_no_more_than_a_status(&world);
    spry_says_that_others_are_left_out(&world);
}

fn processes_are_the_caller_s_own(world: &World) {
    let busy = |as_user: fn(&mut Command) -> &mut Command| {
        Program::start(as_user(Command::new("sh").args(["-c", "while :; do :; done"])))
    };
    let (own, others) = (busy(as_nobody), busy(as_stranger));
    let status = await_some("the busy program, to its owner", || {
        Some(world.status(NOBODY)).filter(|status| task(status, own.tgid()).is_some())
    });
    let others = [others.tgid(), world.roots.terminal.tgid(), world.roots.editor, world.roots.server.tgid()];
    for tgid in others.into_iter().chain([world.daemon.program.tgid()]) {
        assert_eq!(task(&status, tgid), None, "{tgid} is of another user");
    }
    assert_eq!(status["scope"], "own");
    let stranger = world.status(STRANGER);
    for tgid in [own.tgid(), world.nobodys.terminal.tgid(), world.nobodys.editor] {
        assert_eq!(task(&stranger, tgid), None, "{tgid} is of another user");
    }
}

fn use_is_told_to_its_owner_with_the_whole_way(world: &World) {
    for uid in [0, NOBODY] {
        let desk = &world.nobodys;
        let status = world.status(uid);
        let editor = task(&status, desk.editor).expect("it is in use");
        let steps = editor["path"].as_array().expect("a way");
        let names: Vec<&str> = steps.iter().filter_map(|step| step["name"].as_str()).collect();
        assert_eq!(names, [&format!("display {}", desk.display), "Xvfb", "xterm", "vi"], "{editor}");
        assert_eq!(editor["class"], "interactive");
        for key in ["level", "distance", "shortcut", "quantum_ms", "input_per_s", "output_per_s"] {
            assert!(!editor[key].is_null(), "{key} of {editor}");
        }
        let terminal = task(&status, desk.terminal.tgid()).expect("it is in use");
        assert!(terminal["input_per_s"].as_f64().expect("a number") > 0.0, "{terminal}");
        let explained = world.explain(uid, desk.editor);
        assert_eq!(explained["explanation"]["in_use"], true, "{explained}");
        assert_eq!(explained["explanation"]["credits_of"], desk.terminal.tgid(), "{explained}");
    }
}

fn devices_are_the_caller_s_own(world: &World) {
    let names = |uid| -> BTreeSet<String> {
        let status = world.status(uid);
        let devices = status["devices"].as_array().expect("a list").iter();
        devices.filter_map(|device| device["name"].as_str().map(str::to_owned)).collect()
    };
    let report = world.directory.path().join("report.sock").display().to_string();
    let [roots, nobodys] = [&world.roots, &world.nobodys].map(|desk| desk.display.clone());
    assert!(names(0).is_superset(&BTreeSet::from([roots, nobodys.clone(), report.clone()])));
    assert_eq!(names(NOBODY), BTreeSet::from([nobodys, report.clone()]));
    assert_eq!(names(STRANGER), BTreeSet::from([report]));
}

fn figures_that_follow_everybody_are_root_s(world: &World) {
    let fields =
        ["/policy_ns_last", "/lost_edges", "/daemon_cpu_share", "/rounds/early", "/rounds/longest_ns"];
    for uid in [0, NOBODY, STRANGER] {
        let status = world.status(uid);
        for field in fields {
            let value = status.pointer(field).unwrap_or_else(|| panic!("{field} of {status}"));
            assert_eq!(value.is_null(), uid != 0, "{field} to {uid}");
        }
        assert!(uid == 0 || status["graph"].is_null(), "{status}");
        assert!(status.get("tuning").is_some(), "the knobs are told to {uid}: {status}");
        for field in [
            "/version",
            "/policy",
            "/actuator",
            "/acting/state",
            "/acting/ejections",
            "/tgid",
            "/uptime_s",
            "/rounds/regular",
            "/rounds/missed",
            "/quanta",
        ] {
            assert!(status.pointer(field).is_some_and(|value| !value.is_null()), "{field} to {uid}");
        }
    }
}

fn another_user_s_process_is_refused_as_one_that_is_not_there(world: &World) {
    let others = [world.roots.editor, world.nobodys.editor, world.nobodys_sleep.tgid(), 1, 2];
    let absent = without(&world.explain(STRANGER, ABSENT), ABSENT);
    assert!(absent.contains("no_process"), "{absent}");
    for tgid in others {
        assert_eq!(without(&world.explain(STRANGER, tgid), tgid), absent);
    }
    let set = |tgid: u32, class: &str| {
        let answer = world.ask(STRANGER, &json!({"ask": "set", "tgid": tgid, "class": class}));
        without(&answer, tgid)
    };
    for class in ["idle", "interactive", "auto"] {
        for tgid in others {
            assert_eq!(set(tgid, class), set(ABSENT, class));
        }
    }
    let own = world.explain(STRANGER, world.strangers_sleep.tgid());
    assert_eq!(own["explanation"]["in_use"], false, "{own}");
}

fn neighbours_are_the_caller_s_own(world: &World) {
    let of = |uid| -> BTreeSet<u64> {
        let explained = world.explain(uid, world.nobodys.terminal.tgid());
        let lists = ["depends_on", "needed_by"].map(|list| explained["explanation"][list].clone());
        let all = lists.iter().filter_map(Value::as_array).flatten();
        all.filter_map(|neighbour| neighbour["tgid"].as_u64()).collect()
    };
    let is_nobodys = |tgid: &u64| {
        let status = fs::read_to_string(format!("/proc/{tgid}/status")).unwrap_or_default();
        status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n"))
    };
    let own = of(NOBODY);
    assert!(own.contains(&u64::from(world.nobodys.editor)), "{own:?}");
    assert!(own.iter().all(is_nobodys), "{own:?}");
}

fn warnings_that_tell_of_users_are_root_s(world: &World) {
    // The daemon does not trust reports of the user `nobody`.
    let report = world.directory.path().join("report.sock");
    as_user(NOBODY, move || {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.send_to(b"self 1 1", report).expect("the daemon listens");
    });
    let of = |uid| world.status(uid)["warnings"].to_string();
    await_some("the warning, to root", || of(0).contains(&format!("user {NOBODY}")).then_some(()));
    for uid in [NOBODY, STRANGER] {
        assert!(!of(uid).contains("user "), "{}", of(uid));
        assert!(of(uid).contains("--trust-synthetic"), "what concerns all is told to all: {}", of(uid));
    }
}

fn a_watch_tells_no_more_than_a_status(world: &World) {
    let mut watch = Connection::of(STRANGER, &world.daemon.socket);
    let first = watch.ask(&json!({"ask": "watch"}));
    let status = same(json!({"status": world.status(STRANGER)}));
    for answer in [first, watch.hear()] {
        assert_eq!(same(answer), status);
    }
}

fn spry_says_that_others_are_left_out(world: &World) {
    let top = world.says(NOBODY, &["top", "--once", "--width", "120"]);
    assert!(top.lines().any(|line| line.contains("> xterm > vi")), "{top}");
    assert!(top.lines().last().is_some_and(|line| line.contains("sudo spry top")), "{top}");
    let status = world.says(STRANGER, &["sched", "status"]);
    assert!(status.contains("sudo spry top") && !status.contains("of a CPU"), "{status}");
    let explained =
        world.says(NOBODY, &["explain", &world.nobodys_sleep.tgid().to_string(), "--width", "300"]);
    assert!(explained.contains("others' are root's to see"), "{explained}");
}

/// An answer as text, without the fields that depend on the time.
fn same(mut answer: Value) -> String {
    for clock in
        ["/status/uptime_s", "/status/acting/since_s", "/status/rounds/regular", "/status/rounds/missed"]
    {
        if let Some(value) = answer.pointer_mut(clock) {
            *value = Value::Null;
        }
    }
    answer.to_string()
}

/// Asks as fast as the daemon allows, for this time, or longer on a machine that gives fewer than [`ENOUGH`]
/// answers in it. Returns the different answers that the user gets, and the number of answers.
fn answers(world: &World, uid: u32, length: Duration) -> (BTreeSet<String>, usize) {
    let until = Instant::now() + length;
    let mut watch = Connection::of(uid, &world.daemon.socket);
    let mut heard = vec![same(watch.ask(&json!({"ask": "watch"})))];
    let watcher = thread::spawn(move || {
        while Instant::now() < until {
            heard.push(same(watch.hear()));
        }
        heard
    });
    let desk = &world.nobodys;
    let asked = [
        world.strangers_sleep.tgid(),
        desk.server.tgid(),
        desk.terminal.tgid(),
        desk.editor,
        world.daemon.program.tgid(),
        ABSENT,
    ];
    let explain = |tgid: &u32| json!({"ask": "explain", "tgid": tgid});
    let set = json!({"ask": "set", "tgid": desk.editor, "class": "idle"});
    let questions: Vec<Value> = asked.iter().map(explain).chain([json!({"ask": "status"}), set]).collect();
    let mut connection = Connection::of(uid, &world.daemon.socket);
    let (mut all, mut count) = (BTreeSet::new(), 0);
    let latest = until + PATIENCE;
    while Instant::now() < until || (count < ENOUGH && Instant::now() < latest) {
        for question in &questions {
            all.insert(same(connection.ask(question)));
            count += 1;
        }
    }
    let heard = watcher.join().expect("the watch");
    count += heard.len();
    all.extend(heard);
    (all, count)
}

#[test]
fn a_hundred_keys_of_one_user_change_no_answer_to_another() {
    need_root();
    let world = World::new();
    // The keys take as long.
    let window = Duration::from_millis(5_500);
    await_some("nobody's display is watched", || {
        let status = world.status(0);
        let mut devices = status["devices"].as_array().expect("a list").iter();
        devices
            .any(|device| device["name"] == world.nobodys.display && device["state"] == "watched")
            .then_some(())
    });
    // The first questions find no measurements, so their answers are not compared.
    answers(&world, STRANGER, Duration::from_secs(2));
    let figures = || world.status(0)["rounds"]["early"].as_u64().expect("a number");
    let before = figures();
    let (quiet, quiet_count) = answers(&world, STRANGER, window);
    let between = figures();
    let typist = world.nobodys.type_at(18, HUNDRED);
    let (typed, typed_count) = answers(&world, STRANGER, window);
    let after = figures();
    drop(typist);
    println!(
        "{quiet_count} answers without keys, {typed_count} with; early rounds {before} {between} {after}"
    );
    println!(
        "{} different answers: {} and {} without and with",
        quiet.union(&typed).count(),
        quiet.len(),
        typed.len()
    );
    let status = world.status(0);
    let terminal = task(&status, world.nobodys.terminal.tgid()).expect("it was typed at");
    assert!(!terminal["level"].is_null() && after > between, "the daemon saw no keys: {terminal}");
    assert!(quiet_count >= ENOUGH && typed_count >= ENOUGH, "{quiet_count} and {typed_count} answers");
    let differ: Vec<&String> = quiet.symmetric_difference(&typed).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}
