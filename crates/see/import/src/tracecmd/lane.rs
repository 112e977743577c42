//! One CPU's pages in a trace.dat, plain or in compressed chunks, and the records in them.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use crate::input::{Input, Order};
use crate::meta::PageLayout;
use crate::tracecmd::page::{Gap, Page, Step};
use crate::tracecmd::unpack::Packing;

/// Bytes of plain pages that are read at once: rounded down to whole pages, at least one page.
const READ_BYTES: u64 = 64 << 10;
/// The limit of a chunk, packed or unpacked, bytes. With many CPUs, the limit for unpacked chunks is lower.
const CHUNK_BYTES_MAX: usize = 16 << 20;

/// The place of a CPU's pages in the file: offset and length, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// The form of the pages, which is the same for all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) page_size: usize,
    pub(crate) layout: PageLayout,
    pub(crate) order: Order,
    pub(crate) packing: Option<Packing>,
    /// One CPU may hold this many bytes of pages; at least one page.
    pub(crate) held_bytes: usize,
}

/// The next item of a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// A record, by its stamp in the trace's clock units and its place in [`Lane::data`].
    Record(u64),
    /// A loss: its time, and the number of missing events before the next record; an unknown number counts as
    /// 1.
    Lost(u64, u64),
    End,
}

/// The pages of one CPU in one buffer, read one after another.
pub(crate) struct Lane {
    pub(crate) cpu: u16,
    /// The buffer's number.
    pub(crate) buffer: usize,
    shape: Shape,
    place: Place,
    /// Chunks that are left, where pages are compressed; `None` before their number has been read.
    chunks: Option<u32>,
    /// Whole pages; below, the offset in them of the page that is being read.
    pages: Vec<u8>,
    page_at: usize,
    page: Page,
    record: Range<usize>,
    /// The latest record's stamp.
    time: u64,
    /// Whether a loss before the latest record has been returned, but not yet the record itself.
    is_record_untold: bool,
    lost: Option<u64>,
    damaged_bytes: u64,
    is_cut: bool,
}

impl Lane {
    pub(crate) fn new(cpu: u16, buffer: usize, place: Place, shape: Shape) -> Lane {
        Lane {
            cpu,
            buffer,
            shape,
            place,
            chunks: None,
            pages: Vec::new(),
            page_at: 0,
            page: Page::EMPTY,
            record: 0..0,
            time: 0,
            is_record_untold: false,
            lost: None,
            damaged_bytes: 0,
            is_cut: false,
        }
    }

    /// The latest record's bytes.
    pub(crate) fn data(&self) -> &[u8] {
        let page = &self.pages[self.page_at..];
        &page[self.record.clone()]
    }

    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// Whether the file ends before the end of the pages that its head lists.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Goes to the next record.
    pub(crate) fn next<R: Read + Seek>(&mut self, source: &mut R) -> io::Result<Next> {
        if std::mem::take(&mut self.is_record_untold) {
            return Ok(Next::Record(self.time));
        }
        loop {
            let page = &self.pages[self.page_at..];
            let page = &page[..self.shape.page_size.min(page.len())];
            match self.page.next(page, self.shape.order) {
                Step::Record(time, place) => {
                    self.record = place;
                    self.time = time;
                    let Some(count) = self.lost.take() else { return Ok(Next::Record(time)) };
                    self.is_record_untold = true;
                    return Ok(Next::Lost(time, count));
                }
                Step::Damage(bytes) => {
                    self.damaged_bytes += bytes as u64;
                    self.lose(None);
                }
                Step::End if self.next_page(source)? => {}
                Step::End => {
                    let lost = self.lost.take();
                    return Ok(lost.map_or(Next::End, |count| Next::Lost(self.time, count)));
                }
            }
        }
    }

    fn lose(&mut self, count: Option<u64>) {
        let count = count.unwrap_or(1).max(1);
        self.lost = Some(self.lost.unwrap_or(0).saturating_add(count));
    }

    /// Begins the next page. Returns whether there is one.
    fn next_page<R: Read + Seek>(&mut self, source: &mut R) -> io::Result<bool> {
        loop {
            self.page_at += self.shape.page_size;
            if self.page_at + self.shape.page_size > self.pages.len() && !self.more_pages(source)? {
                self.page_at = 0;
                self.pages.clear();
                self.page = Page::EMPTY;
                return Ok(false);
            }
            let page = &self.pages[self.page_at..][..self.shape.page_size];
            match Page::begin(page, self.shape.layout, self.shape.order) {
                Some((page, missed)) => {
                    self.page = page;
                    if let Gap::Events(count) = missed {
                        self.lose(count);
                    }
                    return Ok(true);
                }
                None => {
                    self.damaged_bytes += self.shape.page_size as u64;
                    self.lose(None);
                }
            }
        }
    }

    /// Gets more pages. Returns whether there are any.
    fn more_pages<R: Read + Seek>(&mut self, source: &mut R) -> io::Result<bool> {
        self.page_at = 0;
        self.pages.clear();
        match self.shape.packing {
            None => self.read_pages(source),
            Some(packing) => self.unpack_pages(source, packing),
        }
    }

    fn read_pages<R: Read + Seek>(&mut self, source: &mut R) -> io::Result<bool> {
        let page_size = self.shape.page_size as u64;
        let most = READ_BYTES.min(self.shape.held_bytes as u64);
        let wanted = (most / page_size).max(1) * page_size;
        let len = wanted.min(self.place.len);
        if len < page_size {
            self.damaged_bytes += len;
            self.place.len = 0;
            return Ok(false);
        }
        source.seek(SeekFrom::Start(self.place.at))?;
        source.by_ref().take(len).read_to_end(&mut self.pages)?;
        if (self.pages.len() as u64) < len {
            self.is_cut = true;
            self.place.len = 0;
        } else {
            self.place.at = self.place.at.saturating_add(len);
            self.place.len -= len;
        }
        Ok(self.pages.len() >= self.shape.page_size)
    }

    fn unpack_pages<R: Read + Seek>(&mut self, source: &mut R, packing: Packing) -> io::Result<bool> {
        loop {
            match self.unpack_chunk(source, packing) {
                Ok(true) if self.pages.len() >= self.shape.page_size => return Ok(true),
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    // The start of the next chunk is then unknown, too, so that no further chunk is read.
                    self.chunks = Some(0);
                    self.pages.clear();
                    self.is_cut |= error.kind() == io::ErrorKind::UnexpectedEof;
                    self.damaged_bytes += u64::from(error.kind() == io::ErrorKind::InvalidData);
                    return match error.kind() {
                        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Ok(false),
                        _ => Err(error),
                    };
                }
            }
        }
    }

    /// Unpacks the next chunk, which has its packed and its unpacked length in front. Returns whether there
    /// is one.
    fn unpack_chunk<R: Read + Seek>(&mut self, source: &mut R, packing: Packing) -> io::Result<bool> {
        source.seek(SeekFrom::Start(self.place.at))?;
        let mut input = Input::new(source, self.shape.order);
        let mut taken = 0;
        let left = match self.chunks {
            Some(left) => left,
            None => {
                taken += 4;
                input.u32()?
            }
        };
        self.chunks = Some(left.saturating_sub(1));
        if left == 0 {
            return Ok(false);
        }
        let (packed_len, len) = (input.u32()?, input.u32()?);
        let most = CHUNK_BYTES_MAX.min(self.shape.held_bytes) as u64;
        let chunk_bytes = 8 + u64::from(packed_len);
        // The chunks end with their CPU's place. Some versions leave the chunks' number out of its length.
        if u64::from(len) > most || chunk_bytes > self.place.len {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let packed = input.block(u64::from(packed_len), CHUNK_BYTES_MAX as u64)?;
        self.place.at = self.place.at.saturating_add(taken + chunk_bytes);
        self.place.len -= chunk_bytes;
        self.pages = packing.unpack(&packed, len as usize)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_SIZE: usize = 256;

    /// Chunks of empty pages, each of this many bytes.
    fn chunks(sizes: &[usize]) -> Vec<u8> {
        let mut bytes = (sizes.len() as u32).to_le_bytes().to_vec();
        for &size in sizes {
            let packed = zstd::bulk::compress(&vec![0; size], 3).expect("zstd packs");
            bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(size as u32).to_le_bytes());
            bytes.extend(packed);
        }
        bytes
    }

    /// Reads a CPU's place in a file to its end. Returns the largest number of pages held at a time, and the
    /// number of damaged bytes.
    fn read(file: &[u8], len: usize, held_bytes: usize) -> (usize, u64) {
        let layout = PageLayout { commit_size: 8, data_at: 16 };
        let packing = Some(Packing::Zstd);
        let shape = Shape { page_size: PAGE_SIZE, layout, order: Order::Little, packing, held_bytes };
        let mut lane = Lane::new(0, 0, Place { at: 0, len: len as u64 }, shape);
        let mut source = io::Cursor::new(file);
        let mut held_pages = 0;
        while lane.next_page(&mut source).expect("the source is memory") {
            held_pages = held_pages.max(lane.pages.len() / PAGE_SIZE);
        }
        assert_eq!(lane.next(&mut source).expect("the source is memory"), Next::End);
        (held_pages, lane.damaged_bytes())
    }

    #[test]
    fn chunks_end_where_the_place_of_their_cpu_does() {
        let file = chunks(&[PAGE_SIZE, 4 * PAGE_SIZE]);
        assert_eq!(read(&file, file.len(), usize::MAX), (4, 0));
        // The length of the place may or may not include the number of chunks, 4 bytes.
        assert_eq!(read(&file, file.len() - 4, usize::MAX), (4, 0));
        let (pages, damaged_bytes) = read(&file, file.len() - 5, usize::MAX);
        assert_eq!((pages, damaged_bytes > 0), (1, true));
    }

    #[test]
    fn a_chunk_is_no_longer_than_its_cpu_may_hold() {
        let file = chunks(&[PAGE_SIZE, 4 * PAGE_SIZE]);
        assert_eq!(read(&file, file.len(), 4 * PAGE_SIZE), (4, 0));
        let (pages, damaged_bytes) = read(&file, file.len(), 3 * PAGE_SIZE);
        assert_eq!((pages, damaged_bytes > 0), (1, true));
        let huge = chunks(&[CHUNK_BYTES_MAX + PAGE_SIZE]);
        assert_eq!(read(&huge, huge.len(), usize::MAX), (0, 1));
    }
}
