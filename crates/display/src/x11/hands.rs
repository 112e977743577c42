//! What the user's hands did: XInput's raw events of devices that are no XTEST device, and which deliveries they explain.
//!
//! Delivered events name no device that could be trusted, but each has the time of the raw event that it comes of. A
//! delivery counts if a hand did that at that time, once for each process, whatever else is injected meanwhile.

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
use super::record::{Delivered, Faked};

/// So many raw events are remembered: four seconds of a fast mouse.
const RAW_MAX: usize = 4096;
/// Between the times of a raw event and of what is delivered for it, at most, ms: nested servers read the clock twice.
const APART_MS: u32 = 2;
/// From the press of a key to its first repeat, at least, ms: servers wait for 500 or 660, and nobody for less than this.
const REPEAT_AFTER_MS: u32 = 100;
/// Between repeats of a key that is held down, at least, ms.
const REPEAT_MS: u32 = 15;
/// A delivery may be read so long before its raw event.
const PATIENCE: Duration = Duration::from_millis(250);
/// So many deliveries wait for their raw events.
const WAITING_MAX: usize = 4096;
/// From a client's faking something to the raw event of it, at most, ms.
const FAKED_MS: u32 = 100;
/// From raw kinds to delivered kinds, XInput's numbers.
const RAW_KEY: u16 = 13;
const PRESS: u8 = 2;
const RELEASE: u8 = 3;
const MOTION: u8 = 6;

/// A movement of a hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Raw {
    serial: u64,
    time_ms: u32,
    kind: u8,
    detail: u32,
    master: u16,
    source: u16,
}

/// What devices say, compared with what clients receive.
#[derive(Debug, Default)]
pub(super) struct Hands {
    /// Devices that hands move.
    real: BTreeSet<u16>,
    raw: VecDeque<Raw>,
    faked: VecDeque<Faked>,
    serial: u64,
    /// Keys that are held down: since when, ms.
    held: HashMap<u32, u32>,
    /// Up to which movement each process has been credited, by kind; when a repeat was, ms.
    credited: HashMap<(Tgid, u8), (u64, u32)>,
    waiting: VecDeque<(Instant, Tgid, Delivered)>,
}

/// Whether a device is XTEST's, which the server itself says.
fn is_synthetic(connection: &Server, device: u16, property: u32) -> Result<bool, LinkError> {
    let asked = connection.xinput_xi_get_property(device, false, property, AtomEnum::INTEGER.into(), 0, 1)?;
    // A device that is gone meanwhile is nobody's hand.
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

    /// Looks which devices there are.
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

    /// Takes an event of XInput's.
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
        // 13 to 17 are the raw ones of 2 to 6, 22 to 24 those of 18 to 20.
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

    /// A client made input in a device's name: the raw event of it is no hand's.
    pub(super) fn faked(&mut self, faked: Faked) {
        if self.faked.len() >= RAW_MAX {
            self.faked.pop_front();
        }
        self.faked.push_back(faked);
    }

    /// A process received something, whose hand's movement is looked for in [`Hands::settle`].
    pub(super) fn delivered(&mut self, tgid: Tgid, delivered: Delivered) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((Instant::now(), tgid, delivered));
        }
    }

    /// Takes away what was faked, and calls `credit` for each delivery that a hand explains.
    pub(super) fn settle(&mut self, mut credit: impl FnMut(Tgid)) {
        self.take_faked();
        for (since, tgid, delivered) in std::mem::take(&mut self.waiting) {
            if self.explains(tgid, &delivered) {
                credit(tgid);
            } else if since.elapsed() < PATIENCE {
                self.waiting.push_back((since, tgid, delivered));
            }
        }
        if self.credited.len() > RAW_MAX {
            self.credited.clear();
        }
    }

    /// Takes out the raw event of each thing that was faked: the first that fits. One that has not come yet is waited for.
    fn take_faked(&mut self) {
        let latest_ms = self.raw.back().map(|raw| raw.time_ms);
        let (raw, held) = (&mut self.raw, &mut self.held);
        self.faked.retain(|faked| {
            let is_it = |raw: &Raw| {
                let after_ms = raw.time_ms.wrapping_sub(faked.time_ms).wrapping_add(APART_MS);
                (raw.source, raw.kind) == (faked.device, faked.kind)
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
            // What the server did not do after all is not waited for.
            let later_ms = |now_ms: u32| now_ms.wrapping_sub(faked.time_ms).wrapping_add(APART_MS);
            latest_ms
                .is_none_or(|latest_ms| later_ms(latest_ms) <= FAKED_MS || later_ms(latest_ms) > u32::MAX / 2)
        });
    }

    /// Whether a hand did what a process received, and it has not been credited with that yet.
    fn explains(&mut self, tgid: Tgid, delivered: &Delivered) -> bool {
        let (credited, repeated_ms) = self.credited.entry((tgid, delivered.kind)).or_insert((0, 0));
        let after = self.raw.partition_point(|raw| raw.serial <= *credited);
        let found = self
            .raw
            .range(after..)
            .find(|raw| apart(raw.time_ms, delivered.time_ms) <= APART_MS && leads_to(raw, delivered));
        if let Some(raw) = found {
            *credited = raw.serial;
            return true;
        }
        // A key that is held down repeats, without raw events.
        let is_repeat = matches!(delivered.kind, PRESS | RELEASE)
            && self.held.get(&delivered.detail).is_some_and(|&since_ms| {
                let held_ms = delivered.time_ms.wrapping_sub(since_ms);
                // What is faked while a key is down for a moment is no repeat.
                let may_repeat = (REPEAT_AFTER_MS..u32::MAX / 2).contains(&held_ms);
                may_repeat && delivered.time_ms.wrapping_sub(*repeated_ms) >= REPEAT_MS
            });
        if is_repeat {
            *repeated_ms = delivered.time_ms;
        }
        is_repeat
    }
}

fn apart(one_ms: u32, other_ms: u32) -> u32 {
    one_ms.wrapping_sub(other_ms).min(other_ms.wrapping_sub(one_ms))
}

/// Whether such a movement makes such a delivery: the same kind, the same key, the same device; or a pointer's event of a touch.
fn leads_to(raw: &Raw, delivered: &Delivered) -> bool {
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
