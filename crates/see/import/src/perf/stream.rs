//! perf's records one after another, unpacked where they are compressed.

use std::io::{self, BufReader, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::input::{Input, Order};

/// The length of a record's head: type, misc and size.
const HEAD_BYTES: usize = 8;
/// The number of bytes that are unpacked at once.
const UNPACKED_BYTES: usize = 128 << 10;
/// The number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Types of records that carry bytes beyond their size, or other records.
const HEADER_TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// A record's kind, and the flags in its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
}

/// The reason why there are no more records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The records end at the place that the file's head gives, or at the end of the file.
    Whole,
    /// The file ends within a record, or before the place that its head gives as the records' end.
    Cut,
    /// The next bytes are no record, and the start of the next record is unknown.
    Damage,
}

/// The next item of the stream.
pub(crate) enum Next<'a> {
    Record(Head, &'a [u8]),
    /// The bytes that follow a record of tracing data, to be read from [`Stream::input`].
    Tracing(u64),
    End(End),
}

/// The records of a file.
pub(crate) struct Stream<R> {
    source: CountingReader<BufReader<R>>,
    order: Order,
    /// Bytes of records that are left in the file; `None` if the records fill the rest of the file.
    left: Option<u64>,
    body: Vec<u8>,
    decoder: Option<Decoder<'static>>,
    /// Whether the decoder has taken more bytes than it had room to unpack.
    decoder_holds_more: bool,
    /// Unpacked bytes; below, the number of them that have been returned.
    unpacked: Vec<u8>,
    given: usize,
    /// Compressed bytes that were not yet unpacked.
    packed: Vec<u8>,
    packed_at: usize,
    damaged_bytes: u64,
}

/// A source that counts the bytes read from it.
struct CountingReader<R> {
    source: R,
    bytes: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<R: Read> Stream<R> {
    /// The records of a source that stands at the first of `len` bytes of records.
    pub(crate) fn new(source: R, order: Order, len: Option<u64>) -> Stream<R> {
        Stream {
            source: CountingReader { source: BufReader::with_capacity(READ_BYTES, source), bytes: 0 },
            order,
            left: len,
            body: Vec::new(),
            decoder: None,
            decoder_holds_more: false,
            unpacked: Vec::new(),
            given: 0,
            packed: Vec::new(),
            packed_at: 0,
            damaged_bytes: 0,
        }
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.source.bytes
    }

    /// Bytes that could not be read as records.
    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// The bytes that follow the record of tracing data.
    pub(crate) fn input(&mut self) -> Input<impl Read + '_> {
        Input::new(&mut self.source, self.order)
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        loop {
            if let Some((head, body)) = self.next_unpacked()? {
                return Ok(Next::Record(head, &self.unpacked[body]));
            }
            let (head, len) = match self.read_head()? {
                Ok(found) => found,
                Err(end) => return Ok(Next::End(end)),
            };
            self.body.resize(len, 0);
            if !fill(&mut self.source, &mut self.body)? {
                return Ok(Next::End(End::Cut));
            }
            match head.kind {
                COMPRESSED | COMPRESSED2 => self.take_packed(head.kind),
                AUXTRACE => {
                    let extra = self.order.number_at(&self.body, 0, 8).unwrap_or(0);
                    if !self.spend(extra) || self.input().skip(extra).is_err() {
                        return Ok(Next::End(End::Cut));
                    }
                }
                HEADER_TRACING_DATA => {
                    let extra = self.order.number_at(&self.body, 0, 4).unwrap_or(0);
                    self.spend(extra);
                    return Ok(Next::Tracing(extra));
                }
                _ => return Ok(Next::Record(head, &self.body)),
            }
        }
    }

    /// Takes `bytes` off the bytes of records that are left by the file's head. Returns whether so many were
    /// left.
    fn spend(&mut self, bytes: u64) -> bool {
        match &mut self.left {
            Some(left) if *left < bytes => false,
            Some(left) => {
                *left -= bytes;
                true
            }
            None => true,
        }
    }

    fn read_head(&mut self) -> io::Result<Result<(Head, usize), End>> {
        if self.left == Some(0) {
            return Ok(Err(End::Whole));
        }
        let mut head = [0; HEAD_BYTES];
        let read = fill_some(&mut self.source, &mut head)?;
        if read < HEAD_BYTES {
            let is_whole = read == 0 && self.left.is_none();
            return Ok(Err(if is_whole { End::Whole } else { End::Cut }));
        }
        let (head, size) = parse_head(&head, self.order);
        let Some(len) = size.checked_sub(HEAD_BYTES) else { return self.give_up() };
        if !self.spend(size as u64) {
            return self.give_up();
        }
        Ok(Ok((head, len)))
    }

    /// Skips the rest of the records after an invalid head: without its size, a record has no end.
    fn give_up(&mut self) -> io::Result<Result<(Head, usize), End>> {
        let rest = match self.left {
            Some(left) => io::copy(&mut self.source.by_ref().take(left), &mut io::sink())?,
            None => io::copy(&mut self.source, &mut io::sink())?,
        };
        self.damaged_bytes += rest + HEAD_BYTES as u64;
        self.left = Some(0);
        Ok(Err(End::Damage))
    }

    fn take_packed(&mut self, kind: u32) {
        let body = if kind == COMPRESSED {
            &self.body[..]
        } else {
            let len = self.order.number_at(&self.body, 0, 8).and_then(|len| usize::try_from(len).ok());
            let body = len.and_then(|len| self.body.get(8..8usize.checked_add(len)?));
            body.unwrap_or_default()
        };
        self.packed.clear();
        self.packed.extend_from_slice(body);
        self.packed_at = 0;
    }

    /// The next of the unpacked records, by its place.
    fn next_unpacked(&mut self) -> io::Result<Option<(Head, std::ops::Range<usize>)>> {
        loop {
            let rest = &self.unpacked[self.given..];
            if let Some(head) = rest.get(..HEAD_BYTES) {
                let (head, size) = parse_head(head, self.order);
                let Some(len) = size.checked_sub(HEAD_BYTES) else {
                    self.damaged_bytes += rest.len() as u64;
                    self.given = self.unpacked.len();
                    continue;
                };
                if rest.len() >= size {
                    let start = self.given + HEAD_BYTES;
                    self.given += size;
                    let is_nested =
                        matches!(head.kind, COMPRESSED | COMPRESSED2 | AUXTRACE | HEADER_TRACING_DATA);
                    if is_nested {
                        self.damaged_bytes += size as u64;
                        continue;
                    }
                    return Ok(Some((head, start..start + len)));
                }
            }
            if !self.unpack_more()? {
                return Ok(None);
            }
        }
    }

    /// Unpacks some of the waiting bytes. Returns whether there was any progress.
    fn unpack_more(&mut self) -> io::Result<bool> {
        if self.packed_at >= self.packed.len() && !self.decoder_holds_more {
            return Ok(false);
        }
        self.unpacked.drain(..self.given);
        self.given = 0;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new()?),
        };
        let kept = self.unpacked.len();
        self.unpacked.resize(kept + UNPACKED_BYTES, 0);
        let mut input = InBuffer::around(&self.packed[self.packed_at..]);
        let mut output = OutBuffer::around(&mut self.unpacked[kept..]);
        let done = decoder.run(&mut input, &mut output);
        let (taken, given) = (input.pos(), output.pos());
        self.unpacked.truncate(kept + given);
        self.packed_at += taken;
        // The decoder returns all bytes that it has, unless there is no room.
        self.decoder_holds_more = given == UNPACKED_BYTES && done.is_ok();
        if done.is_err() || (taken == 0 && given == 0) {
            self.damaged_bytes += (self.packed.len() - self.packed_at) as u64;
            self.packed_at = self.packed.len();
        }
        Ok(given > 0 || self.packed_at < self.packed.len())
    }
}

fn parse_head(head: &[u8], order: Order) -> (Head, usize) {
    let number = |at, len| order.number_at(head, at, len).unwrap_or(0);
    (Head { kind: number(0, 4) as u32, misc: number(4, 2) as u16 }, number(6, 2) as usize)
}

/// Fills the buffer. Returns whether the source had that much.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    Ok(fill_some(source, buffer)? == buffer.len())
}

fn fill_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
