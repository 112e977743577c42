//! perf.data, plain or piped, compressed or not.

mod head;
mod layout;
mod records;
mod rounds;
mod stream;

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use spry_trace::reader::Ending;
use spry_trace::{Header, Kind, Stamped};

use crate::catalogue::Catalogue;
use crate::convert::Converter;
use crate::error::ImportError;
use crate::input::Order;
use crate::perf::head::{Form, Parts};
use crate::perf::layout::Attr;
use crate::perf::rounds::Rounds;
use crate::perf::stream::Stream;
use crate::states::Numbering;
use crate::stays::BrokenSwitches;
use crate::timers::Timers;

pub(crate) use head::{MAGIC_BIG, MAGIC_LITTLE};

/// The numbers of events lost on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    /// Events lost by the records of losses among the other records.
    told: u64,
    /// Events lost by perf's count at its end, which includes the events in `told`.
    counted: u64,
}

/// A perf.data being read.
pub(crate) struct PerfData<R> {
    stream: Stream<R>,
    order: Order,
    parts: Parts,
    /// The converter is created once its descriptions have been read, before the kernel's first record.
    converter: Option<Converter>,
    rounds: Rounds,
    header: Header,
    losses: BTreeMap<u16, Losses>,
    given_ns: u64,
    damaged_bytes: u64,
    ending: Ending,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reading,
    /// All records have been read; some may still wait to be passed on.
    Read,
    Over,
}

impl<R: Read + Seek> PerfData<R> {
    /// Reads up to the first event.
    pub(crate) fn open(mut source: R) -> Result<PerfData<R>, ImportError> {
        let is_simpleperf = head::is_simpleperf(&mut source)?;
        let data = PerfData::open_any(source);
        data.map_err(|error| match error {
            ImportError::Io(_) => error,
            _ if is_simpleperf => ImportError::Simpleperf(Box::new(error)),
            _ => error,
        })
    }

    fn open_any(mut source: R) -> Result<PerfData<R>, ImportError> {
        let (form, parts, order) = head::read(&mut source)?;
        let (len, ending) = match form {
            Form::Piped => (None, Ending::Finished),
            // perf was killed before it could write the size of its records.
            Form::Plain(None) => (None, Ending::Cut),
            Form::Plain(len) => (len, Ending::Finished),
        };
        let mut data = PerfData {
            stream: Stream::new(source, order, len),
            order,
            parts,
            converter: None,
            rounds: Rounds::default(),
            header: Header::default(),
            losses: BTreeMap::new(),
            given_ns: 0,
            damaged_bytes: 0,
            ending,
            state: State::Reading,
        };
        if form != Form::Piped {
            data.make_converter()?;
        }
        while data.first_ns().is_none() && data.step()? {}
        let Some(converter) = &data.converter else { return Err(ImportError::NoFormats) };
        let start_ns = data.first_ns().ok_or(ImportError::NoEvents)?;
        let groups = converter.catalogue().groups();
        // perf describes only tracepoints that it recorded, and records new tasks by itself.
        let unproven = converter.catalogue().lacks().minus(Kind::Birth.into());
        data.header = Header { groups, unproven, ..data.parts.header(start_ns) };
        data.given_ns = start_ns;
        Ok(data)
    }
}

impl<R: Read> PerfData<R> {
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stream.bytes()
    }

    pub(crate) fn damaged_bytes(&self) -> u64 {
        let converter = self.converter.as_ref().map_or(0, Converter::damaged_bytes);
        self.damaged_bytes + self.stream.damaged_bytes() + converter
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    pub(crate) fn broken(&self) -> BrokenSwitches {
        self.converter.as_ref().map_or(BrokenSwitches::default(), Converter::broken)
    }

    pub(crate) fn numbering(&self) -> Numbering {
        self.converter.as_ref().map_or(Numbering::Bits, |converter| converter.catalogue().numbering())
    }

    fn first_ns(&self) -> Option<u64> {
        self.converter.as_ref().and_then(Converter::next_ns)
    }

    /// The next event in order of time.
    pub(crate) fn next(&mut self) -> Result<Option<Stamped>, ImportError> {
        loop {
            if let Some(mut stamped) = self.converter.as_mut().and_then(Converter::pop) {
                self.given_ns = self.given_ns.max(stamped.time_ns);
                stamped.time_ns = self.given_ns;
                return Ok(Some(stamped));
            }
            if !self.step()? {
                return Ok(None);
            }
        }
    }

    /// Passes on the next waiting record, or reads a record. Returns whether there was any.
    fn step(&mut self) -> Result<bool, ImportError> {
        if let Some(waiting) = self.rounds.pop() {
            self.tell(waiting);
            return Ok(true);
        }
        match self.state {
            State::Reading => self.read_record()?,
            State::Read => {
                self.tell_losses_counted_at_the_end();
                self.state = State::Over;
            }
            State::Over => return Ok(false),
        }
        Ok(true)
    }

    fn make_converter(&mut self) -> Result<(), ImportError> {
        let (meta, order) = self.parts.take_meta().ok_or(ImportError::NoFormats)?;
        let catalogue = Catalogue::new(&meta.formats, self.parts.arch());
        if !catalogue.has_switches() {
            return Err(ImportError::NoSwitches);
        }
        let switch = meta.formats.iter().find(|format| format.name == "sched_switch");
        let switch = switch.map(|format| u64::from(format.id));
        let is_of_one_command = |attr: &Attr| attr.is_of_one_command && attr.tracepoint == switch;
        if self.parts.events.attrs().iter().any(is_of_one_command) {
            return Err(ImportError::OneCommand);
        }
        let timers = Timers::new(&meta.kallsyms);
        self.converter = Some(Converter::new(catalogue, order, meta.names, timers));
        Ok(())
    }
}
