//! The head of a trace.dat, before its records: in version 6 one part after the other, in version 7 sections.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use spry_trace::format::CPU_MAX;

use crate::error::{ImportError, in_part};
use crate::input::{Input, Order};
use crate::meta::{self, BLOCK_BYTES_MAX, Meta, Start};
use crate::tracecmd::lane::Place;
use crate::tracecmd::times::{Scale, Shift, Times};
use crate::tracecmd::unpack::Packing;

/// The longest option, bytes; below, the largest number of options.
const OPTION_BYTES_MAX: u64 = 16 << 20;
const OPTIONS_MAX: usize = 1 << 16;
/// The longest list of clocks of the kernel, bytes.
const CLOCK_BYTES_MAX: u64 = 4096;
/// The clock that ftrace has if no other was chosen. trace-cmd assumes it if the file names no clock.
const DEFAULT_CLOCK: &str = "local";
/// The largest number of buffers that are read.
const BUFFERS_MAX: usize = 64;
/// The limit of all sections that are read, unpacked, bytes. A file may name a section many times.
const SECTIONS_BYTES_MAX: u64 = 256 << 20;
/// The least number of bytes that a section counts as.
const SECTION_BYTES_MIN: u64 = 4096;
/// The largest number of sections of options that are read; each has the offset of the next section.
const OPTION_SECTIONS_MAX: usize = 64;
/// The tag before a list of CPUs in version 6.
const RECORDS: &[u8] = b"flyrecord\0";
/// The flag of a compressed section in its head, which has kind, flags, text and size.
const SECTION_PACKED: u16 = 1;

/// Options, by their numbers.
const OPTION_DONE: u16 = 0;
const OPTION_DATE: u16 = 1;
const OPTION_CPUSTAT: u16 = 2;
const OPTION_BUFFER: u16 = 3;
const OPTION_TRACECLOCK: u16 = 4;
const OPTION_UNAME: u16 = 5;
const OPTION_OFFSET: u16 = 7;
const OPTION_CPUCOUNT: u16 = 8;
const OPTION_TIME_SHIFT: u16 = 12;
const OPTION_TSC2NSEC: u16 = 14;
const OPTION_HEADER_INFO: u16 = 16;
const OPTION_FTRACE_EVENTS: u16 = 17;
const OPTION_EVENT_FORMATS: u16 = 18;
const OPTION_KALLSYMS: u16 = 19;
const OPTION_BUFFER_TEXT: u16 = 20;
const OPTION_CMDLINES: u16 = 21;

/// The pages of one buffer: of the top buffer, or of a buffer of `trace-cmd record -B`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) clock: String,
    pub(crate) page_size: u32,
    pub(crate) packing: Option<Packing>,
    /// The CPUs that have pages.
    pub(crate) cpus: Vec<(u16, Place)>,
}

impl Buffer {
    fn add(&mut self, cpu: u32, place: Place) {
        let cpu = u16::try_from(cpu).ok().filter(|&cpu| u64::from(cpu) < CPU_MAX && place.len > 0);
        self.cpus.extend(cpu.map(|cpu| (cpu, place)));
    }

    pub(crate) fn lists_each_cpu_once(&self) -> bool {
        let mut numbers: Vec<u16> = self.cpus.iter().map(|&(cpu, _)| cpu).collect();
        numbers.sort_unstable();
        numbers.windows(2).all(|pair| pair[0] < pair[1])
    }
}

/// A file's corrections of its times to the clock of another machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shifts {
    None,
    Applied,
    /// They are applied as trace-cmd does it, but the machines' clocks run at different rates.
    Scaled,
    /// They are damaged, and left out.
    Damaged,
}

/// The contents of a file's head.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) order: Order,
    pub(crate) meta: Meta,
    pub(crate) clock: String,
    pub(crate) kernel: String,
    pub(crate) arch: String,
    pub(crate) cpus: u32,
    /// Events lost on each CPU, by the kernel's count.
    pub(crate) lost: BTreeMap<u16, u64>,
    pub(crate) times: Times,
    /// The buffers that have records, the top buffer first.
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) shifts: Shifts,
    stats_of_others: bool,
    /// Whether version 6 has each buffer's clock after the buffer's list of CPUs.
    has_clock: bool,
    /// Whether the file has the text of a tracer instead of records.
    is_text: bool,
}

/// Reads a file's head; its parts may be anywhere in the file.
pub(crate) fn read<R: Read + Seek>(source: &mut R) -> Result<Head, ImportError> {
    source.rewind()?;
    let mut input = Input::new(BufReader::new(&mut *source), Order::Little);
    input.skip(meta::MAGIC.len() as u64).map_err(in_part("head"))?;
    let start = meta::read_start(&mut input).map_err(in_part("head"))?;
    let mut head = Head {
        order: input.order(),
        meta: Meta::default(),
        clock: String::new(),
        kernel: String::new(),
        arch: String::new(),
        cpus: 0,
        lost: BTreeMap::new(),
        times: Times::default(),
        buffers: Vec::new(),
        shifts: Shifts::None,
        stats_of_others: false,
        has_clock: false,
        is_text: false,
    };
    match start.version.as_str() {
        "6" => {
            let others = head.read_version_6(&mut input, &start)?;
            drop(input);
            head.read_others(source, &others, start.page_size)?;
        }
        "7" => {
            let packing = input.text().map_err(in_part("head"))?;
            let _version = input.text().map_err(in_part("head"))?;
            let options_at = input.u64().map_err(in_part("head"))?;
            drop(input);
            let packing = match packing.as_str() {
                "none" => None,
                name => {
                    Some(Packing::from_name(name).ok_or_else(|| ImportError::Compression(name.to_owned()))?)
                }
            };
            let left = SECTIONS_BYTES_MAX;
            Sections { source, order: head.order, packing, left }.read(&mut head, options_at)?;
        }
        version => return Err(ImportError::Version(version.to_owned())),
    }
    Ok(head)
}

impl Head {
    /// Reads all but the other buffers. Returns the offsets of their lists of CPUs.
    fn read_version_6<R: Read>(
        &mut self,
        input: &mut Input<R>,
        start: &Start,
    ) -> Result<Vec<u64>, ImportError> {
        let part = || in_part("description of tracepoints");
        self.meta.read_pages(input).map_err(part())?;
        self.meta.read_own_formats(input).map_err(part())?;
        self.meta.read_formats(input).map_err(part())?;
        self.meta.read_kallsyms(input).map_err(in_part("list of functions"))?;
        self.meta.read_printk(input).map_err(in_part("list of texts"))?;
        self.meta.read_cmdlines(input).map_err(in_part("list of names"))?;
        self.read_places(input, start.page_size).map_err(in_part("list of CPUs"))
    }

    /// Reads the lists of CPUs of the other buffers in version 6.
    fn read_others<R: Read + Seek>(
        &mut self,
        source: &mut R,
        others: &[u64],
        page_size: u32,
    ) -> Result<(), ImportError> {
        for &at in others.iter().take(BUFFERS_MAX) {
            source.seek(SeekFrom::Start(at))?;
            let mut input = Input::new(BufReader::new(&mut *source), self.order);
            let tag = input.block(10, 10).map_err(in_part("list of CPUs"))?;
            if tag == RECORDS {
                self.read_list(&mut input, page_size).map_err(in_part("list of CPUs"))?;
            }
        }
        self.check()
    }

    /// Fails if the file has a tracer's text instead of records, or if a buffer has another clock than the
    /// first buffer: times of two clocks cannot be compared.
    fn check(&mut self) -> Result<(), ImportError> {
        let Some(first) = self.buffers.first() else {
            return if self.is_text { Err(ImportError::LatencyTracer) } else { Ok(()) };
        };
        self.clock.clone_from(&first.clock);
        match self.buffers.iter().find(|buffer| buffer.clock != self.clock) {
            Some(other) => Err(ImportError::Clocks(self.clock.clone(), other.clock.clone())),
            None => Ok(()),
        }
    }

    /// Reads the number of CPUs, the options, and the place of each CPU's pages of the top buffer. Returns
    /// the offsets of the other buffers' lists.
    fn read_places<R: Read>(&mut self, input: &mut Input<R>, page_size: u32) -> io::Result<Vec<u64>> {
        self.cpus = input.u32()?;
        let mut others = Vec::new();
        let mut tag = input.block(10, 10)?;
        if tag == b"options  \0" {
            for _ in 0..OPTIONS_MAX {
                let kind = input.u16()?;
                if kind == OPTION_DONE {
                    break;
                }
                let len = input.u32()?;
                let data = input.block(u64::from(len), OPTION_BYTES_MAX)?;
                self.has_clock |= kind == OPTION_TRACECLOCK;
                // In version 6 this option describes another buffer than the top buffer, which has no option.
                if kind != OPTION_BUFFER {
                    self.option(kind, &data);
                } else if others.len() < BUFFERS_MAX {
                    others.extend(self.order.number_at(&data, 0, 8));
                }
            }
            tag = input.block(10, 10)?;
        }
        if tag == b"latency  \0" {
            self.is_text = true;
            return Ok(others);
        }
        if tag != RECORDS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.read_list(input, page_size)?;
        Ok(others)
    }

    /// Reads the place of each CPU's pages of a buffer, and the buffer's clock.
    fn read_list<R: Read>(&mut self, input: &mut Input<R>, page_size: u32) -> io::Result<()> {
        let mut buffer = Buffer { clock: self.clock.clone(), page_size, ..Buffer::default() };
        for cpu in 0..self.cpus.min(u32::from(u16::MAX)) {
            buffer.add(cpu, Place { at: input.u64()?, len: input.u64()? });
        }
        if self.has_clock && buffer.clock.is_empty() {
            // trace-cmd copied the kernel's `trace_clock` after the list. Some versions damaged it.
            if let Ok(text) = input.u64().and_then(|len| input.block(len, CLOCK_BYTES_MAX)) {
                buffer.clock = chosen_clock(&String::from_utf8_lossy(&text)).unwrap_or_default();
            }
        }
        if buffer.clock.is_empty() {
            DEFAULT_CLOCK.clone_into(&mut buffer.clock);
        }
        if !buffer.cpus.is_empty() {
            self.buffers.push(buffer);
        }
        Ok(())
    }

    /// Takes an option that both versions have.
    fn option(&mut self, kind: u16, data: &[u8]) {
        let text = || {
            let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
            String::from_utf8_lossy(&data[..end]).into_owned()
        };
        let number = |at| self.order.number_at(data, at, 4).map(|number| number as u32);
        match kind {
            OPTION_TRACECLOCK => self.choose_clock(&text()),
            // `Linux NODE RELEASE MACHINE`
            OPTION_UNAME => {
                let text = text();
                let mut words = text.split_whitespace();
                self.kernel = words.nth(2).unwrap_or_default().to_owned();
                self.arch = words.next_back().unwrap_or_default().to_owned();
            }
            OPTION_CPUCOUNT => self.cpus = number(0).unwrap_or(self.cpus),
            OPTION_TSC2NSEC => {
                let (Some(factor), Some(shift)) = (number(0), number(4)) else { return };
                self.times.scale = (factor > 0 && shift < 64).then_some(Scale { factor, shift });
            }
            OPTION_CPUSTAT => self.stat(&text()),
            OPTION_DATE => self.times.add_date(&text()),
            OPTION_OFFSET => self.times.add_offset(&text()),
            OPTION_TIME_SHIFT => self.shift(data),
            _ => {}
        }
    }

    fn shift(&mut self, data: &[u8]) {
        (self.shifts, self.times.shift) = match Shift::read(data, self.order) {
            Ok(shift) if shift.is_scaled() => (Shifts::Scaled, shift),
            Ok(shift) => (Shifts::Applied, shift),
            Err(_) => (Shifts::Damaged, Shift::default()),
        };
    }

    /// Takes the clock that an option names. The first option counts.
    fn choose_clock(&mut self, text: &str) {
        if let Some(clock) = chosen_clock(text).filter(|_| self.clock.is_empty()) {
            self.clock = clock;
        }
    }

    /// `CPU: 1\nentries: 0\noverrun: 1048\ncommit overrun: 0\n...dropped events: 0\n`; the counts of other
    /// buffers come after a line that names their buffer.
    fn stat(&mut self, text: &str) {
        self.stats_of_others |= text.contains("Buffer:");
        if self.stats_of_others {
            return;
        }
        let number = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        let cpu = number("CPU:").and_then(|cpu| u16::try_from(cpu).ok());
        let counts = ["overrun:", "commit overrun:", "dropped events:"].map(number);
        let lost = counts.into_iter().flatten().fold(0, u64::saturating_add);
        if let Some(cpu) = cpu {
            self.lost.insert(cpu, lost);
        }
    }
}

/// The clock in brackets: `local global [mono] boot`.
fn chosen_clock(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (clock, _) = rest.split_once(']')?;
    Some(clock.trim().to_owned())
}

/// The sections of version 7.
struct Sections<'a, R> {
    source: &'a mut R,
    order: Order,
    packing: Option<Packing>,
    /// Bytes of sections that may still be read.
    left: u64,
}

impl<R: Read + Seek> Sections<'_, R> {
    /// Reads the section at a place, and unpacks it.
    fn at(&mut self, at: u64) -> io::Result<Vec<u8>> {
        let section = self.unpacked(at)?;
        let bytes = SECTION_BYTES_MIN.max(section.len() as u64);
        self.left = self.left.checked_sub(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(section)
    }

    fn unpacked(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.source.seek(SeekFrom::Start(at))?;
        let mut input = Input::new(&mut *self.source, self.order);
        let (_kind, flags, _text) = (input.u16()?, input.u16()?, input.u32()?);
        let len = input.u64()?;
        if flags & SECTION_PACKED == 0 {
            return input.block(len, BLOCK_BYTES_MAX);
        }
        let packing = self.packing.ok_or(io::ErrorKind::InvalidData)?;
        let (packed_len, len) = (input.u32()?, input.u32()?);
        if u64::from(len) > BLOCK_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let packed = input.block(u64::from(packed_len), BLOCK_BYTES_MAX)?;
        packing.unpack(&packed, len as usize)
    }

    fn read(&mut self, head: &mut Head, options_at: u64) -> Result<(), ImportError> {
        const PART: &str = "list of options";
        let mut next = options_at;
        let mut buffers = Vec::new();
        for _ in 0..OPTION_SECTIONS_MAX {
            let section = self.at(next).map_err(in_part(PART))?;
            let mut input = Input::new(section.as_slice(), self.order);
            next = 0;
            for _ in 0..OPTIONS_MAX {
                // If the section ends early, the rest of the file may still be readable.
                let (Ok(kind), Ok(len)) = (input.u16(), input.u32()) else { break };
                let Ok(data) = input.block(u64::from(len), OPTION_BYTES_MAX) else { break };
                let place = self.order.number_at(&data, 0, 8);
                match kind {
                    OPTION_DONE => {
                        next = place.unwrap_or(0);
                        break;
                    }
                    OPTION_BUFFER => buffers.push(data),
                    OPTION_BUFFER_TEXT => head.is_text = true,
                    OPTION_HEADER_INFO..=OPTION_CMDLINES => self.part(head, kind, place.unwrap_or(0))?,
                    _ => head.option(kind, &data),
                }
            }
            if next == 0 {
                break;
            }
        }
        self.buffers(head, &buffers)?;
        head.check()
    }

    /// Reads a section that an option points to.
    fn part(&mut self, head: &mut Head, kind: u16, at: u64) -> Result<(), ImportError> {
        const PART: &str = "description of tracepoints";
        let is_read = matches!(
            kind,
            OPTION_HEADER_INFO
                | OPTION_FTRACE_EVENTS
                | OPTION_EVENT_FORMATS
                | OPTION_KALLSYMS
                | OPTION_CMDLINES
        );
        if !is_read {
            return Ok(());
        }
        let section = self.at(at).map_err(in_part(PART))?;
        let mut input = Input::new(section.as_slice(), self.order);
        match kind {
            OPTION_HEADER_INFO => head.meta.read_pages(&mut input),
            OPTION_FTRACE_EVENTS => head.meta.read_own_formats(&mut input),
            OPTION_EVENT_FORMATS => head.meta.read_formats(&mut input),
            OPTION_KALLSYMS => head.meta.read_kallsyms(&mut input),
            _ => head.meta.read_cmdlines(&mut input),
        }
        .map_err(in_part(PART))
    }

    /// Reads the place of each CPU's pages of all buffers. The top buffer has no name.
    fn buffers(&mut self, head: &mut Head, buffers: &[Vec<u8>]) -> Result<(), ImportError> {
        const PART: &str = "list of CPUs";
        for data in buffers.iter().take(BUFFERS_MAX) {
            let mut input = Input::new(data.as_slice(), self.order);
            let section_at = input.u64().map_err(in_part(PART))?;
            let is_top = input.text().map_err(in_part(PART))?.is_empty();
            let mut buffer = Buffer { clock: input.text().map_err(in_part(PART))?, ..Buffer::default() };
            buffer.page_size = input.u32().map_err(in_part(PART))?;
            for _ in 0..input.u32().map_err(in_part(PART))? {
                let cpu = input.u32().map_err(in_part(PART))?;
                let (at, len) = (input.u64().map_err(in_part(PART))?, input.u64().map_err(in_part(PART))?);
                buffer.add(cpu, Place { at, len });
            }
            if buffer.cpus.is_empty() {
                continue;
            }
            self.source.seek(SeekFrom::Start(section_at))?;
            let mut section = Input::new(&mut *self.source, self.order);
            let (_kind, flags) =
                (section.u16().map_err(in_part(PART))?, section.u16().map_err(in_part(PART))?);
            buffer.packing = self.packing.filter(|_| flags & SECTION_PACKED != 0);
            let at = if is_top { 0 } else { head.buffers.len() };
            head.buffers.insert(at, buffer);
        }
        Ok(())
    }
}
