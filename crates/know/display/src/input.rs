//! The kernel's input devices that a person operates, and the number of their movements. The typed characters
//! are not looked at.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::io::Errno;

const DIRECTORY: &str = "/dev/input";
/// The most devices that are counted.
const DEVICES_MAX: usize = 64;
/// The time after a movement of a device in which processes may still receive the input from it.
const LATELY: Duration = Duration::from_secs(1);
/// The kernel drops events that are not read in time. Such a loss counts as this many movements: as many as
/// the kernel's buffer holds at least.
const DROPPED: u64 = 64;
/// `EV_SYN` and two of its codes: the first code ends the events of one movement, the second marks a
/// loss of events.
const EV_SYN: u16 = 0;
const SYN_REPORT: u16 = 0;
const SYN_DROPPED: u16 = 3;
const EVENT: usize = size_of::<libc::input_event>();

/// Whether an event device has a letter's key, a mouse's button, a touch or a pen.
#[must_use]
pub fn is_of_hands(device: BorrowedFd<'_>) -> bool {
    const LETTER_A: usize = 30;
    const BUTTON_LEFT: usize = 0x110;
    const TOOL_PEN: usize = 0x140;
    const TOUCH: usize = 0x14a;
    let Some(keys) = spry_sys::device::keys_of(device) else { return false };
    let has = |key: usize| keys[key / 8] & (1 << (key % 8)) != 0;
    [LETTER_A, BUTTON_LEFT, TOOL_PEN, TOUCH].into_iter().any(has)
}

/// The number of all movements of the devices, and of the movements that are too old to count as recent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Movements {
    pub(crate) total: u64,
    pub(crate) before: u64,
}

/// The number of the devices' movements that one process has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReceivedMovements(u64);

impl ReceivedMovements {
    /// A process receives a movement twice at most: one turn of a wheel is a button that is
    /// pressed and released.
    const TWICE: u64 = 2;

    /// The number of the claimed events that can be true: at most two for each recent movement of the devices
    /// that this process has not received yet.
    pub(crate) fn within(&mut self, claimed: u32, hands: Movements) -> u32 {
        let had = self.0.max(hands.before);
        let possible = hands.total.saturating_sub(had).saturating_mul(Self::TWICE);
        let received = u64::from(claimed).min(possible);
        self.0 = had + received.div_ceil(Self::TWICE);
        received as u32
    }
}

/// The input devices that a person operates; this process counts their movements itself.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    devices: BTreeMap<OsString, OwnedFd>,
    /// Devices that no person operates, and devices that cannot be opened.
    others: Vec<OsString>,
    total: u64,
    /// The total at recent times, and the latest total that is older than that.
    past: VecDeque<(Instant, u64)>,
}

impl Inputs {
    /// Finds devices that were added or removed.
    pub(crate) fn look(&mut self) {
        let names = fs::read_dir(DIRECTORY).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let names: Vec<OsString> = names.filter(|name| name.as_bytes().starts_with(b"event")).collect();
        self.devices.retain(|name, _| names.contains(name));
        self.others.retain(|name| names.contains(name));
        for name in names {
            if self.devices.contains_key(&name) || self.others.contains(&name) {
                continue;
            }
            let path = std::path::Path::new(DIRECTORY).join(&name);
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
            let device = OpenOptions::new().read(true).custom_flags(flags).open(path).map(OwnedFd::from);
            match device.ok().filter(|device| is_of_hands(device.as_fd())) {
                Some(device) if self.devices.len() < DEVICES_MAX => drop(self.devices.insert(name, device)),
                _ => self.others.push(name),
            }
        }
    }

    /// Counts the movements of the devices up to now. The call does not wait.
    pub(crate) fn movements(&mut self, now: Instant) -> Movements {
        let mut total = self.total;
        self.devices.retain(|_, device| match count(device) {
            Some(count) => {
                total += count;
                true
            }
            None => false,
        });
        self.total = total;
        self.past.push_back((now, total));
        while self.past.get(1).is_some_and(|(then, _)| now.saturating_duration_since(*then) > LATELY) {
            self.past.pop_front();
        }
        let before = self.past.front().filter(|(then, _)| now.saturating_duration_since(*then) > LATELY);
        Movements { total, before: before.map_or(0, |(_, total)| *total) }
    }
}

/// The number of movements of a device since it was last read; `None` if the device was removed.
fn count(device: &OwnedFd) -> Option<u64> {
    let mut bytes = [0; EVENT * 64];
    let mut count = 0;
    loop {
        match rustix::io::read(device, &mut bytes) {
            Ok(0) => return None,
            Ok(length) => count += movements_in(&bytes[..length]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Some(count),
            Err(_) => return None,
        }
    }
}

/// The number of movements in these events. Only the events that end a movement are looked at.
fn movements_in(events: &[u8]) -> u64 {
    let of = |event: &[u8]| {
        let half = |at: usize| u16::from_ne_bytes([event[at], event[at + 1]]);
        match (half(EVENT - 8), half(EVENT - 6)) {
            (EV_SYN, SYN_REPORT) => 1,
            (EV_SYN, SYN_DROPPED) => DROPPED,
            _ => 0,
        }
    };
    events.chunks_exact(EVENT).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, code: u16) -> Vec<u8> {
        let mut bytes = vec![0; EVENT - 8];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(1_i32.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_movement_is_what_happens_at_once() {
        // The events are a key with its scan code, and a mouse that moves along both axes.
        let key = [event(4, 4), event(1, 30), event(0, 0)].concat();
        let mouse = [event(2, 0), event(2, 1), event(0, 0)].concat();
        assert_eq!(movements_in(&[key.clone(), mouse].concat()), 2);
        assert_eq!(movements_in(&[event(0, 3), key].concat()), DROPPED + 1);
    }

    #[test]
    fn a_process_receives_each_movement_of_lately_twice_at_most() {
        let mut received = ReceivedMovements::default();
        let hands = |total, before| Movements { total, before };
        assert_eq!(received.within(5, hands(0, 0)), 0);
        assert_eq!(received.within(20, hands(10, 0)), 20);
        assert_eq!(received.within(1, hands(10, 0)), 0);
        assert_eq!(received.within(3, hands(12, 0)), 3);
        assert_eq!(received.within(3, hands(12, 0)), 0);
        // A movement that the process did not receive in time can never be received later.
        assert_eq!(received.within(100, hands(30, 28)), 4);
        assert_eq!(ReceivedMovements::default().within(100, hands(30, 28)), 4);
    }
}
