//! Types at an Xorg of its own on a keyboard of the kernel (uinput), and by XTEST beside, and prints how many events of each count.

mod common;

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use spry_display::{DeviceOptions, DeviceState, Devices};
use spry_policy::Tgid;
use spry_workload::model::XServer;
use spry_workload::runner::DisplayServer;
use spry_workload::x11::server::{Server, Size};
use spry_workload::x11::uinput;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, EventMask, InputFocus, WindowClass};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, CURRENT_TIME};

use common::{Keyboard, Outcome};

/// The kernel's code of the letter a: the X server's is 8 more.
const LETTER: u16 = common::LETTER as u16 - 8;

struct Hands {
    connection: RustConnection,
    keyboard: RawFd,
    devices: Devices,
}

fn main() -> Outcome<()> {
    let server = Server::start(XServer::Xorg, Size { width: 1024, height: 768 })?;
    let keyboard = server.keyboard().ok_or("it reads no keyboard")?;
    let (connection, _) = RustConnection::connect(Some(server.display()))?;
    // Not named, and nothing synthetic is trusted: it is found because it has a keyboard of this machine.
    let devices = Devices::open(DeviceOptions::default(), Arc::new(|| ()))?;
    while !devices.status().iter().any(|device| device.state == DeviceState::Watched) {
        thread::sleep(Duration::from_millis(10));
    }
    let mut hands = Hands { connection, keyboard, devices };
    hands.open_window()?;
    hands.count();
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
    Ok(())
}

impl Hands {
    /// A window that has the keyboard.
    fn open_window(&self) -> Outcome<()> {
        let connection = &self.connection;
        let screen = &connection.setup().roots[0];
        let window = connection.generate_id()?;
        let wanted = EventMask::KEY_PRESS | EventMask::KEY_RELEASE;
        let settings = CreateWindowAux::new().override_redirect(1).event_mask(wanted);
        let class = WindowClass::INPUT_OUTPUT;
        let depth = COPY_DEPTH_FROM_PARENT;
        connection.create_window(
            depth,
            window,
            screen.root,
            0,
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
        Ok(connection.sync()?)
    }

    fn type_keys(&self, times: u32) -> Outcome<()> {
        for _ in 0..times {
            uinput::strike(self.keyboard, &[LETTER])?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Presses the key, or lets it go.
    fn press(&self, value: i32) -> Outcome<()> {
        let mut bytes = Vec::new();
        for (sort, code, value) in [(1_u16, LETTER, value), (0, 0, 0)] {
            bytes.extend([0; size_of::<libc::timeval>()]);
            bytes.extend(sort.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes.extend(value.to_ne_bytes());
        }
        // SAFETY: the server keeps the descriptor open; it is not closed here.
        let door = unsafe { File::from_raw_fd(self.keyboard) };
        Ok(ManuallyDrop::new(door).write_all(&bytes)?)
    }

    /// By XTEST, as its own device's or in another's name.
    fn fake(&self, times: u32, keyboard: Keyboard) -> Outcome<()> {
        for _ in 0..times {
            keyboard.strike(&self.connection)?;
            self.connection.sync()?;
        }
        Ok(())
    }

    /// How many events count since this was last asked.
    fn count(&mut self) -> u32 {
        thread::sleep(Duration::from_millis(400));
        let own = Tgid(std::process::id());
        let samples = self.devices.take().samples;
        samples.iter().find(|sample| sample.tgid == own).map_or(0, |sample| sample.changes.input)
    }

    fn say(&mut self, what: &str) {
        println!("{what} {}", self.count());
    }
}
