//! Splits the latency of sampler threads while they run: when the interrupt came, when the CPU was to reschedule and when it
//! did; and, past a threshold, who was in the way.
//!
//! The programs (`bpf/split.bpf.c`) are separate from the recorder's, since they must cost a sample next to nothing. What they see
//! of a sample they write into its thread's [`Seat`], which is a cache line that both have mapped: to look at it takes no system
//! call.

mod late;
mod seat;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{Link, Object, ObjectBuilder, PrintLevel};
use spry_kernel::{Functions, Kernel};
use spry_wire::{spry_late, spry_split_knobs};

pub use self::late::{Late, Look, Span, Stretch, When};
use self::seat::Seats;
pub use self::seat::{Seat, Seen};
use crate::clock;
use crate::error::{Error, Result, system};
use crate::load::{map, refused, set_knobs};
use crate::ring::{Mapping, Shared, page_bytes};
use crate::symbols::Symbols;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/split.bpf.o"));

/// Bytes of the ring of late samples, as in `split.bpf.c`.
const RING_BYTES: usize = 4 << 20;

/// Tracepoints that only tell who was in the way.
const CULPRITS: [&str; 7] = [
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "timer_expire_entry",
    "timer_expire_exit",
];

/// Without these no sample can be split.
const NEEDED: [&str; 2] = ["sched_switch", "sched_wakeup"];

/// What this kernel shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sees {
    /// The entry of the timer's interrupt.
    pub interrupt: bool,
    /// The entry of the scheduler. Where it cannot be seen its switch stands for it, which comes when the next task is chosen.
    pub schedule: bool,
}

/// The programs at work, for this process' threads.
pub struct Split {
    // The links must go before the object.
    _links: Vec<Link>,
    object: Object,
    seats: Arc<Seats>,
    ring: Shared,
    sees: Sees,
    symbols: Symbols,
}

impl Split {
    /// Loads and attaches the programs. Who runs later than the threshold leaves a [`Late`]; without one nobody does.
    ///
    /// # Errors
    /// Without the privilege, or where the kernel has not what it takes.
    pub fn start(threshold: Option<Duration>) -> Result<Split> {
        let kernel = Kernel::probe().ok_or(Error::NoBtf)?;
        if let Some(missing) = NEEDED.into_iter().find(|name| kernel.tracepoint(name).is_none()) {
            return Err(Error::NoTracepoint(missing));
        }
        let sees = Sees {
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
        let knobs = spry_split_knobs {
            tgid: std::process::id(),
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
        let ring = Shared::new(map(&object, "late")?.as_fd(), RING_BYTES)
            .map_err(system("mapping the ring of late samples"))?;
        // Now and never while samples are taken: to list them takes the kernel long, and where it is preempted at explicit points
        // alone that would be the first culprit.
        let names = if threshold.is_some() { Functions::read().into_sorted() } else { Vec::new() };
        let mut links = Vec::new();
        for program in object.progs_mut() {
            if program.autoload() {
                links.push(program.attach().map_err(refused)?);
            }
        }
        Ok(Split { _links: links, object, seats, ring, sees, symbols: Symbols::new(names) })
    }

    /// What this kernel shows.
    pub const fn sees(&self) -> Sees {
        self.sees
    }

    /// A maker of seats for the threads that call it, free again when dropped. It fails if a thread sits there whose number ends in
    /// the same bits.
    pub fn seats(&self) -> impl Fn() -> Result<Seat> + Send + Sync + 'static {
        let seats = Arc::clone(&self.seats);
        move || Seat::take(&seats)
    }

    /// Those who ran late since the last time.
    pub fn late(&mut self) -> Vec<Late> {
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
        let now_ns = clock::monotonic_ns();
        records.iter().map(|record| Late::of(record, &mut self.symbols, now_ns)).collect()
    }

    /// Late samples that found no room.
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
