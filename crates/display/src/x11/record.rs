//! What clients receive, as RECORD tells it: each delivered input event with the client that it went to.

use std::os::fd::{AsRawFd, RawFd};

use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::record::{CS, ConnectionExt as _, ElementHeader, ExtRange, Range, Range8, Range16};
use x11rb::protocol::{xinput, xtest};

use super::link::{Link, LinkError, Server};
use crate::sys;

/// Core events from a pressed key to a moved pointer.
const CORE: Range8 = Range8 { first: 2, last: 6 };
/// Events of extensions that are longer than core events: XInput's, Present's.
const GENERIC: u8 = 35;
/// An event that a client sent.
const SENT: u8 = 0x80;
/// XInput's events of keys, buttons and motion, and of touches. What is between, the raw ones above all, is no delivery of
/// input to a window.
const INPUT: [std::ops::RangeInclusive<u16>; 2] = [2..=6, 18..=20];
/// XTEST's only request that makes input.
const FAKE_INPUT: u16 = 2;
/// Lengths of a reply's head and of an event.
const HEAD: usize = 32;
const EVENT: usize = 32;
/// More in one reply is no reply of RECORD's: its buffer has a kilobyte.
const REPLY_MAX: usize = 1 << 20;

/// What a client received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Delivered {
    /// The base of the client's resources.
    pub(super) client: u32,
    /// The window that it was delivered to.
    pub(super) window: u32,
    /// By XInput's numbers: 2 a pressed key, 3 a released one, 4 and 5 buttons, 6 motion, 18 to 20 touches.
    pub(super) kind: u8,
    /// The key, for keys.
    pub(super) detail: u32,
    /// The device, where the event names one.
    pub(super) device: Option<u16>,
    /// The server's time, ms.
    pub(super) time_ms: u32,
}

/// Input that a client asked XTEST for, on a device that it named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Faked {
    /// The device.
    pub(super) device: u16,
    /// As [`Delivered::kind`].
    pub(super) kind: u8,
    /// The key, or the button.
    pub(super) detail: u32,
    /// The server's time, ms.
    pub(super) time_ms: u32,
}

/// What RECORD tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// A client received input.
    Delivered(Delivered),
    /// A client made input in the name of a device.
    Faked(Faked),
    /// A client is gone.
    Gone(u32),
}

/// What RECORD tells, of core events and of the long ones.
#[derive(Debug)]
pub(super) struct Record {
    kinds: Kinds,
    streams: [Stream; 2],
}

#[derive(Debug)]
struct Stream {
    socket: RawFd,
    buffer: Vec<u8>,
    filled: usize,
}

impl Record {
    /// Begins to record all clients but ourselves.
    pub(super) fn begin(link: &Link) -> Result<Record, LinkError> {
        let found = |name| Ok::<_, LinkError>(link.control.extension_information(name)?);
        let xinput =
            found(xinput::X11_EXTENSION_NAME)?.ok_or(LinkError::NoExtension(xinput::X11_EXTENSION_NAME))?;
        let mut core = vec![Range { delivered_events: CORE, client_died: true, ..Range::default() }];
        if let Some(xtest) = found(xtest::X11_EXTENSION_NAME)?.map(|xtest| xtest.major_opcode) {
            let ext_requests = ExtRange {
                major: Range8 { first: xtest, last: xtest },
                minor: Range16 { first: FAKE_INPUT, last: FAKE_INPUT },
            };
            core.push(Range { ext_requests, ..Range::default() });
        }
        let generic =
            [Range { delivered_events: Range8 { first: GENERIC, last: GENERIC }, ..Range::default() }];
        // Two, because servers tell nothing of the long events where one context has both.
        let streams =
            [Stream::begin(link, &link.data[0], &core)?, Stream::begin(link, &link.data[1], &generic)?];
        let kinds = Kinds { xinput: xinput.major_opcode, device_first: xinput.first_event };
        Ok(Record { kinds, streams })
    }

    /// Where to wait.
    pub(super) fn sockets(&self) -> [RawFd; 2] {
        [self.streams[0].socket, self.streams[1].socket]
    }

    /// Reads what is there; says whether there was anything.
    pub(super) fn read(
        &mut self,
        mut tell: impl FnMut(Told) -> Result<(), LinkError>,
    ) -> Result<bool, LinkError> {
        let mut is_any = false;
        for stream in &mut self.streams {
            is_any |= stream.read(self.kinds, &mut tell)?;
        }
        Ok(is_any)
    }
}

impl Stream {
    /// Begins to record all clients but ourselves. From then on the connection carries nothing else.
    fn begin(link: &Link, data: &Server, ranges: &[Range]) -> Result<Stream, LinkError> {
        let control = &link.control;
        let context = control.generate_id()?;
        // Not the current and the future ones: of those servers tell nothing.
        let clients = [CS::ALL_CLIENTS.into()];
        let times = ElementHeader::from(record_times());
        control.record_create_context(context, times, &clients, ranges)?.check()?;
        // Our own events would come back as many times as they are read.
        let own = [control, &link.data[0], &link.data[1]].map(|own| own.setup().resource_id_base);
        control.record_unregister_clients(context, &own)?.check()?;
        // Read by hand, so that it can be read without waiting: the cookie's answers are never asked for.
        let cookie = data.record_enable_context(context)?;
        std::mem::forget(cookie);
        data.flush()?;
        Ok(Stream { socket: data.stream().as_raw_fd(), buffer: vec![0; 16 << 10], filled: 0 })
    }

    fn read(
        &mut self,
        kinds: Kinds,
        tell: &mut impl FnMut(Told) -> Result<(), LinkError>,
    ) -> Result<bool, LinkError> {
        let mut is_any = false;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            let Some(count) = sys::receive(self.socket, &mut self.buffer[self.filled..])? else { break };
            is_any = true;
            self.filled += count;
            let is_all = self.filled < self.buffer.len();
            let used = self.replies(kinds, tell)?;
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
            if is_all {
                break;
            }
        }
        Ok(is_any)
    }

    /// Tells of all whole replies; how many bytes they are.
    fn replies(
        &self,
        kinds: Kinds,
        tell: &mut impl FnMut(Told) -> Result<(), LinkError>,
    ) -> Result<usize, LinkError> {
        let mut used = 0;
        while let Some(head) = self.buffer[..self.filled].get(used..used + HEAD) {
            let length = word(head, 4) as usize * 4;
            match head[0] {
                // An error ends the recording; events were never asked for.
                0 => return Err(LinkError::Broken("RECORD was refused".into())),
                1 if length > REPLY_MAX => return Err(LinkError::Broken("a reply too long".into())),
                1 => {}
                _ => {
                    used += EVENT;
                    continue;
                }
            }
            let Some(data) = self.buffer[..self.filled].get(used + HEAD..used + HEAD + length) else { break };
            kinds.reply(head, data, tell)?;
            used += HEAD + length;
        }
        Ok(used)
    }
}

/// What numbers mean on this server.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    xinput: u8,
    /// XInput 1's first event.
    device_first: u8,
}

impl Kinds {
    fn reply(
        self,
        head: &[u8],
        data: &[u8],
        tell: &mut impl FnMut(Told) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let order = if head[9] != 0 { Order::Swapped } else { Order::Ours };
        let client = word(head, 12);
        match head[1] {
            FROM_SERVER => {
                let events = data.chunks_exact(EVENT);
                events
                    .filter_map(|event| self.delivered(client, event, order))
                    .try_for_each(|one| tell(Told::Delivered(one)))
            }
            FROM_CLIENT => self.faked(data, order).into_iter().try_for_each(|one| tell(Told::Faked(one))),
            CLIENT_DIED => tell(Told::Gone(client)),
            _ => Ok(()),
        }
    }

    fn delivered(self, client: u32, event: &[u8], order: Order) -> Option<Delivered> {
        if event[0] & SENT != 0 {
            return None;
        }
        let delivered = match event[0] {
            kind if (CORE.first..=CORE.last).contains(&kind) => Delivered {
                client,
                window: order.word(event, 12),
                kind,
                detail: event[1].into(),
                device: None,
                time_ms: order.word(event, 4),
            },
            GENERIC if event[1] == self.xinput => {
                let kind = order.half(event, 8);
                if !INPUT.iter().any(|input| input.contains(&kind)) {
                    return None;
                }
                Delivered {
                    client,
                    window: order.word(event, 24),
                    kind: kind as u8,
                    detail: order.word(event, 16),
                    device: Some(order.half(event, 10)),
                    time_ms: order.word(event, 12),
                }
            }
            _ => return None,
        };
        Some(delivered)
    }

    /// XTEST's requests that name a device: each after its time.
    fn faked(self, data: &[u8], order: Order) -> Vec<Faked> {
        let mut list = Vec::new();
        let mut rest = data;
        while rest.len() >= 8 {
            let time_ms = word(rest, 0);
            let length = (usize::from(order.half(rest, 6)) * 4).max(4);
            let Some(request) = rest.get(4..4 + length) else { break };
            // Types of core events mean XTEST's own devices; those of XInput 1, from a pressed key to motion, name another.
            let kind = (request.len() >= 36).then(|| (request[4] & !SENT).wrapping_sub(self.device_first));
            if let Some(kind @ 1..=5) = kind {
                let device = u16::from(request[35] & 0x7f);
                list.push(Faked { device, kind: kind + 1, detail: request[5].into(), time_ms });
            }
            rest = &rest[4 + length..];
        }
        list
    }
}

/// Categories of replies (RECORD protocol, EnableContext).
const FROM_SERVER: u8 = 0;
const FROM_CLIENT: u8 = 1;
const CLIENT_DIED: u8 = 3;

/// Requests come with the time at which the server took them.
fn record_times() -> u8 {
    x11rb::protocol::record::HType::FROM_CLIENT_TIME.into()
}

/// A client's order of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Ours,
    Swapped,
}

impl Order {
    fn word(self, bytes: &[u8], at: usize) -> u32 {
        match self {
            Order::Ours => word(bytes, at),
            Order::Swapped => word(bytes, at).swap_bytes(),
        }
    }

    fn half(self, bytes: &[u8], at: usize) -> u16 {
        let half = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        match self {
            Order::Ours => half,
            Order::Swapped => half.swap_bytes(),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
