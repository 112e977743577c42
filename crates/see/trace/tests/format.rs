//! Tests of the format: written events are read back, and damage costs only the damaged blocks.

mod common;

use std::collections::BTreeSet;
use std::io::Cursor;

use common::{CPUS, RENAMED, START_NS, events, file, fix_checksums, header, options};
use spry_trace::event::{Affinity, Event, Limit, Lost, Throttled, Tid};
use spry_trace::reader::Ending;
use spry_trace::{Compression, Group, Groups, Options, ReadError, Reader, Stamped, Totals, Writer};

const BOTH: [Compression; 2] = [Compression::None, Compression::Zstd(1)];

fn read(bytes: &[u8]) -> (Vec<Stamped>, Totals) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut found = Vec::new();
    while let Some(stamped) = reader.next_event().unwrap() {
        found.push(stamped.clone());
    }
    (found, reader.totals())
}

/// Like `assert_eq!`, but shows only the first event in which two streams differ.
fn assert_same(found: &[Stamped], written: &[Stamped], what: &str) {
    let parting = found.iter().zip(written).position(|(a, b)| a != b);
    if let Some(at) = parting {
        panic!("{what}: event {at} is {:?}, not {:?}", found[at], written[at]);
    }
    assert_eq!(found.len(), written.len(), "{what}");
}

/// The events without restated names.
fn without_names(events: Vec<Stamped>) -> Vec<Stamped> {
    events.into_iter().filter(|stamped| !matches!(stamped.event, Event::Task(_))).collect()
}

#[test]
fn written_events_are_read_back_in_order() {
    for compression in BOTH {
        let written = events(1, 5000);
        let (found, totals) = read(&file(&written, compression));
        assert_same(&without_names(found), &written, "whole file");
        assert_eq!((totals.events, totals.lost, totals.damaged_bytes), (5000, 0, 0));
        assert_eq!(totals.ending, Ending::Finished);
        assert_eq!(totals.end_ns, written.last().unwrap().time_ns + 1);
    }
}

/// The tasks that an event mentions. The child of a fork is left out, since the fork names it.
fn mentioned(event: &Event) -> Vec<Tid> {
    match event {
        Event::Switch(switch) => vec![switch.prev, switch.next],
        Event::Waking(waking) => vec![waking.waker, waking.wakee],
        Event::Wakeup(wakeup) => vec![wakeup.tid],
        Event::Fork(fork) => vec![fork.parent],
        Event::Exec(exec) => vec![exec.tid],
        Event::Exit(exit) => vec![exit.tid],
        Event::Comm(rename) => vec![rename.tid],
        Event::Prio(prio) => vec![prio.tid],
        Event::Migrate(migrate) => vec![migrate.tid],
        Event::TimerExpire(expire) => vec![expire.tid],
        Event::NeedResched(need) => vec![need.tid],
        Event::Ipc(ipc) => vec![ipc.tid],
        Event::Mark(mark) => vec![mark.tid],
        Event::Stack(stack) => vec![stack.tid],
        Event::Stat(stat) => vec![stat.tid],
        Event::Throttled(throttled) => vec![throttled.tid],
        Event::Affinity(affinity) => vec![affinity.tid],
        Event::Task(_)
        | Event::Tick(_)
        | Event::IrqEnter(_)
        | Event::IrqExit(_)
        | Event::SoftirqEnter(_)
        | Event::SoftirqExit(_)
        | Event::ScheduleEnter
        | Event::ScheduleExit
        | Event::IdleState(_)
        | Event::Lost(_) => Vec::new(),
    }
}

#[test]
fn every_task_is_named_before_it_is_mentioned() {
    let (found, totals) = read(&file(&events(2, 2000), Compression::Zstd(1)));
    assert_eq!(totals.events, 2000);
    let renames = found.iter().filter_map(|stamped| match stamped.event {
        Event::Comm(rename) => Some(rename.tid),
        _ => None,
    });
    let ever_renamed: BTreeSet<Tid> = renames.collect();
    let (mut known, mut renamed, mut mentions) = (BTreeSet::new(), BTreeSet::new(), 0);
    for stamped in found {
        for tid in mentioned(&stamped.event) {
            mentions += 1;
            assert!(tid.is_idle() || known.contains(&tid), "{stamped:?}");
        }
        match stamped.event {
            Event::Task(info) => {
                // A restated name has the time of the CPU's previous event, which may be before the renaming.
                let (name, old) = (info.comm.to_string(), format!("task {}", info.tid));
                let is_new = name == RENAMED && ever_renamed.contains(&info.tid);
                assert!(is_new || (name == old && !renamed.contains(&info.tid)), "{info:?}");
                known.insert(info.tid);
            }
            Event::Comm(rename) => {
                renamed.insert(rename.tid);
            }
            _ => {}
        }
    }
    // All tasks but the idle task are known.
    assert_eq!(known.len(), 39);
    assert!(mentions >= 2000, "{mentions} mentions");
}

#[test]
fn numbers_in_a_namespace_come_back_from_any_place() {
    for compression in BOTH {
        let whole = file(&events(12, 3000), compression);
        let mut reader = Reader::starting_at(Cursor::new(&whole[..]), START_NS + 30_000_000).unwrap();
        let mut seen = BTreeSet::new();
        while let Some(stamped) = reader.next_event().unwrap() {
            let Event::Task(info) = stamped.event else { continue };
            if info.tid.0 >= 40 * 97 {
                continue;
            }
            let expected = (info.tid.0 % 2 == 0).then(|| (info.tid.0 / 97 + 1, 1));
            assert_eq!(info.inner.map(|inner| (inner.tid.0, inner.tgid.0)), expected, "{info:?}");
            seen.insert(info.tid);
        }
        assert_eq!((seen.len(), reader.totals().damaged_bytes), (39, 0));
    }
}

#[test]
fn throttled_tasks_come_back_and_count_as_no_events() {
    let limit = |group: &str, quota_ns| {
        std::sync::Arc::new(Limit { group: group.into(), quota_ns, period_ns: 100_000_000 })
    };
    let throttled = |throttled_ns, limit| Event::Throttled(Throttled { tid: Tid(97), throttled_ns, limit });
    let at = |time_ns, event| Stamped { time_ns, cpu: 0, event };
    let written = [
        at(START_NS + 5, throttled(None, limit("/a", 10_000_000))),
        at(START_NS + 7, throttled(Some(0), limit("", 0))),
        at(START_NS + 9, throttled(Some(u64::MAX - 1), limit("/\u{20ac}/b", u64::MAX))),
        at(START_NS + 9, Event::ScheduleEnter),
    ];
    for compression in BOTH {
        let mut writer = Writer::new(Vec::new(), &header(), options(compression)).unwrap();
        written.iter().for_each(|stamped| writer.event(stamped).unwrap());
        let (bytes, summary) = writer.finish(START_NS + 10).unwrap();
        let (found, totals) = read(&bytes);
        assert_same(&without_names(found), &written, "throttled");
        assert_eq!((summary.events, totals.events, totals.lost, totals.damaged_bytes), (1, 1, 0, 0));
    }
}

#[test]
fn idle_states_come_back_and_count_as_no_events() {
    let numbers = [0, 1, 3, 126, 127, 128, u32::MAX - 1];
    // The events of an idle CPU repeat, so that most records are predicted.
    let states = (0..600).flat_map(|round: usize| {
        let number = if round < 7 { numbers[round] } else { 1 };
        [Some(number), None]
    });
    let mut written: Vec<Stamped> = (1..)
        .zip(states)
        .map(|(at, state)| {
            let time_ns = START_NS + at * 70_001;
            Stamped { time_ns, cpu: 1, event: Event::IdleState(state) }
        })
        .collect();
    let end_ns = written[written.len() - 1].time_ns + 2;
    written.push(Stamped { time_ns: end_ns - 1, cpu: 0, event: Event::ScheduleExit });
    for compression in BOTH {
        let mut writer = Writer::new(Vec::new(), &header(), options(compression)).unwrap();
        for stamped in &written {
            writer.event(stamped).unwrap();
            writer.round(stamped.time_ns).unwrap();
        }
        let (bytes, summary) = writer.finish(end_ns).unwrap();
        let (found, totals) = read(&bytes);
        assert_same(&found, &written, "idle states");
        assert_eq!((summary.events, totals.events, totals.lost, totals.damaged_bytes), (1, 1, 0, 0));
    }
}

#[test]
fn affinities_come_back_and_count_as_no_events() {
    let at = |time_ns, event| Stamped { time_ns, cpu: 0, event };
    let bound = |tid, cpus| Event::Affinity(Affinity { tid: Tid(tid), cpus });
    let written = [
        at(START_NS + 5, bound(97, 1)),
        at(START_NS + 5, bound(4_000_000, 8192)),
        at(START_NS + 70_000, bound(97, 200)),
        at(START_NS + 70_001, Event::ScheduleEnter),
    ];
    for compression in BOTH {
        let mut writer = Writer::new(Vec::new(), &header(), options(compression)).unwrap();
        written.iter().for_each(|stamped| writer.event(stamped).unwrap());
        let (bytes, summary) = writer.finish(START_NS + 70_002).unwrap();
        let (found, totals) = read(&bytes);
        assert_same(&without_names(found), &written, "affinities");
        assert_eq!((summary.events, totals.events, totals.lost, totals.damaged_bytes), (1, 1, 0, 0));
    }
}

#[test]
fn a_group_of_a_later_version_is_passed_over() {
    let groups: Groups = serde_json::from_str(r#"["sched", "tomorrow", "idle"]"#).unwrap();
    assert_eq!(groups.iter().collect::<Vec<_>>(), [Group::Sched, Group::Idle]);
    assert_eq!(serde_json::to_string(&groups).unwrap(), r#"["sched","idle"]"#);
}

#[test]
fn a_file_cut_anywhere_reads_to_its_last_whole_frame() {
    let written = events(3, 160);
    for compression in BOTH {
        let whole = file(&written, compression);
        let header_bytes = whole.len() - body(&whole).len();
        let mut best = 0;
        for len in header_bytes..whole.len() {
            let (found, totals) = read(&whole[..len]);
            let found = without_names(found);
            assert_same(&found, &written[..found.len()], "cut");
            assert_eq!(totals.lost, 0, "cut at {len}");
            assert!(found.len() >= best, "cut at {len}");
            best = found.len();
        }
        assert_eq!(best, written.len());
    }
}

fn body(file: &[u8]) -> &[u8] {
    let len = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    &file[16 + len + 4..]
}

#[test]
fn a_cut_header_is_an_error_and_other_files_are_refused() {
    let whole = file(&events(4, 10), Compression::None);
    for len in 0..whole.len() - body(&whole).len() {
        assert!(Reader::new(&whole[..len]).is_err(), "cut at {len}");
    }
    assert!(matches!(Reader::new(&b"PERFILE2 and so on"[..]), Err(ReadError::NotATrace)));
    let mut later = whole;
    later[8] = 9;
    assert!(matches!(Reader::new(&later[..]), Err(ReadError::Version(9))));
}

#[test]
fn damage_costs_what_is_damaged_and_is_counted() {
    let written = events(5, 4000);
    for compression in BOTH {
        let whole = file(&written, compression);
        let mut random = common::Random::new(6);
        for _ in 0..50 {
            let mut damaged = whole.clone();
            let body_at = whole.len() - body(&whole).len();
            let at = body_at + random.below((whole.len() - body_at - 200) as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
            let (found, totals) = read(&damaged);
            assert!(totals.damaged_bytes > 0, "at {at}");
            assert!(found.is_sorted_by_key(|stamped| stamped.time_ns));
            // Blocks are short here: the rest of a few blocks is lost, and nearly all events in it are
            // counted as lost.
            assert!(totals.events > 3000, "at {at}: {}", totals.events);
            assert!(
                totals.events + totals.lost <= 4000 && totals.events + totals.lost > 3400,
                "at {at}: {totals:?}"
            );
        }
    }
}

#[test]
fn losses_are_counted_by_cpu_and_stand_where_they_happened() {
    let mut writer = Writer::new(Vec::new(), &header(), options(Compression::None)).unwrap();
    let written = events(7, 10);
    for stamped in &written {
        writer.event(stamped).unwrap();
    }
    let end_ns = written[9].time_ns + 10;
    writer.lost(1, end_ns, 17).unwrap();
    writer.lost(2, end_ns, 4).unwrap();
    let (bytes, summary) = writer.finish(end_ns + 1).unwrap();
    assert_eq!((summary.events, summary.lost), (10, 21));
    let (found, totals) = read(&bytes);
    assert_eq!((totals.lost, totals.lost_per_cpu), (21, vec![0, 17, 4]));
    let last = &found[found.len() - 2];
    assert_eq!((last.cpu, &last.event), (1, &Event::Lost(Lost { count: 17 })));
}

#[test]
fn reading_can_begin_in_the_middle() {
    let written = events(8, 5000);
    for compression in BOTH {
        let whole = file(&written, compression);
        for cut in [0, 17, 1000] {
            let bytes = &whole[..whole.len() - cut];
            let from_ns = written[3200].time_ns;
            let mut reader = Reader::starting_at(Cursor::new(bytes), from_ns).unwrap();
            let mut found = Vec::new();
            while let Some(stamped) = reader.next_event().unwrap() {
                found.push(stamped.clone());
            }
            let found = without_names(found);
            let skipped =
                5000 - found.len() - if cut > 20 { 5000 - without_names(read(bytes).0).len() } else { 0 };
            assert!((2000..=3200).contains(&skipped), "{skipped} of 3200 skipped");
            assert_same(&found[..500], &written[skipped..skipped + 500], "from the middle");
            assert_eq!(reader.totals().lost, 0);
        }
    }
}

#[test]
fn an_older_event_after_a_promise_is_moved_up_to_it() {
    let mut writer = Writer::new(Vec::new(), &header(), options(Compression::None)).unwrap();
    let late = |time_ns| Stamped { time_ns, cpu: 0, event: Event::ScheduleEnter };
    writer.event(&late(START_NS + 100)).unwrap();
    writer.round(START_NS + 200).unwrap();
    writer.event(&late(START_NS + 150)).unwrap();
    let (found, _) = read(&writer.finish(START_NS + 300).unwrap().0);
    assert_eq!(found.iter().map(|stamped| stamped.time_ns - START_NS).collect::<Vec<_>>(), [100, 200]);
}

#[test]
fn an_event_on_a_cpu_that_the_header_lacks_is_refused() {
    let mut writer = Writer::new(Vec::new(), &header(), options(Compression::None)).unwrap();
    assert!(writer.event(&Stamped { time_ns: START_NS, cpu: CPUS, event: Event::ScheduleExit }).is_err());
}

#[test]
fn plain_and_compressed_blocks_mix() {
    // The CPU is quiet, then busy, then quiet again.
    let written = events(11, 6000);
    let file = |compress_bytes| {
        let options = Options { compression: Compression::Zstd(1), compress_bytes, ..Options::default() };
        let mut writer = Writer::new(Vec::new(), &header(), options).unwrap();
        for (number, stamped) in written.iter().enumerate() {
            writer.event(stamped).unwrap();
            let every = if (2000..4000).contains(&number) { 1000 } else { 20 };
            if number % every == every - 1 {
                writer.round(stamped.time_ns).unwrap();
            }
        }
        writer.finish(written[5999].time_ns).unwrap().0
    };
    let (chosen, never, always) = (file(Options::default().compress_bytes), file(usize::MAX), file(0));
    assert!(chosen != never && chosen != always);
    let (found, totals) = read(&chosen);
    assert_same(&without_names(found), &written, "mixed");
    assert_eq!((totals.lost, totals.damaged_bytes), (0, 0));
}

#[test]
fn no_bytes_make_the_reader_panic_or_run_away() {
    let whole = file(&events(9, 600), Compression::Zstd(1));
    let body_at = whole.len() - body(&whole).len();
    let mut random = common::Random::new(10);
    for round in 0..1000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 20 {
            let at = body_at + random.below((bytes.len() - body_at) as u64) as usize;
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = random.below(256) as u8,
                2 => bytes.insert(at, 0xf7),
                _ => {
                    let from = random.below(bytes.len() as u64) as usize;
                    bytes.extend_from_within(from..);
                    bytes.truncate(60_000);
                }
            }
            if bytes.len() <= body_at {
                break;
            }
        }
        fix_checksums(&mut bytes, body_at);
        if let Ok(mut reader) = Reader::new(&bytes[..]) {
            while reader.next_event().unwrap().is_some() {}
        }
    }
}
