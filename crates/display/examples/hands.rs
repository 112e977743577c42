//! Types at an Xorg of its own on a keyboard of the kernel (uinput), and by XTEST beside, and prints how many events of each count.

use std::error::Error;
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
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::xinput::{self, ConnectionExt as _, Device};
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, EventMask, InputFocus, WindowClass};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, CURRENT_TIME, NONE};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The kernel's code of the letter a; the X server's is 8 more.
const LETTER: u16 = 30;
const X_LETTER: u8 = LETTER as u8 + 8;
const KEY_PRESS: u8 = 2;
/// XInput 1's first event of keys, after the extension's first.
const DEVICE_KEY: u8 = 1;

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
    hands.fake(50, KEY_PRESS, 0)?;
    hands.say("xtest");
    let (kind, device) = hands.real_device()?;
    hands.fake(50, kind, device)?;
    hands.say("xtest-in-its-name");
    for _ in 0..10 {
        hands.fake(5, KEY_PRESS, 0)?;
        hands.type_keys(1)?;
    }
    hands.say("both");
    for _ in 0..10 {
        hands.fake(5, kind, device)?;
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
    fn fake(&self, times: u32, press: u8, device: u8) -> Outcome<()> {
        for _ in 0..times {
            for kind in [press, press + 1] {
                self.connection.xtest_fake_input(kind, X_LETTER, CURRENT_TIME, NONE, 0, 0, device)?;
            }
            self.connection.sync()?;
        }
        Ok(())
    }

    /// What XTEST calls the kernel's keyboard: the kind of event, and the device.
    fn real_device(&self) -> Outcome<(u8, u8)> {
        let connection = &self.connection;
        let information = connection.extension_information(xinput::X11_EXTENSION_NAME)?.ok_or("no XInput")?;
        connection.xinput_xi_query_version(2, 2)?.reply()?;
        let devices = connection.xinput_xi_query_device(u16::from(Device::ALL))?.reply()?.infos;
        let keyboard = devices.iter().find(|device| {
            let name = String::from_utf8_lossy(&device.name);
            device.type_ == xinput::DeviceType::SLAVE_KEYBOARD && !name.contains("XTEST")
        });
        let device = keyboard.ok_or("no keyboard but XTEST's")?.deviceid as u8;
        connection.xinput_open_device(device)?.reply()?;
        Ok((information.first_event + DEVICE_KEY, device))
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
