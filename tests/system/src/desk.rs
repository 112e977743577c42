//! A desk for tests: a real X server, a terminal with an editor in it, a typist, and Spry's daemon
//! as an observer.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{run, spry};

/// How long programs may take to start on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` returns something.
///
/// # Panics
/// If `look` returns nothing within a minute.
pub fn await_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} is not there after {} s", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
}

/// A program that is killed when the test ends.
#[derive(Debug)]
pub struct Program(pub Child);

impl Program {
    /// Starts the program.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn start(command: &mut Command) -> Program {
        Program(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// The id of the process (`tgid`).
    pub fn tgid(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal to the program.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn signal(&self, signal: i32) {
        // The child was not waited for, so the process id is still its own.
        spry_sys::signal::send_number(self.0.id(), signal).expect("it is still there");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended already; if it cannot be killed, nothing more can be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A virtual X server with a terminal; in the terminal an editor has a file open.
#[derive(Debug)]
pub struct Desk {
    /// The display's name, such as `:7`.
    pub display: String,
    /// The X server of the display.
    pub server: Program,
    /// The terminal's program.
    pub terminal: Program,
    /// The id of the editor's process (`tgid`).
    pub editor: u32,
    _dir: TempDir,
}

impl Desk {
    /// Starts a desk with all its programs.
    ///
    /// # Panics
    /// If a program is missing.
    pub fn new() -> Desk {
        Desk::laid(|command| command)
    }

    /// Starts a desk with all its programs run by the user `nobody`.
    ///
    /// # Panics
    /// As [`Desk::new`]: if a program is missing.
    pub fn of_nobody() -> Desk {
        Desk::laid(as_nobody)
    }

    fn laid(as_user: fn(&mut Command) -> &mut Command) -> Desk {
        let dir = tempfile::tempdir().expect("scratch space");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("it is ours");
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]);
        let mut server = Program::start(as_user(command.stdout(Stdio::piped()).stderr(Stdio::null())));
        let mut number = String::new();
        let said = server.0.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut number).expect("Xvfb says its number");
        let display = format!(":{}", number.trim());
        let mut command = Command::new("xterm");
        command.env("DISPLAY", &display).arg("-e").arg("vi").arg(dir.path().join("letter"));
        let terminal = Program::start(as_user(command.env("HOME", dir.path()).stderr(Stdio::null())));
        let editor = await_some("vi", || editor_of(terminal.tgid()));
        let desk = Desk { display, server, terminal, editor, _dir: dir };
        desk.tool(&["search", "--sync", "--onlyvisible", "--class", "xterm", "windowfocus", "--sync"]);
        desk
    }

    /// Types into the terminal, 10 keys a second. The call returns at once.
    ///
    /// # Panics
    /// If xdotool is missing.
    pub fn type_text(&self, text: &str) -> Program {
        self.type_at(100, text)
    }

    /// Types one key in each `delay_ms` milliseconds. The call returns at once.
    ///
    /// # Panics
    /// As [`Desk::type_text`]: if xdotool is missing.
    pub fn type_at(&self, delay_ms: u32, text: &str) -> Program {
        let mut command = Command::new("xdotool");
        command.env("DISPLAY", &self.display).args(["type", "--delay", &delay_ms.to_string(), text]);
        Program::start(&mut command)
    }

    fn tool(&self, args: &[&str]) {
        run(Command::new("xdotool").env("DISPLAY", &self.display).args(args));
    }
}

impl Default for Desk {
    fn default() -> Desk {
        Desk::new()
    }
}

/// The process `vi` among the descendants of a terminal.
fn editor_of(terminal: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{terminal}/task/{terminal}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let child = child.parse().ok()?;
        let comm = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        if comm.starts_with("vi") { Some(child) } else { editor_of(child) }
    })
}

/// A daemon of Spry with a socket of its own.
#[derive(Debug)]
pub struct Daemon {
    /// The daemon's process.
    pub program: Program,
    /// The path of the socket at which the daemon listens.
    pub socket: PathBuf,
}

impl Daemon {
    /// The command that starts a daemon with its socket in this directory.
    pub fn command(directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(spry());
        command.args(["sched", "run", "--socket"]).arg(directory.join("sched.sock")).args(args);
        command
    }

    /// Starts a daemon and waits until it listens.
    ///
    /// # Panics
    /// If the daemon does not start.
    pub fn start(directory: &Path, args: &[&str]) -> Daemon {
        Daemon::start_by(&mut Daemon::command(directory, args), directory)
    }

    /// Starts a daemon by a command that executes [`Daemon::command`], and waits until it listens.
    ///
    /// # Panics
    /// If the daemon does not start.
    pub fn start_by(command: &mut Command, directory: &Path) -> Daemon {
        let mut program = Program::start(command);
        let socket = directory.join("sched.sock");
        await_some("the daemon", || {
            let ended = program.0.try_wait().expect("it can be waited for");
            assert!(ended.is_none(), "the daemon ended: {ended:?}");
            Daemon::at(&socket)
                .args(["sched", "status", "--json"])
                .output()
                .ok()
                .filter(|said| said.status.success())
        });
        Daemon { program, socket }
    }

    /// A `spry` command that connects to the daemon at this socket.
    pub fn at(socket: &Path) -> Command {
        let mut command = Command::new(spry());
        command.env("SPRY_SOCKET", socket);
        command
    }

    /// The output of `spry` with these arguments and this daemon.
    ///
    /// # Panics
    /// If `spry` fails.
    pub fn says(&self, args: &[&str]) -> String {
        String::from_utf8(run(Daemon::at(&self.socket).args(args)).stdout).expect("spry prints UTF-8")
    }

    /// Runs `spry` with these arguments and this daemon. Returns its output, whether it fails or not.
    ///
    /// # Panics
    /// If `spry` cannot be started.
    pub fn answers(&self, args: &[&str]) -> Output {
        Daemon::at(&self.socket).args(args).output().expect("spry starts")
    }

    /// The daemon's status.
    ///
    /// # Panics
    /// If the status is not JSON.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.says(&["sched", "status", "--json"])).expect("--json prints JSON")
    }

    /// The status of a display; null if the status does not list the display.
    ///
    /// # Panics
    /// As [`Daemon::status`]: if the status is not JSON.
    pub fn device(&self, name: &str) -> Value {
        let status = self.status();
        let mut devices = status["devices"].as_array().into_iter().flatten();
        devices.rfind(|device| device["name"] == name).cloned().unwrap_or_default()
    }

    /// The status of a process; `None` if the status does not list the process.
    pub fn task(&self, tgid: u32) -> Option<Value> {
        let status = self.status();
        status["tasks"].as_array()?.iter().find(|task| task["tgid"] == tgid).cloned()
    }
}

/// Asserts that a command of Spry failed with one line that contains this text.
///
/// # Panics
/// If the command did not fail, or printed another message.
#[track_caller]
pub fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was not refused");
    assert_eq!(said.lines().count(), 1, "not one line: {said}");
    assert!(said.contains(why), "{said}");
}

/// Ends a program by a signal, and returns its exit status.
///
/// # Panics
/// If the program does not end within a minute.
pub fn end(program: &mut Program, signal: i32) -> std::process::ExitStatus {
    program.signal(signal);
    await_some("the end", || program.0.try_wait().expect("it can be waited for"))
}

/// Makes a command run as the user `nobody`.
pub fn as_nobody(command: &mut Command) -> &mut Command {
    command.uid(65_534).gid(65_534)
}
