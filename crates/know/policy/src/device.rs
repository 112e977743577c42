//! The devices through which users reach programs, and the device that reported each process.

use std::collections::BTreeMap;

use crate::Tgid;
use crate::rating::Changes;

/// A device by its kind and number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// The X display of this number.
    Display(u32),
    /// The terminal with these device numbers.
    Terminal {
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
    /// The socket at which compositors and games report the processes in use.
    Reports,
}

/// The user that a device belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceOwner {
    /// The device is this user's.
    User(u32),
    /// The device is the socket for reports: a process that it reports belongs to the user of that process.
    Reported,
    /// The user is not known, or devices of several users reported the same process.
    Unknown,
}

/// A device that shows which processes are in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Device {
    /// The kind and the number of the device.
    pub place: Place,
    /// The user that the device belongs to.
    pub whose: DeviceOwner,
}

/// A process from which the search begins: a display server, the process of a remote session, a compositor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Server {
    /// The number of the process.
    pub tgid: Tgid,
    /// The device that the process serves; `None` for a compositor, which reports itself that it is a server.
    pub device: Option<Device>,
}

/// The report of a device (a display, a terminal) about one process since the latest round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The number of the process.
    pub tgid: Tgid,
    /// The device that reports.
    pub device: Device,
    /// The input and the drawing of the process.
    pub changes: Changes,
}

/// The device that reported each process, for as long as the process is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceBook {
    by_tgid: BTreeMap<Tgid, Device>,
}

impl DeviceBook {
    /// Notes the device that reported each process; the last device counts. If devices of different users
    /// reported a process, the process belongs to none of them until it is forgotten.
    pub(crate) fn note(&mut self, servers: &[Server], samples: &[Sample]) {
        let samples = samples.iter().map(|sample| (sample.tgid, sample.device));
        let servers = servers.iter().filter_map(|server| Some((server.tgid, server.device?)));
        for (tgid, mut device) in samples.chain(servers) {
            let before = self.by_tgid.get(&tgid);
            if before.is_some_and(|before| before.whose != device.whose) {
                device.whose = DeviceOwner::Unknown;
            }
            self.by_tgid.insert(tgid, device);
        }
    }

    /// Forgets a process.
    pub(crate) fn forget(&mut self, tgid: Tgid) {
        self.by_tgid.remove(&tgid);
    }

    /// Forgets the processes that are not kept.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(Tgid) -> bool) {
        self.by_tgid.retain(|&tgid, _| is_kept(tgid));
    }

    /// The device that reported a process last.
    pub(crate) fn of(&self, tgid: Tgid) -> Option<Device> {
        self.by_tgid.get(&tgid).copied()
    }

    /// The devices that reported processes, once for each process.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.by_tgid.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_on_devices_of_two_users_belongs_to_neither() {
        let told = |tgid, uid| Sample {
            tgid: Tgid(tgid),
            device: Device { place: Place::Display(uid), whose: DeviceOwner::User(uid) },
            changes: Changes::default(),
        };
        let mut book = DeviceBook::default();
        book.note(&[], &[told(7, 1), told(8, 1)]);
        book.note(&[], &[told(7, 2), told(8, 1)]);
        let whose = |book: &DeviceBook, tgid| book.of(Tgid(tgid)).map(|device| device.whose);
        assert_eq!(
            (whose(&book, 7), whose(&book, 8)),
            (Some(DeviceOwner::Unknown), Some(DeviceOwner::User(1)))
        );
        book.note(&[], &[told(7, 2)]);
        assert_eq!(whose(&book, 7), Some(DeviceOwner::Unknown));
        book.retain(|tgid| tgid.0 == 8);
        book.note(&[], &[told(7, 2)]);
        assert_eq!(whose(&book, 7), Some(DeviceOwner::User(2)));
    }
}
