//! Input devices that this process makes in the kernel (`linux/uinput.h`). `door` is `/dev/uinput`, opened
//! for writing once for each device; the device exists until the last descriptor of its `door` is closed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{checked, file};

const SET_EVENT: libc::c_ulong = 0x4004_5564;
const SET_KEY: libc::c_ulong = 0x4004_5565;
const SET_AXIS: libc::c_ulong = 0x4004_5566;
const SETUP: libc::c_ulong = 0x405c_5503;
const CREATE: libc::c_ulong = 0x5501;
const SYSTEM_NAME: libc::c_ulong = 0x8040_552c;
const BUS_VIRTUAL: u16 = 6;

/// The abilities of an input device, by the numbers of <linux/input-event-codes.h>.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// Events of this type.
    Event(u16),
    /// A key or button.
    Key(u16),
    /// A move along a relative axis.
    Axis(u16),
}

/// Gives an ability to the device that will be made.
///
/// # Errors
/// If the descriptor is not of `/dev/uinput`, the device was made already, or there is no such ability.
pub fn enable(door: BorrowedFd<'_>, ability: Ability) -> io::Result<()> {
    let (request, number) = match ability {
        Ability::Event(number) => (SET_EVENT, number),
        Ability::Key(number) => (SET_KEY, number),
        Ability::Axis(number) => (SET_AXIS, number),
    };
    ask(door, request, number.into())
}

/// Makes the device, with the abilities that were enabled before. The kernel keeps 79 bytes of its name.
///
/// # Errors
/// If the descriptor is not of `/dev/uinput`, or the device was made already.
pub fn create(door: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: the structure is plain numbers, all of which may be zero.
    let mut setup: libc::uinput_setup = unsafe { std::mem::zeroed() };
    setup.id = libc::input_id { bustype: BUS_VIRTUAL, vendor: 1, product: 1, version: 1 };
    let last = setup.name.len() - 1;
    for (to, from) in setup.name[..last].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request reads a structure of this size, which outlives the call.
    checked(unsafe { libc::ioctl(door.as_raw_fd(), SETUP as _, &raw const setup) })?;
    ask(door, CREATE, 0)
}

/// The name of the device's directory in `/sys/devices/virtual/input`.
///
/// # Errors
/// If no device was made with this descriptor.
pub fn system_name(door: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0_u8; 64];
    // SAFETY: the request writes at most the 64 bytes that its number holds, and the array has as many.
    checked(unsafe { libc::ioctl(door.as_raw_fd(), SYSTEM_NAME as _, name.as_mut_ptr()) })?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Sends events of the device to the kernel: the type, the code and the value of each event. All events
/// are sent together.
///
/// # Errors
/// If no device was made with this descriptor.
pub fn tell(door: BorrowedFd<'_>, events: impl IntoIterator<Item = (u16, u16, i32)>) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (sort, code, value) in events {
        // The kernel fills in the time.
        bytes.extend([0; size_of::<libc::timeval>()]);
        bytes.extend(sort.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    file::write_all(door, &bytes)
}

/// Sends a request that has a number as its argument.
fn ask(door: BorrowedFd<'_>, request: libc::c_ulong, number: libc::c_int) -> io::Result<()> {
    // SAFETY: these requests take a number and no memory.
    checked(unsafe { libc::ioctl(door.as_raw_fd(), request as _, number) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::fd::AsFd;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_door_that_is_none_makes_nothing() {
        let null = std::fs::File::open("/dev/null").expect("it is there");
        assert!(enable(null.as_fd(), Ability::Event(1)).is_err());
        assert!(create(null.as_fd(), "spry test").is_err() && system_name(null.as_fd()).is_err());
    }

    #[test]
    fn a_device_is_there_until_its_door_is_closed() {
        let door = match OpenOptions::new().write(true).open("/dev/uinput") {
            Ok(door) => door,
            // A machine without the driver has no such file, and only root may open the file.
            Err(error) => {
                let reasons = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
                let may_be = error.raw_os_error() == Some(libc::ENODEV) || reasons.contains(&error.kind());
                return assert!(may_be, "{error}");
            }
        };
        for ability in [Ability::Event(1), Ability::Key(30), Ability::Event(2), Ability::Axis(0)] {
            enable(door.as_fd(), ability).expect("the kernel knows it");
        }
        assert!(system_name(door.as_fd()).is_err());
        create(door.as_fd(), "spry test").expect("it is allowed");
        let home = Path::new("/sys/devices/virtual/input").join(system_name(door.as_fd()).expect("a name"));
        tell(door.as_fd(), [(1, 30, 1), (0, 0, 0), (1, 30, 0), (0, 0, 0)]).expect("it has the key");
        assert_eq!(std::fs::read_to_string(home.join("name")).expect("it is there"), "spry test\n");
        drop(door);
        assert!(!home.exists());
    }
}
