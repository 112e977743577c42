//! Helpers of the tests: a server, clients that carry out commands, and devices that watch.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spry_display::{DeviceOptions, DeviceState, Devices, Synthetic};
use spry_policy::{Changes, Tgid};
use spry_runner::x11::server::Server;
use spry_scenario::model::XServer;
use spry_scenario::screen::Size;

/// The size of the screen of the tests' server.
pub const SCREEN: Size = Size { width: 800, height: 500 };
/// The number of pixels of this screen.
pub const PIXELS: u64 = 800 * 500;
/// The time after which the eyes have seen an action.
const SEEN_BY: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);

/// An X server. A test program has only one at a time: servers make directories with the number of this
/// process in the name, so tests wait for each other.
pub struct Xvfb {
    server: Server,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Xvfb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

pub fn server() -> Xvfb {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(XServer::Xvfb, SCREEN).expect("these tests need Xvfb (Debian: xvfb)");
    Xvfb { server, _turn: turn }
}

/// Devices that watch one display.
pub struct Eyes {
    pub devices: Devices,
    news: Arc<AtomicU32>,
}

impl Eyes {
    pub fn on(display: &str, synthetic: Synthetic) -> Eyes {
        let mut eyes = Eyes::open(DeviceOptions {
            display: Some(display.into()),
            synthetic,
            ..DeviceOptions::default()
        });
        eyes.wait_until_watching();
        eyes
    }

    pub fn open(options: DeviceOptions) -> Eyes {
        let news = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&news);
        let notify = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        Eyes { devices: Devices::open(options, Arc::new(notify)).expect("devices open"), news }
    }

    /// Waits until a display is watched. Returns how long that took.
    pub fn wait_until_watching(&mut self) -> Duration {
        self.wait_until("a display is watched", |eyes| {
            eyes.devices.status().iter().any(|status| status.state == DeviceState::Watched)
        })
    }

    pub fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Eyes) -> bool) -> Duration {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(
                begin.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}; {:?}",
                self.devices.status()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        begin.elapsed()
    }

    /// The number of times that the devices reported a process as new since the last call.
    pub fn news(&self) -> u32 {
        self.news.swap(0, Ordering::Relaxed)
    }

    /// Drops the observations until now.
    pub fn forget(&mut self) {
        std::thread::sleep(SEEN_BY);
        self.devices.take();
        self.news();
    }

    /// The input and the drawing of a process since the last take, after a pause for the eyes to see them.
    pub fn of(&mut self, tgid: Tgid) -> Changes {
        std::thread::sleep(SEEN_BY);
        let seen = self.devices.take();
        seen.samples
            .iter()
            .find(|sample| sample.tgid == tgid)
            .map(|sample| sample.changes)
            .unwrap_or_default()
    }
}

/// Pixels as parts per million of the screen.
pub fn ppm(pixels: u64) -> u64 {
    pixels * 1_000_000 / PIXELS
}

/// An X11 client in a process of its own.
pub struct Actor {
    child: Child,
    script: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Actor {
    pub fn on(server: &Server) -> Actor {
        let mut path: PathBuf = std::env::current_exe().expect("the test's own path");
        path.pop();
        path.pop();
        path.push("examples/actor");
        let mut command = Command::new(&path);
        command.arg(server.display()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{}: {error}; cargo test -p spry-display builds it", path.display())
        });
        let script = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Actor { child, script, answers }
    }

    /// Starts a client and opens a window with this place and size.
    pub fn with_window(server: &Server, place: &str) -> Actor {
        let mut actor = Actor::on(server);
        actor.act(&format!("window {place}"));
        actor
    }

    pub fn tgid(&self) -> Tgid {
        Tgid(self.child.id())
    }

    /// Lets the client do something, and waits until the server has done it. Returns the client's window.
    pub fn act(&mut self, line: &str) -> u32 {
        self.begin(line);
        self.finish(line)
    }

    /// Lets the client do something, without waiting.
    pub fn begin(&mut self, line: &str) {
        let script = self.script.as_mut().expect("it is still told what to do");
        writeln!(script, "{line}").expect("it listens");
    }

    /// Waits until the client has finished the action that was begun.
    pub fn finish(&mut self, line: &str) -> u32 {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        answer.trim().parse().unwrap_or_else(|_| panic!("{line}: it ended instead"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // The client ends when its script ends.
        self.script = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
