//! trace.dat, versions 6 and 7: the pages of each CPU, merged.

mod head;
mod lane;
mod page;
mod times;
mod unpack;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{Read, Seek};

use spry_trace::format::CPU_MAX;
use spry_trace::reader::Ending;
use spry_trace::{Header, Kind, Stamped};

use crate::catalogue::Catalogue;
use crate::convert::{Converter, Record};
use crate::error::ImportError;
use crate::states::Numbering;
use crate::stays::BrokenSwitches;
use crate::timers::Timers;
use crate::tracecmd::head::{Buffer, Head};
use crate::tracecmd::lane::{Lane, Next, Place, Shape};
use crate::tracecmd::times::Times;

pub(crate) use crate::tracecmd::head::Shifts;

/// The accepted sizes of pages, bytes; a size must also be a power of two.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 256..=1 << 20;
/// The clocks of ftrace that count nanoseconds. The others count events, ticks or cycles.
const TIME_CLOCKS: [&str; 7] = ["local", "global", "perf", "mono", "mono_raw", "boot", "tai"];

/// The pages or chunks of all CPUs that are held at a time take at most this much memory. trace-cmd's chunks
/// have ten pages: those of 8,192 CPUs fit if pages have 4 KiB, those of 800 CPUs if pages have 64 KiB.
const HELD_BYTES_MAX: usize = 512 << 20;

/// A trace.dat being read.
pub(crate) struct TraceDat<R> {
    source: CountingSource<R>,
    lanes: Vec<Lane>,
    /// The time of each lane's next item, the earliest first; at equal times, the lane of the lowest CPU
    /// first.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    due: Vec<Due>,
    /// Per kind of tracepoint: the buffer from which it is read, which is the buffer with the kind's earliest
    /// record. Another buffer's records of the kind are the same events with other stamps, or a part of them.
    owners: BTreeMap<i64, usize>,
    converter: Converter,
    header: Header,
    times: Times,
    shifts: Shifts,
    /// Losses that the kernel counted and that have not been passed on yet, by CPU.
    uncounted: BTreeMap<u16, u64>,
    given_ns: u64,
    state: State,
}

/// The next item of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// The lane's latest record, by the number of its tracepoint.
    Record(i64),
    /// A loss of this many events.
    Lost(u64),
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reading,
    Over,
}

/// A source that counts the bytes read from it.
struct CountingSource<R> {
    source: R,
    bytes: u64,
}

impl<R: Read> Read for CountingSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<R: Seek> Seek for CountingSource<R> {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.source.seek(to)
    }
}

impl<R: Read + Seek> TraceDat<R> {
    /// Reads up to the first event.
    pub(crate) fn open(source: R) -> Result<TraceDat<R>, ImportError> {
        let mut source = CountingSource { source, bytes: 0 };
        let head = head::read(&mut source)?;
        let catalogue = Catalogue::new(&head.meta.formats, &head.arch);
        if !catalogue.has_switches() {
            return Err(ImportError::NoSwitches);
        }
        if head.buffers.is_empty() {
            return Err(ImportError::NoEvents);
        }
        if head.times.scale.is_none() && !TIME_CLOCKS.contains(&head.clock.as_str()) {
            return Err(ImportError::Clock(head.clock));
        }
        let lanes = lanes(&head)?;
        let header = header(&head, &catalogue, lanes.iter().map(|lane| lane.cpu).max().unwrap_or(0));
        let timers = Timers::new(&head.meta.kallsyms);
        let mut data = TraceDat {
            due: vec![Due::Nothing; lanes.len()],
            lanes,
            source,
            heap: BinaryHeap::new(),
            owners: BTreeMap::new(),
            converter: Converter::new(catalogue, head.order, head.meta.names, timers),
            header,
            times: head.times,
            shifts: head.shifts,
            uncounted: head.lost,
            given_ns: 0,
            state: State::Reading,
        };
        for at in 0..data.lanes.len() {
            data.advance(at)?;
        }
        while data.converter.next_ns().is_none() && data.step()? {}
        data.given_ns = data.converter.next_ns().ok_or(ImportError::NoEvents)?;
        data.header.start_ns = data.given_ns;
        Ok(data)
    }

    /// The next event in order of time.
    pub(crate) fn next(&mut self) -> Result<Option<Stamped>, ImportError> {
        loop {
            if let Some(mut stamped) = self.converter.pop() {
                self.given_ns = self.given_ns.max(stamped.time_ns);
                stamped.time_ns = self.given_ns;
                return Ok(Some(stamped));
            }
            if !self.step()? {
                return Ok(None);
            }
        }
    }

    /// Passes the earliest item to the converter. Returns whether there was any.
    fn step(&mut self) -> Result<bool, ImportError> {
        let Some(Reverse((time_ns, at))) = self.heap.pop() else {
            let was_reading = std::mem::replace(&mut self.state, State::Over) == State::Reading;
            if was_reading {
                self.tell_losses_counted_at_the_end();
            }
            return Ok(was_reading);
        };
        let lane = &self.lanes[at];
        match self.due[at] {
            Due::Record(kind) => {
                if *self.owners.entry(kind).or_insert(lane.buffer) == lane.buffer {
                    self.converter.take(&Record { time_ns, cpu: lane.cpu, data: lane.data() });
                }
            }
            Due::Lost(count) => {
                let uncounted = self.uncounted.entry(lane.cpu).or_insert(0);
                *uncounted = uncounted.saturating_sub(count);
                self.converter.lost(time_ns, lane.cpu, count);
            }
            Due::Nothing => {}
        }
        self.advance(at)?;
        Ok(true)
    }

    /// Goes to a lane's next loss, or to its next record of a tracepoint that is read.
    fn advance(&mut self, at: usize) -> Result<(), ImportError> {
        let lane = &mut self.lanes[at];
        loop {
            let (time, due) = match lane.next(&mut self.source)? {
                Next::Record(time) => match self.converter.wanted(lane.data()) {
                    Some(kind) => (time, Due::Record(kind)),
                    None => continue,
                },
                Next::Lost(time, count) => (time, Due::Lost(count)),
                Next::End => {
                    self.due[at] = Due::Nothing;
                    return Ok(());
                }
            };
            self.due[at] = due;
            self.heap.push(Reverse((self.times.time_ns(lane.cpu, time), at)));
            return Ok(());
        }
    }

    fn tell_losses_counted_at_the_end(&mut self) {
        let lanes = self.lanes.iter().map(|lane| lane.cpu);
        for cpu in lanes {
            if let Some(count) = self.uncounted.remove(&cpu).filter(|&count| count > 0) {
                self.converter.lost(self.given_ns, cpu, count);
            }
        }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.source.bytes
    }

    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.converter.damaged_bytes() + self.lanes.iter().map(Lane::damaged_bytes).sum::<u64>()
    }

    pub(crate) fn ending(&self) -> Ending {
        if self.lanes.iter().any(Lane::is_cut) { Ending::Cut } else { Ending::Finished }
    }

    pub(crate) fn numbering(&self) -> Numbering {
        self.converter.catalogue().numbering()
    }

    pub(crate) const fn shifts(&self) -> Shifts {
        self.shifts
    }

    pub(crate) fn broken(&self) -> BrokenSwitches {
        self.converter.broken()
    }
}

fn lanes(head: &Head) -> Result<Vec<Lane>, ImportError> {
    let all = || head.buffers.iter().flat_map(|buffer| buffer.cpus.iter());
    if !head.buffers.iter().all(Buffer::lists_each_cpu_once)
        || !are_apart(all().map(|&(_, place)| place).collect())
    {
        return Err(ImportError::Damaged("list of CPUs"));
    }
    let held_bytes = HELD_BYTES_MAX / all().count().max(1);
    let mut lanes = Vec::new();
    for (number, buffer) in head.buffers.iter().enumerate() {
        let page_size = buffer.page_size;
        let is_size = PAGE_BYTES.contains(&page_size) && page_size.is_power_of_two();
        if !is_size || held_bytes < page_size as usize {
            return Err(ImportError::Damaged("page size"));
        }
        let shape = Shape {
            page_size: page_size as usize,
            layout: head.meta.layout,
            order: head.order,
            packing: buffer.packing,
            held_bytes,
        };
        lanes.extend(buffer.cpus.iter().map(|&(cpu, place)| Lane::new(cpu, number, place, shape)));
    }
    Ok(lanes)
}

/// Whether no byte of the file belongs to two lists. Otherwise a short file would take the time and the
/// memory of a file that is thousands of times as long.
fn are_apart(mut places: Vec<Place>) -> bool {
    places.sort_unstable_by_key(|place| place.at);
    places.windows(2).all(|pair| pair[1].at - pair[0].at >= pair[0].len)
}

/// The trace's header, without the time of its start.
fn header(head: &Head, catalogue: &Catalogue, last_cpu: u16) -> Header {
    let cpus = u16::try_from(head.cpus).unwrap_or(u16::MAX).min(CPU_MAX as u16);
    Header {
        kernel: head.kernel.clone(),
        arch: head.arch.clone(),
        machine: "host".into(),
        cpus: cpus.max(last_cpu + 1),
        clock: if head.clock == "mono" { "monotonic".into() } else { head.clock.clone() },
        groups: catalogue.groups(),
        // Some versions describe all the kernel's tracepoints, whether they recorded them or not.
        unproven: Kind::ALL.into_iter().collect(),
        ..Header::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64, len: u64) -> Place {
        Place { at, len }
    }

    #[test]
    fn no_byte_belongs_to_two_lists() {
        assert!(are_apart(vec![]));
        assert!(are_apart(vec![place(4096, 4096), place(8192, u64::MAX)]));
        assert!(!are_apart(vec![place(4096, 4096), place(4096, 4096)]), "one place");
        assert!(!are_apart(vec![place(8192, 4096), place(4096, 4097)]), "the last byte is shared");
        assert!(!are_apart(vec![place(0, u64::MAX), place(u64::MAX - 1, 1)]));
    }

    #[test]
    fn a_buffer_that_lists_a_cpu_twice_is_noticed() {
        let buffer = |cpus: &[u16]| Buffer {
            cpus: cpus.iter().map(|&cpu| (cpu, place(0, 1))).collect(),
            ..Buffer::default()
        };
        assert!(buffer(&[1, 0, 2]).lists_each_cpu_once());
        assert!(!buffer(&[1, 0, 1]).lists_each_cpu_once());
    }
}
