//! Times the writer and the reader on a stream like that of a pipe benchmark: `encoding [EVENTS]`.

use std::time::Instant;

use spry_trace::event::*;
use spry_trace::{Compression, Header, Options, Reader, Stamped, Writer};

/// Two pairs of tasks that wake each other, one pair a CPU, with 1 us or so between events.
fn stream(count: usize) -> Vec<Stamped> {
    let mut time_ns = 1_000_000;
    let mut noise = 1u64;
    (0..count)
        .map(|number| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            time_ns += 300 + (noise >> 54);
            let cpu = (number % 2) as u16;
            let (a, b) = (Tid(1000 + u32::from(cpu)), Tid(2000 + u32::from(cpu)));
            let step = number / 2;
            let (from, to) = if step / 3 % 2 == 0 { (a, b) } else { (b, a) };
            let event = match step % 3 {
                0 => Event::Waking(Waking { waker: from, wakee: to, context: Context::Task }),
                1 => Event::Wakeup(Wakeup { tid: to, target_cpu: cpu, kind: WakeupKind::Again }),
                _ => Event::Switch(Switch {
                    prev: from,
                    next: to,
                    prev_state: PrevState::Sleeping,
                    prev_prio: 120,
                    next_prio: 120,
                    stolen_ns: 0,
                }),
            };
            Stamped { time_ns, cpu, event }
        })
        .collect()
}

fn main() {
    let count: usize =
        std::env::args().nth(1).map_or(5_000_000, |count| count.parse().expect("a number of events"));
    let events = stream(count);
    let header = Header { cpus: 2, start_ns: 1_000_000, ..Header::default() };
    for compression in [Compression::None, Compression::Zstd(1), Compression::Zstd(3)] {
        let options = Options { compression, ..Options::default() };
        let began = Instant::now();
        let mut writer = Writer::new(Vec::new(), &header, options).expect("memory does not fail");
        for (number, stamped) in events.iter().enumerate() {
            writer.event(stamped).expect("memory does not fail");
            if number % 50_000 == 0 {
                writer.round(stamped.time_ns).expect("memory does not fail");
            }
        }
        let (bytes, _) = writer.finish(u64::MAX / 2).expect("memory does not fail");
        let wrote = began.elapsed();
        let began = Instant::now();
        let mut reader = Reader::new(&bytes[..]).expect("what was written is a trace");
        let mut found = 0u64;
        while let Some(stamped) = reader.next_event().expect("memory does not fail") {
            found += u64::from(!matches!(stamped.event, Event::Task(_)));
        }
        let read = began.elapsed();
        assert_eq!(found, count as u64);
        let each = |time: std::time::Duration| time.as_nanos() as f64 / count as f64;
        println!(
            "{compression:?}: {:.2} bytes, {:.1} ns to write, {:.1} ns to read an event",
            bytes.len() as f64 / count as f64,
            each(wrote),
            each(read)
        );
    }
}
