//! Eyes find the cookie of a server in the environments of the programs on its display, even if other
//! programs put false entries into theirs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use spry_system_tests::desk::{Daemon, Program, as_nobody, await_some, end};
use spry_system_tests::{need_root, run};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;
/// Eyes try a server that refuses them again after 5 s: a display found sooner was found at the first try.
const FIRST_TRY: Duration = Duration::from_secs(5);
const COOKIE: [u8; 16] = *b"the right cookie";

/// A file of cookies with an entry that opens any display, from any machine.
fn cookies(data: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xff];
    for field in [&b""[..], b"", b"MIT-MAGIC-COOKIE-1", &data] {
        bytes.extend(u16::try_from(field.len()).expect("it is short").to_be_bytes());
        bytes.extend(field);
    }
    bytes
}

/// A server of another user, which requires a cookie. The file that `-auth` names belongs to root alone, as
/// with a display manager; the user has a copy.
struct CookieDisplay {
    place: TempDir,
    display: String,
    _server: Program,
    _turn: MutexGuard<'static, ()>,
}

impl CookieDisplay {
    /// Only one exists at a time: all belong to one user, and eyes read only some of a user's processes.
    fn new() -> CookieDisplay {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tempfile::tempdir().expect("scratch space");
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let own = file(place.path(), "of-the-server", &cookies(COOKIE));
        let log = place.path().join("display");
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "320x200x24", "-nolisten", "tcp", "-noreset"]);
        command.arg("-auth").arg(&own).stdout(fs::File::create(&log).expect("it is ours"));
        let server = Program::start(as_nobody(command.stderr(Stdio::null())));
        let number = await_some("Xvfb", || fs::read_to_string(&log).ok().filter(|text| text.ends_with('\n')));
        let display = format!(":{}", number.trim());
        // The server runs as the user, so it must have read its file before the file becomes root's: it does
        // so when the first client connects.
        let mut client = Command::new("xdotool");
        client.arg("getmouselocation").env("DISPLAY", &display).env("XAUTHORITY", &own);
        run(&mut client);
        chown(&own, Some(0), Some(0)).expect("we are root");
        file(place.path(), "of-the-user", &cookies(COOKIE));
        CookieDisplay { place, display, _server: server, _turn: turn }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A program of the user on this display, with this file as XAUTHORITY.
    fn program(&self, authority: &Path) -> Program {
        self.program_on(&self.display, authority)
    }

    fn program_on(&self, display: &str, authority: &Path) -> Program {
        let mut command = Command::new("sleep");
        command.arg("600").env_clear().env("DISPLAY", display).env("XAUTHORITY", authority);
        Program::start(as_nobody(&mut command))
    }

    fn looking(&self) -> Daemon {
        let args = ["--observe-only", "--trust-synthetic", "--display", &self.display];
        Daemon::start(self.place.path(), &args)
    }

    fn state(&self, daemon: &Daemon) -> String {
        daemon.device(&self.display)["state"].to_string()
    }

    fn await_watched(&self, daemon: &Daemon) -> Duration {
        let began = Instant::now();
        await_some("the display is watched", || (self.state(daemon) == "\"watched\"").then_some(()));
        began.elapsed()
    }
}

/// A file that only the user `nobody` may read and write.
fn file(place: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.join(name);
    fs::write(&path, bytes).expect("it is ours");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
    chown(&path, Some(NOBODY), Some(NOBODY)).expect("we are root");
    path
}

/// Registers a process as the leader of a user's session, as the session manager does, until dropped.
struct Session([PathBuf; 2]);

impl Session {
    fn led_by(leader: u32) -> Session {
        let kept = Path::new("/run/systemd");
        let name = format!("spry-test-{leader}");
        let session = (kept.join("sessions").join(&name), format!("UID={NOBODY}\nLEADER={leader}\n"));
        let user = (kept.join("users").join(NOBODY.to_string()), format!("SESSIONS={name}\n"));
        Session([session, user].map(|(path, text)| {
            fs::create_dir_all(path.parent().expect("it has one")).expect("we are root");
            fs::write(&path, text).expect("we are root");
            path
        }))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| _ = fs::remove_file(path));
    }
}

#[test]
fn a_cookie_known_to_a_program_of_the_session_opens_the_server() {
    need_root();
    let guarded = CookieDisplay::new();
    let daemon = guarded.looking();
    let state = await_some("what is said", || {
        let state = guarded.state(&daemon);
        state.contains("does not let its user in").then_some(state)
    });
    assert!(state.contains("XAUTHORITY"), "{state}");
    // A program on another display does not count.
    let _other = guarded.program_on(":4999", &guarded.path("of-the-user"));
    thread::sleep(FIRST_TRY + Duration::from_secs(1));
    assert_eq!(guarded.state(&daemon), state);
    let _program = guarded.program(&guarded.path("of-the-user"));
    guarded.await_watched(&daemon);
}

#[test]
fn files_that_are_none_and_wrong_cookies_cost_no_further_try() {
    need_root();
    let guarded = CookieDisplay::new();
    let place = guarded.place.path();
    let fifo = place.join("fifo");
    run(Command::new("mkfifo").arg("--mode=666").arg(&fifo));
    let zeroes = file(place, "zeroes", &vec![0; 1 << 20]);
    let noise: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let noise = file(place, "noise", &noise);
    let thousand = file(place, "thousand", &cookies(*b"none of these is").repeat(1000));
    let long = PathBuf::from(format!("/{}", "x".repeat(100_000)));
    let own = ["/proc/self/mem", "/proc/self/smaps", "/dev/zero", "/dev/tty", "/", "relative", ""];
    let lies = [fifo, zeroes, noise, thousand, long, place.join("missing"), place.to_owned()];
    let lies: Vec<PathBuf> = lies.into_iter().chain(own.map(PathBuf::from)).collect();
    let _liars: Vec<Program> = lies.iter().map(|lie| guarded.program(lie)).collect();
    let _program = guarded.program(&guarded.path("of-the-user"));
    let daemon = guarded.looking();
    let took = guarded.await_watched(&daemon);
    println!("watched after {took:?}");
    assert!(took < FIRST_TRY, "{took:?}");
}

#[test]
fn the_session_s_cookie_is_found_behind_300_older_liars() {
    need_root();
    let guarded = CookieDisplay::new();
    let wrong = |number: u32| {
        let mut data = *b"wrong cookie    ";
        data[12..].copy_from_slice(&number.to_be_bytes());
        guarded.program(&file(guarded.place.path(), &format!("wrong-{number}"), &cookies(data)))
    };
    let _liars: Vec<Program> = (0..300).map(wrong).collect();
    let daemon = guarded.looking();
    let state = await_some("what is said", || {
        Some(guarded.state(&daemon)).filter(|state| state.contains("does not let its user in"))
    });
    println!("{state}");
    // The leader is root's; the program below it is the user's.
    let mut leader = Command::new("sh");
    let below = "setpriv --reuid=65534 --regid=65534 --clear-groups --pdeathsig KILL sleep 600 & wait";
    leader.args(["-c", below]);
    leader.env("DISPLAY", &guarded.display).env("XAUTHORITY", guarded.path("of-the-user"));
    let leader = Program::start(&mut leader);
    let _session = Session::led_by(leader.tgid());
    guarded.await_watched(&daemon);
}

/// A mounted file system, unmounted when this value is dropped.
struct MountedFilesystem(TempDir);

impl Drop for MountedFilesystem {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_silent_file_holds_up_no_daemon_and_a_display_only_briefly() {
    need_root();
    let guarded = CookieDisplay::new();
    let files = tempfile::tempdir().expect("scratch space");
    fs::set_permissions(files.path(), Permissions::from_mode(0o755)).expect("it is ours");
    file(files.path(), "file", &cookies(*b"none of these is"));
    let place = MountedFilesystem(tempfile::tempdir().expect("scratch space"));
    let server = Program::start(Command::new("bindfs").arg("-f").arg(files.path()).arg(place.0.path()));
    let silent = place.0.path().join("file");
    await_some("the file", || fs::exists(&silent).is_ok_and(|is_there| is_there).then_some(()));
    server.signal(libc::SIGSTOP);
    let liar = guarded.program(&silent);
    let _program = guarded.program(&guarded.path("of-the-user"));
    let mut daemon = guarded.looking();
    let state = await_some("what is said", || {
        Some(guarded.state(&daemon)).filter(|state| state.contains("were ended"))
    });
    println!("{state}");
    // Once the liar has exited, the display is seen, while the file still gives no answer.
    drop(liar);
    guarded.await_watched(&daemon);
    let began = Instant::now();
    end(&mut daemon.program, libc::SIGTERM);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
