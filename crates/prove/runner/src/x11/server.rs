//! A real X server for one scenario: Xvfb or Xorg on a display of its own, with a home of its own.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spry_scenario::model::XServer;
use spry_scenario::screen::Size;
use spry_scratch::Scratch;

use super::child::{Output, Program};
use super::client::{self, Client};
use super::xorg::Seat;
use super::{X11Error, clock};
use crate::{DisplayServer, RunError};

/// How long a server may take until it answers. The time is long because the lab's machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running X server and the home directory of the programs on its display. When this value is dropped, the
/// server ends and the directory is removed.
#[derive(Debug)]
pub struct Server {
    display: String,
    // The order of the fields matters: the program ends before its directory is removed.
    program: Program,
    seat: Option<Seat>,
    scratch: Scratch,
}

impl Server {
    /// Starts a server and waits until it answers. Call it from a thread that outlives the server.
    ///
    /// # Errors
    /// If the server is missing, ends early or does not answer within a minute; for Xorg, if the kernel
    /// has no `uinput`.
    pub fn start(kind: XServer, size: Size) -> Result<Self, X11Error> {
        let scratch = Scratch::make(None)
            .map_err(|source| X11Error::Kernel { what: "making a temporary directory", source })?;
        let (mut command, seat, package) = match kind {
            XServer::Xvfb => {
                let mut command = Command::new("Xvfb");
                let screen = format!("{}x{}x24", size.width, size.height);
                command.args(["-screen", "0", &screen]);
                (command, None, "xvfb")
            }
            XServer::Xorg => {
                let seat = Seat::make()?;
                (seat.command(size, scratch.path())?, Some(seat), "xserver-xorg-core")
            }
        };
        // The server picks the first free display and writes its number to standard output. It listens on a
        // local socket alone and accepts this user alone. It keeps its state when the last client leaves, and
        // never blanks the screen.
        command.args(["-displayfd", "1", "-nolisten", "tcp", "-noreset", "-s", "0"]);
        command.current_dir(scratch.path()).env_remove("XAUTHORITY").env_remove("DISPLAY");
        let log = scratch.path().join("server.log");
        let mut program = Program::start(command, Output::Pipe, log, package)?;
        let display = match read_display(&mut program) {
            Some(number) => format!(":{number}"),
            None => return Err(X11Error::Server { log: program.said() }),
        };
        // The server writes its number before it accepts connections. The first connection waits until the
        // server accepts it.
        Client::connect(&display)?;
        Ok(Self { display, program, seat, scratch })
    }

    /// The display's name for the variable `DISPLAY`, for example `:0`.
    #[must_use]
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The id of the server's process (`tgid`).
    #[must_use]
    pub fn tgid(&self) -> u32 {
        self.program.tgid()
    }

    /// The directory in which programs on this display may leave files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// The descriptor of the kernel's mouse that the server reads; `None` if it reads none.
    #[must_use]
    pub fn mouse(&self) -> Option<BorrowedFd<'_>> {
        self.seat.as_ref().map(|seat| seat.mouse().descriptor())
    }

    /// Checks that the server still runs.
    ///
    /// # Errors
    /// How the server ended, if it has ended.
    pub fn check(&mut self) -> Result<(), X11Error> {
        self.program.check()
    }
}

/// Starts the server that a scenario needs, with a display of this size.
///
/// # Errors
/// As [`Server::start`]; also if the text is not a size.
pub fn start(kind: XServer, size: &str) -> Result<Server, RunError> {
    Ok(Server::start(kind, size.parse().map_err(RunError::Machine)?)?)
}

impl DisplayServer for Server {
    fn name(&self) -> &str {
        self.display()
    }

    fn keyboard(&self) -> Option<BorrowedFd<'_>> {
        self.seat.as_ref().map(|seat| seat.keyboard().descriptor())
    }
}

/// Gives a program a display and a home directory of its own, so that neither the user's settings nor an
/// earlier run changes its behaviour.
pub fn furnish(command: &mut Command, display: &str, home: &Path) {
    command.env("DISPLAY", display).env("HOME", home).env("XDG_RUNTIME_DIR", home).env("TMPDIR", home);
    command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm").current_dir(home);
    // The program uses neither the message bus nor the accessibility helpers of the user's session.
    command.env("DBUS_SESSION_BUS_ADDRESS", "disabled:").env("NO_AT_BRIDGE", "1").env("GTK_A11Y", "none");
    let others = ["XAUTHORITY", "WAYLAND_DISPLAY", "SESSION_MANAGER"];
    let places = ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];
    for inherited in others.into_iter().chain(places) {
        command.env_remove(inherited);
    }
}

/// Reads the line with the display's number. Returns `None` if the server ends or takes too long.
fn read_display(program: &mut Program) -> Option<u32> {
    let mut answer = program.take_stdout()?;
    let end = clock::after(PATIENCE);
    let mut line = Vec::new();
    loop {
        let left = Duration::from_nanos(end.checked_sub(clock::now_ns())?);
        if !client::readable(answer.as_fd(), Some(left)) {
            continue;
        }
        let mut bytes = [0; 16];
        match answer.read(&mut bytes) {
            Ok(count @ 1..) => line.extend_from_slice(&bytes[..count]),
            _ => return None,
        }
        if line.last() == Some(&b'\n') {
            return String::from_utf8(line).ok()?.trim().parse().ok();
        }
    }
}
