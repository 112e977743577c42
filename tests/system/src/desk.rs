//! A desk for tests: a real X server, a terminal with an editor in it, somebody who types, and Spry's daemon looking on.

use std::fs;
use std::io::{BufRead, BufReader};
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

/// Waits until something is there.
///
/// # Panics
/// Where it is not within a minute.
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

/// A program that ends with the test.
#[derive(Debug)]
pub struct Program(pub Child);

impl Program {
    /// Starts it.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn start(command: &mut Command) -> Program {
        Program(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Its number.
    pub fn tgid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// Where it is gone.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the number is still its.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0, "it is still there");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended; nothing more can be done if it does not end now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A virtual X server with a terminal in which somebody edits a file.
#[derive(Debug)]
pub struct Desk {
    /// `:7`.
    pub display: String,
    /// The server.
    pub server: Program,
    /// The terminal.
    pub terminal: Program,
    /// The editor's number.
    pub editor: u32,
    _dir: TempDir,
}

impl Desk {
    /// Lays it.
    ///
    /// # Panics
    /// Where a program is missing.
    pub fn new() -> Desk {
        let dir = tempfile::tempdir().expect("scratch space");
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]);
        let mut server = Program::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut number = String::new();
        let said = server.0.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut number).expect("Xvfb says its number");
        let display = format!(":{}", number.trim());
        let mut command = Command::new("xterm");
        command.env("DISPLAY", &display).arg("-e").arg("vi").arg(dir.path().join("letter"));
        let terminal = Program::start(command.stderr(Stdio::null()));
        let editor = await_some("vi", || editor_of(terminal.tgid()));
        let desk = Desk { display, server, terminal, editor, _dir: dir };
        desk.tool(&["search", "--sync", "--onlyvisible", "--class", "xterm", "windowfocus", "--sync"]);
        desk
    }

    /// Types into the terminal, 10 keys a second; returns at once.
    ///
    /// # Panics
    /// Where xdotool is missing.
    pub fn type_text(&self, text: &str) -> Program {
        let mut command = Command::new("xdotool");
        Program::start(command.env("DISPLAY", &self.display).args(["type", "--delay", "100", text]))
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

/// `vi` among the descendants of a terminal.
fn editor_of(terminal: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{terminal}/task/{terminal}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let child = child.parse().ok()?;
        let comm = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        if comm.starts_with("vi") { Some(child) } else { editor_of(child) }
    })
}

/// A daemon with a socket of its own.
#[derive(Debug)]
pub struct Daemon {
    /// Its process.
    pub program: Program,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Daemon {
    /// The command that starts one with its socket in that directory.
    pub fn command(directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(spry());
        command.args(["sched", "run", "--socket"]).arg(directory.join("sched.sock")).args(args);
        command
    }

    /// Starts one and waits until it listens.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start(directory: &Path, args: &[&str]) -> Daemon {
        let mut program = Program::start(&mut Daemon::command(directory, args));
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

    /// `spry` that asks the daemon at a socket.
    pub fn at(socket: &Path) -> Command {
        let mut command = Command::new(spry());
        command.env("SPRY_SOCKET", socket);
        command
    }

    /// What `spry` with these arguments says of it.
    ///
    /// # Panics
    /// Where that fails.
    pub fn says(&self, args: &[&str]) -> String {
        String::from_utf8(run(Daemon::at(&self.socket).args(args)).stdout).expect("spry prints UTF-8")
    }

    /// What `spry` does with these arguments, fail or not.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn answers(&self, args: &[&str]) -> Output {
        Daemon::at(&self.socket).args(args).output().expect("spry starts")
    }

    /// The status.
    ///
    /// # Panics
    /// Where it is no JSON.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.says(&["sched", "status", "--json"])).expect("--json prints JSON")
    }

    /// What the status says of a process.
    pub fn task(&self, tgid: u32) -> Option<Value> {
        let status = self.status();
        status["tasks"].as_array()?.iter().find(|task| task["tgid"] == tgid).cloned()
    }
}

/// Ends a program by a signal, and returns how it ended.
///
/// # Panics
/// Where it does not within a minute.
pub fn end(program: &mut Program, signal: i32) -> std::process::ExitStatus {
    program.signal(signal);
    await_some("the end", || program.0.try_wait().expect("it can be waited for"))
}

/// Makes a command run as the user nobody.
pub fn as_nobody(command: &mut Command) -> &mut Command {
    command.uid(65_534).gid(65_534)
}
