//! Input devices (keyboard, mouse) that this program makes in the kernel and moves itself, so that its keys
//! take the same path as a person's keys.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use spry_sys::file;
use spry_sys::input::{self, Ability};

use super::X11Error;

/// The kernel's file by which a program makes input devices.
const DOOR: &str = "/dev/uinput";
/// The types and codes of input events (`linux/input-event-codes.h`).
const EV_SYN: u16 = 0;
const EV_KEY: u16 = 1;
const EV_REL: u16 = 2;
/// The type of event that makes a key repeat while it is held down, as on usual keyboards.
const EV_REP: u16 = 0x14;
const REL_X: u16 = 0;
const REL_Y: u16 = 1;
const BTN_LEFT: u16 = 0x110;
/// The codes of the keys of a usual keyboard.
const KEYS: std::ops::RangeInclusive<u16> = 1..=127;

/// The kind of an input device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A device with keys.
    Keyboard,
    /// A device with a button, and with two axes along which it moves.
    Mouse,
}

/// An input device in the kernel. It is removed when this value is dropped, and when this process ends.
#[derive(Debug)]
pub struct Device {
    door: File,
    node: PathBuf,
}

impl Device {
    /// Makes a device of this kind.
    ///
    /// # Errors
    /// If the kernel has no `uinput`, or does not let this user make devices.
    pub fn make(sort: Sort) -> Result<Self, X11Error> {
        let door = OpenOptions::new().write(true).open(DOOR).map_err(X11Error::Input)?;
        Self::describe(&door, sort).map_err(X11Error::Input)?;
        let node = node(&door).map_err(X11Error::Input)?;
        Ok(Self { door, node })
    }

    fn describe(door: &File, sort: Sort) -> io::Result<()> {
        file::never_wait(door)?;
        let enable = |ability| input::enable(door.as_fd(), ability);
        enable(Ability::Event(EV_KEY))?;
        let name = match sort {
            Sort::Keyboard => {
                enable(Ability::Event(EV_REP))?;
                KEYS.map(Ability::Key).try_for_each(enable)?;
                "spry keyboard"
            }
            Sort::Mouse => {
                enable(Ability::Key(BTN_LEFT))?;
                enable(Ability::Event(EV_REL))?;
                enable(Ability::Axis(REL_X))?;
                enable(Ability::Axis(REL_Y))?;
                "spry mouse"
            }
        };
        input::create(door.as_fd(), name)
    }

    /// The path of the file by which an X server reads the device.
    #[must_use]
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// The descriptor to which [`strike`] and [`push`] write. Processes that this one forks inherit it.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.door.as_fd()
    }
}

/// The path of the device's event file. It is found by the device's name among the system's devices.
fn node(door: &File) -> io::Result<PathBuf> {
    let home = Path::new("/sys/devices/virtual/input").join(input::system_name(door.as_fd())?);
    for entry in fs::read_dir(&home)? {
        let entry = entry?.file_name();
        if entry.to_string_lossy().starts_with("event") {
            return Ok(Path::new("/dev/input").join(entry));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        "the kernel gives no event file to input devices (module evdev)",
    ))
}

/// Presses keys one after another, then releases them in the opposite order. `door` is the
/// descriptor of a keyboard.
///
/// # Errors
/// If the kernel refuses the write.
pub fn strike(door: BorrowedFd<'_>, keys: &[u16]) -> io::Result<()> {
    let presses = keys.iter().map(|&key| (key, 1));
    let releases = keys.iter().rev().map(|&key| (key, 0));
    let keys = presses.chain(releases);
    input::tell(door, keys.flat_map(|(key, value)| [(EV_KEY, key, value), (EV_SYN, 0, 0)]))
}

/// Moves a mouse to the right by this many steps. `door` is the descriptor of the mouse.
///
/// # Errors
/// If the kernel refuses the write.
pub fn push(door: BorrowedFd<'_>, steps: i32) -> io::Result<()> {
    input::tell(door, [(EV_REL, REL_X, steps), (EV_SYN, 0, 0)])
}
