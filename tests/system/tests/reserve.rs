//! Reservations by the daemon, enforced by the kernel's SCHED_DEADLINE: the users that get them, the refused
//! requests with their reasons, and the state after a task or the daemon has ended.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_sys::clock::process_cpu_ns;
use spry_sys::schedule;
use spry_system_tests::desk::{Daemon, Program, as_nobody, await_some, end, refused};
use spry_system_tests::{need_root, spry};
use tempfile::TempDir;

/// The number of no existing process: the kernel's largest number is 2^22.
const ABSENT: &str = "4194303";
const LOOP: &str = "while :; do :; done";

/// A daemon that acts, and a copy of `spry` that every user may start.
struct World {
    daemon: Daemon,
    program: PathBuf,
    log: PathBuf,
    directory: TempDir,
}

impl World {
    fn new(args: &[&str]) -> World {
        need_root();
        let directory = tempfile::tempdir().expect("scratch space");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let (program, log) = (directory.path().join("spry"), directory.path().join("log"));
        fs::copy(spry(), &program).expect("a copy");
        let daemon = World::daemon(&directory, &log, args);
        World { daemon, program, log, directory }
    }

    fn daemon(directory: &TempDir, log: &PathBuf, args: &[&str]) -> Daemon {
        let mut command = Daemon::command(directory.path(), &["--actuator", "fair"]);
        command.args(args).stderr(File::options().append(true).create(true).open(log).expect("a log"));
        Daemon::start_by(&mut command, directory.path())
    }

    fn reserve(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("SPRY_SOCKET", &self.daemon.socket).arg("reserve").args(words.split_whitespace());
        command
    }

    /// Reserves time for a thread, as root.
    fn open(&self, terms: &str, tid: u32) -> Output {
        self.reserve(&format!("{terms} --tid {tid}")).output().expect("spry starts")
    }

    fn list(&self) -> Vec<Value> {
        list(&self.daemon.says(&["reservations", "--json"]))
    }
}

fn list(json: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(json).expect("JSON");
    all["reservations"].as_array().expect("a list").clone()
}

fn sleeper() -> Program {
    Program::start(Command::new("sleep").arg("600"))
}

fn class(tid: u32) -> i32 {
    schedule::policy(tid).expect("it is there")
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_program_that_never_sleeps_keeps_to_its_budget() {
    let world = World::new(&[]);
    let mut command = world.reserve("--budget 20ms --period 100ms -- sh -c");
    let program = Program::start(command.arg(LOOP).stderr(Stdio::piped()));
    let tid = program.tgid();
    let told = await_some("the reservation", || world.list().pop().filter(|one| one["comm"] == "sh"));
    assert_eq!(
        (&told["covers"]["thread"]["tid"], &told["slot"], &told["uid"]),
        (&tid.into(), &0.into(), &0.into())
    );
    assert_eq!(class(tid), libc::SCHED_DEADLINE);
    let (began, before_ns) = (Instant::now(), process_cpu_ns(tid).expect("it is there"));
    thread::sleep(Duration::from_secs(3));
    let (took, ran_ns) = (began.elapsed(), process_cpu_ns(tid).expect("it is there") - before_ns);
    let share = ran_ns as f64 / took.as_nanos() as f64;
    println!("a loop with 20 ms of 100 ms had {:.2} % of a CPU", share * 100.0);
    // The kernel ends a budget at a tick, which is up to 10 ms late.
    assert!((0.19..=0.31).contains(&share), "{share}");
    let told = world.list().pop().expect("it is there");
    let (got, asked) =
        (told["got_ns"].as_f64().expect("a number"), told["asked_ns"].as_f64().expect("a number"));
    assert!(asked > 5e8 && (0.8..1.6).contains(&(got / asked)) && told["stolen_ns"].is_null(), "{told}");
    let table = world.daemon.says(&["reservations"]);
    assert!(table.contains("20000us") && table.contains(&format!("sh {tid}")), "{table}");
    done(&world.reserve("--release 0").output().expect("spry starts"));
    assert_eq!((class(tid), world.list().len()), (libc::SCHED_OTHER, 0));
}

#[test]
fn a_reserved_program_exits_as_usual_and_its_children_have_none() {
    let world = World::new(&[]);
    let run = |words: &str, script: &[&str]| world.reserve(words).args(script).output().expect("spry starts");
    let terms = "--budget 30ms --period 100ms --";
    let output = run(terms, &["sh", "-c", "chrt -p $$; sh -c 'chrt -p $$; exit 0'; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let classes: Vec<&str> = said.lines().filter(|line| line.contains("policy")).collect();
    assert!(classes[0].contains("SCHED_DEADLINE") && classes[1].contains("SCHED_OTHER"), "{said}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.starts_with("spry: 30000us of every 100000us on CPU ") && told.lines().count() == 1,
        "{told}"
    );
    assert!(told.contains("SCHED_DEADLINE stands in"), "{told}");
    await_some("its end", || world.list().is_empty().then_some(()));
    assert_eq!(run(terms, &["/no/such/program"]).status.code(), Some(127));
    refused(&run("--budget 99ms --period 100ms --", &["true"]), "at most 90000us of 100000us would fit");
    assert_eq!(run("--budget 99ms --period 100ms --", &["true"]).status.code(), Some(125));
    await_some("their end", || world.list().is_empty().then_some(()));
}

#[test]
fn impossible_terms_are_refused_in_one_line_with_limits() {
    let world = World::new(&[]);
    let program = sleeper();
    let tid = program.tgid();
    refused(&world.open("--budget 0 --period 10ms", tid), "at least 5us and at most the period");
    refused(&world.open("--budget -5us --period 10ms", tid), "at least 5us and at most the period");
    refused(&world.open("--budget 11ms --period 10ms", tid), "at most the period");
    refused(&world.open("--budget 10us --period 99us", tid), "100us to 4000000us");
    refused(&world.open("--budget 1s --period 5s", tid), "100us to 4000000us");
    refused(
        &world.reserve(&format!("--budget 1ms --period 9ms --tid {ABSENT}")).output().unwrap(),
        "no process",
    );
    refused(&world.open("--budget 1ms --period 10ms", 2), "threads of the kernel");
    refused(&world.open("--budget 1ms --period 10ms", world.daemon.program.tgid()), "of the scheduler");
    refused(&world.open("--budget 9.5ms --period 10ms", tid), "at most 9000us of 10000us would fit");
    refused(&world.open("--budget 1ms --period 10ms --cpu 1000", tid), "may not run on CPU 1000");
    let group = format!("--budget 1ms --period 10ms --group --pid {tid}");
    refused(&world.reserve(&group).output().unwrap(), "reserve one thread");
    refused(&world.reserve("--release 7").output().unwrap(), "no reservation in slot 7");
    let pinned = Program::start(Command::new("taskset").args(["-c", "0", "sleep", "600"]));
    await_some("its CPU", || {
        let allowed = spry_sys::cpus::Cpus::allowed_to(pinned.tgid()).ok()?;
        (allowed.numbers().count() == 1).then_some(())
    });
    let output = world.open("--budget 1ms --period 10ms", pinned.tgid());
    match thread::available_parallelism().expect("it is known").get() {
        1 => done(&output),
        _ => refused(&output, "may run on 1"),
    }
    assert_eq!(class(tid), libc::SCHED_OTHER);
}

#[test]
fn users_reserve_and_see_their_own_tasks_alone() {
    let world = World::new(&["--user-reservations", "2"]);
    let (mine, other, roots) = (
        Program::start(as_nobody(Command::new("sleep").arg("600"))),
        Program::start(as_nobody(Command::new("sleep").arg("600"))),
        sleeper(),
    );
    let third = Program::start(as_nobody(Command::new("sleep").arg("600")));
    await_some("their users", || {
        let is_theirs = |program: &Program| {
            let status = fs::read_to_string(format!("/proc/{}/status", program.tgid())).ok()?;
            status.contains("Uid:\t65534\t65534\t65534\t65534").then_some(())
        };
        is_theirs(&mine).and(is_theirs(&other)).and(is_theirs(&third))
    });
    // The daemon serves each user for a few milliseconds of a second: in the next second it answers again.
    let nobody = |words: &str| {
        await_some("an answer", || {
            let output = as_nobody(&mut world.reserve(words)).output().expect("spry starts");
            let is_later = String::from_utf8_lossy(&output.stderr).contains("ask again later");
            (!is_later).then_some(output)
        })
    };
    let ask = |terms: &str, program: &Program| nobody(&format!("{terms} --tid {}", program.tgid()));
    let absent = nobody(&format!("--budget 1ms --period 10ms --tid {ABSENT}"));
    let theirs = ask("--budget 1ms --period 10ms", &roots);
    let text = |output: &Output, number: &str| String::from_utf8_lossy(&output.stderr).replace(number, "N");
    assert_eq!(text(&theirs, &roots.tgid().to_string()), text(&absent, ABSENT));
    refused(&ask("--budget 3ms --period 10ms", &mine), "at most 2500us of 10000us would fit");
    refused(&ask("--budget 5us --period 499us", &mine), "500 us at least");
    done(&ask("--budget 1ms --period 10ms", &mine));
    refused(&ask("--budget 2ms --period 10ms", &other), "at most 1500us of 10000us would fit");
    done(&ask("--budget 1ms --period 10ms", &other));
    refused(&ask("--budget 0.1ms --period 10ms", &third), "you have 2 reservations");
    done(&world.open("--budget 1ms --period 10ms", roots.tgid()));
    let mut command = Command::new(&world.program);
    command.env("SPRY_SOCKET", &world.daemon.socket).args(["reservations", "--json"]);
    let own = as_nobody(&mut command).output().expect("spry starts");
    let own = list(&String::from_utf8_lossy(&own.stdout));
    assert!(own.len() == 2 && own.iter().all(|one| one["uid"] == 65_534), "{own:?}");
    let all = world.list();
    assert_eq!(all.len(), 3);
    let roots_slot = all.iter().find(|one| one["uid"] == 0).expect("it is there")["slot"].to_string();
    refused(&nobody(&format!("--release {roots_slot}")), "no reservation in slot");
    assert_eq!(world.list().len(), 3);
}

#[test]
fn a_hundred_opens_and_closes_leave_nothing() {
    let world = World::new(&[]);
    let program = sleeper();
    for _ in 0..100 {
        // The kernel keeps a thread's bandwidth until the end of its period.
        await_some("room in the kernel", || {
            let output = world.open("--budget 8ms --period 10ms --cpu 0", program.tgid());
            let is_of_the_kernel = String::from_utf8_lossy(&output.stderr).contains("SCHED_DEADLINE has too");
            assert!(output.status.success() || is_of_the_kernel, "{output:?}");
            output.status.success().then_some(())
        });
        done(&world.reserve("--release 0").output().expect("spry starts"));
    }
    assert_eq!((class(program.tgid()), world.list().len()), (libc::SCHED_OTHER, 0));
    // The kernel, too, has all bandwidth back soon.
    thread::sleep(Duration::from_millis(200));
    done(&world.open("--budget 90ms --period 100ms --cpu 0", program.tgid()));
    let descriptors =
        || fs::read_dir(format!("/proc/{}/fd", world.daemon.program.tgid())).expect("it is there").count();
    let before = descriptors();
    done(&world.open("--budget 9ms --period 100ms --cpu 0", program.tgid()));
    assert_eq!(descriptors(), before, "new terms take no further descriptor");
}

#[test]
fn a_reservation_outlives_an_exec_and_ends_with_its_thread() {
    let world = World::new(&[]);
    let mut program =
        Program::start(Command::new("sh").args(["-c", "read go; exec sleep 600"]).stdin(Stdio::piped()));
    let tid = program.tgid();
    done(&world.open("--budget 10ms --period 100ms", tid));
    drop(program.0.stdin.take());
    await_some("the new program", || world.list().pop().filter(|one| one["comm"] == "sleep"));
    assert_eq!(class(tid), libc::SCHED_DEADLINE);
    // Two rounds of the daemon's checks change nothing.
    thread::sleep(Duration::from_millis(2_200));
    assert_eq!(world.list().len(), 1);
    end(&mut program, libc::SIGKILL);
    let began = Instant::now();
    await_some("the end", || world.list().is_empty().then_some(()));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn the_end_of_the_daemon_ends_every_reservation_within_a_second() {
    let mut world = World::new(&[]);
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let programs = [sleeper(), sleeper()];
        for program in &programs {
            done(&world.open("--budget 10ms --period 100ms", program.tgid()));
            schedule::set_nice(program.tgid(), 5).expect("it is ours");
        }
        let is_reserved = |program: &Program| class(program.tgid()) == libc::SCHED_DEADLINE;
        assert!(programs.iter().all(is_reserved));
        world.daemon.program.signal(signal);
        let began = Instant::now();
        await_some("the fair class", || (!programs.iter().any(is_reserved)).then_some(()));
        let took = began.elapsed();
        println!("signal {signal}: the fair class after {took:?}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        for program in &programs {
            let stat = fs::read(format!("/proc/{}/stat", program.tgid())).expect("it is there");
            let nice = spry_sys::process::stat_fields(&stat).and_then(|mut fields| fields.nth(16)).unwrap();
            assert_eq!(nice, "5", "what another program set stays");
        }
        world.daemon.program.0.wait().expect("it is ours");
        if signal == libc::SIGKILL {
            world.daemon = World::daemon(&world.directory, &world.log, &[]);
        }
    }
    let log = fs::read_to_string(&world.log).expect("the daemon's log");
    assert!(log.contains("2 reservations have ended"), "{log}");
    let kernel = Command::new("dmesg").output().expect("dmesg starts");
    let kernel = String::from_utf8_lossy(&kernel.stdout);
    assert!(
        kernel.contains("spry-sched: the daemon was killed; what it had changed is as before (threads: 2"),
        "{kernel}"
    );
}

#[test]
fn a_trace_tells_what_a_periodic_thread_needs() {
    need_root();
    let directory = tempfile::tempdir().expect("scratch space");
    let trace = directory.path().join("trace.spry");
    let script = "import time\nwhile True:\n t = time.monotonic()\n while time.monotonic() - t < 0.002: pass\n time.sleep(0.018)";
    let program = Program::start(Command::new("python3").args(["-c", script]));
    let run = |args: &[&str]| {
        let output = Command::new(spry()).args(args).output().expect("spry starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let path = trace.to_str().expect("UTF-8");
    run(&["record", "--duration", "3", "-q", "-o", path]);
    let said = run(&["reserve", "--from-trace", path, "--task", &program.tgid().to_string()]);
    let word = |name: &str| {
        let rest = said.split_once(name).unwrap_or_else(|| panic!("{said}")).1;
        rest.trim_start().split_once("us").expect("a time").0.parse::<f64>().expect("a number")
    };
    let (budget, period) = (word("--budget"), word("--period"));
    assert!((19_000.0..40_000.0).contains(&period) && (1_000.0..period).contains(&budget), "{said}");
    assert!(said.contains("woken") && said.contains("% of the intervals"), "{said}");
}
