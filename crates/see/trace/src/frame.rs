//! Finds the frames of a file. Damaged bytes are skipped, and the file may end within a frame.

use std::io::{self, Read};

use crate::format::{
    FOOTER_BYTES, FOOTER_MAGIC, FRAME_BYTES_MAX, FRAME_INDEX, FRAME_RESTART, FRAME_ROUND, SYNC,
};
use crate::varint::Cursor;

/// The number of bytes read from the source with one call.
const CHUNK_BYTES: usize = 256 << 10;
/// The bytes with a failed checksum in the search for frames: at most the first constant, plus the skipped
/// bytes times the second. This bounds the time for a damaged file.
const SEARCH_BYTES: u64 = 64 << 20;
const SEARCH_FACTOR: u64 = 8;
/// The longest head of a frame: sync, kind and the longest length.
const FRAME_HEAD_MAX: usize = 12;
const CRC_BYTES: usize = 4;

/// One whole frame, its checksum verified.
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) payload: &'a [u8],
    /// The offset of the frame's first byte in the file.
    pub(crate) offset: u64,
    /// The kind of the bytes directly before the frame.
    pub(crate) before: Before,
}

/// The kind of the bytes directly before a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// The frame follows directly on another frame, or on the file's header.
    Frame,
    /// The bytes before are no frame; they may be frames that were damaged.
    Damage,
}

/// Reads frames one after another.
pub(crate) struct Frames<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    /// Offset in the file of `buffer[start]`.
    offset: u64,
    at_end: bool,
    searched: u64,
    before: Before,
    damaged: u64,
    /// Bytes after the last whole frame, if the file ends within a frame.
    cut: u64,
}

/// The kind of the bytes at the current offset.
enum Look {
    Frame {
        kind: u8,
        head: usize,
        len: usize,
    },
    /// The bytes could be the beginning of a frame, but the file ends.
    Short,
    NotAFrame,
}

impl<R: Read> Frames<R> {
    /// Reads frames from `source`, which stands at `offset` of the file.
    pub(crate) fn new(source: R, offset: u64) -> Frames<R> {
        Frames {
            source,
            buffer: Vec::new(),
            start: 0,
            offset,
            at_end: false,
            searched: 0,
            before: Before::Frame,
            damaged: 0,
            cut: 0,
        }
    }

    /// Bytes that were skipped because they are no frame.
    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.damaged
    }

    /// Bytes of the last frame, if the file has only a part of it.
    pub(crate) fn cut_bytes(&self) -> u64 {
        self.cut
    }

    /// The offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes `len` bytes, or fewer at the end of the source.
    pub(crate) fn bytes(&mut self, len: usize) -> io::Result<&[u8]> {
        self.fill(len)?;
        let end = (self.start + len).min(self.buffer.len());
        let start = self.start;
        self.advance(end - start);
        Ok(&self.buffer[start..end])
    }

    /// The next frame; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        loop {
            self.fill(1)?;
            if self.available() == 0 {
                return Ok(None);
            }
            match self.look()? {
                Look::Frame { kind, head, len } => {
                    self.damaged += std::mem::take(&mut self.cut);
                    let (start, offset) = (self.start, self.offset);
                    self.advance(head + len + CRC_BYTES);
                    let before = std::mem::replace(&mut self.before, Before::Frame);
                    let payload = &self.buffer[start + head..start + head + len];
                    return Ok(Some(Frame { kind, payload, offset, before }));
                }
                Look::Short => self.cut += self.skip()?,
                Look::NotAFrame if self.cut > 0 => self.cut += self.skip()?,
                Look::NotAFrame => {
                    if self.is_footer()? {
                        self.advance(FOOTER_BYTES);
                    } else {
                        self.damaged += self.skip()?;
                    }
                }
            }
            if self.searched > SEARCH_BYTES + SEARCH_FACTOR * (self.damaged + self.cut) {
                self.give_up()?;
            }
        }
    }

    fn available(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn advance(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
    }

    /// Makes `len` bytes available unless the source ends before.
    fn fill(&mut self, len: usize) -> io::Result<()> {
        if self.available() >= len || self.at_end {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.available() < len && !self.at_end {
            let had = self.buffer.len();
            self.buffer.resize(had + CHUNK_BYTES, 0);
            let got = match self.source.read(&mut self.buffer[had..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.buffer.truncate(had);
                    continue;
                }
                other => other,
            };
            self.buffer.truncate(had + *got.as_ref().unwrap_or(&0));
            self.at_end = got? == 0;
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<Look> {
        self.fill(FRAME_HEAD_MAX)?;
        let bytes = &self.buffer[self.start..];
        if bytes[0] != SYNC {
            return Ok(Look::NotAFrame);
        }
        let mut cursor = Cursor::at(bytes, 1);
        let Some(kind) = cursor.byte() else { return Ok(Look::Short) };
        if !matches!(kind, FRAME_ROUND | FRAME_RESTART | FRAME_INDEX) {
            return Ok(Look::NotAFrame);
        }
        let Some(len) = cursor.varint() else {
            return Ok(if self.at_end && bytes.len() < FRAME_HEAD_MAX {
                Look::Short
            } else {
                Look::NotAFrame
            });
        };
        if len > FRAME_BYTES_MAX as u64 {
            return Ok(Look::NotAFrame);
        }
        let (head, len) = (cursor.position(), len as usize);
        let whole = head + len + CRC_BYTES;
        self.fill(whole)?;
        let bytes = &self.buffer[self.start..];
        if bytes.len() < whole {
            return Ok(Look::Short);
        }
        let (content, crc) = bytes[..whole].split_at(head + len);
        if !is_checksum_of(crc, content) {
            self.searched += whole as u64;
            return Ok(Look::NotAFrame);
        }
        Ok(Look::Frame { kind, head, len })
    }

    /// Whether the remaining bytes are the footer.
    fn is_footer(&mut self) -> io::Result<bool> {
        self.fill(FOOTER_BYTES + 1)?;
        Ok(self.available() == FOOTER_BYTES && self.buffer[self.start..].starts_with(&FOOTER_MAGIC))
    }

    /// Goes to the next byte that could start a frame. Returns the number of bytes passed over.
    fn skip(&mut self) -> io::Result<u64> {
        let rest = &self.buffer[self.start + 1..];
        let len = 1 + rest.iter().position(|&byte| byte == SYNC).unwrap_or(rest.len());
        self.before = Before::Damage;
        self.advance(len);
        Ok(len as u64)
    }

    /// Skips the rest of the file as damaged, since the search for frames has reached its limit.
    fn give_up(&mut self) -> io::Result<()> {
        loop {
            self.damaged += self.available() as u64;
            self.advance(self.available());
            self.fill(1)?;
            if self.available() == 0 {
                return Ok(());
            }
        }
    }
}

/// Whether `crc` is right. A fuzzer's build accepts any, since a fuzzer hardly ever finds a right checksum.
pub(crate) fn is_checksum_of(crc: &[u8], content: &[u8]) -> bool {
    cfg!(fuzzing) || crc32fast::hash(content).to_le_bytes() == *crc
}
