//! Input devices of the kernel that this program moves itself, so that keys take the way that a person's keys take.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::X11Error;

/// The kernel's door for such devices.
const DOOR: &str = "/dev/uinput";
/// Requests of it (`linux/uinput.h`).
const SET_EVENT: libc::c_ulong = 0x4004_5564;
const SET_KEY: libc::c_ulong = 0x4004_5565;
const SET_AXIS: libc::c_ulong = 0x4004_5566;
const SETUP: libc::c_ulong = 0x405c_5503;
const CREATE: libc::c_ulong = 0x5501;
const SYSTEM_NAME: libc::c_ulong = 0x8040_552c;
/// Kinds of events, and codes (`linux/input-event-codes.h`).
const EV_SYN: u16 = 0;
const EV_KEY: u16 = 1;
const EV_REL: u16 = 2;
const REL_X: i32 = 0;
const REL_Y: i32 = 1;
const BTN_LEFT: i32 = 0x110;
/// The keys of a usual keyboard.
const KEYS: std::ops::RangeInclusive<i32> = 1..=127;
const BUS_VIRTUAL: u16 = 6;

/// What a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Keys.
    Keyboard,
    /// A button, and two axes to move along.
    Mouse,
}

/// A device of the kernel's input layer. It is gone when it is dropped, and when this process ends.
#[derive(Debug)]
pub struct Device {
    door: File,
    node: PathBuf,
}

impl Device {
    /// Makes one.
    ///
    /// # Errors
    /// Where the kernel has no `uinput`, or does not let this user make devices.
    pub fn make(sort: Sort) -> Result<Self, X11Error> {
        let door = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(DOOR);
        let door = door.map_err(X11Error::Input)?;
        Self::describe(&door, sort).map_err(X11Error::Input)?;
        let node = node(&door).map_err(X11Error::Input)?;
        Ok(Self { door, node })
    }

    fn describe(door: &File, sort: Sort) -> io::Result<()> {
        let name: &[u8] = match sort {
            Sort::Keyboard => {
                ask(door, SET_EVENT, EV_KEY.into())?;
                for key in KEYS {
                    ask(door, SET_KEY, key)?;
                }
                b"spry keyboard"
            }
            Sort::Mouse => {
                ask(door, SET_EVENT, EV_KEY.into())?;
                ask(door, SET_KEY, BTN_LEFT)?;
                ask(door, SET_EVENT, EV_REL.into())?;
                ask(door, SET_AXIS, REL_X)?;
                ask(door, SET_AXIS, REL_Y)?;
                b"spry mouse"
            }
        };
        // SAFETY: the structure is plain numbers, all of which may be zero.
        let mut setup: libc::uinput_setup = unsafe { std::mem::zeroed() };
        setup.id = libc::input_id { bustype: BUS_VIRTUAL, vendor: 1, product: 1, version: 1 };
        for (to, &from) in setup.name.iter_mut().zip(name) {
            *to = from as libc::c_char;
        }
        // SAFETY: the request reads a structure of this size, which outlives the call.
        done(unsafe { libc::ioctl(door.as_raw_fd(), SETUP as _, &raw const setup) })?;
        ask(door, CREATE, 0)
    }

    /// The file by which an X server reads it.
    #[must_use]
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// What [`strike`] writes to; forks of this process have it too.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.door.as_raw_fd()
    }
}

/// A request with a number.
fn ask(door: &File, request: libc::c_ulong, number: i32) -> io::Result<()> {
    // SAFETY: these requests take a number and no memory.
    done(unsafe { libc::ioctl(door.as_raw_fd(), request as _, number) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The device's file of events, by its name among the system's devices.
fn node(door: &File) -> io::Result<PathBuf> {
    let mut name = [0_u8; 64];
    // SAFETY: the request writes at most the 64 bytes that its number holds, and the array has as many.
    done(unsafe { libc::ioctl(door.as_raw_fd(), SYSTEM_NAME as _, name.as_mut_ptr()) })?;
    let name = String::from_utf8_lossy(&name);
    let home = Path::new("/sys/devices/virtual/input").join(name.trim_end_matches('\0'));
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

/// Presses keys one after another, then lets them go in the opposite order; `door` is a keyboard's descriptor.
///
/// # Errors
/// Where the kernel refuses.
pub fn strike(door: RawFd, keys: &[u16]) -> io::Result<()> {
    let presses = keys.iter().map(|&key| (key, 1));
    let releases = keys.iter().rev().map(|&key| (key, 0));
    let mut bytes = Vec::new();
    for (key, value) in presses.chain(releases) {
        for (sort, code, value) in [(EV_KEY, key, value), (EV_SYN, 0, 0)] {
            bytes.extend([0; size_of::<libc::timeval>()]);
            bytes.extend(sort.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes.extend(i32::to_ne_bytes(value));
        }
    }
    // SAFETY: the descriptor is another's, who keeps it open; it is not closed here.
    let door = unsafe { File::from_raw_fd(door) };
    ManuallyDrop::new(door).write_all(&bytes)
}
