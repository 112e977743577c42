//! Requests for real-time priorities on the bus: threads get reservations or nice values within the limits of
//! users, for any request and any number of requests. The bus is a private one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_sys::clock::process_cpu_ns;
use spry_sys::schedule;
use spry_system_tests::desk::{Daemon, Program, await_some};
use spry_system_tests::{need_root, run};
use tempfile::TempDir;

/// A user without privileges (`bin`), and another (`games`): the bus admits users that the system has.
const USER: u32 = 2;
const OTHER: u32 = 5;

/// The beginning of all clients: `call` prints the result of a method, or the name of the error.
const PRELUDE: &str = "\
import dbus, dbus.bus, os, sys, threading, time
bus = dbus.bus.BusConnection(os.environ['DBUS_SYSTEM_BUS_ADDRESS'])
NAME = 'org.freedesktop.RealtimeKit1'
def call(member, signature, *args, interface=NAME):
    try:
        got = bus.call_blocking(NAME, '/org/freedesktop/RealtimeKit1', interface, member, signature, args)
        print('done' if got is None else got, flush=True)
    except dbus.DBusException as error:
        print(error.get_dbus_name().rsplit('.', 1)[1], error.get_dbus_message(), flush=True)
def work(ms, every_ms):
    while True:
        began, ran = time.monotonic(), time.thread_time()
        while time.thread_time() - ran < ms / 1e3: pass
        time.sleep(max(0, began + every_ms / 1e3 - time.monotonic()))
";

/// A private bus, and a daemon that answers on it.
struct World {
    daemon: Daemon,
    address: String,
    _bus: Program,
    directory: TempDir,
}

impl World {
    fn new() -> World {
        need_root();
        let directory = tempfile::tempdir().expect("scratch space");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let socket = directory.path().join("bus");
        let config = directory.path().join("bus.conf");
        let rules = format!(
            "<busconfig><type>system</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>\
             <policy context='default'><allow user='*'/><allow send_destination='*'/>\
             <allow receive_sender='*'/></policy><policy user='nobody'><allow own='org.freedesktop.RealtimeKit1'/></policy></busconfig>",
            socket.display()
        );
        fs::write(&config, rules).expect("it is ours");
        let mut command = Command::new("dbus-daemon");
        command.arg("--nofork").arg(format!("--config-file={}", config.display()));
        let bus = Program::start(&mut command);
        await_some("the bus", || socket.exists().then_some(()));
        let address = format!("unix:path={}", socket.display());
        let mut command = Daemon::command(directory.path(), &["--actuator", "fair", "--rtkit=nobody"]);
        let daemon = Daemon::start_by(command.env("DBUS_SYSTEM_BUS_ADDRESS", &address), directory.path());
        let world = World { daemon, address, _bus: bus, directory };
        await_some("the name", || world.says(USER, PROPERTY).starts_with("200000").then_some(()));
        world
    }

    /// A client of this user that runs this script.
    fn client(&self, uid: u32, script: &str) -> Command {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", &format!("{PRELUDE}{script}")]).uid(uid).gid(uid);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", &self.address).current_dir("/");
        command
    }

    fn says(&self, uid: u32, script: &str) -> String {
        let Output { stdout, .. } = self.client(uid, script).output().expect("python3 starts");
        String::from_utf8(stdout).expect("UTF-8").trim_end().to_owned()
    }

    fn start(&self, uid: u32, script: &str) -> Program {
        Program::start(self.client(uid, script).stdout(Stdio::piped()))
    }

    fn list(&self) -> Vec<Value> {
        let all: Value = serde_json::from_str(&self.daemon.says(&["reservations", "--json"])).expect("JSON");
        all["reservations"].as_array().expect("a list").clone()
    }

    /// The process of the daemon's front.
    fn front(&self) -> Option<u32> {
        let daemon = self.daemon.program.tgid();
        let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).ok()?;
        children.split_whitespace().filter_map(|child| child.parse().ok()).find(|child: &u32| {
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == "spry-rtkit")
        })
    }
}

const PROPERTY: &str =
    "call('Get', 'ss', NAME, 'RTTimeUSecMax', interface='org.freedesktop.DBus.Properties')";
const OWN: &str = "call('MakeThreadRealtime', 'tu', threading.get_native_id(), 10)\n";

fn sleeper(uid: u32) -> Program {
    let program = Program::start(Command::new("sleep").arg("600").uid(uid).gid(uid));
    await_some("its user", || {
        let status = fs::read_to_string(format!("/proc/{}/status", program.tgid())).ok()?;
        let is_sleep = status.starts_with("Name:\tsleep");
        (is_sleep && status.contains(&format!("Uid:\t{uid}\t{uid}"))).then_some(())
    });
    program
}

#[test]
fn a_thread_that_asks_has_a_budget_that_follows_its_use() {
    let world = World::new();
    let program = world.start(USER, &format!("{OWN}work(1.5, 10)"));
    let told = await_some("the reservation", || world.list().pop());
    assert_eq!((&told["uid"], &told["tgid"]), (&USER.into(), &program.tgid().into()), "{told}");
    assert_eq!((&told["period_ns"], &told["on_exhaustion"]), (&10_000_000.into(), &"wait".into()), "{told}");
    assert_eq!(told["budget_ns"], 1_000_000, "{told}");
    let budget_ns = await_some("a larger budget", || {
        world.list().pop().and_then(|told| told["budget_ns"].as_u64()).filter(|&ns| ns >= 1_500_000)
    });
    println!("a thread that runs 1.5 ms of 10 has {budget_ns} ns");
    assert!(budget_ns <= 2_500_000, "a quarter of a CPU at most: {budget_ns}");
    drop(program);
    await_some("its end", || world.list().is_empty().then_some(()));
}

#[test]
fn requests_for_other_users_or_beyond_limits_are_refused() {
    let world = World::new();
    let (theirs, roots, mine) = (sleeper(OTHER), sleeper(0), sleeper(USER));
    let ask = |uid: u32, member: &str, signature: &str, args: &str| {
        world.says(uid, &format!("call('{member}', '{signature}', {args})"))
    };
    for tgid in [theirs.tgid(), roots.tgid(), 4_194_303] {
        let said = ask(USER, "MakeThreadRealtimeWithPID", "ttu", &format!("{tgid}, {tgid}, 10"));
        assert!(said.starts_with("AccessDenied there is no process"), "{said}");
        let said = ask(USER, "MakeThreadHighPriorityWithPID", "tti", &format!("{tgid}, {tgid}, -11"));
        assert!(said.starts_with("AccessDenied there is no process"), "{said}");
        let said = ask(USER, "MakeThreadRealtime", "tu", &format!("{tgid}, 10"));
        assert!(said.starts_with("AccessDenied there is no process"), "{said}");
    }
    // A thread of another process of the same user does not belong to the caller's process.
    let mine = mine.tgid();
    assert!(ask(USER, "MakeThreadRealtime", "tu", &format!("{mine}, 10")).starts_with("AccessDenied"));
    let said = ask(USER, "MakeThreadRealtimeWithPID", "ttu", &format!("{}, {mine}, 10", theirs.tgid()));
    assert!(said.starts_with("AccessDenied"), "{said}");
    for (uid, member, signature, args, why) in [
        (USER, "MakeThreadRealtime", "tu", "0, 21", "AccessDenied"),
        (USER, "MakeThreadRealtime", "tu", "0, 0", "Failed"),
        (USER, "MakeThreadHighPriority", "ti", "0, -16", "AccessDenied"),
        (USER, "MakeThreadRealtime", "ss", "'0', '10'", "InvalidArgs"),
        (USER, "MakeThreadRealtime", "a{sv}", "{'x': [1] * 300}", "InvalidArgs"),
        (USER, "MakeThreadRealtime", "tut", "0, 1, 2", "InvalidArgs"),
        (USER, "MakeThreadRealtime", "tu", "2 ** 40, 1", "Failed"),
        (USER, "ResetAll", "", "*[]", "AccessDenied"),
        (0, "MakeThreadRealtime", "tu", "0, 10", "AccessDenied"),
        (0, "Exit", "", "*[]", "NotSupported"),
    ] {
        let said = ask(uid, member, signature, args);
        assert!(said.starts_with(why), "{member} {signature} {args}: {said}");
    }
    assert!(world.list().is_empty());
    assert_eq!(schedule::nice(mine).expect("it is there"), 0);
    let said = ask(USER, "MakeThreadRealtimeWithPID", "ttu", &format!("{mine}, {mine}, 10"));
    assert_eq!((said.as_str(), world.list().len()), ("done", 1), "for another process of one's own");
}

#[test]
fn threads_beyond_a_user_s_number_get_nothing() {
    let world = World::new();
    let script = "\
go = threading.Event()
for _ in range(40):
    t = threading.Thread(target=go.wait, daemon=True)
    t.start()
    call('MakeThreadRealtime', 'tu', t.native_id, 10)
time.sleep(600)";
    let _program = world.start(USER, script);
    await_some("some reservations", || (world.list().len() >= 3).then_some(()));
    thread::sleep(Duration::from_secs(2));
    let list = world.list();
    let budgets: u64 = list.iter().filter_map(|one| one["budget_ns"].as_u64()).sum();
    println!("40 threads of one user: {} reservations, {budgets} ns of 10 ms", list.len());
    assert!(list.len() <= 25 && budgets <= 2_500_000, "{} {budgets}", list.len());
    let _other = world.start(OTHER, &format!("{OWN}time.sleep(600)"));
    await_some("the other user's", || world.list().into_iter().find(|one| one["uid"] == OTHER));
}

#[test]
fn ten_thousand_requests_a_second_cost_little_and_delay_no_user() {
    let world = World::new();
    let flood = "\
began, count = time.monotonic(), 0
while time.monotonic() - began < 5:
    for _ in range(100):
        m = dbus.lowlevel.MethodCallMessage(NAME, '/org/freedesktop/RealtimeKit1', NAME, 'MakeThreadRealtime')
        m.append(0, 10, signature='tu')
        m.set_no_reply(True)
        bus.send_message(m)
        count += 1
    bus.flush()
    time.sleep(max(0, began + count / 1e4 - time.monotonic()))
print(count)";
    let flood = format!("import dbus.lowlevel\n{flood}");
    let daemon = world.daemon.program.tgid();
    let front = await_some("the front", || world.front());
    let before = [daemon, front].map(|tgid| process_cpu_ns(tgid).expect("it is there"));
    let program = world.start(USER, &flood);
    thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    let said = world.says(OTHER, OWN);
    let took = began.elapsed();
    let Output { stdout, .. } = wait(program);
    let after = [daemon, front].map(|tgid| process_cpu_ns(tgid).expect("it is there"));
    let shares = [0, 1].map(|at| (after[at] - before[at]) as f64 / 5e9 * 100.0);
    let count = String::from_utf8_lossy(&stdout).trim().to_owned();
    println!(
        "{count} requests in 5 s: daemon {:.2} %, front {:.1} %; another user's took {took:?}",
        shares[0], shares[1]
    );
    assert_eq!(said, "done");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(shares[0] < 5.0, "{shares:?}");
    assert_eq!(world.front(), Some(front), "it lives");
}

fn wait(mut program: Program) -> Output {
    use std::io::Read;
    let mut stdout = Vec::new();
    program.0.stdout.take().expect("it is piped").read_to_end(&mut stdout).expect("it can be read");
    Output { status: program.0.wait().expect("it is ours"), stdout, stderr: Vec::new() }
}

#[test]
fn the_front_has_no_rights_and_comes_back_after_growing_pauses() {
    let world = World::new();
    let _program = world.start(USER, &format!("{OWN}time.sleep(600)"));
    await_some("the reservation", || world.list().pop());
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let front = await_some("the front", || world.front());
        let status = await_some("its filter", || {
            let status = fs::read_to_string(format!("/proc/{front}/status")).ok()?;
            status.contains("Seccomp:\t2").then_some(status)
        });
        let has = |line: &str| assert!(status.lines().any(|found| found == line), "{line}: {status}");
        ["Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"]
            .into_iter()
            .for_each(has);
        has("NoNewPrivs:\t1");
        spry_sys::signal::send_number(front, libc::SIGKILL).expect("it is there");
        let began = Instant::now();
        await_some("another front", || world.front().filter(|&found| found != front));
        pauses.push(began.elapsed());
    }
    println!("killed, it came back after {pauses:?}");
    assert!(
        pauses[3] > Duration::from_millis(1_500) && pauses[0] < Duration::from_millis(1_500),
        "{pauses:?}"
    );
    assert_eq!(world.list().len(), 1, "the reservation stays");
    await_some("an answer", || world.says(USER, PROPERTY).starts_with("200000").then_some(()));
}

#[test]
fn a_nice_value_is_not_inherited_and_ends_with_the_daemon() {
    let mut world = World::new();
    let program =
        world.start(USER, "call('MakeThreadHighPriority', 'ti', 0, -11)\nos.fork()\ntime.sleep(600)");
    let tid = program.tgid();
    await_some("the nice value", || (schedule::nice(tid).ok()? == -11).then_some(()));
    let child = await_some("its child", || {
        let children = fs::read_to_string(format!("/proc/{tid}/task/{tid}/children")).ok()?;
        children.trim().parse::<u32>().ok()
    });
    assert_eq!(schedule::nice(child).expect("it is there"), 0);
    world.daemon.program.signal(libc::SIGTERM);
    world.daemon.program.0.wait().expect("it is ours");
    assert_eq!(schedule::nice(tid).expect("it is there"), 0);
    spry_sys::signal::send_number(child, libc::SIGKILL).expect("it is there");
    drop(world.directory);
}

#[test]
fn a_caller_that_ends_before_its_answer_leaves_nothing() {
    let world = World::new();
    let script = "\
import dbus.lowlevel
m = dbus.lowlevel.MethodCallMessage(NAME, '/org/freedesktop/RealtimeKit1', NAME, 'MakeThreadRealtime')
m.append(0, 10, signature='tu')
bus.send_message(m)
bus.flush()
os._exit(0)";
    for _ in 0..10 {
        run(&mut world.client(USER, script));
    }
    await_some("nothing", || world.list().is_empty().then_some(()));
    let path: PathBuf = format!("/proc/{}/fd", world.daemon.program.tgid()).into();
    let count = fs::read_dir(path).expect("it is there").count();
    assert!(count < 200, "{count} descriptors");
    assert!(world.front().is_some());
}
