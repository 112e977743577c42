//! Keyboards as XTEST numbers them, for the examples that type.

use std::error::Error;

use x11rb::connection::RequestConnection;
use x11rb::protocol::xinput::{self, ConnectionExt as _, Device, DeviceType};
use x11rb::protocol::xproto::{KEY_PRESS_EVENT, KEY_RELEASE_EVENT};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::{CURRENT_TIME, NONE};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The X server's code of the letter a, on any usual keyboard.
pub const LETTER: u8 = 38;
/// The number of XInput 1's event of a pressed key, counted from the extension's first event.
const DEVICE_KEY: u8 = 1;

/// The keyboard that XTEST types as.
#[derive(Clone, Copy)]
pub struct Keyboard {
    /// The kind of event of a pressed key; the next kind is the kind of a released key.
    press: u8,
    device: u8,
}

impl Keyboard {
    /// XTEST's own keyboard.
    pub const XTEST: Keyboard = Keyboard { press: KEY_PRESS_EVENT, device: 0 };

    /// A keyboard that is not XTEST's.
    pub fn real(connection: &RustConnection) -> Outcome<Keyboard> {
        let information = connection.extension_information(xinput::X11_EXTENSION_NAME)?.ok_or("no XInput")?;
        connection.xinput_xi_query_version(2, 2)?.reply()?;
        let devices = connection.xinput_xi_query_device(u16::from(Device::ALL))?.reply()?.infos;
        let keyboard = devices.iter().find(|device| {
            let name = String::from_utf8_lossy(&device.name);
            device.type_ == DeviceType::SLAVE_KEYBOARD && !name.contains("XTEST")
        });
        let device = keyboard.ok_or("no keyboard but XTEST's")?.deviceid as u8;
        connection.xinput_open_device(device)?.reply()?;
        Ok(Keyboard { press: information.first_event + DEVICE_KEY, device })
    }

    /// Presses the letter and releases it.
    pub fn strike(self, connection: &RustConnection) -> Outcome<()> {
        for kind in [self.press, self.press + (KEY_RELEASE_EVENT - KEY_PRESS_EVENT)] {
            connection.xtest_fake_input(kind, LETTER, CURRENT_TIME, NONE, 0, 0, self.device)?;
        }
        Ok(())
    }
}
