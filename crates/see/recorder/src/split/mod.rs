//! Splits the latency of sampler threads while they run, at the interrupt, at need-resched, at `schedule()`
//! and at the switch. Past a threshold, it also finds the culprits.
//!
//! The programs (`bpf/split.bpf.c`) are separate from the recorder's, since they must add next to nothing to
//! a sample's latency. They write the times of a sample into the sampling thread's [`Seat`]. A seat is a
//! cache line that the programs and the thread share, so the thread reads it without a system call.

mod late;
mod seat;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{Link, Object, ObjectBuilder, PrintLevel};
use spry_kernel::{Functions, Kernel};

pub use self::late::{LateSample, Look, Span, Stretch, When};
use self::seat::Seats;
pub use self::seat::{Seat, WakeTimes};
use crate::error::{Error, Result, system};
use crate::load::{map, refused, set_knobs};
use crate::numbers::{self, Listing};
use crate::ring::{Mapping, SharedRing, page_bytes};
use crate::symbols::Symbols;
use crate::wire::{spry_late, spry_split_knobs};
use spry_sys::clock;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/split.bpf.o"));

/// Bytes of the ring of late samples, as in `split.bpf.c`.
const RING_BYTES: usize = 4 << 20;

/// Tracepoints that are needed only to find the culprits of a late sample.
const CULPRITS: [&str; 7] = [
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "timer_expire_entry",
    "timer_expire_exit",
];

/// The tracepoints without which no sample can be split.
const NEEDED: [&str; 2] = ["sched_switch", "sched_wakeup"];

/// The parts of a wake-up that the programs can see on this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visibility {
    /// Whether the entry of the timer's interrupt can be seen.
    pub interrupt: bool,
    /// Whether the entry of `schedule()` can be seen. Where it cannot, the time of the switch is taken for
    /// it; the switch comes after the next task was chosen.
    pub schedule: bool,
}

/// The programs, loaded and attached, for this process' sampler threads.
pub struct Split {
    // The links must be dropped before the object.
    _links: Vec<Link>,
    object: Object,
    seats: Arc<Seats>,
    ring: SharedRing,
    sees: Visibility,
    symbols: Symbols,
}

impl Split {
    /// Loads and attaches the programs. A thread that runs later than the threshold leaves a [`LateSample`];
    /// without a threshold no thread leaves a record.
    ///
    /// # Errors
    /// Without the privilege to load programs, or where the kernel lacks a tracepoint or feature
    /// that they need.
    pub fn start(threshold: Option<Duration>) -> Result<Split> {
        let kernel = Kernel::probe().ok_or(Error::NoBtf)?;
        if let Some(missing) = NEEDED.into_iter().find(|name| kernel.tracepoint(name).is_none()) {
            return Err(Error::NoTracepoint(missing));
        }
        let sees = Visibility {
            interrupt: kernel.tracepoint("local_timer_entry").is_some()
                || kernel.tracepoint("irq_handler_entry").is_some(),
            schedule: kernel.tracepoint("sched_entry_tp").is_some(),
        };
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(refused)?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let tracepoint = name.trim_start_matches("split_");
            let wanted = threshold.is_some() || !CULPRITS.contains(&tracepoint);
            program.set_autoload(wanted && kernel.tracepoint(tracepoint).is_some());
        }
        let own = numbers::own_tgid()?;
        let knobs = spry_split_knobs {
            tgid: own.0,
            in_namespace: u8::from(spry_sys::namespace::own_pid_namespace().is_some()),
            has_entry: u8::from(sees.schedule),
            threshold_ns: threshold.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            ..spry_split_knobs::default()
        };
        for mut map in open.maps_mut() {
            if map.name() == ".rodata.knobs" {
                set_knobs(&mut map, &knobs).map_err(refused)?;
            }
        }
        let object = open.load().map_err(refused)?;
        let seats = Arc::new(Seats::new(map(&object, "seats")?.as_fd())?);
        let ring = SharedRing::new(map(&object, "late")?.as_fd(), RING_BYTES)
            .map_err(system("mapping the ring of late samples"))?;
        // The kernel's functions are listed here and never while samples are taken: the list takes the kernel
        // long, and a kernel that is preempted only at explicit points would delay samples by it.
        let names = if threshold.is_some() { Functions::read().into_sorted() } else { Vec::new() };
        let mut links = Vec::new();
        for program in object.progs_mut() {
            if program.autoload() {
                links.push(program.attach().map_err(refused)?);
            }
        }
        Ok(Split { _links: links, object, seats, ring, sees, symbols: Symbols::new(names, Listing::of(own)) })
    }

    /// The parts of a wake-up that the programs can see on this kernel.
    pub const fn sees(&self) -> Visibility {
        self.sees
    }

    /// Makes seats: each thread that calls the result gets a seat, which is free again when the [`Seat`] is
    /// dropped. The call fails if another thread's number ends in the same bits and that thread has the seat.
    pub fn seats(&self) -> impl Fn() -> Result<Seat> + Send + Sync + 'static {
        let seats = Arc::clone(&self.seats);
        move || Seat::take(&seats)
    }

    /// The samplers' runs since the last call that were later than the threshold.
    pub fn late(&mut self) -> Vec<LateSample> {
        let mut records: Vec<Box<spry_late>> = Vec::new();
        let _ = self.ring.read(|words| {
            if size_of_val(words) >= size_of::<spry_late>() {
                // SAFETY: the record is plain data of this size, and any bytes make one.
                records.push(Box::new(unsafe { words.as_ptr().cast::<spry_late>().read_unaligned() }));
            }
        });
        if records.is_empty() {
            return Vec::new();
        }
        let now_ns = clock::kernel_ns();
        records.iter().map(|record| LateSample::of(record, &mut self.symbols, now_ns)).collect()
    }

    /// The number of late samples that found no room in the ring.
    ///
    /// # Errors
    /// If the count cannot be read.
    pub fn lost(&self) -> Result<u64> {
        let place = map(&self.object, ".data.lost")?;
        let mapping = Mapping::new(place.as_fd(), 0, page_bytes(), libc::PROT_READ)
            .map_err(system("mapping the count of lost samples"))?;
        Ok(mapping.word(0).load(Ordering::Relaxed))
    }
}
