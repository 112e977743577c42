//! Eyes look at a display as its user. Tests the rights of eyes, the effects of ended eyes, and the effects
//! of a lying server on the daemon.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use spry_system_tests::desk::{Daemon, Desk, Program, as_nobody, await_some};
use spry_system_tests::{besieger, need_root, of_threads};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;

/// A directory that every user may look into.
fn scratch() -> TempDir {
    let directory = tempfile::tempdir().expect("scratch space");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
    directory
}

/// The arguments of a daemon that observes one display.
const fn looking_args(display: &str) -> [&str; 4] {
    ["--observe-only", "--trust-synthetic", "--display", display]
}

fn looking(display: &str) -> (TempDir, Daemon) {
    let directory = scratch();
    let daemon = Daemon::start(directory.path(), &looking_args(display));
    (directory, daemon)
}

/// The process of the daemon's eyes, if it exists now.
fn eyes(daemon: &Daemon) -> Option<u32> {
    let lists = of_threads(daemon.program.tgid(), "children");
    let mut children =
        lists.iter().flat_map(|(_, list)| list.split_whitespace()).filter_map(|child| child.parse().ok());
    children.find(|child: &u32| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == "spry-eyes")
    })
}

fn is_watched(daemon: &Daemon, display: &str) -> bool {
    daemon.device(display)["state"] == "watched"
}

/// An Xvfb of another user, on the first free display.
fn xvfb_of_nobody(directory: &TempDir) -> (Program, String) {
    let log = directory.path().join("display");
    let out = fs::File::create(&log).expect("it is ours");
    let mut command = Command::new("Xvfb");
    command.args(["-displayfd", "1", "-screen", "0", "320x200x24", "-nolisten", "tcp", "-noreset"]);
    command.stdout(out).stderr(Stdio::null());
    let server = Program::start(as_nobody(&mut command));
    let number = await_some("Xvfb", || {
        fs::read_to_string(&log).ok().filter(|text| text.ends_with('\n')).map(|text| text.trim().to_owned())
    });
    (server, format!(":{number}"))
}

#[test]
fn eyes_run_as_the_display_s_user_without_any_other_right() {
    need_root();
    let scratch = tempfile::tempdir().expect("scratch space");
    let (_server, display) = xvfb_of_nobody(&scratch);
    let (_directory, daemon) = looking(&display);
    await_some("the display is watched", || is_watched(&daemon, &display).then_some(()));
    let eyes = eyes(&daemon).expect("eyes");
    let status = fs::read_to_string(format!("/proc/{eyes}/status")).expect("they live");
    let field = |name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let all = [NOBODY.to_string(), NOBODY.to_string(), NOBODY.to_string(), NOBODY.to_string()].join(" ");
    assert_eq!((field("Uid:"), field("Gid:"), field("Groups:")), (all.clone(), all, String::new()));
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    // The user of the display may read the user's own other processes, but not the eyes.
    let reads = |tgid: u32, what: &str| {
        let mut command = Command::new("cat");
        command.arg(format!("/proc/{tgid}/{what}")).stdout(Stdio::null()).stderr(Stdio::null());
        as_nobody(&mut command).status().expect("cat starts").success()
    };
    let other = Program::start(as_nobody(Command::new("sleep").arg("60")));
    assert!(reads(other.tgid(), "environ") && !reads(eyes, "environ") && !reads(eyes, "maps"));
    let score = fs::read_to_string(format!("/proc/{eyes}/oom_score_adj")).expect("they live");
    assert_eq!(score.trim(), "0");
}

/// The path of a process' cgroup of version 2, from the root cgroup.
fn cgroup(tgid: u32) -> String {
    let groups = fs::read_to_string(format!("/proc/{tgid}/cgroup")).expect("it lives");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    own.expect("the second version of cgroups is there").to_owned()
}

/// A cgroup that is marked as delegated to its processes, as systemd marks the cgroup of a service.
struct DelegatedCgroup(PathBuf);

impl DelegatedCgroup {
    fn new() -> DelegatedCgroup {
        let mounts = fs::read_to_string("/proc/mounts").expect("it is always there");
        let mount = mounts.lines().find(|line| line.contains(" cgroup2 ")).expect("cgroups are mounted");
        let root = mount.split(' ').nth(1).expect("a line has words");
        let given = DelegatedCgroup(PathBuf::from(format!("{root}/spry-test-{}", std::process::id())));
        fs::create_dir(&given.0).expect("we are root");
        rustix::fs::setxattr(&given.0, "trusted.delegate", b"1", rustix::fs::XattrFlags::empty())
            .expect("cgroups take marks");
        given
    }

    /// A command that runs the given command in this cgroup.
    fn within(&self, command: &Command) -> Command {
        let mut within = Command::new("sh");
        within.arg("-c").arg(format!("echo $$ >{}/cgroup.procs; exec \"$@\"", self.0.display())).arg("sh");
        within.arg(command.get_program()).args(command.get_args());
        within
    }

    fn name(&self) -> String {
        format!("/{}", self.0.file_name().and_then(|name| name.to_str()).expect("a name of ours"))
    }
}

impl Drop for DelegatedCgroup {
    fn drop(&mut self) {
        for below in ["spry-eyes", "daemon", ""] {
            _ = fs::remove_dir(self.0.join(below));
        }
    }
}

#[test]
fn eyes_live_in_a_cgroup_per_display_that_ends_with_the_daemon() {
    need_root();
    let desk = Desk::new();
    let given = DelegatedCgroup::new();
    let number = desk.display.trim_start_matches(':').to_owned();
    for given in [Some(&given), None] {
        let (directory, args) = (scratch(), looking_args(&desk.display));
        let command = Daemon::command(directory.path(), &args);
        let mut command =
            given.map_or_else(|| Daemon::command(directory.path(), &args), |given| given.within(&command));
        let mut daemon = Daemon::start_by(&mut command, directory.path());
        await_some("the display is watched", || is_watched(&daemon, &desk.display).then_some(()));
        let eyes = eyes(&daemon).expect("eyes");
        if let Some(given) = given {
            assert_eq!(cgroup(daemon.program.tgid()), format!("{}/daemon", given.name()));
        }
        let above = given.map_or(String::new(), DelegatedCgroup::name);
        // If the test itself is in a cgroup that is not the root and not marked, the daemon makes no cgroups.
        if given.is_some() || cgroup(std::process::id()) == "/" {
            assert_eq!(cgroup(eyes), format!("{above}/spry-eyes/{number}"));
        }
        end_within_two_seconds(&mut daemon);
    }
    assert!(!given.0.join("spry-eyes").exists());
}

#[test]
fn a_server_of_root_is_watched_by_root_without_any_privilege() {
    need_root();
    let desk = Desk::new();
    let (_directory, daemon) = looking(&desk.display);
    await_some("the display is watched", || is_watched(&daemon, &desk.display).then_some(()));
    let eyes = eyes(&daemon).expect("eyes");
    let status = fs::read_to_string(format!("/proc/{eyes}/status")).expect("they live");
    for line in
        ["CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "Seccomp:\t2"]
    {
        assert!(status.contains(line), "{line}: {status}");
    }
}

#[test]
fn eyes_that_are_killed_come_back_with_growing_pauses() {
    need_root();
    let desk = Desk::new();
    let (_directory, daemon) = looking(&desk.display);
    let began = Instant::now();
    let mut killed = BTreeSet::new();
    while began.elapsed() < Duration::from_secs(6) {
        if let Some(eyes) = eyes(&daemon) {
            // It is a child of the daemon that this test started.
            _ = spry_sys::signal::send_number(eyes, libc::SIGKILL);
            killed.insert(eyes);
        }
        thread::sleep(Duration::from_millis(20));
    }
    // The eyes start again after 0.25, 0.5, 1, 2 and 4 s.
    assert!((4..=5).contains(&killed.len()), "{} times in 6 s", killed.len());
    let said = daemon.device(&desk.display)["state"].to_string();
    assert!(said.contains("were ended"), "{said}");
    await_some("the display is watched again", || is_watched(&daemon, &desk.display).then_some(()));
    let typist = desk.type_text("after all");
    await_some("the terminal in use", || {
        daemon.task(desk.terminal.tgid()).filter(|task| !task["level"].is_null())
    });
    drop(typist);
}

#[test]
fn eyes_that_are_stopped_hold_up_neither_the_daemon_nor_its_end() {
    need_root();
    let desk = Desk::new();
    let (_directory, mut daemon) = looking(&desk.display);
    await_some("the display is watched", || is_watched(&daemon, &desk.display).then_some(()));
    let eyes = eyes(&daemon).expect("eyes");
    // The eyes are a child of the daemon that this test started.
    _ = spry_sys::signal::send_number(eyes, libc::SIGSTOP);
    let began = Instant::now();
    assert_eq!(daemon.status()["actuator"], "none");
    spry_system_tests::desk::end(&mut daemon.program, libc::SIGTERM);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!fs::exists(format!("/proc/{eyes}")).expect("/proc"), "eyes are left");
}

/// The user as which a process runs at present.
fn user(tgid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tgid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

#[test]
fn eyes_that_their_user_stops_do_not_hold_up_the_daemon() {
    need_root();
    let scratch = tempfile::tempdir().expect("scratch space");
    let (_server, display) = xvfb_of_nobody(&scratch);
    let (_directory, mut daemon) = looking(&display);
    let began = Instant::now();
    let (mut stopped, mut slowest) = (BTreeSet::new(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(4) {
        // The display's user stops the eyes. Before the eyes run as this user, the user has no power over
        // them.
        if let Some(eyes) = eyes(&daemon).filter(|&eyes| user(eyes) == Some(NOBODY)) {
            // It is a child of the daemon that this test started.
            _ = spry_sys::signal::send_number(eyes, libc::SIGSTOP);
            if stopped.insert(eyes) {
                let asked = Instant::now();
                assert_eq!(daemon.status()["actuator"], "none");
                slowest = slowest.max(asked.elapsed());
            }
        }
        // The user kills stopped eyes, so that the daemon starts new eyes.
        if let Some(&last) = stopped.last().filter(|_| began.elapsed().as_millis() % 500 < 20) {
            _ = spry_sys::signal::send_number(last, libc::SIGKILL);
        }
    }
    println!("{} were stopped, the slowest answer took {slowest:?}", stopped.len());
    assert!(stopped.len() >= 2 && slowest < Duration::from_secs(1), "{stopped:?}, {slowest:?}");
    let began = Instant::now();
    spry_system_tests::desk::end(&mut daemon.program, libc::SIGTERM);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// A file in a file system in user space.
struct SilentFile {
    server: Program,
    place: TempDir,
    _files: TempDir,
}

impl SilentFile {
    fn path(&self) -> PathBuf {
        self.place.path().join("file")
    }

    fn new() -> SilentFile {
        let (place, files) = (tempfile::tempdir().expect("space"), tempfile::tempdir().expect("space"));
        fs::write(files.path().join("file"), [0; 64]).expect("it is ours");
        let mut command = Command::new("bindfs");
        command.args(["-f", "--no-allow-other"]).arg(files.path()).arg(place.path());
        let server = Program::start(&mut command);
        let silent = SilentFile { server, place, _files: files };
        await_some("the file", || fs::exists(silent.path()).is_ok_and(|is_there| is_there).then_some(()));
        silent
    }

    /// From now on the file system does not answer, until this value is dropped.
    fn falls_silent(&self) {
        self.server.signal(libc::SIGSTOP);
    }
}

impl Drop for SilentFile {
    fn drop(&mut self) {
        self.server.signal(libc::SIGCONT);
        _ = Command::new("umount").arg("--lazy").arg(self.place.path()).status();
    }
}

/// The daemon examines servers that run as root, for any user's session on the screen.
#[test]
fn silent_files_of_a_server_do_not_hold_up_the_daemon() {
    need_root();
    let silent = SilentFile::new();
    let number = (5_000 + std::process::id() % 1_000).to_string();
    let mut command = Command::new(besieger());
    command.args(["listen", &number, "-auth"]).arg(silent.path());
    let listener = Program::start(&mut command);
    let path = format!("/tmp/.X11-unix/X{number}");
    await_some("the socket", || fs::exists(&path).is_ok_and(|is_there| is_there).then_some(()));
    silent.falls_silent();
    let display = format!(":{number}");
    let directory = tempfile::tempdir().expect("scratch space");
    let mut daemon = Daemon::start(directory.path(), &["--observe-only"]);
    let state = await_some("what is said of the display", || {
        let state = daemon.device(&display)["state"].to_string();
        state.contains("ignored").then_some(state)
    });
    assert!(state.contains("no screen or keyboard"), "{state}");
    end_within_two_seconds(&mut daemon);
    // If the display is named, the daemon starts eyes, and they hang on the read of the file of cookies.
    let mut daemon = Daemon::start(directory.path(), &["--observe-only", "--display", &display]);
    let eyes = await_some("eyes", || eyes(&daemon));
    // While the eyes hang, they report nothing about the display.
    thread::sleep(Duration::from_millis(500));
    assert!(fs::exists(format!("/proc/{eyes}")).expect("/proc"), "eyes ended");
    assert_eq!(daemon.device(&display)["state"], "waiting");
    end_within_two_seconds(&mut daemon);
    drop(silent);
    drop(listener);
    fs::remove_file(path).expect("it is ours");
}

fn end_within_two_seconds(daemon: &mut Daemon) {
    let began = Instant::now();
    spry_system_tests::desk::end(&mut daemon.program, libc::SIGTERM);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// Relays the messages of a client and a real server, until the client sends more than the setup. Then it
/// sends lying replies.
fn lie(mut client: UnixStream, real: &str) {
    let Ok(mut server) = UnixStream::connect(real) else { return };
    let (Ok(mut from_server), Ok(mut to_client)) = (server.try_clone(), client.try_clone()) else { return };
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from_server.read(&mut bytes) {
            if to_client.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    });
    let mut bytes = [0; 4096];
    let mut messages = 0;
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        messages += 1;
        if messages > 3 {
            // Each reply has 32 bytes and claims that four times 4,294,967,295 bytes follow.
            let mut reply = [0_u8; 32];
            reply[0] = 1;
            reply[2] = 200;
            reply[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
            for number in 0..=u8::MAX {
                reply[2] = number;
                if client.write_all(&reply).is_err() {
                    return;
                }
            }
        }
        if server.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_that_claims_to_send_16_gib_costs_no_memory() {
    need_root();
    let desk = Desk::new();
    let number = 4_000 + std::process::id() % 1_000;
    let path = format!("/tmp/.X11-unix/X{number}");
    let listener = UnixListener::bind(&path).expect("a socket");
    let real = format!("/tmp/.X11-unix/X{}", &desk.display[1..]);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let real = real.clone();
            thread::spawn(move || lie(client, &real));
        }
    });
    let (_directory, daemon) = looking(&format!(":{number}"));
    let mut most_kib = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.program.tgid())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has memory");
        most_kib = most_kib.max(line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number"));
        thread::sleep(Duration::from_millis(10));
    }
    fs::remove_file(path).expect("it is ours");
    let said = daemon.device(&format!(":{number}"))["state"].to_string();
    println!("{most_kib} KiB, {said}");
    assert!(most_kib <= 64 << 10, "{most_kib} KiB");
    assert!(said.contains("were ended"), "{said}");
}
