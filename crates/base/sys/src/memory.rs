//! Memory that is kept from being paged, and memory that processes share.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MlockAllFlags, ProtFlags, mlockall, mmap, mmap_anonymous, munlockall, munmap};

/// Which memory of a process is kept from being paged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// The memory that the process has now.
    Now,
    /// All present and future memory, each page when it comes into use: a stack costs only its used pages.
    InUse,
    /// All present and future memory, all of it at once: a stack takes its whole size.
    All,
}

/// Keeps memory of this process from being paged.
///
/// # Errors
/// If the process may not lock so much.
pub fn lock(what: Locked) -> io::Result<()> {
    let flags = match what {
        Locked::Now => MlockAllFlags::CURRENT,
        Locked::All => MlockAllFlags::CURRENT | MlockAllFlags::FUTURE,
        Locked::InUse => MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT,
    };
    Ok(mlockall(flags)?)
}

/// Lets the memory of this process be paged again.
pub fn unlock() {
    _ = munlockall();
}

mod sealed {
    pub trait Number: Sync + 'static {}
}

/// A number that processes can share: an atomic one, for which any bits are valid.
pub trait Word: sealed::Number {}

impl sealed::Number for AtomicU32 {}
impl sealed::Number for AtomicU64 {}
impl<N: sealed::Number> Word for N {}

/// Makes that many words, all 0, which this process and its later children share. They are never freed,
/// and their pages are there from the start.
///
/// # Errors
/// If there is no memory.
pub fn shared<W: Word>(words: usize) -> io::Result<&'static [W]> {
    let bytes = words.max(1).checked_mul(size_of::<W>());
    let bytes = bytes.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping of memory that did not exist before, which the kernel fills with zeros.
    let place = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
    // SAFETY: the memory is that long, aligned to a page, never unmapped, and only reached through atomics.
    Ok(unsafe { std::slice::from_raw_parts(place.cast(), words) })
}

/// Memory that another process can map by a descriptor that is passed to it.
#[derive(Debug)]
pub struct Passed {
    start: NonNull<u32>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and no part of the value is bound to a thread.
unsafe impl Send for Passed {}

impl Passed {
    /// Makes that many words, all 0, and the descriptor to pass on, by this name in `/proc`. Their pages are
    /// there from the start.
    ///
    /// # Errors
    /// If there is no memory, or the process can have no further descriptor.
    pub fn new(name: &CStr, words: usize) -> io::Result<(Passed, OwnedFd)> {
        let bytes = words.checked_mul(size_of::<u32>());
        let bytes = bytes.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
        ftruncate(&file, bytes as u64)?;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping of the file's length, at an address that the kernel chooses.
        let start =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok((Passed { start, words }, file))
    }

    /// The words. Another process that has the descriptor should only read them.
    pub fn words(&mut self) -> &mut [u32] {
        // SAFETY: the mapping has that length, is aligned to a page and writable, and exists as long as
        // `self`. No other value of this process maps it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and it is unmapped only here.
        _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u32>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{outlive, process};

    #[test]
    fn memory_passed_on_is_read_by_its_descriptor() {
        let (mut passed, file) = Passed::new(c"spry-passed", 3000).expect("memory");
        assert!(passed.words().len() == 3000 && passed.words().iter().all(|&word| word == 0));
        passed.words()[2999] = 7;
        let mut bytes = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::from(file), &mut bytes, 2999 * 4)
            .expect("the file is that long");
        assert_eq!(bytes, 7_u32.to_ne_bytes());
        assert!(Passed::new(c"spry-passed", 0).is_err() && Passed::new(c"", usize::MAX).is_err());
    }

    #[test]
    fn a_child_writes_where_its_parent_reads() {
        assert!(shared::<AtomicU32>(usize::MAX).is_err());
        let words = shared::<AtomicU64>(1000).expect("memory");
        assert!(words.len() == 1000 && words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        // SAFETY: the child takes no lock.
        let child = unsafe {
            outlive::fork(|| {
                words[999].store(7, Ordering::Relaxed);
                0
            })
        };
        process::wait(child.expect("a child")).expect("it is ours");
        assert_eq!(words[999].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn memory_is_locked_and_unlocked() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("it says");
            line.trim() != "0 kB"
        };
        for what in [Locked::InUse, Locked::Now, Locked::All] {
            match lock(what) {
                Ok(()) => assert!(locked()),
                Err(error) => assert!(!process::is_root(), "{error}"),
            }
            unlock();
            assert!(!locked());
        }
    }
}
