//! The head of a perf.data: its events, its features, and the place of its records.

use std::io::{Read, Seek, SeekFrom};

use spry_trace::Header;
use spry_trace::format::CPU_MAX;

use crate::error::{ImportError, in_part};
use crate::input::{Input, Order};
use crate::meta::{BLOCK_BYTES_MAX, Meta};
use crate::perf::layout::{Attr, Events};

/// The first bytes, as written by a machine of either order of bytes.
pub(crate) const MAGIC_LITTLE: [u8; 8] = *b"PERFILE2";
pub(crate) const MAGIC_BIG: [u8; 8] = *b"2ELIFREP";

/// The size of `perf_pipe_file_header`: a head of this size marks the piped form, another size the plain
/// form.
const PIPE_HEAD_BYTES: u64 = 16;
/// An attribute with its section of identifiers is at most this long.
const ATTR_BYTES_MAX: u64 = 4096;
/// All attributes are at most this long.
const ATTRS_BYTES_MAX: u64 = 8 << 20;
/// The identifiers of all events together are at most this long. Events may name the same section.
const IDS_BYTES_MAX: u64 = 32 << 20;
/// A feature other than the formats is at most this long.
const FEATURE_BYTES_MAX: u64 = 1 << 20;

/// Features, by their bits.
const TRACING_DATA: u32 = 1;
const OSRELEASE: u32 = 4;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CLOCK_DATA: u32 = 29;

/// The readings of two clocks at one moment, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ClockData {
    clock: i32,
    wall_ns: u64,
    clock_ns: u64,
}

/// The parts of a file that describe its records.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) events: Events,
    meta: Option<(Meta, Order)>,
    kernel: String,
    arch: String,
    cpus: Option<u16>,
    clock_data: Option<ClockData>,
}

/// The place of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The records fill the rest of the file, with all other parts among them.
    Piped,
    /// The records begin at the source's position and have this many bytes; `None` if perf was killed before
    /// it could write the number.
    Plain(Option<u64>),
}

/// Reads a file's head; leaves the source at its first record.
pub(crate) fn read<R: Read + Seek>(source: &mut R) -> Result<(Form, Parts, Order), ImportError> {
    let mut magic = [0; 8];
    source.read_exact(&mut magic).map_err(in_part("head"))?;
    let order = if magic == MAGIC_BIG { Order::Big } else { Order::Little };
    let mut input = Input::new(&mut *source, order);
    let read = || in_part("head");
    if input.u64().map_err(read())? == PIPE_HEAD_BYTES {
        return Ok((Form::Piped, Parts::default(), order));
    }
    let attr_bytes = input.u64().map_err(read())?;
    let mut numbers = [0; 10];
    for number in &mut numbers {
        *number = input.u64().map_err(read())?;
    }
    let [attrs_at, attrs_len, data_at, data_len, _, _, features @ ..] = numbers;
    let mut parts = Parts::default();
    parts.read_attrs(source, order, (attrs_at, attrs_len), attr_bytes)?;
    let is_finished = data_len > 0;
    if is_finished {
        let end = data_at.checked_add(data_len).ok_or(ImportError::Damaged("head"))?;
        parts.read_features(source, order, end, features)?;
    }
    source.seek(SeekFrom::Start(data_at))?;
    Ok((Form::Plain(is_finished.then_some(data_len)), parts, order))
}

/// Whether the features of a file are simpleperf's: it counts its own from 128 on, and perf has fewer.
/// Leaves the source at its start.
pub(crate) fn is_simpleperf<R: Read + Seek>(source: &mut R) -> Result<bool, ImportError> {
    const FEATURES_AT: usize = 72;
    let mut head = Vec::new();
    source.rewind()?;
    source.by_ref().take(FEATURES_AT as u64 + 32).read_to_end(&mut head)?;
    source.rewind()?;
    let order = if head.starts_with(&MAGIC_BIG) { Order::Big } else { Order::Little };
    let is_plain = order.number_at(&head, 8, 8).is_some_and(|size| size > PIPE_HEAD_BYTES);
    let own = [16, 24].map(|at| order.number_at(&head, FEATURES_AT + at, 8).unwrap_or(0));
    Ok(is_plain && own != [0, 0])
}

fn section<R: Read + Seek>(
    source: &mut R,
    order: Order,
    (at, len): (u64, u64),
    most: u64,
    part: &'static str,
) -> Result<Vec<u8>, ImportError> {
    source.seek(SeekFrom::Start(at)).map_err(in_part(part))?;
    Input::new(source, order).block(len, most).map_err(in_part(part))
}

impl Parts {
    fn read_attrs<R: Read + Seek>(
        &mut self,
        source: &mut R,
        order: Order,
        place: (u64, u64),
        attr_bytes: u64,
    ) -> Result<(), ImportError> {
        const PART: &str = "list of events";
        if !(80..=ATTR_BYTES_MAX).contains(&attr_bytes) {
            return Err(ImportError::Damaged(PART));
        }
        let attrs = section(source, order, place, ATTRS_BYTES_MAX, PART)?;
        let mut left = IDS_BYTES_MAX;
        for entry in attrs.chunks_exact(attr_bytes as usize) {
            // Each attribute is followed by the place of its identifiers.
            let (attr, ids) = entry.split_at(entry.len() - 16);
            let (attr, _) = Attr::parse(attr, order).ok_or(ImportError::Damaged(PART))?;
            let place = (order.number(&ids[..8]), order.number(&ids[8..]));
            let ids = section(source, order, place, left, PART)?;
            left -= ids.len() as u64;
            self.events.add(attr, ids.chunks_exact(8).map(|id| order.number(id)));
        }
        Ok(())
    }

    /// Reads the features. They stand behind the records: first the places of all features, then the features
    /// themselves.
    fn read_features<R: Read + Seek>(
        &mut self,
        source: &mut R,
        order: Order,
        at: u64,
        bits: [u64; 4],
    ) -> Result<(), ImportError> {
        const PART: &str = "list of features";
        let present: Vec<u32> =
            (0..256).filter(|bit| (bits[*bit as usize / 64] >> (bit % 64)) & 1 != 0).collect();
        let table = section(source, order, (at, 16 * present.len() as u64), 4096, PART)?;
        for (&feature, place) in present.iter().zip(table.chunks_exact(16)) {
            let place = (order.number(&place[..8]), order.number(&place[8..]));
            if feature == TRACING_DATA {
                let data = section(source, order, place, BLOCK_BYTES_MAX, "description of tracepoints")?;
                self.tracing_data(&data)?;
            } else if [OSRELEASE, ARCH, NRCPUS, CLOCK_DATA].contains(&feature) {
                // The other features are optional, so that errors in them are ignored.
                if let Ok(data) = section(source, order, place, FEATURE_BYTES_MAX, PART) {
                    self.feature(feature, &data, order);
                }
            }
        }
        Ok(())
    }

    /// Takes the description of tracepoints.
    pub(crate) fn tracing_data(&mut self, data: &[u8]) -> Result<(), ImportError> {
        self.meta = Some(Meta::of_perf(data).map_err(in_part("description of tracepoints"))?);
        Ok(())
    }

    /// Takes a feature.
    pub(crate) fn feature(&mut self, feature: u32, data: &[u8], order: Order) {
        let text = || {
            let len = order.number_at(data, 0, 4).unwrap_or(0) as usize;
            let text = data.get(4..).unwrap_or_default();
            let text = &text[..len.min(text.len())];
            let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
            String::from_utf8_lossy(&text[..end]).into_owned()
        };
        match feature {
            OSRELEASE => self.kernel = text(),
            ARCH => self.arch = text(),
            // The first number counts the configured CPUs, the second the CPUs online.
            NRCPUS => self.cpus = order.number_at(data, 0, 4).and_then(|cpus| u16::try_from(cpus).ok()),
            CLOCK_DATA => {
                let number = |at, len| order.number_at(data, at, len);
                if let (Some(clock), Some(wall_ns), Some(clock_ns)) =
                    (number(4, 4), number(8, 8), number(16, 8))
                {
                    self.clock_data = Some(ClockData { clock: clock as i32, wall_ns, clock_ns });
                }
            }
            _ => {}
        }
    }

    /// The machine's architecture.
    pub(crate) fn arch(&self) -> &str {
        &self.arch
    }

    /// Takes out the description of tracepoints: the first call gives it, later calls `None`.
    pub(crate) fn take_meta(&mut self) -> Option<(Meta, Order)> {
        self.meta.take()
    }

    /// The trace's header without its groups. If the file lacks the number of CPUs, the header has 0, and
    /// CPUs are added at their first event.
    pub(crate) fn header(&self, start_ns: u64) -> Header {
        let clock = self.events.attrs().iter().find_map(|attr| attr.clock);
        let at_once = self.clock_data.filter(|data| Some(data.clock) == clock);
        Header {
            kernel: self.kernel.clone(),
            arch: self.arch.clone(),
            machine: "host".into(),
            cpus: self.cpus.unwrap_or(0).min(CPU_MAX as u16),
            clock: clock_name(clock).into(),
            start_ns,
            start_unix_ns: at_once
                .and_then(|data| data.wall_ns.checked_sub(data.clock_ns)?.checked_add(start_ns)),
            ..Header::default()
        }
    }
}

/// The name of the clock; `None` is perf's own clock, which it uses if none was chosen.
fn clock_name(clock: Option<i32>) -> &'static str {
    match clock {
        None => "perf",
        Some(0) => "realtime",
        Some(1) => "monotonic",
        Some(4) => "monotonic_raw",
        Some(7) => "boottime",
        Some(11) => "tai",
        Some(_) => "unknown",
    }
}
