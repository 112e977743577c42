//! The input that clients receive, as RECORD reports it: each delivered event with its client.

use std::os::fd::{AsFd, BorrowedFd};

use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::record::{CS, ConnectionExt as _, ElementHeader, ExtRange, Range, Range8, Range16};
use x11rb::protocol::{xinput, xtest};

use super::link::{Link, LinkError, Server};
use crate::sys;

/// The core events of input: from 2, a pressed key, to 6, a moved pointer.
const CORE: Range8 = Range8 { first: 2, last: 6 };
/// The type of an event that is longer than a core event: such events are XInput's and Present's.
const GENERIC: u8 = 35;
/// This bit marks an event that a client sent to another client.
const SENT: u8 = 0x80;
/// The types of XInput's events of keys, buttons, motion and touches. The types between them (raw events
/// above all) are no deliveries of input to a window.
const INPUT: [std::ops::RangeInclusive<u16>; 2] = [2..=6, 18..=20];
/// XTEST's only request that makes input.
const FAKE_INPUT: u16 = 2;
const FAKE_INPUT_LENGTH: usize = 36;
/// The core request that sends an event, and how long it is.
const SEND_EVENT: u8 = 25;
const SEND_EVENT_LENGTH: usize = 44;
/// The length of a reply's head, and the length of an event, bytes.
const HEAD: usize = 32;
const EVENT: usize = 32;
/// The longest reply that is read, bytes; RECORD's buffer has a kilobyte.
const REPLY_MAX: usize = 1 << 20;

/// An input event that a client received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Delivery {
    /// The base of the client's resources.
    pub(super) client: u32,
    /// The window that the event was delivered to.
    pub(super) window: u32,
    /// The kind of event, in XInput's numbers: 2 a pressed key, 3 a released key, 4 and 5 buttons, 6 motion,
    /// 18 to 20 touches.
    pub(super) kind: u8,
    /// The key of an event of a key.
    pub(super) detail: u32,
    /// The device, if the event names one.
    pub(super) device: Option<u16>,
    /// The time of the event by the server's clock, ms.
    pub(super) time_ms: u32,
}

/// Input that a client asked XTEST for, or an event that a client sent to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FakeInput {
    /// The base of the client's resources.
    pub(super) client: u32,
    /// The device that the event claims to come from; `None` for XTEST's own devices, and for an
    /// event that was sent.
    pub(super) device: Option<u16>,
    /// The window that the event was sent to; `None` for input by XTEST.
    pub(super) to: Option<u32>,
    /// The kind of event, as [`Delivery::kind`].
    pub(super) kind: u8,
    /// The key, or the button.
    pub(super) detail: u32,
    /// The time of the request by the server's clock, ms.
    pub(super) time_ms: u32,
}

/// The reports of RECORD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordReport {
    /// A client received input.
    Delivered(Delivery),
    /// A client made input.
    Faked(FakeInput),
    /// A client has ended.
    Gone(u32),
}

/// The recording by RECORD: one stream of core events, and one of long events.
#[derive(Debug)]
pub(super) struct Record<'l> {
    kinds: Kinds,
    streams: [Stream<'l>; 2],
}

#[derive(Debug)]
struct Stream<'l> {
    socket: BorrowedFd<'l>,
    buffer: Vec<u8>,
    filled: usize,
}

impl<'l> Record<'l> {
    /// Begins to record all clients except the eyes themselves.
    pub(super) fn begin(link: &'l Link) -> Result<Record<'l>, LinkError> {
        let found = |name| Ok::<_, LinkError>(link.control.extension_information(name)?);
        let xinput =
            found(xinput::X11_EXTENSION_NAME)?.ok_or(LinkError::NoExtension(xinput::X11_EXTENSION_NAME))?;
        let core_requests = Range8 { first: SEND_EVENT, last: SEND_EVENT };
        let mut core =
            vec![Range { delivered_events: CORE, client_died: true, core_requests, ..Range::default() }];
        if let Some(xtest) = found(xtest::X11_EXTENSION_NAME)?.map(|xtest| xtest.major_opcode) {
            let ext_requests = ExtRange {
                major: Range8 { first: xtest, last: xtest },
                minor: Range16 { first: FAKE_INPUT, last: FAKE_INPUT },
            };
            core.push(Range { ext_requests, ..Range::default() });
        }
        let generic =
            [Range { delivered_events: Range8 { first: GENERIC, last: GENERIC }, ..Range::default() }];
        // Two contexts are used, because servers report none of the long events if one context has both
        // kinds.
        let streams =
            [Stream::begin(link, &link.data[0], &core)?, Stream::begin(link, &link.data[1], &generic)?];
        let kinds = Kinds { xinput: xinput.major_opcode, device_first: xinput.first_event };
        Ok(Record { kinds, streams })
    }

    /// The sockets to wait at.
    pub(super) fn sockets(&self) -> [BorrowedFd<'l>; 2] {
        [self.streams[0].socket, self.streams[1].socket]
    }

    /// Appends the reports of the RECORD extension to `told`. Returns whether there were any.
    pub(super) fn read(&mut self, told: &mut Vec<RecordReport>) -> Result<bool, LinkError> {
        let mut is_any = false;
        for stream in &mut self.streams {
            is_any |= stream.read(self.kinds, told)?;
        }
        Ok(is_any)
    }
}

impl<'l> Stream<'l> {
    /// Begins to record all clients except the eyes themselves. From then on the connection
    /// carries nothing else.
    fn begin(link: &Link, data: &'l Server, ranges: &[Range]) -> Result<Stream<'l>, LinkError> {
        let control = &link.control;
        let context = control.generate_id()?;
        // The range of all clients is used: if the current and the future clients are given instead, servers
        // report nothing about them.
        let clients = [CS::ALL_CLIENTS.into()];
        let times = ElementHeader::from(record_times());
        control.record_create_context(context, times, &clients, ranges)?.check()?;
        // The eyes' own connections are left out: each event that they read would be recorded again.
        let own = link.all().map(|own| own.setup().resource_id_base);
        control.record_unregister_clients(context, &own)?.check()?;
        // The answers are read from the socket directly, so that reading never waits; the cookie is never
        // asked for them.
        let cookie = data.record_enable_context(context)?;
        std::mem::forget(cookie);
        data.flush()?;
        Ok(Stream { socket: data.stream().as_fd(), buffer: vec![0; 16 << 10], filled: 0 })
    }

    fn read(&mut self, kinds: Kinds, told: &mut Vec<RecordReport>) -> Result<bool, LinkError> {
        let mut is_any = false;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            let Some(count) = sys::receive(self.socket, &mut self.buffer[self.filled..])? else { break };
            is_any = true;
            self.filled += count;
            let is_all = self.filled < self.buffer.len();
            let used = self.replies(kinds, told)?;
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
            if is_all {
                break;
            }
        }
        Ok(is_any)
    }

    /// Adds the reports of the whole replies in the buffer to `told`. Returns the length of these
    /// replies, bytes.
    fn replies(&self, kinds: Kinds, told: &mut Vec<RecordReport>) -> Result<usize, LinkError> {
        let mut used = 0;
        while let Some(head) = self.buffer[..self.filled].get(used..used + HEAD) {
            let length = word(head, 4) as usize * 4;
            match head[0] {
                // An error means that the server does not record; events may come, but the eyes did not ask
                // for any.
                0 => return Err(LinkError::Broken("RECORD was refused".into())),
                1 if length > REPLY_MAX => return Err(LinkError::Broken("a reply too long".into())),
                1 => {}
                _ => {
                    used += EVENT;
                    continue;
                }
            }
            let Some(data) = self.buffer[..self.filled].get(used + HEAD..used + HEAD + length) else { break };
            kinds.reply(head, data, told);
            used += HEAD + length;
        }
        Ok(used)
    }
}

/// The numbers of XInput's extension on this server.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    xinput: u8,
    /// The number of the first event of XInput 1.
    device_first: u8,
}

impl Kinds {
    fn reply(self, head: &[u8], data: &[u8], told: &mut Vec<RecordReport>) {
        let order = if head[9] != 0 { Order::Swapped } else { Order::Ours };
        let client = word(head, 12);
        match head[1] {
            FROM_SERVER => {
                let events = data.chunks_exact(EVENT);
                told.extend(
                    events
                        .filter_map(|event| self.delivered(client, event, order))
                        .map(RecordReport::Delivered),
                );
            }
            FROM_CLIENT => told.extend(self.faked(client, data, order).into_iter().map(RecordReport::Faked)),
            CLIENT_DIED => told.push(RecordReport::Gone(client)),
            _ => {}
        }
    }

    fn delivered(self, client: u32, event: &[u8], order: Order) -> Option<Delivery> {
        if event[0] & SENT != 0 {
            return None;
        }
        let delivered = match event[0] {
            kind if (CORE.first..=CORE.last).contains(&kind) => Delivery {
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
                Delivery {
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

    /// The requests in `data` that make or send input. The time of a request precedes it.
    fn faked(self, client: u32, data: &[u8], order: Order) -> Vec<FakeInput> {
        let mut list = Vec::new();
        let mut rest = data;
        while rest.len() >= 8 {
            let time_ms = word(rest, 0);
            let length = (usize::from(order.half(rest, 6)) * 4).max(4);
            let Some(request) = rest.get(4..4 + length) else { break };
            let made = if request[0] == SEND_EVENT { sent(request, order) } else { self.made(request) };
            list.extend(made.map(|made| FakeInput { client, time_ms, ..made }));
            rest = &rest[4 + length..];
        }
        list
    }

    /// A request to XTEST to make input.
    fn made(self, request: &[u8]) -> Option<FakeInput> {
        if request.len() < FAKE_INPUT_LENGTH {
            return None;
        }
        let sort = request[4] & !SENT;
        // If the request names a kind of core event, it means XTEST's own devices. If it names a kind of
        // XInput 1, from a pressed key to motion, it means another device.
        let (device, kind) = match sort.wrapping_sub(self.device_first) {
            _ if (CORE.first..=CORE.last).contains(&sort) => (None, sort),
            of_device @ 1..=5 => (Some(u16::from(request[35] & 0x7f)), of_device + 1),
            _ => return None,
        };
        Some(FakeInput { client: 0, device, to: None, kind, detail: request[5].into(), time_ms: 0 })
    }
}

/// An input event that a client sends to a window.
fn sent(request: &[u8], order: Order) -> Option<FakeInput> {
    if request.len() < SEND_EVENT_LENGTH {
        return None;
    }
    let (kind, detail) = (request[12] & !SENT, request[13].into());
    let is_input = (CORE.first..=CORE.last).contains(&kind);
    let to = Some(order.word(request, 4));
    is_input.then_some(FakeInput { client: 0, device: None, to, kind, detail, time_ms: 0 })
}

/// Categories of replies (RECORD protocol, EnableContext).
const FROM_SERVER: u8 = 0;
const FROM_CLIENT: u8 = 1;
const CLIENT_DIED: u8 = 3;

/// The flag that makes the server send each request with the time at which it took the request.
fn record_times() -> u8 {
    x11rb::protocol::record::HType::FROM_CLIENT_TIME.into()
}

/// The byte order of a client.
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
