//! The places in a file where a reader can begin, from a finished file's index or from a scan of the file.

use std::io::{self, Read, Seek, SeekFrom};

use crate::format::{FOOTER_BYTES, FOOTER_MAGIC, FRAME_INDEX, FRAME_RESTART};
use crate::frame::Frames;
use crate::varint::Cursor;

/// A place where every CPU starts a new block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    /// The upper limit of the times of all events before `offset`, ns since the start of the trace.
    before_ns: u64,
    offset: u64,
}

/// The places where a reader can begin, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    duration_ns: u64,
    entries: Vec<Entry>,
}

impl Index {
    /// The duration of the trace, ns.
    pub fn duration_ns(&self) -> u64 {
        self.duration_ns
    }

    /// Reads the payload of an index frame.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Option<Index> {
        let duration_ns = cursor.varint()?;
        let (_events, _lost) = (cursor.varint()?, cursor.varint()?);
        let count = cursor.varint()?;
        let mut entries = Vec::new();
        let (mut before_ns, mut offset) = (0u64, 0u64);
        for _ in 0..count {
            before_ns = before_ns.checked_add(cursor.varint()?)?;
            offset = offset.checked_add(cursor.varint()?)?;
            entries.push(Entry { before_ns, offset });
        }
        Some(Index { duration_ns, entries })
    }

    /// The index of the file in `source`, with frames from `body` on. It is read from the file's end. If the
    /// file was cut off, the index is made by reading the whole file.
    pub(crate) fn of<R: Read + Seek>(source: &mut R, body: u64) -> io::Result<Index> {
        match Index::from_footer(source, body)? {
            Some(index) => Ok(index),
            None => Index::from_scan(source, body),
        }
    }

    fn from_footer<R: Read + Seek>(source: &mut R, body: u64) -> io::Result<Option<Index>> {
        let len = source.seek(SeekFrom::End(0))?;
        if len < body + FOOTER_BYTES as u64 {
            return Ok(None);
        }
        source.seek(SeekFrom::End(-(FOOTER_BYTES as i64)))?;
        let mut footer = [0; FOOTER_BYTES];
        source.read_exact(&mut footer)?;
        let (magic, offset) = footer.split_at(FOOTER_MAGIC.len());
        let offset = u64::from_le_bytes(offset.try_into().expect("a footer ends with eight bytes"));
        if *magic != FOOTER_MAGIC || offset < body || offset > len {
            return Ok(None);
        }
        source.seek(SeekFrom::Start(offset))?;
        let mut frames = Frames::new(source, offset);
        let frame = frames.next()?.filter(|frame| frame.kind == FRAME_INDEX && frame.offset == offset);
        Ok(frame.and_then(|frame| Index::parse(&mut Cursor::new(frame.payload))))
    }

    fn from_scan<R: Read + Seek>(source: &mut R, body: u64) -> io::Result<Index> {
        source.seek(SeekFrom::Start(body))?;
        let mut frames = Frames::new(source, body);
        let mut index = Index { duration_ns: 0, entries: Vec::new() };
        while let Some(frame) = frames.next()? {
            let mut cursor = Cursor::new(frame.payload);
            let Some(safe_ns) = cursor.varint().filter(|_| frame.kind != FRAME_INDEX) else { continue };
            index.duration_ns = index.duration_ns.max(safe_ns);
            if frame.kind == FRAME_RESTART {
                let Some(before_ns) = cursor.varint() else { continue };
                index.entries.push(Entry { before_ns, offset: frame.offset });
            }
        }
        Ok(index)
    }

    /// The last place before which all events are earlier than `from_ns` (since the start of the trace).
    pub(crate) fn offset_before(&self, from_ns: u64) -> Option<u64> {
        let after = self.entries.partition_point(|entry| entry.before_ns < from_ns);
        after.checked_sub(1).map(|last| self.entries[last].offset)
    }
}
