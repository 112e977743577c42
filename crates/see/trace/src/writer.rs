//! Writes a trace: events in, frames out, at any moment readable to its last whole frame.

use std::io::{self, Write};
use std::ops::AddAssign;

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use crate::encode::{Names, Stream};
use crate::event::{Event, Lost, Stamped, TaskInfo};
use crate::format::{
    FOOTER_MAGIC, FRAME_INDEX, FRAME_RESTART, FRAME_ROUND, MAGIC, SEGMENT_FLAG_BITS, SEGMENT_STARTS_BLOCK,
    SEGMENT_ZSTD, SYNC, VERSION_MAJOR, VERSION_MINOR,
};
use crate::header::{Header, tick_ns};
use crate::varint::put;

/// Whether blocks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Blocks are not compressed.
    None,
    /// Blocks are compressed with zstd at this level, 1 to 19.
    Zstd(i32),
}

/// The level at which compressing costs less than encoding.
pub const ZSTD_LEVEL_DEFAULT: i32 = 1;

/// The settings of a writer: its compression and the length of its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether blocks are compressed.
    pub compression: Compression,
    /// New blocks start when the current blocks hold this many uncompressed bytes over all CPUs.
    pub block_bytes: usize,
    /// New blocks also start when the current blocks cover this much time, ns.
    pub block_ns: u64,
    /// A CPU's segments are compressed from the first segment on that has this many bytes: each flush of the
    /// compressor costs about ten bytes, so short segments gain nothing.
    pub compress_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compression: Compression::Zstd(ZSTD_LEVEL_DEFAULT),
            block_bytes: 2 << 20,
            block_ns: 10_000_000_000,
            compress_bytes: 2048,
        }
    }
}

/// A segment of this many bytes is sent on at once, even within a round.
const SEGMENT_BYTES: usize = 512 << 10;

/// A CPU goes from compressed to plain segments when its segments are this many times shorter than
/// [`Options::compress_bytes`]. The gap keeps a CPU from going back and forth.
const PLAIN_FACTOR: usize = 4;

/// The counts of a written trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events that have been written.
    pub events: u64,
    /// Lost events that were reported to the writer.
    pub lost: u64,
    /// Bytes given to the sink.
    pub bytes: u64,
    /// Bytes of the streams before compression.
    pub raw_bytes: u64,
}

/// One CPU's share of the file.
struct CpuStream {
    stream: Stream,
    encoder: Option<Encoder<'static>>,
    /// Whether the block's compressed stream has begun.
    packing: Packing,
    /// Whether the latest segment was compressed.
    compressed: Compressed,
    phase: Phase,
    events: u64,
    lost: u64,
    block_first_ns: u64,
    block_lost: u64,
}

/// Whether a segment is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compressed {
    Yes,
    No,
}

/// The state of a block's compressed stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// No segment of the block has been compressed.
    NotBegun,
    /// The encoder holds the state from which the next compressed segment continues.
    GoingOn,
}

/// The progress of a CPU's block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next event starts a block.
    BetweenBlocks,
    /// The block has begun, but nothing of it has been sent.
    Begun,
    /// Part of the block has been sent.
    Sent,
}

/// A place in the file from which all CPUs start new blocks.
struct Restart {
    /// No event before `offset` in the file is later than this, ns since the start.
    before_ns: u64,
    offset: u64,
}

/// Writes one trace to `sink`, each frame with one call of `write_all`.
pub struct Writer<W: Write> {
    sink: W,
    options: Options,
    start_ns: u64,
    cpus: Vec<CpuStream>,
    names: Names,
    restarts: Vec<Restart>,
    safe_ns: u64,
    latest_ns: u64,
    blocks_began_ns: u64,
    block_raw_bytes: usize,
    /// The kind of the next frame.
    next_frame: u8,
    payload: Vec<u8>,
    packed: Vec<u8>,
    written: Written,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(mut sink: W, header: &Header, options: Options) -> io::Result<Writer<W>> {
        let json = serde_json::to_vec(header)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION_MAJOR.to_le_bytes());
        bytes.extend(VERSION_MINOR.to_le_bytes());
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend(json);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        sink.write_all(&bytes)?;
        let written = Written { bytes: bytes.len() as u64, ..Written::default() };
        Ok(Writer {
            sink,
            options,
            start_ns: header.start_ns,
            cpus: (0..header.cpus).map(|_| CpuStream::new(tick_ns(header))).collect(),
            names: Names::default(),
            restarts: vec![Restart { before_ns: 0, offset: written.bytes }],
            safe_ns: header.start_ns,
            latest_ns: header.start_ns,
            blocks_began_ns: header.start_ns,
            block_raw_bytes: 0,
            next_frame: FRAME_RESTART,
            payload: Vec::new(),
            packed: Vec::new(),
            written,
        })
    }

    /// The counts so far. Of events that still wait to be sent on, only lost events are included.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Names a task, for every block that mentions it from now on. Forks, renames and exits change the name
    /// without a call of this function.
    ///
    /// If `info` lacks the numbers in the recorder's PID namespace, a task of the same process keeps its own.
    pub fn task(&mut self, info: TaskInfo) {
        let before = self.names.get(&info.tid).filter(|before| before.tgid == info.tgid);
        let inner = info.inner.or(before.and_then(|before| before.inner));
        self.names.insert(info.tid, TaskInfo { inner, ..info });
    }

    /// Appends an event. The events of each CPU must come in order of time; an event on a CPU that the header
    /// does not have is an error.
    pub fn event(&mut self, stamped: &Stamped) -> io::Result<()> {
        let Stamped { time_ns, cpu, ref event } = *stamped;
        let of = self.cpus.get_mut(usize::from(cpu)).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("an event on CPU {cpu}, which the header lacks"),
            )
        })?;
        if of.phase == Phase::BetweenBlocks {
            of.begin_block(time_ns, self.start_ns, &self.names);
        }
        // The writer has promised that no event comes before `safe_ns`: a late event gets that time.
        let time_ns = time_ns.max(self.safe_ns);
        of.stream.push(time_ns, cpu, event, &self.names);
        self.latest_ns = self.latest_ns.max(time_ns);
        self.learn(event);
        if self.cpus[usize::from(cpu)].stream.bytes.len() >= SEGMENT_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Records that `count` events of a CPU are missing before `time_ns`.
    pub fn lost(&mut self, cpu: u16, time_ns: u64, count: u64) -> io::Result<()> {
        self.event(&Stamped { time_ns, cpu, event: Event::Lost(Lost { count }) })?;
        self.cpus[usize::from(cpu)].lost += count;
        self.written.lost += count;
        Ok(())
    }

    /// Sends on everything appended so far, and promises that no later event is before `safe_ns`.
    pub fn round(&mut self, safe_ns: u64) -> io::Result<()> {
        self.safe_ns = self.safe_ns.max(safe_ns);
        self.flush()
    }

    /// Writes the remaining events, the index and the footer, and returns the sink.
    pub fn finish(mut self, end_ns: u64) -> io::Result<(W, Written)> {
        self.safe_ns = self.safe_ns.max(end_ns);
        self.flush()?;
        let index_offset = self.written.bytes;
        self.payload.clear();
        put(&mut self.payload, end_ns.saturating_sub(self.start_ns));
        put(&mut self.payload, self.written.events);
        put(&mut self.payload, self.written.lost);
        put(&mut self.payload, self.restarts.len() as u64);
        let (mut before_ns, mut offset) = (0, 0);
        for restart in &self.restarts {
            put(&mut self.payload, restart.before_ns - before_ns);
            put(&mut self.payload, restart.offset - offset);
            (before_ns, offset) = (restart.before_ns, restart.offset);
        }
        self.frame(FRAME_INDEX)?;
        let mut footer = FOOTER_MAGIC.to_vec();
        footer.extend(index_offset.to_le_bytes());
        self.sink.write_all(&footer)?;
        self.written.bytes += footer.len() as u64;
        self.sink.flush()?;
        Ok((self.sink, self.written))
    }

    fn learn(&mut self, event: &Event) {
        match *event {
            Event::Task(info) => self.task(info),
            Event::Fork(fork) => self.task(TaskInfo::new(fork.child, fork.child_tgid, fork.comm)),
            Event::Comm(rename) => {
                if let Some(info) = self.names.get_mut(&rename.tid) {
                    info.comm = rename.comm;
                }
            }
            Event::Switch(switch) if switch.prev_state.is_exit() => {
                self.names.remove(&switch.prev);
            }
            _ => {}
        }
    }

    /// Lets all CPUs start new blocks with their next event, so that a reader can begin here.
    fn restart(&mut self) {
        for cpu in &mut self.cpus {
            cpu.phase = Phase::BetweenBlocks;
        }
        self.blocks_began_ns = self.latest_ns;
        self.block_raw_bytes = 0;
        self.next_frame = FRAME_RESTART;
        self.restarts.push(Restart {
            before_ns: self.latest_ns.saturating_sub(self.start_ns),
            offset: self.written.bytes,
        });
    }

    fn flush(&mut self) -> io::Result<()> {
        self.payload.clear();
        put(&mut self.payload, self.safe_ns.saturating_sub(self.start_ns));
        let kind = std::mem::replace(&mut self.next_frame, FRAME_ROUND);
        if kind == FRAME_RESTART {
            put(&mut self.payload, self.restarts.last().map_or(0, |restart| restart.before_ns));
        }
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if cpu.stream.bytes.is_empty() {
                continue;
            }
            self.block_raw_bytes += cpu.stream.bytes.len();
            self.written.raw_bytes += cpu.stream.bytes.len() as u64;
            self.written.events += cpu.stream.count;
            cpu.segment(number as u64, &self.options, &mut self.payload, &mut self.packed)?;
        }
        self.frame(kind)?;
        let age_ns = self.latest_ns.saturating_sub(self.blocks_began_ns);
        if self.block_raw_bytes >= self.options.block_bytes || age_ns >= self.options.block_ns {
            self.restart();
        }
        Ok(())
    }

    fn frame(&mut self, kind: u8) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.payload.len() + 16);
        bytes.extend([SYNC, kind]);
        put(&mut bytes, self.payload.len() as u64);
        bytes.append(&mut self.payload);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        self.written.bytes.add_assign(bytes.len() as u64);
        self.sink.write_all(&bytes)
    }
}

impl CpuStream {
    fn new(tick_ns: u64) -> CpuStream {
        CpuStream {
            stream: Stream::new(tick_ns),
            encoder: None,
            packing: Packing::NotBegun,
            compressed: Compressed::No,
            phase: Phase::BetweenBlocks,
            events: 0,
            lost: 0,
            block_first_ns: 0,
            block_lost: 0,
        }
    }

    fn begin_block(&mut self, first_ns: u64, start_ns: u64, names: &Names) {
        self.stream.start_block(first_ns.max(start_ns), names);
        self.block_first_ns = self.stream.last_ns() - start_ns;
        self.block_lost = self.lost;
        self.phase = Phase::Begun;
        self.packing = Packing::NotBegun;
    }

    /// The level at which to compress the segment that the stream holds; `None` if it stays plain.
    fn level(&self, options: &Options) -> Option<i32> {
        let least = match self.compressed {
            Compressed::Yes => options.compress_bytes / PLAIN_FACTOR,
            Compressed::No => options.compress_bytes,
        };
        match options.compression {
            Compression::Zstd(level) if self.stream.bytes.len() >= least => Some(level),
            _ => None,
        }
    }

    /// The encoder, ready to go on with the block's compressed stream.
    fn encoder(&mut self, level: i32) -> io::Result<&mut Encoder<'static>> {
        let encoder = match self.encoder.take() {
            Some(encoder) if self.packing == Packing::GoingOn => encoder,
            Some(mut encoder) => {
                encoder.reinit()?;
                encoder
            }
            None => Encoder::new(level)?,
        };
        self.packing = Packing::GoingOn;
        Ok(self.encoder.insert(encoder))
    }

    /// Moves the bytes of the stream into the payload of a frame.
    fn segment(
        &mut self,
        number: u64,
        options: &Options,
        payload: &mut Vec<u8>,
        packed: &mut Vec<u8>,
    ) -> io::Result<()> {
        let starts = self.phase == Phase::Begun;
        let mut flags = 0;
        if starts {
            flags |= SEGMENT_STARTS_BLOCK;
        }
        let level = self.level(options);
        if level.is_some() {
            flags |= SEGMENT_ZSTD;
        }
        put(payload, (number << SEGMENT_FLAG_BITS) | flags);
        if starts {
            put(payload, self.block_first_ns);
            put(payload, self.events);
            put(payload, self.block_lost);
        }
        put(payload, self.stream.count);
        put(payload, self.stream.bytes.len() as u64);
        let bytes = std::mem::take(&mut self.stream.bytes);
        self.compressed = match level {
            Some(level) => {
                compress(self.encoder(level)?, &bytes, packed)?;
                put(payload, packed.len() as u64);
                payload.extend_from_slice(packed);
                Compressed::Yes
            }
            None => {
                payload.extend_from_slice(&bytes);
                Compressed::No
            }
        };
        self.events += self.stream.count;
        // The stream gets its buffer back, to fill it again.
        self.stream.bytes = bytes;
        self.stream.bytes.clear();
        self.stream.count = 0;
        self.phase = Phase::Sent;
        Ok(())
    }
}

/// Continues the encoder's stream with `bytes` up to a point where a decoder can give all of them back.
fn compress(encoder: &mut Encoder<'static>, bytes: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
    packed.clear();
    packed.resize(zstd::zstd_safe::compress_bound(bytes.len()) + 64, 0);
    let mut input = InBuffer::around(bytes);
    let mut output = OutBuffer::around(packed.as_mut_slice());
    while input.pos() < bytes.len() {
        encoder.run(&mut input, &mut output)?;
    }
    while encoder.flush(&mut output)? > 0 {}
    let len = output.pos();
    packed.truncate(len);
    Ok(())
}
