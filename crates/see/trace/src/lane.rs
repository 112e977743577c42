//! One CPU's stream on its way through the reader: segments in, one event at a time out.

use std::collections::VecDeque;

use zstd::stream::raw::{DParameter, Decoder as Unpacker, InBuffer, Operation, OutBuffer};

use crate::decode::{Decoder, ReadOutcome};
use crate::event::{Event, Lost, Stamped};
use crate::reader::Totals;
use crate::varint::Cursor;

/// The fixed part of a block.
pub(crate) struct BlockStart {
    /// The time of the block's first event, ns of the trace's clock.
    pub(crate) first_ns: u64,
    /// Events of this CPU in the blocks before.
    pub(crate) events_before: u64,
    /// Events of this CPU that were lost before the block.
    pub(crate) lost_before: u64,
}

/// A piece of a CPU's stream, as it stands in the file.
pub(crate) struct Segment {
    pub(crate) starts: Option<BlockStart>,
    /// Events in the segment.
    pub(crate) count: u64,
    /// The segment's length before compression, if it is compressed.
    pub(crate) raw_len: Option<usize>,
    pub(crate) data: Vec<u8>,
}

impl Segment {
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// The memory that the segment takes while it waits, bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.data.len() + size_of::<Waiting>()
    }
}

/// The memory of all lanes, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Memory {
    /// Segments as they stand in the file.
    pub(crate) waiting: usize,
    /// Segments that are being decoded, and the state of their decompressors and decoders.
    pub(crate) unpacked: usize,
}

/// The limit of [`Memory::unpacked`], bytes. Without it, a few bytes of a file could take 16 MiB a CPU.
const UNPACKED_BYTES_MAX: usize = 1 << 30;

/// The time of a lane that has no event ready.
pub(crate) const NEVER: u64 = u64::MAX;

/// The input of a lane, in the file's order.
enum Waiting {
    Segment(Segment),
    /// Segments may be missing here.
    Gap,
}

/// The largest zstd window that is accepted, as a power of two, bytes; the writer's windows are smaller.
const WINDOW_LOG_MAX: u32 = 21;
const WINDOW_BYTES_MAX: usize = 1 << WINDOW_LOG_MAX;

/// One CPU's stream.
pub(crate) struct Lane {
    cpu: u16,
    tick_ns: u64,
    waiting: VecDeque<Waiting>,
    raw: Vec<u8>,
    position: usize,
    /// The decoder of the block; `None` between damage and the next block.
    decoder: Option<Decoder>,
    unpacker: Option<Unpacker<'static>>,
    /// The upper limit of the bytes in the unpacker's window.
    history: usize,
    /// Bytes of this lane in [`Memory::unpacked`].
    unpacked: usize,
    /// Events of this CPU up to here, by the blocks' own count; `None` before the first block.
    events: Option<u64>,
    /// Events that the segment counts and that have not been decoded yet.
    owed: u64,
    lost: u64,
    /// The event to return next, if `is_ready`.
    next: Stamped,
    is_ready: bool,
}

impl Lane {
    pub(crate) fn new(cpu: u16, tick_ns: u64) -> Lane {
        Lane {
            cpu,
            tick_ns,
            waiting: VecDeque::new(),
            raw: Vec::new(),
            position: 0,
            decoder: None,
            unpacker: None,
            history: 0,
            unpacked: 0,
            events: None,
            owed: 0,
            lost: 0,
            next: Stamped { time_ns: 0, cpu, event: Event::ScheduleEnter },
            is_ready: false,
        }
    }

    pub(crate) fn add(&mut self, segment: Segment) {
        self.waiting.push_back(Waiting::Segment(segment));
    }

    /// Notes that segments may be missing here, so that the block cannot go on.
    pub(crate) fn gap(&mut self) {
        if !matches!(self.waiting.back(), Some(Waiting::Gap)) {
            self.waiting.push_back(Waiting::Gap);
        }
    }

    /// The time of the next event, ns; [`NEVER`] if none is ready.
    #[inline]
    pub(crate) fn time_ns(&self) -> u64 {
        if self.is_ready { self.next.time_ns } else { NEVER }
    }

    /// The event that is ready, or the event that was returned last.
    #[inline]
    pub(crate) fn event(&self) -> &Stamped {
        &self.next
    }

    /// Returns the time of the ready event. An event older than `time_ns` gets that time.
    #[inline]
    pub(crate) fn give(&mut self, time_ns: u64) -> u64 {
        self.next.time_ns = self.next.time_ns.max(time_ns);
        self.next.time_ns
    }

    /// Decodes the next event, if the segments read so far hold one. The function is inlined, since it is the
    /// body of a loop.
    #[inline(always)]
    pub(crate) fn decode(&mut self, memory: &mut Memory, totals: &mut Totals) {
        self.is_ready = false;
        loop {
            while self.position < self.raw.len() {
                let Some(decoder) = &mut self.decoder else { break };
                let mut cursor = Cursor::at(&self.raw, self.position);
                let told = decoder.next(&mut cursor, &mut self.next.event);
                match told {
                    Some(ReadOutcome::Event) => {
                        self.position = cursor.position();
                        if let Event::Lost(Lost { count }) = self.next.event {
                            self.lost = self.lost.saturating_add(count);
                        }
                        self.owed = self.owed.saturating_sub(u64::from(self.next.event.is_counted()));
                        self.next.time_ns = decoder.last_ns();
                        self.is_ready = true;
                        return;
                    }
                    Some(ReadOutcome::Nothing) => self.position = cursor.position(),
                    None => {
                        totals.damaged_bytes += (self.raw.len() - self.position) as u64;
                        self.break_block();
                    }
                }
            }
            if !self.next_segment(memory, totals) || self.is_ready {
                return;
            }
        }
    }

    /// Discards the unreadable rest of the block. The next block's counts give the number of events in it.
    fn break_block(&mut self) {
        self.events = self.events.map(|events| events.saturating_sub(self.owed));
        self.owed = 0;
        self.decoder = None;
        self.unpacker = None;
        self.history = 0;
        self.raw.clear();
        self.position = 0;
    }

    /// Takes up the next segment or gap; `false` if none waits. May leave a `Lost` event ready.
    fn next_segment(&mut self, memory: &mut Memory, totals: &mut Totals) -> bool {
        self.raw.clear();
        self.position = 0;
        if memory.unpacked > UNPACKED_BYTES_MAX / 2 {
            self.raw = Vec::new();
        }
        let is_segment = self.take_segment(memory, totals);
        self.count_unpacked(memory);
        is_segment
    }

    /// Brings the lane's part of [`Memory::unpacked`] up to date.
    fn count_unpacked(&mut self, memory: &mut Memory) {
        // The tables grow by less than twice the segment while it is decoded.
        let tables = self.decoder.as_ref().map_or(0, Decoder::table_bytes) + 2 * self.raw.len();
        let unpacked = self.raw.capacity() + self.history + tables;
        memory.unpacked = memory.unpacked - self.unpacked + unpacked;
        self.unpacked = unpacked;
    }

    fn take_segment(&mut self, memory: &mut Memory, totals: &mut Totals) -> bool {
        if let Some(events) = &mut self.events {
            // If the last segment counted more events than it held, the surplus is taken off.
            *events = events.saturating_sub(std::mem::take(&mut self.owed));
        }
        let segment = match self.waiting.pop_front() {
            Some(Waiting::Segment(segment)) => segment,
            Some(Waiting::Gap) => {
                self.break_block();
                return true;
            }
            None => return false,
        };
        memory.waiting = memory.waiting.saturating_sub(segment.waiting_bytes());
        if let Some(starts) = &segment.starts {
            self.start_block(starts);
        }
        if self.decoder.is_none() {
            totals.damaged_bytes += segment.len() as u64;
            return true;
        }
        match segment.raw_len {
            None => self.raw = segment.data,
            Some(raw_len) => {
                self.count_unpacked(memory);
                let is_too_much = memory.unpacked + 4 * raw_len > UNPACKED_BYTES_MAX;
                if is_too_much || self.unpack(&segment.data, raw_len).is_none() {
                    totals.damaged_bytes += segment.len() as u64;
                    self.break_block();
                    return true;
                }
            }
        }
        // Every event takes two bytes at least.
        let count = segment.count.min(self.raw.len() as u64);
        self.events = self.events.map(|events| events.saturating_add(count));
        self.owed = count;
        true
    }

    /// Begins a block. Earlier events that the block counts and that this reader has not seen were lost.
    fn start_block(&mut self, starts: &BlockStart) {
        self.decoder = Some(Decoder::new(self.cpu, self.tick_ns, starts.first_ns));
        self.unpacker = None;
        self.history = 0;
        let missing = match self.events {
            Some(events) => {
                let lost = starts.lost_before.saturating_sub(self.lost);
                starts.events_before.saturating_sub(events).saturating_add(lost)
            }
            None => 0,
        };
        self.events = Some(starts.events_before);
        self.lost = starts.lost_before;
        if missing > 0 {
            let event = Event::Lost(Lost { count: missing });
            self.next = Stamped { time_ns: starts.first_ns, cpu: self.cpu, event };
            self.is_ready = true;
        }
    }

    fn unpack(&mut self, data: &[u8], raw_len: usize) -> Option<()> {
        if self.unpacker.is_none() {
            let mut unpacker = Unpacker::new().ok()?;
            unpacker.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
            self.unpacker = Some(unpacker);
        }
        let unpacker = self.unpacker.as_mut()?;
        self.history = (self.history + raw_len).min(WINDOW_BYTES_MAX);
        self.raw.resize(raw_len, 0);
        let mut input = InBuffer::around(data);
        let mut output = OutBuffer::around(self.raw.as_mut_slice());
        while output.pos() < raw_len {
            let before = (input.pos(), output.pos());
            unpacker.run(&mut input, &mut output).ok()?;
            if before == (input.pos(), output.pos()) {
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{SEGMENT_BYTES_MAX, code};

    /// A segment that starts a block and holds `records` events `ScheduleEnter`, compressed to a few bytes.
    fn segment(records: usize) -> Segment {
        let raw = [code::SCHEDULE_ENTER, 0].repeat(records);
        let data = zstd::bulk::compress(&raw, 1).expect("zstd packs");
        let starts = Some(BlockStart { first_ns: 5, events_before: 0, lost_before: 0 });
        Segment { starts, count: records as u64, raw_len: Some(raw.len()), data }
    }

    #[test]
    fn few_packed_bytes_of_many_cpus_take_bounded_memory() {
        let (mut memory, mut totals) = (Memory::default(), Totals::default());
        let data = segment(SEGMENT_BYTES_MAX / 2).data;
        let mut lanes: Vec<Lane> = (0..200).map(|cpu| Lane::new(cpu, 0)).collect();
        let mut ready = 0;
        for lane in &mut lanes {
            let long = Segment { data: data.clone(), raw_len: Some(SEGMENT_BYTES_MAX), ..segment(1) };
            lane.add(long);
            lane.decode(&mut memory, &mut totals);
            ready += u32::from(lane.time_ns() == 5);
            assert!(memory.unpacked <= UNPACKED_BYTES_MAX, "{} bytes", memory.unpacked);
        }
        let held: usize = lanes.iter().map(|lane| lane.raw.capacity()).sum();
        assert!(held <= memory.unpacked, "{held} bytes are held, {} counted", memory.unpacked);
        assert!((15..60).contains(&ready), "{ready} CPUs have an event");
        assert_eq!(totals.damaged_bytes, (200 - u64::from(ready)) * data.len() as u64);
        // The first lanes free their memory, so that there is room again.
        for lane in lanes.iter_mut().take(100) {
            lane.break_block();
            lane.decode(&mut memory, &mut totals);
        }
        lanes[150].add(segment(1000));
        lanes[150].decode(&mut memory, &mut totals);
        assert_eq!(lanes[150].time_ns(), 5);
    }

    #[test]
    fn tasks_without_end_of_many_cpus_take_bounded_memory() {
        let (mut memory, mut totals) = (Memory::default(), Totals::default());
        // One task that is defined again and again: code, tid, tgid as a difference, length of the name.
        let raw = [code::DEFINE, 7, 0, 0].repeat(1 << 20);
        let data = zstd::bulk::compress(&raw, 1).expect("zstd packs");
        let mut tables = 0;
        for cpu in 0..3 {
            let mut lane = Lane::new(cpu, 0);
            lane.add(Segment { raw_len: Some(raw.len()), data: data.clone(), ..segment(1) });
            lane.decode(&mut memory, &mut totals);
            while lane.is_ready {
                lane.decode(&mut memory, &mut totals);
            }
            tables += lane.decoder.as_ref().map_or(0, Decoder::table_bytes);
            assert!(memory.unpacked >= tables, "{tables} bytes, {} counted", memory.unpacked);
        }
        assert!(tables >= (3 * 8) << 20, "{tables} bytes");
        memory.unpacked = UNPACKED_BYTES_MAX;
        let mut late = Lane::new(3, 0);
        late.add(segment(1000));
        late.decode(&mut memory, &mut totals);
        assert_eq!((late.time_ns(), totals.damaged_bytes > 0), (NEVER, true));
    }

    #[test]
    fn one_gap_after_another_is_one_gap() {
        let mut lane = Lane::new(0, 0);
        (0..1000).for_each(|_| lane.gap());
        assert_eq!(lane.waiting.len(), 1);
    }

    #[test]
    fn a_block_may_claim_any_number_of_losses() {
        let (mut memory, mut totals) = (Memory::default(), Totals::default());
        let mut lane = Lane::new(0, 0);
        lane.add(segment(1));
        let starts = Some(BlockStart { first_ns: 7, events_before: u64::MAX, lost_before: u64::MAX });
        lane.add(Segment { starts, ..segment(1) });
        lane.decode(&mut memory, &mut totals);
        lane.decode(&mut memory, &mut totals);
        assert_eq!(lane.event().event, Event::Lost(Lost { count: u64::MAX }));
        assert_eq!(lane.time_ns(), 7);
    }
}
