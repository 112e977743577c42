//! The enforcer of reservations by the scheduler's class RESERVED: opens, changes and closes them, and
//! reads their counts.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{io, thread};

use libbpf_rs::libbpf_sys::bpf_raw_tracepoint_open;
use libbpf_rs::skel::OpenSkel;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use spry_kernel::Kernel;
use spry_reservations::{
    CLIENTS_MAX, Covers, Enforcer, Measurement, OnExhaustion, Reservation, ServerUsage, Terms,
};
use spry_sys::clock::{kernel_ns, monotonic_ns, tick_ns};
use spry_sys::{cpus, outlive, process};

use super::Scx;
use super::call::Call;
use super::skel::{OpenSchedSkel, types};
use crate::intf::{
    spry_limits_SPRY_RESERVATIONS_MAX, spry_on_exhaustion_SPRY_EXHAUSTED_IS_DEMOTED,
    spry_on_exhaustion_SPRY_EXHAUSTED_WAITS, spry_reserve, spry_reserve_what,
    spry_reserve_what_SPRY_RESERVE_CHANGES, spry_reserve_what_SPRY_RESERVE_CLOSES,
    spry_reserve_what_SPRY_RESERVE_OPENS,
};
use crate::mapping::Mapping;

/// The tracepoints at the begin and the end of interrupts, without `_entry` and `_exit`.
const STEALING: [&str; 5] = ["local_timer", "irq_handler", "softirq", "irq_work", "reschedule"];

/// Excludes programs from loading if this kernel does not have their tracepoints.
pub(super) fn leave_out_what_the_kernel_lacks(skel: &mut OpenSchedSkel<'_>) {
    let kernel = Kernel::probe();
    let has =
        |tracepoint: &str| kernel.as_ref().is_some_and(|kernel| kernel.tracepoint(tracepoint).is_some());
    let missing: Vec<String> = STEALING
        .into_iter()
        .filter(|event| !has(&format!("{event}_entry")))
        .flat_map(|event| [format!("spry_{event}_steals"), format!("spry_{event}_ends")])
        .collect();
    for mut program in skel.open_object_mut().progs_mut() {
        if missing.iter().any(|name| program.name() == name.as_str()) {
            program.set_autoload(false);
        }
    }
}

/// The enforcer of reservations by the class RESERVED. It stays valid after the scheduler was removed; then
/// it has no effect.
pub(super) struct ReservedClass {
    reserves: Call<spry_reserve>,
    /// The programs that observe switches and interrupts, and their links. They are attached while there are
    /// reservations, and for a moment longer.
    seeing: Vec<OwnedFd>,
    seen: Vec<OwnedFd>,
    memory: Mapping,
    open: BTreeMap<u32, Reservation>,
    is_measured: bool,
}

/// The number of periods in which the costs of a switch are measured, and the reservation of the thread that
/// measures. The thread has 5 % of a CPU, twice for a fifteenth of a second.
const MEASURED: u32 = 30;
const MEASURING: spry_reserve = spry_reserve {
    what: spry_reserve_what_SPRY_RESERVE_OPENS,
    slot: spry_limits_SPRY_RESERVATIONS_MAX - 1,
    tid: 0,
    is_group: 0,
    cpu: 0,
    on_exhaustion: spry_on_exhaustion_SPRY_EXHAUSTED_WAITS,
    budget_ns: 100_000,
    period_ns: 2_000_000,
    error: 0,
    pad: 0,
};

/// The timer of the measurement: it interrupts each budget after half of it.
const INTERRUPTED: Itimerspec = Itimerspec {
    it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
    it_value: Timespec { tv_sec: 0, tv_nsec: MEASURING.budget_ns as i64 / 2 },
};

impl Scx {
    pub(super) fn reserved_class(&self) -> io::Result<ReservedClass> {
        let progs = &self.skel.progs;
        let seeing = [
            &progs.spry_switches,
            &progs.spry_local_timer_steals,
            &progs.spry_local_timer_ends,
            &progs.spry_irq_handler_steals,
            &progs.spry_irq_handler_ends,
            &progs.spry_softirq_steals,
            &progs.spry_softirq_ends,
            &progs.spry_irq_work_steals,
            &progs.spry_irq_work_ends,
            &progs.spry_reschedule_steals,
            &progs.spry_reschedule_ends,
        ];
        let loaded = seeing.into_iter().filter(|program| program.autoload());
        Ok(ReservedClass {
            reserves: Call::of(progs.spry_reserve.as_fd())?,
            seeing: loaded.map(|program| program.as_fd().try_clone_to_owned()).collect::<io::Result<_>>()?,
            seen: Vec::new(),
            memory: Mapping::new(self.skel.maps.bss.as_fd(), size_of::<types::bss>())?,
            open: BTreeMap::new(),
            is_measured: false,
        })
    }
}

impl ReservedClass {
    fn bss(&self) -> NonNull<types::bss> {
        self.memory.start().cast()
    }

    /// Makes the scheduler open, change or close a reservation.
    fn request(&self, what: spry_reserve_what, reservation: &Reservation) -> io::Result<()> {
        let Reservation { slot, cpu, terms, covers } = *reservation;
        let mut request = spry_reserve {
            what,
            slot,
            tid: covers.number(),
            is_group: u32::from(matches!(covers, Covers::Group { .. })),
            cpu,
            on_exhaustion: match terms.on_exhaustion {
                OnExhaustion::Wait => spry_on_exhaustion_SPRY_EXHAUSTED_WAITS,
                OnExhaustion::Demote => spry_on_exhaustion_SPRY_EXHAUSTED_IS_DEMOTED,
            },
            budget_ns: terms.budget_ns,
            period_ns: terms.period_ns,
            ..MEASURING
        };
        self.reserves.run(&mut request)?;
        match -request.error {
            0 => Ok(()),
            libc::EBUSY => Err(io::Error::other("the CPU has as many reservations as it can have")),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Attaches the programs that observe switches and interrupts, if they are not attached. The first time,
    /// measures the costs of a switch.
    fn see(&mut self) -> io::Result<()> {
        if !self.seen.is_empty() {
            return Ok(());
        }
        self.seen = self.seeing.iter().map(|program| attach(program.as_fd())).collect::<io::Result<_>>()?;
        if !std::mem::replace(&mut self.is_measured, true) {
            self.measure()?;
        }
        Ok(())
    }

    /// Measures three costs of this machine, ns: from the switch to a task until its first instruction; from
    /// its last instruction until an interrupt is seen; and from the interrupt's end until its next
    /// instruction. A thread with a small reservation reads the clock again and again, and compares its times
    /// with the times that the scheduler recorded.
    fn measure(&self) -> io::Result<()> {
        let bss = self.bss().as_ptr();
        // SAFETY: words of mapped memory, aligned as in C, that live as long as `self`; all code reads and
        // writes them only as whole words.
        let (words, ways, tick) = unsafe {
            let word = |place: *mut u64| AtomicU64::from_ptr(place);
            let words = Words {
                measures: AtomicU32::from_ptr(&raw mut (*bss).measures_tid),
                switched: word(&raw mut (*bss).measured_switch_ns),
                stopped: word(&raw mut (*bss).measured_stop_ns),
                returned: word(&raw mut (*bss).measured_return_ns),
            };
            let (switch, back) = (word(&raw mut (*bss).switch_ns), word(&raw mut (*bss).switch_back_ns));
            let ways = (switch, back, word(&raw mut (*bss).stop_ns), word(&raw mut (*bss).return_ns));
            (words, ways, word(&raw mut (*bss).kernel_tick_ns))
        };
        let cpu = cpus::allowed_cpus().first().copied().unwrap_or(0);
        let measured = thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                let mut request = spry_reserve { cpu, tid: process::tid(), ..MEASURING };
                words.measures.store(request.tid, Ordering::Relaxed);
                self.reserves.run(&mut request)?;
                let measured = (request.error == 0).then(|| words.watch_alone_and_beside(cpu)).transpose();
                words.measures.store(0, Ordering::Relaxed);
                request.what = spry_reserve_what_SPRY_RESERVE_CLOSES;
                self.reserves.run(&mut request)?;
                measured
            });
            measuring.join().map_err(|_| io::Error::other("the thread that measures has ended"))?
        })?;
        if let Some((alone, beside)) = measured {
            let (switch, back, stop, returns) = ways;
            switch.store(beside.switch_ns, Ordering::Relaxed);
            back.store(alone.switch_ns, Ordering::Relaxed);
            stop.store(alone.stop_ns, Ordering::Relaxed);
            returns.store(alone.return_ns, Ordering::Relaxed);
            tick.store(tick_ns(), Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Enforcer for ReservedClass {
    fn open(&mut self, reservation: &Reservation) -> io::Result<()> {
        self.see()?;
        self.request(spry_reserve_what_SPRY_RESERVE_OPENS, reservation)?;
        self.open.insert(reservation.slot, *reservation);
        Ok(())
    }

    fn change(&mut self, slot: u32, terms: &Terms) -> io::Result<()> {
        let Some(before) = self.open.get(&slot) else { return Err(io::ErrorKind::NotFound.into()) };
        let changed = Reservation { terms: *terms, ..*before };
        self.request(spry_reserve_what_SPRY_RESERVE_CHANGES, &changed)?;
        self.open.insert(slot, changed);
        Ok(())
    }

    fn rank_as(&mut self, slot: u32, clients: &[u32]) -> io::Result<()> {
        if !self.open.contains_key(&slot) {
            return Ok(());
        }
        let bss = self.bss().as_ptr();
        for at in 0..CLIENTS_MAX {
            let client = clients.get(at).map_or(0, |slot| slot + 1);
            // SAFETY: a word of mapped memory, aligned as in C, that lives as long as `self`; all code reads
            // and writes it only as a whole word. `open` has slots within the array alone.
            let word =
                unsafe { AtomicU32::from_ptr(&raw mut (*bss).reservations[slot as usize].clients[at]) };
            word.store(client, Ordering::Relaxed);
        }
        Ok(())
    }

    fn served(&mut self, slot: u32) -> ServerUsage {
        if !self.open.contains_key(&slot) {
            return ServerUsage::default();
        }
        let bss = self.bss().as_ptr();
        // SAFETY: words of mapped memory, aligned as in C, that live as long as `self`; all code reads and
        // writes them only as whole words. `open` has slots within the array alone.
        let (requests, longest, most) = unsafe {
            let of = &raw mut (*bss).reservations[slot as usize];
            let word = |place: *mut u64| AtomicU64::from_ptr(place);
            let longest = word(&raw mut (*of).request_most_ns);
            (word(&raw mut (*of).requests), longest, word(&raw mut (*of).served_most_ns))
        };
        let take = |word: &AtomicU64| word.swap(0, Ordering::Relaxed);
        ServerUsage { requests: take(requests), longest_ns: take(longest), most_ns: take(most) }
    }

    fn close(&mut self, slot: u32) {
        let Some(reservation) = self.open.remove(&slot) else { return };
        // If the scheduler was removed, so was the reservation.
        _ = self.request(spry_reserve_what_SPRY_RESERVE_CLOSES, &reservation);
    }

    fn rest(&mut self) {
        self.seen.clear();
    }

    fn measured(&self, slot: u32) -> Option<Measurement> {
        self.open.get(&slot)?;
        // SAFETY: the memory lives as long as `self`; the scheduler counts on meanwhile, and a count that is
        // a moment old does no harm.
        let of = unsafe { (&raw const (*self.bss().as_ptr()).reservations[slot as usize]).read_volatile() };
        Some(Measurement {
            periods: of.periods,
            got_ns: of.got_ns,
            asked_ns: of.asked_ns,
            stolen_ns: of.stolen_ns,
            exhausted: of.exhausted,
            worst_short_ns: of.short_most_ns,
            worst_late_ns: of.late_most_ns,
            misplaced: of.misplaced,
        })
    }

    fn name(&self) -> &'static str {
        super::NAME
    }
}

/// Words in the scheduler's memory for the measurement. They are the number of the measuring thread, which
/// the daemon writes, and the times that the scheduler recorded, ns.
struct Words<'a> {
    measures: &'a AtomicU32,
    switched: &'a AtomicU64,
    stopped: &'a AtomicU64,
    returned: &'a AtomicU64,
}

/// The measured costs of this machine, ns.
struct Ways {
    /// From the switch to the task until its first instruction.
    switch_ns: u64,
    /// From a task's last instruction until an interrupt is seen.
    stop_ns: u64,
    /// From the end of an interrupt until the task's next instruction.
    return_ns: u64,
}

impl Words<'_> {
    /// Measures the costs twice: while the thread is alone on its CPU, and beside another
    /// process that runs there.
    fn watch_alone_and_beside(&self, cpu: u32) -> io::Result<(Ways, Ways)> {
        let alone = self.watch()?;
        let until_ns = monotonic_ns() + watched_ns();
        // SAFETY: the child only sets its CPU, reads the time and adds: it takes no lock. It ends by itself.
        let rival = unsafe {
            outlive::fork(|| {
                let (mut sum, _) = (0.0_f64, cpus::set_cpu(cpu));
                while monotonic_ns() < until_ns {
                    // Calculates with floating point, so that the kernel must restore these
                    // registers at each switch.
                    sum = std::hint::black_box(sum + 1.5);
                }
                0
            })
        }?;
        let beside = self.watch();
        process::wait(rival)?;
        Ok((alone, beside?))
    }

    /// Runs for MEASURED periods, in which a timer interrupts each budget. Returns the medians of the costs.
    fn watch(&self) -> io::Result<Ways> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let (mut switches, mut stops, mut returns) = (Vec::new(), Vec::new(), Vec::new());
        let mut last_ns = kernel_ns();
        let until_ns = last_ns + watched_ns();
        while last_ns < until_ns {
            let now_ns = kernel_ns();
            let returned_ns = self.returned.load(Ordering::Relaxed);
            // The gap shows that a new period has begun.
            if now_ns - last_ns >= MEASURING.budget_ns {
                switches.push(now_ns.saturating_sub(self.switched.load(Ordering::Relaxed)));
                stops.push(self.stopped.load(Ordering::Relaxed).saturating_sub(last_ns));
                timerfd_settime(&timer, TimerfdTimerFlags::empty(), &INTERRUPTED)?;
                last_ns = kernel_ns();
                continue;
            }
            if (last_ns..=now_ns).contains(&returned_ns) {
                returns.push(now_ns - returned_ns);
            }
            last_ns = now_ns;
        }
        Ok(Ways { switch_ns: median(switches), stop_ns: median(stops), return_ns: median(returns) })
    }
}

/// The duration of one measurement, ns.
fn watched_ns() -> u64 {
    u64::from(MEASURED + 2) * MEASURING.period_ns
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// Attaches a program to its tracepoint, until the returned descriptor is closed.
fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: a call of libbpf's with a descriptor; no name is needed, the program has its tracepoint.
    let link = unsafe { bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the call has just made this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}
