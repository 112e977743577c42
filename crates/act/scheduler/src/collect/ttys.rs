//! The mapped array of terminals: the characters that passed through each since the previous drain.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use spry_display::terminals::{Activity, Device};

use crate::intf::{spry_limits_SPRY_TTYS_MAX, spry_tty};
use crate::mapping::Mapping;
use crate::nodes::{NodeRef, Nodes};

const TTYS_MAX: usize = spry_limits_SPRY_TTYS_MAX as usize;

/// The number of bits of the minor number in a device number.
const MINOR_BITS: u32 = 20;

/// A `struct spry_tty`. Both BPF programs and the daemon change it.
#[repr(C)]
#[derive(Debug)]
struct Tty {
    device: AtomicU32,
    holder: AtomicU32,
    reader: AtomicU32,
    typed: AtomicU32,
    keyed: AtomicU32,
    shown: AtomicU32,
    /// The time at which characters were last typed into the terminal, ns; only BPF programs use this.
    typed_ns: AtomicU64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Tty>() == size_of::<spry_tty>());
    assert!(offset_of!(Tty, device) == offset_of!(spry_tty, device));
    assert!(offset_of!(Tty, holder) == offset_of!(spry_tty, holder));
    assert!(offset_of!(Tty, reader) == offset_of!(spry_tty, reader));
    assert!(offset_of!(Tty, typed) == offset_of!(spry_tty, typed));
    assert!(offset_of!(Tty, keyed) == offset_of!(spry_tty, keyed));
    assert!(offset_of!(Tty, shown) == offset_of!(spry_tty, shown));
    assert!(offset_of!(Tty, typed_ns) == offset_of!(spry_tty, typed_ns));
};

/// The mapped array of terminals.
#[derive(Debug)]
pub(crate) struct Ttys {
    mapping: Mapping,
}

impl Ttys {
    pub(crate) fn map(map: BorrowedFd<'_>) -> io::Result<Ttys> {
        Ok(Ttys { mapping: Mapping::new(map, TTYS_MAX * size_of::<Tty>())? })
    }

    /// The characters that passed through each terminal since the last call. Sets the counts to 0. A process
    /// that has exited is left out.
    pub(crate) fn take(&self, nodes: &Nodes) -> Vec<Activity> {
        // SAFETY: the array is made of atomics, and valid whatever its bytes are.
        let ttys: &[Tty] = unsafe { self.mapping.slice(TTYS_MAX) };
        ttys.iter().filter_map(|tty| tty.take(nodes)).collect()
    }
}

impl Tty {
    fn take(&self, nodes: &Nodes) -> Option<Activity> {
        let device = self.device.load(Ordering::Acquire);
        if device == 0 {
            return None;
        }
        let taken =
            [&self.typed, &self.keyed, &self.shown].map(|count| match count.load(Ordering::Relaxed) {
                0 => 0,
                _ => count.swap(0, Ordering::Relaxed),
            });
        let owner = |name: &AtomicU32| nodes.owner(NodeRef::new(name.load(Ordering::Relaxed))?);
        let [typed, keyed, shown] = taken;
        (taken != [0; 3]).then(|| Activity {
            device: Device { major: device >> MINOR_BITS, minor: device & ((1 << MINOR_BITS) - 1) },
            holder: owner(&self.holder),
            reader: owner(&self.reader),
            typed,
            keyed,
            shown,
        })
    }
}
