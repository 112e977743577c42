//! Seeded streams of events of nearly every kind, for the format's tests.
#![allow(dead_code)]

use std::sync::Arc;

use spry_trace::event::*;
use spry_trace::{Compression, Header, Options, Stamped, Writer};

/// A small generator, the same on every machine (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

pub const CPUS: u16 = 3;
pub const START_NS: u64 = 5_000_000_000;
/// The new name of every task that is renamed: the first 15 bytes of a longer name.
pub const RENAMED: &str = "fifteen bytes!!";

pub fn header() -> Header {
    Header {
        kernel: "6.18".into(),
        machine: "host".into(),
        cpus: CPUS,
        hz: Some(250),
        start_ns: START_NS,
        ..Header::default()
    }
}

pub fn options(compression: Compression) -> Options {
    Options { compression, block_bytes: 2000, compress_bytes: 0, ..Options::default() }
}

fn tid(random: &mut Random) -> Tid {
    Tid(random.below(40) as u32 * 97)
}

pub fn any_event(random: &mut Random) -> Event {
    let task = tid(random);
    match random.below(28) {
        0..=4 => Event::Switch(Switch {
            prev: task,
            // The next task is never the same one: no task switches to itself.
            next: Tid((task.0 + 97 * (1 + random.below(39) as u32)) % (40 * 97)),
            prev_state: PrevState::ALL[random.below(6) as usize],
            prev_prio: 100 + random.below(3) as u8,
            next_prio: 120,
            stolen_ns: if random.below(4) == 0 {
                random.below(1 << 32) as u32 as i32 & [-1, -4096][random.below(2) as usize]
            } else {
                0
            },
        }),
        5..=8 => Event::Waking(Waking {
            waker: task,
            wakee: tid(random),
            context: [Context::Task, Context::Softirq, Context::Hardirq, Context::Unknown]
                [random.below(4) as usize],
        }),
        9..=11 => Event::Wakeup(Wakeup {
            tid: task,
            target_cpu: random.below(u64::from(CPUS)) as u16,
            kind: if random.below(2) == 0 { WakeupKind::New } else { WakeupKind::Again },
        }),
        12 => Event::Fork(Fork {
            parent: task,
            child: Tid(10_000 + random.below(1000) as u32),
            child_tgid: Tgid(task.0),
            comm: Comm::new(b"child"),
        }),
        13 => Event::Exec(Exec { tid: task, old_tid: task }),
        14 => Event::Exit(Exit { tid: task }),
        15 => Event::Comm(Rename { tid: task, comm: Comm::new(format!("{RENAMED}and more").as_bytes()) }),
        16 => Event::Prio(Prio { tid: task, policy: Policy::Rr, prio: random.below(140) as u8 }),
        17 => Event::Migrate(Migrate { tid: task, from_cpu: random.below(3) as u16, to_cpu: 2 }),
        18 => {
            let ticks = 4_000_000 * random.below(1 << 10);
            Event::Tick(Tick { due_ns: START_NS + ticks + random.below(2) * random.below(1 << 40) })
        }
        19 => {
            let deadline_ns = random.below(1 << 50);
            let latest_ns = deadline_ns + random.below(60_000);
            Event::TimerExpire(TimerExpire { tid: task, kind: TimerKind::Posix, deadline_ns, latest_ns })
        }
        20 => [Event::IrqEnter(Irq::Device(random.below(500) as u16)), Event::IrqExit(Irq::LocalTimer)]
            [random.below(2) as usize]
            .clone(),
        21 => [Event::SoftirqEnter(Softirq(3)), Event::SoftirqExit(Softirq(9))][random.below(2) as usize]
            .clone(),
        22 => Event::NeedResched(NeedResched { tid: task, target_cpu: 1, urgency: Urgency::Lazy }),
        23 => [Event::ScheduleEnter, Event::ScheduleExit][random.below(2) as usize].clone(),
        24 => Event::Ipc(Ipc {
            tid: task,
            direction: if random.below(2) == 0 { Direction::Read } else { Direction::Write },
            channel: Channel { kind: ChannelKind::Tty, id: random.below(u64::MAX) },
            bytes: random.below(1 << 32) as u32,
        }),
        25 => Event::Mark(Mark { tid: task, text: format!("frame {} shown ✓", random.below(9)).into() }),
        26 => Event::Stack(Stack {
            tid: task,
            frames: (0..random.below(6)).map(|_| Arc::from(format!("f{}", random.below(50)))).collect(),
        }),
        _ => Event::Stat(TaskStat {
            tid: task,
            state: StatState::Blocked,
            exec_ns: random.below(1 << 60),
            utime_ns: random.below(1 << 40),
            stime_ns: 0,
        }),
    }
}

/// `count` events, in one order of time, no two at the same moment.
pub fn events(seed: u64, count: usize) -> Vec<Stamped> {
    let mut random = Random::new(seed);
    let mut time_ns = START_NS;
    (0..count)
        .map(|_| {
            time_ns += 1 + random.below(40_000);
            Stamped { time_ns, cpu: random.below(u64::from(CPUS)) as u16, event: any_event(&mut random) }
        })
        .collect()
}

/// A finished file of these events, with a round every 50.
pub fn file(events: &[Stamped], compression: Compression) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header(), options(compression)).unwrap();
    for task in (0..40).map(|number| number * 97) {
        let inner = (task % 2 == 0).then_some(Numbers { tid: Tid(task / 97 + 1), tgid: Tgid(1) });
        let comm = Comm::new(format!("task {task}").as_bytes());
        writer.task(TaskInfo { inner, ..TaskInfo::new(Tid(task), Tgid(task), comm) });
    }
    for (number, stamped) in events.iter().enumerate() {
        writer.event(stamped).unwrap();
        if number % 50 == 49 {
            writer.round(stamped.time_ns).unwrap();
        }
    }
    let end_ns = events.last().map_or(START_NS, |last| last.time_ns) + 1;
    writer.finish(end_ns).unwrap().0
}

/// Makes damaged frames valid frames, so that the damage reaches the decoder.
pub fn fix_checksums(bytes: &mut [u8], mut at: usize) {
    while at + 3 < bytes.len() {
        let mut cursor = spry_trace::varint::Cursor::at(bytes, at + 2);
        let Some(len) = cursor.varint() else { return };
        let end = cursor.position().saturating_add(len as usize);
        if bytes[at] != 0xf7 || end.saturating_add(4) > bytes.len() {
            at += 1;
            continue;
        }
        let crc = crc32fast::hash(&bytes[at..end]).to_le_bytes();
        bytes[end..end + 4].copy_from_slice(&crc);
        at = end + 4;
    }
}

/// Makes a damaged header a valid one. Returns where the frames begin.
pub fn fix_header(bytes: &mut [u8]) -> usize {
    let Some(len) = bytes.get(12..16) else { return bytes.len() };
    let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
    let body_at = len.saturating_add(20);
    if body_at > bytes.len() {
        return bytes.len();
    }
    let crc = crc32fast::hash(&bytes[..body_at - 4]).to_le_bytes();
    bytes[body_at - 4..body_at].copy_from_slice(&crc);
    body_at
}
