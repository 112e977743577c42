//! The input of real devices: XInput's raw events of devices other than XTEST's, and the deliveries
//! that they explain.
//!
//! A delivered event names no device that could be trusted, but it has the time of its raw event. A delivery
//! counts if a real device made that kind of movement at that time. Each movement counts once for each
//! process, whatever other input programs make meanwhile.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use spry_policy::Tgid;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{
    ConnectionExt as _, Device, DeviceType, EventMask, RawButtonPressEvent, RawKeyPressEvent,
    RawTouchBeginEvent, XIEventMask,
};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

use super::link::{LinkError, Server};
use super::record::{Delivery, FakeInput};
use super::relay::{ExplainedDelivery, Origin, Relays, Way, Worth};

/// The most raw events that are remembered: a fast mouse sends as many in four seconds.
const RAW_MAX: usize = 4096;
/// The largest difference between the time of a raw event and that of the delivered event, ms. Nested servers
/// read the clock twice.
pub(super) const APART_MS: u32 = 2;
/// The least time from the press of a key to its first repeat, ms: servers wait for 500 or 660, and no
/// setting is less than this.
const REPEAT_AFTER_MS: u32 = 100;
/// The least time between two repeats of a key that is held down, ms.
const REPEAT_MS: u32 = 15;
/// The longest time by which a delivery may be read before its raw event.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// The most deliveries that wait for their raw events.
const WAITING_MAX: usize = 4096;
/// The longest time from a client's faked event to the raw event for it, ms.
const FAKED_MS: u32 = 100;
/// XInput's numbers of event kinds: of the first raw kind, and of some delivered kinds.
const RAW_KEY: u16 = 13;
pub(super) const PRESS: u8 = 2;
const RELEASE: u8 = 3;
pub(super) const MOTION: u8 = 6;

/// A movement of a device, as a raw event reports it: a key, a button, a motion or a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Raw {
    serial: u64,
    time_ms: u32,
    kind: u8,
    detail: u32,
    master: u16,
    source: u16,
}

/// The devices' raw events, compared with the events that clients receive.
#[derive(Debug, Default)]
pub(super) struct Hands {
    /// The real devices: all devices but the masters and XTEST's.
    real: BTreeSet<u16>,
    raw: VecDeque<Raw>,
    faked: VecDeque<FakeInput>,
    serial: u64,
    /// The keys that are held down, each with the time of its press, ms.
    held: HashMap<u32, u32>,
    /// Per process and kind of event: the last movement that the process was credited with, and the time of
    /// its last repeat, ms.
    credited: HashMap<(Tgid, u8), (u64, u32)>,
    waiting: VecDeque<(Instant, Tgid, Delivery, Worth)>,
    relays: Relays,
}

/// Whether a device belongs to XTEST, as the server itself reports.
fn is_synthetic(connection: &Server, device: u16, property: u32) -> Result<bool, LinkError> {
    let asked = connection.xinput_xi_get_property(device, false, property, AtomEnum::INTEGER.into(), 0, 1)?;
    // A device that was removed meanwhile counts as XTEST's.
    let Some(reply) = asked.reply_unchecked()? else { return Ok(true) };
    Ok(reply.num_items > 0)
}

impl Hands {
    /// Asks for raw events of all devices, and for changes of devices.
    pub(super) fn begin(connection: &Server) -> Result<Hands, LinkError> {
        let root = connection.setup().roots[0].root;
        let raw = XIEventMask::RAW_KEY_PRESS
            | XIEventMask::RAW_KEY_RELEASE
            | XIEventMask::RAW_BUTTON_PRESS
            | XIEventMask::RAW_BUTTON_RELEASE
            | XIEventMask::RAW_MOTION
            | XIEventMask::RAW_TOUCH_BEGIN
            | XIEventMask::RAW_TOUCH_UPDATE
            | XIEventMask::RAW_TOUCH_END;
        let masks = [
            EventMask { deviceid: Device::ALL_MASTER.into(), mask: vec![raw] },
            EventMask { deviceid: Device::ALL.into(), mask: vec![XIEventMask::HIERARCHY] },
        ];
        connection.xinput_xi_select_events(root, &masks)?.check()?;
        let mut hands = Hands::default();
        hands.refresh(connection)?;
        Ok(hands)
    }

    /// Asks the server for its devices.
    fn refresh(&mut self, connection: &Server) -> Result<(), LinkError> {
        let property = connection.intern_atom(false, b"XTEST Device")?.reply()?.atom;
        let devices = connection.xinput_xi_query_device(u16::from(Device::ALL))?.reply()?.infos;
        self.real.clear();
        for device in devices {
            let is_master = [DeviceType::MASTER_KEYBOARD, DeviceType::MASTER_POINTER].contains(&device.type_);
            if !is_master && !is_synthetic(connection, device.deviceid, property)? {
                self.real.insert(device.deviceid);
            }
        }
        Ok(())
    }

    /// Takes in an event of XInput.
    pub(super) fn event(&mut self, connection: &Server, event: &Event) -> Result<(), LinkError> {
        match event {
            Event::XinputHierarchy(_) => return self.refresh(connection),
            Event::XinputRawKeyPress(key) | Event::XinputRawKeyRelease(key) => {
                let RawKeyPressEvent { event_type, deviceid, time, detail, sourceid, .. } = *key;
                self.moved(event_type, deviceid, time, detail, sourceid);
            }
            Event::XinputRawButtonPress(button)
            | Event::XinputRawButtonRelease(button)
            | Event::XinputRawMotion(button) => {
                let RawButtonPressEvent { event_type, deviceid, time, detail, sourceid, .. } = *button;
                self.moved(event_type, deviceid, time, detail, sourceid);
            }
            Event::XinputRawTouchBegin(touch)
            | Event::XinputRawTouchUpdate(touch)
            | Event::XinputRawTouchEnd(touch) => {
                let RawTouchBeginEvent { event_type, deviceid, time, detail, sourceid, .. } = *touch;
                self.moved(event_type, deviceid, time, detail, sourceid);
            }
            _ => {}
        }
        Ok(())
    }

    fn moved(&mut self, event_type: u16, master: u16, time_ms: u32, detail: u32, source: u16) {
        if !self.real.contains(&source) {
            return;
        }
        // The raw events 13 to 17 belong to the delivered events 2 to 6, and the raw events 22 to 24 to the
        // delivered events 18 to 20.
        let kind = if event_type < 18 { event_type - RAW_KEY + 2 } else { event_type - 4 } as u8;
        match kind {
            PRESS => drop(self.held.insert(detail, time_ms)),
            RELEASE => drop(self.held.remove(&detail)),
            _ => {}
        }
        self.serial += 1;
        if self.raw.len() >= RAW_MAX {
            self.raw.pop_front();
        }
        self.raw.push_back(Raw { serial: self.serial, time_ms, kind, detail, master, source });
    }

    /// A process (if it is known) made input by XTEST, or sent an event to a receiver. If it did so in the
    /// name of a device, the raw event that follows was not made by that device.
    pub(super) fn faked(&mut self, tgid: Option<Tgid>, faked: FakeInput, receiver: Option<Tgid>) {
        if let Some(tgid) = tgid {
            self.relays.made(tgid, faked, receiver);
        }
        if faked.device.is_none() {
            return;
        }
        if self.faked.len() >= RAW_MAX {
            self.faked.pop_front();
        }
        self.faked.push_back(faked);
    }

    /// A process received input; [`Hands::settle`] looks for the movement that made it.
    pub(super) fn delivered(&mut self, tgid: Tgid, delivered: Delivery, worth: Worth) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((Instant::now(), tgid, delivered, worth));
        }
    }

    /// Whether a process makes input, so that it may pass on the input that it receives.
    pub(super) fn is_relay(&self, tgid: Tgid) -> bool {
        self.relays.is_one(tgid)
    }

    /// Whether input is held back until time decides whether it counts.
    pub(super) fn is_holding(&self) -> bool {
        self.relays.is_holding()
    }

    /// Whether a key is held down, so that it may repeat.
    pub(super) fn holds_a_key(&self) -> bool {
        !self.held.is_empty()
    }

    /// Removes the raw events of faked input, and calls `credit` for each delivery that a movement of a real
    /// device explains.
    pub(super) fn settle(&mut self, mut credit: impl FnMut(Tgid)) {
        self.take_faked();
        let mut unexplained = VecDeque::new();
        for (since, tgid, delivered, worth) in std::mem::take(&mut self.waiting) {
            match self.explains(tgid, &delivered) {
                Some(serial) => {
                    let explained = ExplainedDelivery { tgid, delivered, worth, way: Way::FromHand, serial };
                    self.relays.received(explained, &mut credit);
                }
                None => unexplained.push_back((since, tgid, delivered, worth)),
            }
        }
        let credited = &self.credited;
        self.relays.pair(|explained| is_another_s(credited, explained), &mut credit);
        for (since, tgid, delivered, worth) in unexplained {
            match self.relays.origin(tgid, &delivered) {
                Origin::PassedOn(serial) => {
                    let explained = ExplainedDelivery { tgid, delivered, worth, way: Way::PassedOn, serial };
                    self.relays.received(explained, &mut credit);
                }
                Origin::Unknown if since.elapsed() < PATIENCE => {
                    self.waiting.push_back((since, tgid, delivered, worth));
                }
                _ => {}
            }
        }
        self.relays.settle(&mut credit);
        if self.credited.len() > RAW_MAX {
            self.credited.clear();
        }
    }

    /// Removes for each faked event the first raw event that fits. A faked event is kept as long as its raw
    /// event may still come.
    fn take_faked(&mut self) {
        let latest_ms = self.raw.back().map(|raw| raw.time_ms);
        let (raw, held) = (&mut self.raw, &mut self.held);
        self.faked.retain(|faked| {
            let is_it = |raw: &Raw| {
                let after_ms = raw.time_ms.wrapping_sub(faked.time_ms).wrapping_add(APART_MS);
                (Some(raw.source), raw.kind) == (faked.device, faked.kind)
                    && (raw.kind == MOTION || raw.detail == faked.detail)
                    && after_ms <= FAKED_MS
            };
            if let Some(at) = raw.iter().position(is_it) {
                if raw[at].kind == PRESS {
                    held.remove(&raw[at].detail);
                }
                raw.remove(at);
                return false;
            }
            // A faked event is dropped if its raw event did not come in time: the server did not carry it
            // out.
            let later_ms = |now_ms: u32| now_ms.wrapping_sub(faked.time_ms).wrapping_add(APART_MS);
            latest_ms
                .is_none_or(|latest_ms| later_ms(latest_ms) <= FAKED_MS || later_ms(latest_ms) > u32::MAX / 2)
        });
    }

    /// The movement that explains a delivery to a process, if the process has not been credited with
    /// that movement yet.
    fn explains(&mut self, tgid: Tgid, delivered: &Delivery) -> Option<u64> {
        let (credited, repeated_ms) = self.credited.entry((tgid, delivered.kind)).or_insert((0, 0));
        let after = self.raw.partition_point(|raw| raw.serial <= *credited);
        let found = self
            .raw
            .range(after..)
            .find(|raw| apart(raw.time_ms, delivered.time_ms) <= APART_MS && leads_to(raw, delivered));
        if let Some(raw) = found {
            *credited = raw.serial;
            return Some(raw.serial);
        }
        // A key that is held down repeats, without raw events.
        let is_repeat = matches!(delivered.kind, PRESS | RELEASE)
            && self.held.get(&delivered.detail).is_some_and(|&since_ms| {
                let held_ms = delivered.time_ms.wrapping_sub(since_ms);
                // If the key has been down for a moment only, the event is faked and no repeat.
                let may_repeat = (REPEAT_AFTER_MS..u32::MAX / 2).contains(&held_ms);
                may_repeat && delivered.time_ms.wrapping_sub(*repeated_ms) >= REPEAT_MS
            });
        if is_repeat {
            *repeated_ms = delivered.time_ms;
        }
        is_repeat.then_some(*credited)
    }
}

/// Whether another process was credited with the movement that this process received.
fn is_another_s(credited: &HashMap<(Tgid, u8), (u64, u32)>, explained: &ExplainedDelivery) -> bool {
    credited.iter().any(|(&(tgid, kind), &(serial, _))| {
        tgid != explained.tgid && kind == explained.delivered.kind && serial >= explained.serial
    })
}

fn apart(one_ms: u32, other_ms: u32) -> u32 {
    one_ms.wrapping_sub(other_ms).min(other_ms.wrapping_sub(one_ms))
}

/// Whether this raw event can be the cause of this delivery: the kind, the key and the device are the same,
/// or the delivery is a pointer event of a touch.
fn leads_to(raw: &Raw, delivered: &Delivery) -> bool {
    let is_kind = match raw.kind {
        kind if kind == delivered.kind => true,
        18 => matches!(delivered.kind, 4 | 6),
        19 => delivered.kind == 6,
        20 => matches!(delivered.kind, 5 | 6),
        _ => false,
    };
    let is_key = !matches!(raw.kind, PRESS | RELEASE) || raw.detail == delivered.detail;
    let is_device = delivered.device.is_none_or(|device| [raw.master, raw.source].contains(&device));
    is_kind && is_key && is_device
}

#[cfg(test)]
mod tests;
