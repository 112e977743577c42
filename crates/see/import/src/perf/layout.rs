//! The content of the records of one of perf's events, by the event's attributes (`perf_event_open(2)`,
//! "Reading results").

use std::collections::HashMap;

use crate::input::Order;

/// Bits of `perf_event_attr.sample_type`, in the order in which a sample has them as far as its raw data.
const IDENTIFIER: u64 = 1 << 16;
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const ID: u64 = 1 << 6;
const STREAM_ID: u64 = 1 << 9;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const RAW: u64 = 1 << 10;

/// Bits of `perf_event_attr.read_format`.
const READ_ENABLED: u64 = 1 << 0;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// Bits of `perf_event_attr`'s flags.
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u64 = 2;
/// The least length of an attribute, bytes: `PERF_ATTR_SIZE_VER0`.
const ATTR_BYTES_MIN: usize = 64;

/// The part of `perf_event_attr` that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attr {
    /// The tracepoint's number, if the event is a tracepoint.
    pub(crate) tracepoint: Option<u64>,
    /// Whether the event is recorded from the start of a command on, and so only for that command.
    pub(crate) is_of_one_command: bool,
    /// The clock of the event's stamps, if one was chosen.
    pub(crate) clock: Option<i32>,
    sample_type: u64,
    read_format: u64,
    has_trailer: bool,
}

impl Attr {
    /// Reads the structure from its bytes; also returns how many bytes it has.
    pub(crate) fn parse(bytes: &[u8], order: Order) -> Option<(Attr, usize)> {
        let number = |at, len| order.number_at(bytes, at, len);
        let size = number(4, 4)? as usize;
        if size < ATTR_BYTES_MIN || size > bytes.len() {
            return None;
        }
        let flags = number(40, 8)?;
        // On big-endian machines, bit fields begin at the most significant bit.
        let flags = if order == Order::Big { flags.reverse_bits() } else { flags };
        let has_clock = flags & FLAG_USE_CLOCKID != 0 && size >= 96;
        let attr = Attr {
            tracepoint: (number(0, 4)? == TYPE_TRACEPOINT).then_some(number(8, 8)?),
            is_of_one_command: flags & FLAG_ENABLE_ON_EXEC != 0,
            clock: if has_clock { number(92, 4).map(|clock| clock as i32) } else { None },
            sample_type: number(24, 8)?,
            read_format: number(32, 8)?,
            has_trailer: flags & FLAG_SAMPLE_ID_ALL != 0,
        };
        Some((attr, size))
    }
}

/// The time and the CPU of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) time_ns: Option<u64>,
    pub(crate) cpu: Option<u16>,
}

/// The events of one file.
#[derive(Debug, Default)]
pub(crate) struct Events {
    attrs: Vec<Attr>,
    /// The file chooses the identifiers, so their hash must be unpredictable.
    by_id: HashMap<u64, usize>,
    /// The number of events with their identifier at a known place in every record.
    identified: usize,
}

/// The largest number of stored identifiers of events; each event has one for each CPU.
const IDS_MAX: usize = 1 << 22;
/// The largest number of events that are read.
const ATTRS_MAX: usize = 1 << 14;

impl Events {
    pub(crate) fn add(&mut self, attr: Attr, ids: impl Iterator<Item = u64>) {
        if self.attrs.len() < ATTRS_MAX {
            let room = IDS_MAX.saturating_sub(self.by_id.len());
            self.by_id.extend(ids.take(room).map(|id| (id, self.attrs.len())));
            self.identified += usize::from(attr.sample_type & IDENTIFIER != 0);
            self.attrs.push(attr);
        }
    }

    pub(crate) fn attrs(&self) -> &[Attr] {
        &self.attrs
    }

    fn all_are_identified(&self) -> bool {
        self.identified == self.attrs.len()
    }

    fn attr_of(&self, id: Option<u64>) -> Option<&Attr> {
        let known = id.filter(|_| self.all_are_identified()).and_then(|id| self.by_id.get(&id));
        self.attrs.get(known.copied().unwrap_or(0))
    }

    /// A sample's stamp, and the tracepoint's record in it; `None` where the sample is cut off.
    pub(crate) fn sample<'a>(&self, body: &'a [u8], order: Order) -> Option<(Stamp, &'a [u8])> {
        let attr = self.attr_of(order.number_at(body, 0, 8))?;
        let mut walk = Walk { body, at: 0, order };
        let mut stamp = Stamp::default();
        for bit in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if attr.sample_type & bit != 0 {
                walk.note(bit, &mut stamp)?;
            }
        }
        if attr.sample_type & READ != 0 {
            walk.skip_read(attr.read_format)?;
        }
        if attr.sample_type & CALLCHAIN != 0 {
            let frames = walk.word()?;
            walk.skip_words(frames)?;
        }
        if attr.sample_type & RAW == 0 {
            return Some((stamp, &[]));
        }
        let len = order.number_at(body, walk.at, 4)? as usize;
        let start = walk.at + 4;
        Some((stamp, body.get(start..start.checked_add(len)?)?))
    }

    /// The stamp at the end of a record that is no sample.
    pub(crate) fn trailer(&self, body: &[u8], order: Order) -> Stamp {
        let last = body.len().checked_sub(8).and_then(|at| order.number_at(body, at, 8));
        let Some(attr) = self.attr_of(last).filter(|attr| attr.has_trailer) else { return Stamp::default() };
        let bits = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER].into_iter();
        let present = bits.filter(|bit| attr.sample_type & bit != 0);
        let mut stamp = Stamp::default();
        if let Some(at) = body.len().checked_sub(8 * present.clone().count()) {
            let mut walk = Walk { body, at, order };
            for bit in present {
                if walk.note(bit, &mut stamp).is_none() {
                    return Stamp::default();
                }
            }
        }
        stamp
    }
}

/// Goes through a record, word by word.
struct Walk<'a> {
    body: &'a [u8],
    at: usize,
    order: Order,
}

impl Walk<'_> {
    fn word(&mut self) -> Option<u64> {
        let word = self.order.number_at(self.body, self.at, 8)?;
        self.at += 8;
        Some(word)
    }

    fn skip_words(&mut self, words: u64) -> Option<()> {
        let bytes = usize::try_from(words).ok()?.checked_mul(8)?;
        self.at = self.at.checked_add(bytes).filter(|&at| at <= self.body.len())?;
        Some(())
    }

    /// Passes over the word for this bit of the sample type. A time and a CPU are stored in the stamp.
    fn note(&mut self, bit: u64, stamp: &mut Stamp) -> Option<()> {
        match bit {
            TIME => stamp.time_ns = Some(self.word()?),
            CPU => {
                let cpu = self.order.number_at(self.body, self.at, 4)?;
                self.word()?;
                stamp.cpu = u16::try_from(cpu).ok();
            }
            _ => _ = self.word()?,
        }
        Some(())
    }

    fn skip_read(&mut self, format: u64) -> Option<()> {
        let bit = |bit| u64::from(format & bit != 0);
        let times = bit(READ_ENABLED) + bit(READ_RUNNING);
        let each = 1 + bit(READ_ID) + bit(READ_LOST);
        if format & READ_GROUP == 0 {
            return self.skip_words(times + each);
        }
        let members = self.word()?;
        self.skip_words(times)?;
        self.skip_words(members.checked_mul(each)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(sample_type: u64, read_format: u64) -> Attr {
        let mut bytes = [0; 128];
        bytes[0] = 2;
        bytes[4] = 128;
        bytes[8] = 77;
        bytes[24..32].copy_from_slice(&sample_type.to_le_bytes());
        bytes[32..40].copy_from_slice(&read_format.to_le_bytes());
        bytes[40..48].copy_from_slice(&(FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID).to_le_bytes());
        bytes[92] = 1;
        let (attr, size) = Attr::parse(&bytes, Order::Little).unwrap();
        assert_eq!((attr.tracepoint, attr.clock, size), (Some(77), Some(1), 128));
        attr
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_sample_is_walked_to_its_raw_data() {
        let mut events = Events::default();
        let group = READ_GROUP | READ_ENABLED | READ_ID;
        events.add(attr(IDENTIFIER | TID | TIME | CPU | READ | CALLCHAIN | RAW, group), [5].into_iter());
        // The sample has two counters in a group, three frames and five bytes of raw data.
        let mut body = words(&[5, 0, 1234, 3, 2, 9, 1, 1, 2, 2, 3, 10, 11, 12]);
        body.extend_from_slice(&5u32.to_le_bytes());
        body.extend_from_slice(b"hello...");
        let (stamp, raw) = events.sample(&body, Order::Little).unwrap();
        assert_eq!(stamp, Stamp { time_ns: Some(1234), cpu: Some(3) });
        assert_eq!(raw, b"hello");
        for len in 0..body.len() - 3 {
            assert!(events.sample(&body[..len], Order::Little).is_none(), "cut to {len} bytes");
        }
    }

    #[test]
    fn identifiers_that_would_collide_are_told_apart_at_once() {
        // The inverse of the multiplier of the compiler's hash: there, all these identifiers are in one
        // bucket, and adding them takes minutes.
        let inverse = (0..6).fold(1u64, |inverse, _| {
            let product = 0xf135_7aea_2e62_a9c5u64.wrapping_mul(inverse);
            inverse.wrapping_mul(2u64.wrapping_sub(product))
        });
        assert_eq!(inverse.wrapping_mul(0xf135_7aea_2e62_a9c5), 1);
        let mut events = Events::default();
        events.add(attr(IDENTIFIER, 0), (0..1 << 20).map(|number: u64| number.wrapping_mul(inverse)));
        assert_eq!(events.by_id.len(), 1 << 20);
    }

    #[test]
    fn a_record_ends_with_its_stamp() {
        let mut events = Events::default();
        events.add(attr(TIME | RAW, 0), [5].into_iter());
        let other = attr(IDENTIFIER | TID | TIME | CPU, 0);
        assert_eq!(events.trailer(&words(&[8, 1, 2]), Order::Little).time_ns, Some(2));
        let mut events = Events::default();
        events.add(attr(IDENTIFIER | TIME, 0), [5].into_iter());
        events.add(other, [6].into_iter());
        let stamp = events.trailer(&words(&[100, 7, 1234, 1, 6]), Order::Little);
        assert_eq!(stamp, Stamp { time_ns: Some(1234), cpu: Some(1) });
        assert_eq!(events.trailer(&[], Order::Little), Stamp::default());
    }
}
