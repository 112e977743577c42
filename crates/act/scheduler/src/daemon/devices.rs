//! The devices, as they are shown to users.

use std::collections::BTreeMap;

use spry_control::Device;
use spry_display::terminals::{self, Terminals};
use spry_display::{DeviceKind, DeviceState, DeviceStatus};
use spry_policy::{DeviceOwner, Place, Server, Tgid};

use super::process;

/// The data on devices that is shown besides the policy's standings.
#[derive(Clone, Copy, Debug)]
pub struct DeviceData<'a> {
    /// The server processes of devices.
    pub servers: &'a [Server],
    /// The recent drawing rate of each process, 1/s. Processes that have not drawn are left out.
    pub frames_per_s: &'a BTreeMap<Tgid, f64>,
}

impl DeviceData<'_> {
    /// The server process of a device.
    pub fn server(&self, place: Place) -> Option<Tgid> {
        let serves = |server: &&Server| server.device.is_some_and(|device| device.place == place);
        self.servers.iter().find(serves).map(|server| server.tgid)
    }
}

/// A device's name, as the first step on the path to a process.
pub fn name(place: Place) -> String {
    match place {
        Place::Display(number) => format!("display :{number}"),
        Place::Terminal { major, minor } => format!("terminal {}", terminals::Device { major, minor }),
        Place::Reports => "report".to_owned(),
    }
}

/// The devices for the status, each with its user. `others` are the devices that are no terminals.
pub fn devices(others: Vec<DeviceStatus>, terminals: &Terminals) -> Vec<(Device, DeviceOwner)> {
    let others = others.into_iter().map(|status| {
        let whose = whose(&status);
        (shown(status), whose)
    });
    let terminal = |(device, session): (terminals::Device, Option<Tgid>)| {
        // A terminal of another name space may have the same number, so its reader must be the user's, too.
        let is_theirs =
            |&uid: &u32| terminals.reader(device).is_some_and(|reader| process::is_wholly_of(reader, uid));
        let whose =
            terminals::owner(device).filter(is_theirs).map_or(DeviceOwner::Unknown, DeviceOwner::User);
        let shown = Device {
            kind: "terminal".to_owned(),
            state: "watched".to_owned(),
            name: format!("/dev/{device}"),
            tgid: session.map(|tgid| tgid.0),
        };
        (shown, whose)
    };
    others.chain(terminals.used().map(terminal)).collect()
}

fn shown(status: DeviceStatus) -> Device {
    Device {
        kind: match status.kind {
            DeviceKind::X11 => "x11",
            DeviceKind::Report => "report",
        }
        .to_owned(),
        state: match status.state {
            DeviceState::Waiting => "waiting".to_owned(),
            DeviceState::Watched => "watched".to_owned(),
            DeviceState::Ignored(why) => format!("ignored: {why}"),
            DeviceState::Failed(why) => format!("failed: {why}"),
        },
        name: status.name,
        tgid: status.server_tgid,
    }
}

fn whose(status: &DeviceStatus) -> DeviceOwner {
    match status.kind {
        DeviceKind::X11 => status.owner_uid.map_or(DeviceOwner::Unknown, DeviceOwner::User),
        DeviceKind::Report => DeviceOwner::Reported,
    }
}
