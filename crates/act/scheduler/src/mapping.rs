//! The memory of a BPF array, mapped so that BPF programs and the daemon both change it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A BPF array's memory. It is unmapped when this is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is shared with the kernel in any case, and only reached through atomics.
unsafe impl Send for Mapping {}
// SAFETY: the memory is shared with the kernel in any case, and only reached through atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a BPF array's memory, for reading and writing.
    pub(crate) fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is open; the kernel chooses the address.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { start, bytes })
    }

    /// The begin of the memory, which stays mapped as long as `self` lives.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The memory as a slice of `len` elements. The element type consists of atomics.
    ///
    /// # Safety
    /// Any bytes must be a valid `Element`. Data that the kernel and the daemon both change must be atomic.
    pub(crate) unsafe fn slice<Element>(&self, len: usize) -> &[Element] {
        assert!(len * size_of::<Element>() <= self.bytes);
        // SAFETY: the slice lies within the mapping, which is page-aligned and lives as long as `self`; the
        // caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and everything that borrows from it borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
