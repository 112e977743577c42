//! The memory shared with the BPF programs: one ring a CPU, and the ring of rare records.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::wire::{spry_control, spry_cpu};

/// A mapping of a BPF map.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is bound to no thread; its memory is only touched through atomics or by the single
// reader.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(
        map: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        protection: i32,
    ) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("mmap does not map address 0");
        Ok(Mapping { start, len })
    }

    /// Maps several BPF maps of one size one after the other, for reading.
    fn in_a_row(maps: &[BorrowedFd<'_>], each_bytes: usize) -> io::Result<Mapping> {
        let len = maps.len() * each_bytes;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("mmap does not map address 0");
        let row = Mapping { start, len };
        for (number, map) in maps.iter().enumerate() {
            let place = row.at::<u8>(number * each_bytes);
            // SAFETY: the place is inside the mapping above, and no other code uses that mapping yet.
            let placed = unsafe {
                libc::mmap(
                    place.cast(),
                    each_bytes,
                    libc::PROT_READ,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    map.as_raw_fd(),
                    0,
                )
            };
            if placed == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(row)
    }

    pub(crate) fn at<T>(&self, offset: usize) -> *mut T {
        assert!(offset + size_of::<T>() <= self.len);
        // SAFETY: the offset is inside the mapping.
        unsafe { self.start.as_ptr().add(offset).cast() }
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert_eq!(offset % 8, 0);
        // SAFETY: inside the mapping and aligned; every access to these words on this side is atomic.
        unsafe { &*self.at::<AtomicU64>(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(page_bytes())
}

/// The switch that turns recording on and off; every BPF program looks at it first.
pub(crate) struct Control(Mapping);

impl Control {
    pub(crate) fn new(map: BorrowedFd<'_>) -> io::Result<Control> {
        let len = whole_pages(size_of::<spry_control>());
        Mapping::new(map, 0, len, libc::PROT_READ | libc::PROT_WRITE).map(Control)
    }

    fn enabled(&self) -> &AtomicU32 {
        // SAFETY: the field is inside the mapping and aligned; it is only accessed atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0.at::<spry_control>(0)).enabled) }
    }

    pub(crate) fn set(&self, on: bool) {
        self.enabled().store(u32::from(on), Ordering::SeqCst);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.enabled().load(Ordering::SeqCst) != 0
    }
}

/// All CPUs' rings.
pub(crate) struct Rings {
    state: Mapping,
    data: Mapping,
    ring_bytes: usize,
    cpus: usize,
}

impl Rings {
    pub(crate) fn new(
        state: BorrowedFd<'_>,
        pieces: &[BorrowedFd<'_>],
        ring_bytes: usize,
        cpus: usize,
    ) -> io::Result<Rings> {
        let state_bytes = whole_pages(cpus * size_of::<spry_cpu>());
        Ok(Rings {
            state: Mapping::new(state, 0, state_bytes, libc::PROT_READ | libc::PROT_WRITE)?,
            data: Mapping::in_a_row(pieces, cpus * ring_bytes / pieces.len())?,
            ring_bytes,
            cpus,
        })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    pub(crate) fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    fn field(&self, cpu: usize, offset: usize) -> &AtomicU64 {
        assert!(cpu < self.cpus);
        self.state.word(cpu * size_of::<spry_cpu>() + offset)
    }

    /// Whether a program on this CPU may be in the middle of a record. It is true for a record that began
    /// before this call and is not before the head yet.
    pub(crate) fn is_busy(&self, cpu: usize) -> bool {
        self.field(cpu, std::mem::offset_of!(spry_cpu, nest)).load(Ordering::Acquire) != 0
    }

    /// The position of the next record.
    pub(crate) fn head(&self, cpu: usize) -> u64 {
        self.field(cpu, std::mem::offset_of!(spry_cpu, head)).load(Ordering::Acquire)
    }

    /// The position up to which the CPU's ring has been read.
    pub(crate) fn tail(&self, cpu: usize) -> u64 {
        self.field(cpu, std::mem::offset_of!(spry_cpu, tail)).load(Ordering::Relaxed)
    }

    pub(crate) fn set_tail(&self, cpu: usize, position: u64) {
        self.field(cpu, std::mem::offset_of!(spry_cpu, tail)).store(position, Ordering::Release);
    }

    /// Forgets the running task; only to be called while recording is off.
    pub(crate) fn forget_running(&self, cpu: usize) {
        self.field(cpu, std::mem::offset_of!(spry_cpu, running)).store(0, Ordering::Release);
    }

    /// The number of records that have found no room since the last record that found room.
    pub(crate) fn missed(&self, cpu: usize) -> u64 {
        self.field(cpu, std::mem::offset_of!(spry_cpu, missed)).load(Ordering::Acquire)
    }

    /// The number of rare and nested records that have found no room since the start.
    pub(crate) fn shared_lost(&self, cpu: usize) -> u64 {
        self.field(cpu, std::mem::offset_of!(spry_cpu, meta_lost)).load(Ordering::Acquire)
    }

    /// The words from `position` to the end of its chunk or to `head`, whichever comes first.
    pub(crate) fn words(&self, cpu: usize, position: u64, head: u64) -> &[u64] {
        let chunk = u64::from(crate::wire::SPRY_CHUNK_BYTES);
        let end = head.min((position / chunk + 1) * chunk);
        let offset = (position % self.ring_bytes as u64) as usize;
        let len = (end - position) as usize;
        assert!(cpu < self.cpus && position % 8 == 0 && offset + len <= self.ring_bytes);
        // SAFETY: inside the mapping; the CPU does not write between tail and head until the tail passes.
        unsafe { slice::from_raw_parts(self.data.at::<u64>(cpu * self.ring_bytes + offset), len / 8) }
    }
}

/// The reader's end of the ring of rare records (the kernel's BPF ring buffer).
pub(crate) struct SharedRing {
    consumer: Mapping,
    producer: Mapping,
    data_at: usize,
    bytes: usize,
    position: u64,
}

/// The extent of one reading of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum ReadExtent {
    /// Everything that had been reserved when the reading began was read.
    Everything,
    /// The reading stopped at a record that is still being written.
    Unfinished,
}

impl SharedRing {
    pub(crate) fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<SharedRing> {
        let page = page_bytes();
        Ok(SharedRing {
            consumer: Mapping::new(map, 0, page, libc::PROT_READ | libc::PROT_WRITE)?,
            // The data is mapped twice in a row, so that no record is cut.
            producer: Mapping::new(map, page, page + 2 * bytes, libc::PROT_READ)?,
            data_at: page,
            bytes,
            position: 0,
        })
    }

    /// The part of the ring that waits to be read, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        (self.producer.word(0).load(Ordering::Acquire) - self.position) as f64 / self.bytes as f64
    }

    /// Gives every finished record, as whole words, to `take`.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u64])) -> ReadExtent {
        const BUSY: u32 = 1 << 31;
        const DISCARD: u32 = 1 << 30;
        const HEADER_BYTES: usize = 8;
        let end = self.producer.word(0).load(Ordering::Acquire);
        let mut reached = ReadExtent::Everything;
        while self.position < end {
            let at = self.data_at + (self.position % self.bytes as u64) as usize;
            let header = self.producer.word(at).load(Ordering::Acquire) as u32;
            if header & BUSY != 0 {
                reached = ReadExtent::Unfinished;
                break;
            }
            let len = (header & !(BUSY | DISCARD)) as usize;
            if header & DISCARD == 0 {
                assert!(at + HEADER_BYTES + len <= self.producer.len);
                // SAFETY: inside the mapping; a finished record stays until the consumer's position passes
                // it.
                take(unsafe { slice::from_raw_parts(self.producer.at::<u64>(at + HEADER_BYTES), len / 8) });
            }
            self.position += (HEADER_BYTES + len).next_multiple_of(8) as u64;
        }
        self.consumer.word(0).store(self.position, Ordering::Release);
        reached
    }
}
