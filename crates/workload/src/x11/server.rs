//! A real X server for one scenario: Xvfb or Xorg on a display of its own, with a home of its own.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::child::{Output, Program};
use super::client::{self, Client};
use super::xorg::Seat;
use super::{X11Error, clock};
use crate::model::XServer;
use crate::runner::scratch::Scratch;
use crate::runner::{DisplayServer, RunError};

/// How long a server may take until it answers: the lab's is a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The size of a display in pixels; the depth is 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pixels from left to right, 1 to 32,767.
    pub width: u16,
    /// Pixels from top to bottom, 1 to 32,767.
    pub height: u16,
}

impl std::str::FromStr for Size {
    type Err = String;

    /// Reads `1024x768`.
    fn from_str(text: &str) -> Result<Self, String> {
        let side = |part: &str| part.parse().ok().filter(|side| (1..=32_767).contains(side));
        let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) = sides
            .ok_or_else(|| format!("{text:?} is no size; a size is WIDTHxHEIGHT in pixels, as 1024x768"))?;
        Ok(Self { width, height })
    }
}

/// A running X server and the directory in which its programs live. Dropping it ends it and removes the directory.
#[derive(Debug)]
pub struct Server {
    display: String,
    // The order matters: the program ends before its directory goes.
    program: Program,
    seat: Option<Seat>,
    scratch: Scratch,
}

impl Server {
    /// Starts a server and waits until it answers. Call it from a thread that outlives the server.
    ///
    /// # Errors
    /// If the server is missing, ends early or does not answer within a minute; for Xorg, if the kernel has no `uinput`.
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
        // It picks the first free display and says it on its standard output. It listens on a local socket alone,
        // lets in this user alone, keeps its state when the last client leaves, and never blanks the screen.
        command.args(["-displayfd", "1", "-nolisten", "tcp", "-noreset", "-s", "0"]);
        command.current_dir(scratch.path()).env_remove("XAUTHORITY").env_remove("DISPLAY");
        let log = scratch.path().join("server.log");
        let mut program = Program::start(command, Output::Pipe, log, package)?;
        let display = match read_display(&mut program) {
            Some(number) => format!(":{number}"),
            None => return Err(X11Error::Server { log: program.said() }),
        };
        // It says its number before it serves; the first connection waits until it does.
        Client::connect(&display)?;
        Ok(Self { display, program, seat, scratch })
    }

    /// The display's name for `DISPLAY`, as `:0`.
    #[must_use]
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The server's process (`tgid`).
    #[must_use]
    pub fn tgid(&self) -> u32 {
        self.program.tgid()
    }

    /// The directory in which programs on this display may leave what they like.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// How it ended, if not.
    pub fn check(&mut self) -> Result<(), X11Error> {
        self.program.check()
    }
}

/// Starts the server that a scenario wishes for, with a display of this size.
///
/// # Errors
/// As [`Server::start`], and if the text is no size.
pub fn start(kind: XServer, size: &str) -> Result<Server, RunError> {
    Ok(Server::start(kind, size.parse().map_err(RunError::Machine)?)?)
}

impl DisplayServer for Server {
    fn name(&self) -> &str {
        self.display()
    }

    fn keyboard(&self) -> Option<RawFd> {
        self.seat.as_ref().map(|seat| seat.keyboard().descriptor())
    }
}

/// Gives a program a display, and a home of its own, so that neither the user's settings nor an earlier run changes
/// what it does.
pub fn furnish(command: &mut Command, display: &str, home: &Path) {
    command.env("DISPLAY", display).env("HOME", home).env("XDG_RUNTIME_DIR", home).env("TMPDIR", home);
    command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm").current_dir(home);
    // Neither the session's buses nor its accessibility helpers are the scenario's.
    command.env("DBUS_SESSION_BUS_ADDRESS", "disabled:").env("NO_AT_BRIDGE", "1").env("GTK_A11Y", "none");
    let others = ["XAUTHORITY", "WAYLAND_DISPLAY", "SESSION_MANAGER"];
    let places = ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];
    for inherited in others.into_iter().chain(places) {
        command.env_remove(inherited);
    }
}

/// Reads the line with the display's number; nothing if the server ends or takes too long.
fn read_display(program: &mut Program) -> Option<u32> {
    let mut answer = program.take_stdout()?;
    let end = clock::after(PATIENCE);
    let mut line = Vec::new();
    loop {
        let left = Duration::from_nanos(end.checked_sub(clock::now_ns())?);
        if !client::readable(answer.as_fd().as_raw_fd(), Some(left)) {
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
