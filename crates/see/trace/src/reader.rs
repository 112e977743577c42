//! Reads a trace: frames in, the events of all CPUs out in one order of time, in bounded memory.

use std::io::{self, Read, Seek, SeekFrom};

use rustc_hash::FxHashMap;

use crate::event::{Event, Lost, Stamped, TaskInfo, Tid};
use crate::format::{
    CPU_MAX, FRAME_INDEX, FRAME_RESTART, HEADER_BYTES_MAX, HEADER_FIXED_BYTES, MAGIC, SEGMENT_BYTES_MAX,
    SEGMENT_FLAG_BITS, SEGMENT_STARTS_BLOCK, SEGMENT_ZSTD, VERSION_MAJOR,
};
use crate::frame::{Before, Frames, is_checksum_of};
use crate::header::{Header, tick_ns};
use crate::index::Index;
use crate::lane::{BlockStart, Lane, Memory, NEVER, Segment};
use crate::varint::Cursor;

/// The reason why a file is unreadable. Damage after the header is no error; see [`Totals::damaged_bytes`].
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source itself failed.
    #[error("cannot read the trace")]
    Io(#[from] io::Error),
    /// The file does not begin with the first bytes of a trace.
    #[error(
        "not a trace: it does not begin as one; give a file that `spry record`, `perf record` or \
         `trace-cmd record` wrote"
    )]
    NotATrace,
    /// The file is cut off or damaged within the header.
    #[error("the trace's header is cut off or damaged; nothing after it can be read")]
    BadHeader,
    /// The file has a later version of the format.
    #[error("the trace has format version {0}, this program reads {VERSION_MAJOR}; use a newer spry")]
    Version(u16),
}

/// Whether the file was finished or cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ending {
    /// The file's end has not been read yet, or the file was cut off when the recorder or the machine failed.
    #[default]
    Cut,
    /// The recorder finished the file.
    Finished,
}

/// Counts and times of the part of the trace read so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Events returned, without restated names, losses, throttled tasks and idle states, which do not count.
    pub events: u64,
    /// The number of lost events, by the trace's own count.
    pub lost: u64,
    /// The number of lost events of each CPU, by the trace's own count.
    pub lost_per_cpu: Vec<u64>,
    /// Bytes of the file read so far.
    pub bytes: u64,
    /// Bytes read so far that belong to no whole frame or cannot be decoded.
    pub damaged_bytes: u64,
    /// Whether the file was finished or cut off.
    pub ending: Ending,
    /// The end of the recording (in a cut file the latest time found in it), ns of the trace's clock.
    pub end_ns: u64,
}

/// The limit of the bytes that wait to be merged. Above it, events are merged although the file has not yet
/// promised that no earlier event follows.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// No lane has this number.
const NO_LANE: usize = usize::MAX;
/// The limit of the tasks with stored names. At the limit all names are dropped and collected anew.
const NAMES_MAX: usize = 1 << 20;

/// Reads one trace.
pub struct Reader<R> {
    frames: Frames<R>,
    header: Header,
    lanes: Vec<Option<Box<Lane>>>,
    /// The time of each lane's next event, ns; [`NEVER`] if none is ready. Out of date for the lane `given`.
    times_ns: Vec<u64>,
    /// The lane of the latest event ([`NO_LANE`] for none), and below, the time of the earliest event of all
    /// other lanes, ns.
    given: usize,
    others_ns: u64,
    names: FxHashMap<Tid, TaskInfo>,
    safe_ns: u64,
    memory: Memory,
    given_ns: u64,
    totals: Totals,
    at_end: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(source: R) -> Result<Reader<R>, ReadError> {
        let mut frames = Frames::new(source, 0);
        let header = read_header(&mut frames)?;
        Ok(Reader::with(frames, header))
    }

    fn with(frames: Frames<R>, header: Header) -> Reader<R> {
        let start_ns = header.start_ns;
        Reader {
            frames,
            totals: Totals {
                lost_per_cpu: vec![0; usize::from(header.cpus)],
                end_ns: start_ns,
                ..Totals::default()
            },
            header,
            lanes: Vec::new(),
            times_ns: Vec::new(),
            given: NO_LANE,
            others_ns: 0,
            names: FxHashMap::default(),
            safe_ns: start_ns,
            memory: Memory::default(),
            given_ns: start_ns,
            at_end: false,
        }
    }

    /// The trace's header, which describes the machine and the recording.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Counts and times so far; complete once [`Reader::next_event`] has returned `None`.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        totals.bytes = self.frames.offset();
        totals.damaged_bytes += self.frames.damaged_bytes() + self.frames.cut_bytes();
        totals
    }

    /// The next event of any CPU, in order of time; `None` at the end of the trace.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<&Stamped>, ReadError> {
        loop {
            if !self.follow() && !self.merge()? {
                return Ok(None);
            }
            // Times in a damaged file may go back; the times of returned events do not.
            let lane = self.lanes[self.given].as_deref_mut().expect("the lane that was followed or found");
            self.given_ns = lane.give(self.given_ns);
            let is_counted = lane.event().event.is_counted();
            match &lane.event().event {
                Event::Switch(switch) if switch.prev_state.is_exit() => {
                    self.names.remove(&switch.prev);
                }
                Event::Task(_) | Event::Lost(_) | Event::Fork(_) | Event::Comm(_) => {
                    let stamped = lane.event().clone();
                    if !self.is_new_name(&stamped) {
                        continue;
                    }
                }
                _ => {}
            }
            self.totals.events += u64::from(is_counted);
            return Ok(self.lanes[self.given].as_deref().map(Lane::event));
        }
    }

    /// Updates tasks' names and the counts of losses from an event. Returns whether the event is new to the
    /// caller: `false` for a restated name that has not changed.
    fn is_new_name(&mut self, stamped: &Stamped) -> bool {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        match stamped.event {
            Event::Task(info) => return self.names.insert(info.tid, info) != Some(info),
            Event::Lost(Lost { count }) => {
                self.totals.lost = self.totals.lost.saturating_add(count);
                if let Some(of) = self.totals.lost_per_cpu.get_mut(usize::from(stamped.cpu)) {
                    *of = of.saturating_add(count);
                }
            }
            Event::Fork(fork) => {
                let info = TaskInfo::new(fork.child, fork.child_tgid, fork.comm);
                self.names.insert(fork.child, info);
            }
            Event::Comm(rename) => {
                if let Some(info) = self.names.get_mut(&rename.tid) {
                    info.comm = rename.comm;
                }
            }
            _ => {}
        }
        true
    }

    /// Decodes the next event of the lane that returned the latest event. Returns whether it is the next
    /// event of all lanes.
    #[inline(always)]
    fn follow(&mut self) -> bool {
        let Some(Some(lane)) = self.lanes.get_mut(self.given) else { return false };
        lane.decode(&mut self.memory, &mut self.totals);
        let time_ns = lane.time_ns();
        if time_ns < self.others_ns && time_ns <= self.safe_ns {
            return true;
        }
        self.times_ns[self.given] = time_ns;
        self.given = NO_LANE;
        false
    }

    /// Finds the lane with the earliest event, and reads frames for it. Returns `false` at the end.
    fn merge(&mut self) -> Result<bool, ReadError> {
        loop {
            let (first, others_ns) = self.earliest();
            let is_over =
                |time_ns| time_ns <= self.safe_ns || self.at_end || self.memory.waiting > WAITING_BYTES_MAX;
            match first {
                Some(at) if is_over(self.times_ns[at]) => {
                    self.others_ns = others_ns;
                    self.given = at;
                    return Ok(true);
                }
                None if self.at_end => return Ok(false),
                _ => self.read_frame()?,
            }
        }
    }

    /// The lane with the earliest event (of several, the lane with the lowest CPU), and the time of the next
    /// event of any other lane.
    fn earliest(&self) -> (Option<usize>, u64) {
        let (mut first, mut first_ns, mut others_ns) = (None, NEVER, NEVER);
        for (at, &time_ns) in self.times_ns.iter().enumerate() {
            if time_ns < first_ns {
                (others_ns, first, first_ns) = (first_ns, Some(at), time_ns);
            } else {
                others_ns = others_ns.min(time_ns);
            }
        }
        (first, others_ns)
    }

    fn read_frame(&mut self) -> Result<(), ReadError> {
        let Some(frame) = self.frames.next()? else {
            self.at_end = true;
            self.totals.end_ns = self.totals.end_ns.max(self.safe_ns).max(self.given_ns);
            return Ok(());
        };
        if frame.before == Before::Damage {
            self.lanes.iter_mut().flatten().for_each(|lane| lane.gap());
        }
        let mut cursor = Cursor::new(frame.payload);
        if frame.kind == FRAME_INDEX {
            if let Some(index) = Index::parse(&mut cursor) {
                self.totals.ending = Ending::Finished;
                let end_ns = self.header.start_ns.saturating_add(index.duration_ns());
                self.totals.end_ns = self.totals.end_ns.max(end_ns);
            }
            return Ok(());
        }
        let Some(safe) = cursor.varint() else { return Ok(()) };
        if frame.kind == FRAME_RESTART && cursor.varint().is_none() {
            return Ok(());
        }
        self.safe_ns = self.safe_ns.max(self.header.start_ns.saturating_add(safe));
        let tick_ns = tick_ns(&self.header);
        while !cursor.is_empty() {
            let Some((cpu, segment)) = segment(&mut cursor, self.header.start_ns, self.header.cpus) else {
                self.totals.damaged_bytes += (frame.payload.len() - cursor.position()) as u64;
                self.lanes.iter_mut().flatten().for_each(|lane| lane.gap());
                break;
            };
            let at = usize::from(cpu);
            if self.lanes.len() <= at {
                self.lanes.resize_with(at + 1, || None);
                self.times_ns.resize(at + 1, NEVER);
            }
            let lane = self.lanes[at].get_or_insert_with(|| Box::new(Lane::new(cpu, tick_ns)));
            self.memory.waiting += segment.waiting_bytes();
            lane.add(segment);
            if lane.time_ns() == NEVER {
                lane.decode(&mut self.memory, &mut self.totals);
                self.times_ns[at] = lane.time_ns();
            }
        }
        Ok(())
    }
}

impl<R: Read + Seek> Reader<R> {
    /// A reader that begins at or before `from_ns` (of the trace's clock), without reading all that comes
    /// before. Some events before `from_ns` come too: each block that contains `from_ns` is read from its
    /// beginning on.
    pub fn starting_at(mut source: R, from_ns: u64) -> Result<Reader<R>, ReadError> {
        source.rewind()?;
        let mut frames = Frames::new(&mut source, 0);
        let header = read_header(&mut frames)?;
        let body = frames.offset();
        let index = Index::of(&mut source, body)?;
        let offset = index.offset_before(from_ns.saturating_sub(header.start_ns)).unwrap_or(body);
        source.seek(SeekFrom::Start(offset))?;
        Ok(Reader::with(Frames::new(source, offset), header))
    }
}

pub(crate) fn read_header<R: Read>(frames: &mut Frames<R>) -> Result<Header, ReadError> {
    let fixed = frames.bytes(HEADER_FIXED_BYTES)?.to_vec();
    if !fixed.starts_with(&MAGIC) {
        return Err(ReadError::NotATrace);
    }
    if fixed.len() < HEADER_FIXED_BYTES {
        return Err(ReadError::BadHeader);
    }
    let major = u16::from_le_bytes([fixed[8], fixed[9]]);
    if major != VERSION_MAJOR {
        return Err(ReadError::Version(major));
    }
    let len = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]) as usize;
    if len > HEADER_BYTES_MAX {
        return Err(ReadError::BadHeader);
    }
    let rest = frames.bytes(len + 4)?;
    if rest.len() < len + 4 {
        return Err(ReadError::BadHeader);
    }
    let (json, crc) = rest.split_at(len);
    if !is_checksum_of(crc, &[&fixed, json].concat()) {
        return Err(ReadError::BadHeader);
    }
    let header: Header = serde_json::from_slice(json).map_err(|_| ReadError::BadHeader)?;
    if u64::from(header.cpus) > CPU_MAX { Err(ReadError::BadHeader) } else { Ok(header) }
}

/// Reads one segment of a round's payload.
fn segment(cursor: &mut Cursor<'_>, start_ns: u64, cpus: u16) -> Option<(u16, Segment)> {
    let first = cursor.varint()?;
    let cpu = first >> SEGMENT_FLAG_BITS;
    if cpu >= u64::from(cpus) {
        return None;
    }
    let starts = if first & SEGMENT_STARTS_BLOCK != 0 {
        Some(BlockStart {
            first_ns: start_ns.checked_add(cursor.varint()?)?,
            events_before: cursor.varint()?,
            lost_before: cursor.varint()?,
        })
    } else {
        None
    };
    let count = cursor.varint()?;
    let raw_len = usize::try_from(cursor.varint()?).ok().filter(|&len| len <= SEGMENT_BYTES_MAX)?;
    let zstd = first & SEGMENT_ZSTD != 0;
    let len = if zstd { usize::try_from(cursor.varint()?).ok()? } else { raw_len };
    let data = cursor.take(len)?.to_vec();
    Some((cpu as u16, Segment { starts, count, raw_len: zstd.then_some(raw_len), data }))
}
