//! Takes records out of the rings, puts them in order and writes the trace.
//!
//! Each CPU's ring is in time order by itself. The shared ring holds records that must precede events (a fork
//! before the child's first wake-up), and is read after the heads of all other rings. Its records are
//! barriers: earlier records of all CPUs are written before a barrier, later records after it.

use std::io::Write;
use std::num::NonZeroU16;
use std::thread;
use std::time::Duration;

use spry_sys::clock;
use spry_trace::Tid;
use spry_trace::event::{Event, PrevState, Stack, Stamped, Switch, TaskInfo};
use spry_trace::writer::{Writer, Written};

use crate::decode::{Decoder, Hot, Rare, RawSwitch, What};
use crate::error::{Error, Result, corrupt};
use crate::flight::Lookout;
use crate::ring::{ReadExtent, Rings, SharedRing};
use crate::symbols::Symbols;
use crate::tasks::Tasks;
use crate::throttle::Throttles;
use crate::wire::{Kind, Nonsense, SPRY_ALLOWED_MANY, SPRY_CHUNK_BYTES};

/// A record that a CPU began this long ago shows in that CPU's count of writers, since a store reaches other
/// CPUs sooner than this, ns.
const MARGIN_NS: u64 = 200_000;

/// The looks for a CPU's writer to finish before each sleep, the number of sleeps, and their length.
const LOOKS: usize = 200;
const NAPS: usize = 20;
const NAP: Duration = Duration::from_micros(50);

/// The name of the ring that all CPUs share, in errors.
const SHARED: &str = "the shared";

/// Whether a round could be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Round {
    /// Everything that was certainly complete was written.
    Written,
    /// A CPU was stopped in the middle of a record (for example by a hypervisor); nothing was taken.
    Postponed,
}

/// One CPU's progress.
struct CpuRing {
    position: u64,
    head: u64,
    /// The task to which the CPU's last switch went, and the time of that switch, ns, if known.
    switched: Option<(Tid, u64)>,
    shared_lost: u64,
    lost: u64,
}

/// The reader of the rings.
pub(crate) struct Drain<W: Write> {
    rings: Rings,
    shared: SharedRing,
    writer: Writer<W>,
    decoder: Decoder,
    tasks: Tasks,
    throttles: Throttles,
    symbols: Symbols,
    cpus: Vec<CpuRing>,
    waiting: Vec<Rare>,
    /// Records later than this time, ns, are being collected and come by `add`.
    held_ns: Option<u64>,
    lookout: Option<Lookout>,
}

impl<W: Write> Drain<W> {
    pub(crate) fn new(
        rings: Rings,
        shared: SharedRing,
        writer: Writer<W>,
        decoder: Decoder,
        symbols: Symbols,
    ) -> Drain<W> {
        let cpus = (0..rings.cpus())
            .map(|_| CpuRing { position: 0, head: 0, switched: None, shared_lost: 0, lost: 0 })
            .collect();
        Drain {
            rings,
            shared,
            writer,
            decoder,
            tasks: Tasks::default(),
            throttles: Throttles::default(),
            symbols,
            cpus,
            waiting: Vec::new(),
            held_ns: None,
            lookout: None,
        }
    }

    /// Shows all events from now on to `lookout`.
    pub(crate) fn look_out(&mut self, lookout: Lookout) {
        self.lookout = Some(lookout);
    }

    /// Until records are added, no round writes events later than `from_ns`. Another thread collects the
    /// records meanwhile and may be preempted before it adds them; the hold keeps the trace in time order.
    pub(crate) fn hold(&mut self, from_ns: u64) {
        self.held_ns = Some(from_ns);
    }

    /// Adds records that did not come through a ring; their tasks are known from now on. Ends a hold.
    pub(crate) fn add(&mut self, records: Vec<Rare>) {
        self.held_ns = None;
        for record in &records {
            if let What::Account(info, ..) = record.what {
                self.name(info);
            }
        }
        self.waiting.extend(records);
    }

    /// The fill level of the fullest ring, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        let of = |cpu| (self.rings.head(cpu) - self.rings.tail(cpu)) as f64 / self.rings.ring_bytes() as f64;
        (0..self.rings.cpus()).map(of).fold(self.shared.fill(), f64::max)
    }

    /// The writer's counts so far.
    pub(crate) fn written(&self) -> &Written {
        self.writer.written()
    }

    /// The number of events of each CPU that have been lost so far.
    pub(crate) fn lost_per_cpu(&self) -> Vec<u64> {
        self.cpus.iter().map(|cpu| cpu.lost).collect()
    }

    /// Writes everything that was certainly complete at `now_ns`. A hold that began later has no effect: its
    /// records are later than all that this round writes.
    pub(crate) fn round(&mut self, now_ns: u64) -> Result<Round> {
        let safe_ns = now_ns - MARGIN_NS;
        self.take_up_to(self.held_ns.map_or(safe_ns, |held_ns| safe_ns.min(held_ns)))
    }

    /// Writes everything; the programs must have been switched off.
    pub(crate) fn last_round(&mut self) -> Result<Round> {
        self.take_up_to(u64::MAX)
    }

    fn take_up_to(&mut self, safe_ns: u64) -> Result<Round> {
        if !self.look_at_heads() || !self.read_shared()? {
            return Ok(Round::Postponed);
        }
        self.waiting.sort_by_key(|record| record.time_ns);
        let due = self.waiting.partition_point(|record| record.time_ns <= safe_ns);
        let later = self.waiting.split_off(due);
        for record in std::mem::replace(&mut self.waiting, later) {
            for cpu in 0..self.cpus.len() {
                self.take_hot(cpu, record.time_ns)?;
            }
            self.write_rare(record)?;
        }
        for cpu in 0..self.cpus.len() {
            self.take_hot(cpu, safe_ns)?;
            self.rings.set_tail(cpu, self.cpus[cpu].position);
        }
        let now_ns = safe_ns.min(clock::kernel_ns());
        self.count_shared_losses(now_ns)?;
        self.writer.round(now_ns).map_err(Error::Write)?;
        Ok(Round::Written)
    }

    /// Reads each CPU's head at a moment when no program on that CPU is in the middle of a record. False if a
    /// CPU stays in the middle of a record.
    fn look_at_heads(&mut self) -> bool {
        for cpu in 0..self.cpus.len() {
            let mut naps = 0;
            while (0..LOOKS).all(|_| self.rings.is_busy(cpu)) {
                if naps == NAPS {
                    return false;
                }
                naps += 1;
                thread::sleep(NAP);
            }
            self.cpus[cpu].head = self.rings.head(cpu);
        }
        true
    }

    /// Reads the shared ring up to its present end. False if a record of it stays unfinished.
    fn read_shared(&mut self) -> Result<bool> {
        for _ in 0..NAPS {
            let (decoder, waiting) = (&self.decoder, &mut self.waiting);
            let mut nonsense = None;
            let reached = self.shared.read(|words| match decoder.rare(words) {
                Ok(rare) => waiting.push(rare),
                Err(found) => nonsense = Some(found),
            });
            if let Some(nonsense) = nonsense {
                return Err(corrupt(SHARED)(nonsense));
            }
            match reached {
                ReadExtent::Everything => return Ok(true),
                ReadExtent::Unfinished => thread::sleep(NAP),
            }
        }
        Ok(false)
    }

    /// Writes a CPU's hot records up to a time.
    fn take_hot(&mut self, cpu: usize, up_to_ns: u64) -> Result<()> {
        let CpuRing { mut position, head, .. } = self.cpus[cpu];
        while position < head {
            let corrupt = |nonsense| corrupt(&format!("CPU {cpu}'s"))(nonsense);
            let words = self.rings.words(cpu, position, head);
            let (time_ns, kind) = self.decoder.stamp(words[0]).map_err(corrupt)?;
            if time_ns > up_to_ns {
                break;
            }
            let kind = match kind {
                Kind::Pad => {
                    position = (position / u64::from(SPRY_CHUNK_BYTES) + 1) * u64::from(SPRY_CHUNK_BYTES);
                    continue;
                }
                Kind::Hot(kind) => kind,
                Kind::Rare(_) => return Err(corrupt(Nonsense::of("a hot record's stamp", words[0]))),
            };
            let hot = self.decoder.hot(time_ns, kind, words).map_err(corrupt)?;
            self.write_hot(cpu, time_ns, hot)?;
            position += kind.words() as u64 * 8;
        }
        self.cpus[cpu].position = position;
        Ok(())
    }

    fn write_hot(&mut self, cpu: usize, time_ns: u64, hot: Hot) -> Result<()> {
        match hot {
            Hot::Event(event) => self.write(cpu, time_ns, event),
            Hot::Switch(raw) => self.write_switch(cpu, time_ns, &raw),
            Hot::Wakeup(wakeup, cpus) => {
                self.write_affinity(cpu, time_ns, wakeup.tid, cpus)?;
                self.write(cpu, time_ns, Event::Wakeup(wakeup))
            }
            Hot::Quota(quota) => {
                self.throttles.limit(&quota);
                Ok(())
            }
            Hot::Throttle(raw) => match self.throttles.see(cpu, &raw) {
                Some(throttled) => self.write(cpu, time_ns, Event::Throttled(throttled)),
                None => Ok(()),
            },
            Hot::Lost(count) => {
                self.cpus[cpu].switched = None;
                self.lose(cpu, time_ns, count)
            }
        }
    }

    fn write_switch(&mut self, cpu: usize, time_ns: u64, raw: &RawSwitch) -> Result<()> {
        let switch = raw.switch;
        let last = self.cpus[cpu].switched.replace((switch.next, time_ns));
        let mut stolen_ns = 0;
        if !switch.prev.is_idle() {
            if let Some(prio) = self.tasks.seen(switch.prev, raw.prev_policy, switch.prev_prio) {
                self.write(cpu, time_ns, Event::Prio(prio))?;
            }
            let cpus = self.cpus_of_prev(raw);
            self.write_affinity(cpu, time_ns, switch.prev, cpus)?;
            if let Some((running, since_ns)) = last {
                let (tid, since_switch_ns) = (switch.prev, time_ns - since_ns);
                stolen_ns = match running == tid {
                    true => self.tasks.stolen(tid, raw.uncounted_ns, since_switch_ns),
                    // The kernel hid the switch to this task and the task that ran before it. The hidden task
                    // ran since the last known switch, too: its time also counts as stolen.
                    false => self.tasks.stolen_before(tid, raw.uncounted_ns, since_switch_ns),
                };
            }
        }
        if !switch.next.is_idle() {
            if let Some(prio) = self.tasks.seen(switch.next, raw.next_policy, switch.next_prio) {
                self.write(cpu, time_ns, Event::Prio(prio))?;
            }
        }
        self.write(cpu, time_ns, Event::Switch(Switch { stolen_ns, ..switch }))
    }

    /// The number of CPUs on which the task that leaves its CPU may run, if it is known. A number that is not
    /// known exactly counts as all CPUs, if the task was bound to fewer.
    fn cpus_of_prev(&mut self, raw: &RawSwitch) -> Option<NonZeroU16> {
        let many = SPRY_ALLOWED_MANY as u16;
        let cpus = raw.prev_cpus?;
        if cpus.get() < many {
            return Some(cpus);
        }
        self.tasks.is_bound_below(raw.switch.prev, many).then_some(NonZeroU16::MAX)
    }

    /// Writes the affinity of a task that begins to wait, if the trace does not have it.
    fn write_affinity(&mut self, cpu: usize, time_ns: u64, tid: Tid, cpus: Option<NonZeroU16>) -> Result<()> {
        let all = u16::try_from(self.cpus.len()).unwrap_or(u16::MAX);
        match cpus.and_then(|cpus| self.tasks.bound(tid, cpus.get(), all, time_ns)) {
            Some(affinity) => self.write(cpu, time_ns, Event::Affinity(affinity)),
            None => Ok(()),
        }
    }

    fn write_rare(&mut self, record: Rare) -> Result<()> {
        let Rare { time_ns, cpu, what } = record;
        let cpu = usize::from(cpu);
        match what {
            What::Event(event) => self.write(cpu, time_ns, event),
            What::Named(info, event) => {
                if let Event::Fork(fork) = event {
                    self.tasks.forget(fork.child);
                    self.symbols.forget(fork.child_tgid);
                }
                self.named(info, cpu, time_ns, event)
            }
            What::Account(info, stat, policy, prio) => {
                self.named(info, cpu, time_ns, Event::Stat(stat))?;
                match self.tasks.seen(info.tid, policy, prio) {
                    Some(prio) => self.write(cpu, time_ns, Event::Prio(prio)),
                    None => Ok(()),
                }
            }
            What::Stack(raw) => {
                let (frames, _) = self.symbols.frames(&raw, time_ns);
                self.write(cpu, time_ns, Event::Stack(Stack { tid: raw.tid, frames }))
            }
            What::Hot(words) => {
                let corrupt = corrupt(SHARED);
                let (time_ns, kind) = self.decoder.stamp(words[0]).map_err(&corrupt)?;
                let Kind::Hot(kind) = kind else {
                    return Err(corrupt(Nonsense::of("a nested record's stamp", words[0])));
                };
                let hot = self.decoder.hot(time_ns, kind, &words).map_err(corrupt)?;
                self.write_hot(cpu, time_ns, hot)
            }
            What::Offline => self.write_offline(cpu, time_ns),
            What::Resumed => {
                for cpu in 0..self.cpus.len() {
                    self.cpus[cpu].switched = None;
                    self.lose(cpu, time_ns, 0)?;
                }
                Ok(())
            }
        }
    }

    /// Writes the last switch of a CPU that went offline, which the kernel does not show.
    fn write_offline(&mut self, cpu: usize, time_ns: u64) -> Result<()> {
        let Some((prev, _)) = self.cpus.get(cpu).and_then(|ring| ring.switched) else { return Ok(()) };
        self.cpus[cpu].switched = Some((Tid::IDLE, time_ns));
        if prev.is_idle() {
            return Ok(());
        }
        // The task is the kernel's stopper of that CPU. It has the highest priority, and then sleeps.
        let (prev_state, prev_prio, next_prio) = (PrevState::Sleeping, 0, 120);
        let switch = Switch { prev, next: Tid::IDLE, prev_state, prev_prio, next_prio, stolen_ns: 0 };
        self.write(cpu, time_ns, Event::Switch(switch))
    }

    fn name(&mut self, info: TaskInfo) {
        self.writer.task(info);
        self.symbols.learn(&info);
        if let Some(lookout) = &mut self.lookout {
            lookout.name(info);
        }
    }

    fn named(&mut self, info: TaskInfo, cpu: usize, time_ns: u64, event: Event) -> Result<()> {
        self.name(info);
        self.write(cpu, time_ns, event)
    }

    fn write(&mut self, cpu: usize, time_ns: u64, event: Event) -> Result<()> {
        let stamped = Stamped { time_ns, cpu: cpu as u16, event };
        if let Some(lookout) = &mut self.lookout {
            lookout.see(&stamped);
        }
        self.writer.event(&stamped).map_err(Error::Write)
    }

    fn lose(&mut self, cpu: usize, time_ns: u64, count: u64) -> Result<()> {
        self.cpus[cpu].lost += count;
        self.writer.lost(cpu as u16, time_ns, count).map_err(Error::Write)
    }

    fn count_shared_losses(&mut self, now_ns: u64) -> Result<()> {
        for cpu in 0..self.cpus.len() {
            let lost = self.rings.shared_lost(cpu);
            let before = std::mem::replace(&mut self.cpus[cpu].shared_lost, lost);
            if lost > before {
                self.lose(cpu, now_ns, lost - before)?;
            }
        }
        Ok(())
    }

    /// Ends the trace. Before that it writes the losses not written yet: records that found no room at the
    /// end, and events that the kernel skipped because their program was already running.
    pub(crate) fn finish(mut self, end_ns: u64, recursion_misses: u64) -> Result<(W, Written, Vec<u64>)> {
        for cpu in 0..self.cpus.len() {
            // The kernel does not count by CPU the events that it skipped because their program was running.
            let misses = if cpu == 0 { recursion_misses } else { 0 };
            let count = self.rings.missed(cpu) + misses;
            if count > 0 {
                self.lose(cpu, end_ns, count)?;
            }
        }
        let lost = self.lost_per_cpu();
        let (sink, written) = self.writer.finish(end_ns).map_err(Error::Write)?;
        Ok((sink, written, lost))
    }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
