//! Types at an Xorg server of its own, on a keyboard that the kernel makes (uinput) and by XTEST. Prints how
//! many events of each count. The example starts `hands relay DISPLAY` itself: that process takes the focus,
//! and passes on the keys that it gets.

mod common;

use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use spry_display::{DeviceOptions, DeviceState, Devices};
use spry_policy::Tgid;
use spry_runner::DisplayServer;
use spry_runner::x11::server::Server;
use spry_runner::x11::uinput;
use spry_scenario::model::XServer;
use spry_scenario::screen::Size;
use spry_sys::input;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateWindowAux, EventMask, InputFocus, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, Window,
    WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, CURRENT_TIME, NONE};

use common::{Keyboard, Outcome};

/// The kernel's code of the letter a: the X server's is 8 more.
const LETTER: u16 = common::LETTER as u16 - 8;

/// The display must be found within this time.
const PATIENCE: Duration = Duration::from_secs(30);

struct Hands<'a> {
    connection: RustConnection,
    keyboard: BorrowedFd<'a>,
    devices: Devices,
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [part, display] = args.as_slice() {
        return if part == "relay" { relay(display) } else { Err(format!("no part {part}").into()) };
    }
    let server = Server::start(XServer::Xorg, Size { width: 1024, height: 768 })?;
    let keyboard = server.keyboard().ok_or("it reads no keyboard")?;
    let (connection, _) = RustConnection::connect(Some(server.display()))?;
    // The display is not named, and synthetic input is not trusted: the display is found because its server
    // has a keyboard of this machine.
    let devices = Devices::open(DeviceOptions::default(), Arc::new(|| ()))?;
    let until = Instant::now() + PATIENCE;
    while !devices.status().iter().any(|device| device.state == DeviceState::Watched) {
        if Instant::now() >= until {
            return Err(format!("it is not watched: {:?}", devices.status()).into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut hands = Hands { connection, keyboard, devices };
    open_window(&hands.connection, 0)?;
    hands.count([]);
    hands.say("nothing");
    hands.type_keys(10)?;
    hands.say("typed");
    hands.fake(50, Keyboard::XTEST)?;
    hands.say("xtest");
    let real = Keyboard::real(&hands.connection)?;
    hands.fake(50, real)?;
    hands.say("xtest-in-its-name");
    for _ in 0..10 {
        hands.fake(5, Keyboard::XTEST)?;
        hands.type_keys(1)?;
    }
    hands.say("both");
    for _ in 0..10 {
        hands.fake(5, real)?;
        hands.type_keys(1)?;
    }
    hands.say("both-in-its-name");
    hands.press(1)?;
    thread::sleep(Duration::from_millis(1_500));
    hands.press(0)?;
    hands.say("held");
    hands.type_at_relay(server.display())
}

/// Opens a window and gives it the keyboard focus.
fn open_window(connection: &RustConnection, x: i16) -> Outcome<Window> {
    let screen = &connection.setup().roots[0];
    let window = connection.generate_id()?;
    let wanted = EventMask::KEY_PRESS | EventMask::KEY_RELEASE;
    let settings =
        CreateWindowAux::new().override_redirect(1).event_mask(wanted).background_pixel(screen.white_pixel);
    let class = WindowClass::INPUT_OUTPUT;
    let depth = COPY_DEPTH_FROM_PARENT;
    connection.create_window(
        depth,
        window,
        screen.root,
        x,
        0,
        200,
        200,
        0,
        class,
        screen.root_visual,
        &settings,
    )?;
    connection.map_window(window)?.check()?;
    connection.set_input_focus(InputFocus::PARENT, window, CURRENT_TIME)?.check()?;
    connection.sync()?;
    Ok(window)
}

/// Takes the focus, and makes each key that it gets again, over a second connection, for the window that had
/// the focus before.
fn relay(display: &str) -> Outcome<()> {
    let (connection, _) = RustConnection::connect(Some(display))?;
    let (other, _) = RustConnection::connect(Some(display))?;
    let theirs = connection.get_input_focus()?.reply()?.focus;
    let window = open_window(&connection, 300)?;
    loop {
        let Event::KeyPress(key) = connection.wait_for_event()? else { continue };
        connection.set_input_focus(InputFocus::PARENT, theirs, CURRENT_TIME)?.check()?;
        for kind in [KEY_PRESS_EVENT, KEY_RELEASE_EVENT] {
            other.xtest_fake_input(kind, key.detail, CURRENT_TIME, NONE, 0, 0, 0)?;
        }
        other.sync()?;
        connection.set_input_focus(InputFocus::PARENT, window, CURRENT_TIME)?.check()?;
    }
}

impl Hands<'_> {
    fn type_keys(&self, times: u32) -> Outcome<()> {
        for _ in 0..times {
            uinput::strike(self.keyboard, &[LETTER])?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Presses the key (1) or releases it (0).
    fn press(&self, value: i32) -> Outcome<()> {
        Ok(input::tell(self.keyboard, [(1, LETTER, value), (0, 0, 0)])?)
    }

    /// Types by XTEST, in the name of its own device or of another device.
    fn fake(&self, times: u32, keyboard: Keyboard) -> Outcome<()> {
        for _ in 0..times {
            keyboard.strike(&self.connection)?;
            self.connection.sync()?;
        }
        Ok(())
    }

    /// Types while another process passes all keys on to this one. Returns how many events count for
    /// each of the two.
    fn type_at_relay(&mut self, display: &str) -> Outcome<()> {
        let mut child = Command::new(std::env::current_exe()?).args(["relay", display]).spawn()?;
        thread::sleep(Duration::from_secs(2));
        self.count([]);
        for _ in 0..20 {
            self.type_keys(1)?;
            thread::sleep(Duration::from_millis(100));
        }
        let [own, relay] = self.count([std::process::id(), child.id()]);
        println!("passed-on {own}");
        println!("relay {relay}");
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// The number of events that counted for these processes since the last call.
    fn count<const N: usize>(&mut self, tgids: [u32; N]) -> [u32; N] {
        // The input that a process receives is held for half a second if the process makes input itself.
        thread::sleep(Duration::from_millis(900));
        let samples = self.devices.take().samples;
        tgids.map(|tgid| {
            let found = samples.iter().find(|sample| sample.tgid == Tgid(tgid));
            found.map_or(0, |sample| sample.changes.input)
        })
    }

    fn say(&mut self, what: &str) {
        let [count] = self.count([std::process::id()]);
        println!("{what} {count}");
    }
}
