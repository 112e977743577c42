//! The drain against rings in ordinary memory, filled as the BPF programs would.

use std::fs::File;
use std::io::Cursor;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use spry_trace::event::{Event, Lost, Numbers, Prio, Switch, TaskInfo};
use spry_trace::format::STOLEN_GRAIN_NS;
use spry_trace::{Header, Reader, Stamped, Tgid, Tid, Writer};

use super::*;
use crate::numbers::Listing;
use crate::ring::page_bytes;
use crate::wire::*;

const CPUS: usize = 2;
const RING_BYTES: usize = 2 * SPRY_CHUNK_BYTES as usize;
const SHARED_BYTES: usize = 1 << 16;
const START_NS: u64 = 1_000_000_000;
const NOW_NS: u64 = START_NS + 1_000_000;

/// Files in memory in the place of BPF maps.
struct Maps {
    state: File,
    data: File,
    shared: File,
    heads: [u64; CPUS],
    produced: u64,
}

fn memory(bytes: usize) -> File {
    let file = File::from(rustix::fs::memfd_create(c"spry-test", rustix::fs::MemfdFlags::empty()).unwrap());
    file.set_len(bytes as u64).unwrap();
    file
}

impl Maps {
    fn new() -> Maps {
        Maps {
            state: memory(page_bytes()),
            data: memory(CPUS * RING_BYTES),
            shared: memory(2 * page_bytes() + 2 * SHARED_BYTES),
            heads: [0; CPUS],
            produced: 0,
        }
    }

    fn drain(&self) -> Drain<Vec<u8>> {
        let rings = Rings::new(self.state.as_fd(), &[self.data.as_fd()], RING_BYTES, CPUS).unwrap();
        let shared = SharedRing::new(self.shared.as_fd(), SHARED_BYTES).unwrap();
        let header = Header { cpus: CPUS as u16, start_ns: START_NS, ..Header::default() };
        let writer = Writer::new(Vec::new(), &header, Default::default()).unwrap();
        Drain::new(
            rings,
            shared,
            writer,
            Decoder::new(START_NS, 4_000_000),
            Symbols::new(vec![], Listing::Outermost),
        )
    }

    fn set(&self, cpu: usize, field: usize, value: u64) {
        let at = cpu * size_of::<spry_cpu>() + field;
        self.state.write_all_at(&value.to_ne_bytes(), at as u64).unwrap();
    }

    fn put(&mut self, cpu: usize, time_ns: u64, kind: spry_kind, words: &[u64]) {
        let first = (time_ns << SPRY_STAMP_SHIFT) | u64::from(kind);
        for (index, word) in std::iter::once(&first).chain(words).enumerate() {
            let at = (self.heads[cpu] as usize + index * 8) % RING_BYTES + cpu * RING_BYTES;
            self.data.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
        }
        self.heads[cpu] += 8 + words.len() as u64 * 8;
        self.set(cpu, offset_of!(spry_cpu, head), self.heads[cpu]);
    }

    fn skip_to(&mut self, cpu: usize, position: u64) {
        self.heads[cpu] = position;
        self.set(cpu, offset_of!(spry_cpu, head), position);
        self.set(cpu, offset_of!(spry_cpu, tail), position);
    }

    fn put_shared(&mut self, busy: u32, words: &[u64]) {
        let len = words.len() as u64 * 8;
        let header = len | u64::from(busy);
        let at = 2 * page_bytes() as u64 + self.produced;
        for (index, word) in std::iter::once(&header).chain(words).enumerate() {
            self.shared.write_all_at(&word.to_ne_bytes(), at + index as u64 * 8).unwrap();
        }
        self.produced += 8 + len;
        self.shared.write_all_at(&self.produced.to_ne_bytes(), page_bytes() as u64).unwrap();
    }

    fn put_fork(&mut self, cpu: u64, time_ns: u64, parent: u64, child: u64) {
        let stamp = (time_ns << SPRY_STAMP_SHIFT) | u64::from(SPRY_FORK);
        let comm = u64::from_ne_bytes(*b"maker\0\0\0");
        let inner = (2 << 32) | 2;
        self.put_shared(0, &[stamp, (parent << 32) | cpu, (child << 32) | child, comm, 0, inner]);
    }
}

fn wakeup(maps: &mut Maps, cpu: usize, time_ns: u64, tid: u64) {
    maps.put(cpu, time_ns, SPRY_WAKEUP, &[((cpu as u64) << 48) | tid]);
}

/// A wake-up of a task that may run on this many CPUs.
fn wakeup_of_bound(maps: &mut Maps, time_ns: u64, tid: u64, cpus: u64) {
    maps.put(0, time_ns, SPRY_WAKEUP, &[(cpus << 32) | tid]);
}

#[test]
fn the_affinity_of_a_bound_task_precedes_its_waits() {
    let mut maps = Maps::new();
    wakeup_of_bound(&mut maps, START_NS + 10, 7, 1);
    wakeup_of_bound(&mut maps, START_NS + 20, 7, 1);
    wakeup_of_bound(&mut maps, START_NS + 30, 8, 512);
    // A task that leaves its CPU, still runnable: the number stands above its tid and its policy.
    maps.put(0, START_NS + 40, SPRY_SWITCH, &[(7 << 32) | (1 << 27) | 9, (120 << 24) | (120 << 16)]);
    let affinities = finish(maps.drain()).into_iter().filter_map(|stamped| match stamped.event {
        Event::Affinity(affinity) => Some((stamped.time_ns - START_NS, affinity.tid.0, affinity.cpus)),
        _ => None,
    });
    assert_eq!(affinities.collect::<Vec<_>>(), [(10, 7, 1), (40, 9, 1)]);
}

fn switch(maps: &mut Maps, cpu: usize, time_ns: u64, prev: u64, next: u64, uncounted_ns: i32) {
    let details = (u64::from(uncounted_ns as u32) << 32) | (120 << 24) | (120 << 16) | 1;
    maps.put(cpu, time_ns, SPRY_SWITCH, &[(next << 32) | prev, details]);
}

fn finish(mut drain: Drain<Vec<u8>>) -> Vec<Stamped> {
    assert_eq!(drain.last_round().unwrap(), Round::Written);
    let (bytes, _, _) = drain.finish(START_NS + 1_000_000, 0).unwrap();
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    std::iter::from_fn(|| reader.next_event().unwrap().cloned()).collect()
}

#[test]
fn a_child_is_known_before_the_other_cpu_mentions_it() {
    let mut maps = Maps::new();
    wakeup(&mut maps, 0, START_NS + 50, 7);
    maps.put_fork(1, START_NS + 100, 3, 9);
    wakeup(&mut maps, 0, START_NS + 150, 9);
    let events = finish(maps.drain());
    let info = events.iter().position(|stamped| {
        let Event::Task(TaskInfo { tid: Tid(9), tgid: Tgid(9), comm, inner }) = &stamped.event else {
            return false;
        };
        comm.as_bytes() == b"maker" && *inner == Some(Numbers { tid: Tid(2), tgid: Tgid(2) })
    });
    let mention =
        events.iter().position(|stamped| matches!(stamped.event, Event::Wakeup(w) if w.tid == Tid(9)));
    assert!(info.unwrap() < mention.unwrap());
    let times: Vec<_> = events.iter().map(|stamped| stamped.time_ns).collect();
    assert!(times.is_sorted());
}

#[test]
fn a_round_leaves_what_is_not_certain_for_the_next() {
    let mut maps = Maps::new();
    let mut drain = maps.drain();
    wakeup(&mut maps, 0, START_NS + 10, 1);
    wakeup(&mut maps, 1, START_NS + 30, 2);
    assert_eq!(drain.take_up_to(START_NS + 20).unwrap(), Round::Written);
    wakeup(&mut maps, 0, START_NS + 25, 3);
    let events = finish(drain);
    let order: Vec<_> = events
        .iter()
        .filter_map(|stamped| match stamped.event {
            Event::Wakeup(wakeup) => Some(wakeup.tid.0),
            _ => None,
        })
        .collect();
    assert_eq!(order, [1, 3, 2]);
}

#[test]
fn records_added_late_keep_their_time_and_place() {
    let mut maps = Maps::new();
    let mut drain = maps.drain();
    wakeup(&mut maps, 0, START_NS + 10, 1);
    wakeup(&mut maps, 1, START_NS + 30, 2);
    drain.hold(START_NS + 20);
    assert_eq!(drain.round(NOW_NS).unwrap(), Round::Written);
    let prio = Prio { tid: Tid(3), policy: spry_trace::event::Policy::Other, prio: 120 };
    drain.add(vec![Rare { time_ns: START_NS + 25, cpu: 0, what: What::Event(Event::Prio(prio)) }]);
    assert_eq!(drain.round(NOW_NS).unwrap(), Round::Written);
    let is_told = |event: &Event| matches!(event, Event::Wakeup(_)) || *event == Event::Prio(prio);
    let events = finish(drain).into_iter().filter(|stamped| is_told(&stamped.event));
    assert_eq!(events.map(|stamped| stamped.time_ns - START_NS).collect::<Vec<_>>(), [10, 25, 30]);
}

#[test]
fn a_cpu_in_the_middle_of_a_record_postpones_the_round() {
    let mut maps = Maps::new();
    wakeup(&mut maps, 0, START_NS + 10, 1);
    maps.set(1, offset_of!(spry_cpu, nest), 1);
    let mut drain = maps.drain();
    assert_eq!(drain.round(NOW_NS).unwrap(), Round::Postponed);
    maps.set(1, offset_of!(spry_cpu, nest), 0);
    assert_eq!(finish(drain).len(), 2);
}

#[test]
fn an_unfinished_rare_record_postpones_the_round() {
    const BUSY: u32 = 1 << 31;
    let mut maps = Maps::new();
    maps.put_shared(BUSY, &[0; 5]);
    assert_eq!(maps.drain().round(NOW_NS).unwrap(), Round::Postponed);
}

#[test]
fn the_end_of_a_chunk_and_of_the_ring_are_passed() {
    let mut maps = Maps::new();
    maps.skip_to(0, 2 * RING_BYTES as u64 - 32);
    let mut drain = maps.drain();
    drain.cpus[0].position = maps.heads[0];
    wakeup(&mut maps, 0, START_NS + 10, 1);
    maps.put(0, START_NS + 20, SPRY_PAD, &[]);
    maps.skip_head_to_chunk(0);
    wakeup(&mut maps, 0, START_NS + 20, 2);
    let wakeups = finish(drain).into_iter().filter(|stamped| matches!(stamped.event, Event::Wakeup(_)));
    assert_eq!(wakeups.map(|stamped| stamped.time_ns).collect::<Vec<_>>(), [START_NS + 10, START_NS + 20]);
}

impl Maps {
    fn skip_head_to_chunk(&mut self, cpu: usize) {
        self.heads[cpu] = self.heads[cpu].next_multiple_of(u64::from(SPRY_CHUNK_BYTES));
        self.set(cpu, offset_of!(spry_cpu, head), self.heads[cpu]);
    }
}

#[test]
fn records_without_room_are_counted_where_they_are_missing() {
    let mut maps = Maps::new();
    wakeup(&mut maps, 0, START_NS + 10, 1);
    maps.put(0, START_NS + 20, SPRY_LOST, &[42]);
    wakeup(&mut maps, 0, START_NS + 20, 2);
    maps.set(1, offset_of!(spry_cpu, missed), 5);
    maps.set(1, offset_of!(spry_cpu, meta_lost), 3);
    let drain = maps.drain();
    let lost: Vec<_> = finish(drain)
        .into_iter()
        .filter_map(|stamped| match stamped.event {
            Event::Lost(Lost { count }) => Some((stamped.cpu, count)),
            _ => None,
        })
        .collect();
    assert_eq!(lost.iter().filter(|(cpu, _)| *cpu == 0).map(|(_, count)| count).sum::<u64>(), 42);
    assert_eq!(lost.iter().filter(|(cpu, _)| *cpu == 1).map(|(_, count)| count).sum::<u64>(), 8);
}

#[test]
fn a_nested_record_takes_its_place_in_time() {
    let mut maps = Maps::new();
    wakeup(&mut maps, 0, START_NS + 10, 1);
    wakeup(&mut maps, 0, START_NS + 30, 3);
    let nested = (START_NS + 20) << SPRY_STAMP_SHIFT;
    maps.put_shared(0, &[nested | u64::from(SPRY_NESTED), 0, nested | u64::from(SPRY_WAKEUP), 2, 0, 0]);
    let order: Vec<_> = finish(maps.drain())
        .into_iter()
        .filter_map(|stamped| match stamped.event {
            Event::Wakeup(wakeup) => Some(wakeup.tid.0),
            _ => None,
        })
        .collect();
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn uncounted_time_is_stolen_from_the_stay() {
    let mut maps = Maps::new();
    switch(&mut maps, 0, START_NS + 1_000, 0, 7, 0);
    switch(&mut maps, 0, START_NS + 90_000, 7, 0, 12 * STOLEN_GRAIN_NS);
    let stolen: Vec<_> = finish(maps.drain())
        .into_iter()
        .filter_map(|stamped| match stamped.event {
            Event::Switch(Switch { stolen_ns, .. }) => Some(stolen_ns),
            _ => None,
        })
        .collect();
    assert_eq!(stolen, [0, 12 * STOLEN_GRAIN_NS]);
}

#[test]
fn time_before_a_hidden_switch_is_stolen_from_its_task() {
    let mut maps = Maps::new();
    switch(&mut maps, 0, START_NS + 1_000, 0, 7, 0);
    switch(&mut maps, 0, START_NS + 90_000, 8, 7, 12 * STOLEN_GRAIN_NS);
    // However little was stolen, the value is not 0: 0 would mean that the stay's length is unknown.
    switch(&mut maps, 0, START_NS + 95_000, 8, 0, 0);
    let stolen: Vec<_> = finish(maps.drain())
        .into_iter()
        .filter_map(|stamped| match stamped.event {
            Event::Switch(Switch { prev: Tid(8), stolen_ns, .. }) => Some(stolen_ns),
            _ => None,
        })
        .collect();
    assert_eq!(stolen, [12 * STOLEN_GRAIN_NS, STOLEN_GRAIN_NS]);
}

#[test]
fn a_cpu_that_goes_offline_switches_to_its_idle_task() {
    let mut maps = Maps::new();
    switch(&mut maps, 0, START_NS + 10, 3, 20, 0);
    switch(&mut maps, 1, START_NS + 10, 4, 0, 0);
    // CPU 0 ran its stopper, and CPU 1 was idle. There are no CPUs 2 and 9,000.
    for (at, cpu) in [0u64, 1, 2, 9_000].into_iter().enumerate() {
        let time_ns = START_NS + 100 * (at as u64 + 1);
        maps.put_shared(0, &[(time_ns << SPRY_STAMP_SHIFT) | u64::from(SPRY_OFFLINE), cpu]);
    }
    switch(&mut maps, 0, START_NS + 900, 0, 21, 0);
    let switches = finish(maps.drain()).into_iter().filter_map(|stamped| match stamped.event {
        Event::Switch(switch) => {
            Some((stamped.time_ns - START_NS, stamped.cpu, switch.prev.0, switch.next.0))
        }
        _ => None,
    });
    let expected = [(10, 0, 3, 20), (10, 1, 4, 0), (100, 0, 20, 0), (900, 0, 0, 21)];
    assert_eq!(switches.collect::<Vec<_>>(), expected);
}

#[test]
fn a_class_that_differs_is_recorded_before_the_switch() {
    let mut maps = Maps::new();
    let fifo = 1 << SPRY_TID_BITS;
    maps.put(0, START_NS + 10, SPRY_SWITCH, &[(fifo | 7) << 32, (92 << 24) | (120 << 16) | 1]);
    maps.put(0, START_NS + 20, SPRY_SWITCH, &[fifo | 7, (120 << 24) | (92 << 16) | 1]);
    let events = finish(maps.drain());
    let told: Vec<_> = events.iter().filter(|stamped| matches!(stamped.event, Event::Prio(_))).collect();
    assert_eq!(told.len(), 1);
    let policy = spry_trace::event::Policy::Fifo;
    assert_eq!(told[0].event, Event::Prio(Prio { tid: Tid(7), policy, prio: 92 }));
    assert_eq!(told[0].time_ns, START_NS + 10);
}

#[test]
fn a_ring_that_holds_nonsense_is_its_own_error() {
    let mut maps = Maps::new();
    maps.put(0, START_NS + 10, SPRY_WAKEUP, &[2]);
    maps.put(0, START_NS + 20, 99, &[1]);
    let mut drain = maps.drain();
    let error = drain.last_round().expect_err("99 is no kind");
    assert_eq!(
        error.to_string(),
        "CPU 0's ring is corrupt: the kind of a record 99; what was written before is whole; please report \
         this"
    );
}
