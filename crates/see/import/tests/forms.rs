//! Every form of file gives the same events for the same records, and damaged files are read safely.

mod forge;
mod guests;

use std::io::Cursor;

use spry_import::{Import, ImportError};
use spry_trace::event::{Event, PrevState};
use spry_trace::reader::Ending;
use spry_trace::{Group, Groups, Kind, Stamped, Tgid, Totals};

/// The number of rounds of records; every form has several pages or rounds of them.
const ROUNDS: u64 = 30;

fn read(file: &[u8]) -> Result<(Vec<Stamped>, Totals), ImportError> {
    let mut import = Import::open(Cursor::new(file))?;
    let mut events = Vec::new();
    while let Some(stamped) = import.next_event()? {
        events.push(stamped.clone());
    }
    Ok((events, import.totals()))
}

/// The events without losses, and without names, which the forms give at different times.
fn happened(events: &[Stamped]) -> Vec<Stamped> {
    let is_told = |stamped: &&Stamped| !matches!(stamped.event, Event::Task(_) | Event::Lost(_));
    events.iter().filter(is_told).cloned().collect()
}

/// The number of events that totals count: as in Spry's own traces, idle states are not among them.
fn counted(events: &[Stamped]) -> u64 {
    let is_idle = |stamped: &&Stamped| matches!(stamped.event, Event::IdleState(_));
    let happened = happened(events);
    (happened.len() - happened.iter().filter(is_idle).count()) as u64
}

#[test]
fn every_form_of_file_gives_the_same_events() {
    let records = forge::happening(ROUNDS);
    let forms = forge::forms(&records);
    let (first, _) = read(&forms[0].1).unwrap();
    assert_eq!(happened(&first).len(), records.len());
    for (name, file) in forms {
        let (events, totals) = read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(happened(&events), happened(&first), "{name}");
        assert_eq!((totals.lost, totals.lost_per_cpu.as_slice()), (7, &[0, 7][..]), "{name}");
        assert_eq!((totals.ending, totals.damaged_bytes), (Ending::Finished, 0), "{name}");
        assert_eq!(totals.events, counted(&events), "{name}");
        let times: Vec<u64> = events.iter().map(|stamped| stamped.time_ns).collect();
        assert!(times.is_sorted(), "{name}");
        let tasks = events.iter().filter(|stamped| matches!(stamped.event, Event::Task(_))).count();
        assert_eq!(tasks, 4, "{name} names each task once");
    }
}

#[test]
fn a_packed_record_is_unpacked_to_its_end() {
    let mut records = forge::happening(1000);
    let last_ns = records.last().unwrap().time_ns;
    // So many equal records are added that few bytes unpack to many.
    let again = forge::happening(1).into_iter().next().unwrap();
    records.extend((0..5000).map(|_| forge::Record { time_ns: last_ns, ..again.clone() }));
    let (events, totals) = read(&forge::perf_compressed(&records)).unwrap();
    assert_eq!(totals.events, counted(&events));
    assert_eq!(happened(&events).len(), records.len());
}

#[test]
fn the_header_says_what_the_file_does() {
    for (name, file) in forge::forms(&forge::happening(1)) {
        let import = Import::open(Cursor::new(file)).unwrap();
        let header = import.header();
        assert_eq!(
            (header.kernel.as_str(), header.cpus, header.clock.as_str()),
            ("6.1.0", 2, "monotonic"),
            "{name}"
        );
        assert_eq!(header.start_ns, 1_000_000, "{name}");
        let groups = Groups::NONE.with(Group::Sched).with(Group::Idle);
        assert_eq!(header.groups, groups, "{name}: nothing else was recorded");
        assert!(import.notes().is_empty(), "{name}");
        // perf describes only tracepoints that it recorded, and records new tasks. trace-cmd may describe
        // tracepoints that it did not record.
        let unproven: Vec<Kind> = if name.starts_with("perf") {
            vec![Kind::Migration, Kind::Tick, Kind::Stolen]
        } else {
            Kind::ALL.to_vec()
        };
        assert_eq!(header.unproven.iter().collect::<Vec<_>>(), unproven, "{name}");
    }
}

#[test]
fn idle_states_are_entered_and_left_on_their_cpu() {
    for (name, file) in forge::forms(&forge::happening(2)) {
        let (events, _) = read(&file).unwrap();
        let states = |cpu| -> Vec<Option<u32>> {
            let on_cpu = events.iter().filter(|stamped| stamped.cpu == cpu);
            let state = |stamped: &Stamped| match stamped.event {
                Event::IdleState(state) => Some(state),
                _ => None,
            };
            on_cpu.filter_map(state).collect()
        };
        assert_eq!(states(0), [Some(2), None, Some(2), None], "{name}");
        assert_eq!(states(1), states(0), "{name}");
    }
}

#[test]
fn states_and_processes_are_those_of_the_file() {
    let (events, _) = read(&forge::perf_plain(&forge::happening(2))).unwrap();
    let states: Vec<PrevState> = events
        .iter()
        .filter_map(|stamped| match stamped.event {
            Event::Switch(switch) if switch.prev.0 == 12 => Some(switch.prev_state),
            _ => None,
        })
        .collect();
    assert_eq!(states, [PrevState::Sleeping, PrevState::Preempted]);
    let tgid = events.iter().find_map(|stamped| match stamped.event {
        Event::Task(info) if info.tid.0 == 12 => Some(info.tgid),
        _ => None,
    });
    assert_eq!(tgid, Some(Tgid(5)), "perf had said so before the first event");
}

/// The states in which the second task of CPU 0 leaves it, in files of this text and these raw states, and
/// the files' notes.
fn states_with(text: &str, states: &[u64]) -> Vec<(Vec<PrevState>, String)> {
    let mut records = forge::happening(states.len() as u64);
    let is_second = |record: &&mut forge::Record| {
        record.data[..2] == 300u16.to_le_bytes() && record.data[28..32] == 12u32.to_le_bytes()
    };
    for (record, state) in records.iter_mut().filter(is_second).zip(states) {
        record.data[40..48].copy_from_slice(&state.to_le_bytes());
    }
    let unpacked = [
        forge::perf_plain(&records),
        forge::perf_piped(&records),
        forge::trace_dat_6(&records),
        forge::trace_dat_7(&records, forge::Packing::None),
    ];
    let read_with = |mut file: Vec<u8>| {
        forge::describe_states(&mut file, text);
        let switches = read(&file).unwrap().0.into_iter();
        let states = switches.filter_map(|stamped| match stamped.event {
            Event::Switch(switch) if switch.prev.0 == 12 => Some(switch.prev_state),
            _ => None,
        });
        (states.collect(), notes(&file))
    };
    unpacked.map(read_with).into()
}

#[test]
fn preemption_is_read_as_each_kernel_writes_it() {
    use PrevState::{DiskSleep, Preempted, Runnable, Sleeping, Stopped};
    let cases = [
        // The bits of 4.9, of 4.4, and of today.
        (
            r#"{1,"S"},{2,"D"},{64,"x"},S&4096? "+""#,
            [1, 0x1000, 2, 0],
            [Sleeping, Preempted, DiskSleep, Runnable],
        ),
        (
            r#"{1,"S"},{2,"D"},{64,"x"},S&2048? "+""#,
            [1, 0x800, 0x802, 4],
            [Sleeping, Preempted, Preempted, PrevState::Other],
        ),
        (
            r#"{1,"S"},{2,"D"},{64,"P"},S&256? "+""#,
            [1, 0x100, 2, 0],
            [Sleeping, Preempted, DiskSleep, Runnable],
        ),
    ];
    for (text, raw, expected) in cases {
        for (states, notes) in states_with(text, &raw) {
            assert_eq!((states.as_slice(), &*notes), (&expected[..], ""), "{text}");
        }
    }
    // The first kernels of 4.14 wrote places instead of bits.
    let text = r#"S&255, "|",{1,"S"},{2,"D"},{4,"T"},S&4096? "+""#;
    for (states, notes) in states_with(text, &[1, 0x1000, 3, 0]) {
        assert_eq!(states, [Sleeping, Preempted, Stopped, Runnable]);
        assert!(notes.contains("4.14"), "{notes}");
    }
}

#[test]
fn without_wake_ups_a_waking_makes_its_task_runnable() {
    let mut wakings = forge::woken_elsewhere();
    wakings.retain(|record| record.data[..2] != 302u16.to_le_bytes());
    let unpacked = [
        forge::perf_plain(&wakings),
        forge::perf_piped(&wakings),
        forge::trace_dat_6(&wakings),
        forge::trace_dat_7(&wakings, forge::Packing::None),
    ];
    for mut file in unpacked {
        let wakeups = |file: &[u8]| -> Vec<(u64, u32)> {
            let events = read(file).unwrap().0.into_iter();
            let wakeups = events.filter_map(|stamped| match stamped.event {
                Event::Wakeup(wakeup) => Some((stamped.time_ns, wakeup.tid.0)),
                _ => None,
            });
            wakeups.collect()
        };
        assert_eq!(wakeups(&file), [], "the file may have lost its wake-ups");
        forge::undescribe(&mut file, "sched_wakeup");
        assert_eq!(wakeups(&file), [(3_000_000, 11)]);
    }
}

#[test]
fn a_file_cut_anywhere_reads_to_there_or_says_what_is_missing() {
    let records = forge::happening(2);
    for (name, file) in forge::forms(&records) {
        let (whole, _) = read(&file).unwrap();
        for len in 0..file.len() {
            if let Ok((events, totals)) = read(&file[..len]) {
                let events = happened(&events);
                assert!(events.len() <= happened(&whole).len(), "{name} cut to {len}");
                let is_told =
                    totals.ending == Ending::Cut || totals.damaged_bytes > 0 || events == happened(&whole);
                // The piped form has no length: an end between two records is no error.
                assert!(is_told || name.ends_with("piped"), "{name} cut to {len} is told to be whole");
            }
        }
    }
}

#[test]
fn any_flipped_byte_is_survived() {
    let records = forge::happening(2);
    let flips = [0x01, 0x80, 0xff].into_iter().cycle();
    for (name, mut file) in forge::forms(&records) {
        for (at, flip) in (0..file.len()).zip(flips.clone()) {
            file[at] ^= flip;
            if let Ok((events, _)) = read(&file) {
                assert!(events.len() <= 4 * records.len() + 16, "{name}: byte {at} made events");
                assert!(
                    events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns),
                    "{name}: byte {at}"
                );
            }
            file[at] ^= flip;
        }
    }
}

#[test]
fn version_6_has_its_clock_after_the_list_of_cpus() {
    let records = forge::happening(1);
    for (clocks, clock, is_exact) in [
        ("local global counter [mono] boot\n", "monotonic", true),
        ("[local] global counter mono\n", "local", false),
        ("local [global] counter mono", "global", true),
        ("local global counter mono [tai]\n", "tai", true),
        // trace-cmd itself takes the default where the list is damaged.
        ("local global counter mono\n", "local", false),
        ("", "local", false),
    ] {
        let import = Import::open(Cursor::new(forge::trace_dat_6_of(&records, clocks.as_bytes()))).unwrap();
        assert_eq!(import.header().clock, clock, "{clocks}");
        assert_eq!(import.notes().is_empty(), is_exact, "{clocks}");
    }
}

#[test]
fn a_clock_that_counts_no_time_is_refused_by_name() {
    let records = forge::happening(1);
    for clock in ["counter", "uptime", "x86-tsc", "s390-tod", "of-next-year"] {
        let file = forge::trace_dat_6_of(&records, format!("local [{clock}] mono\n").as_bytes());
        match read(&file) {
            Err(ImportError::Clock(named)) => assert_eq!(named, clock),
            other => panic!("{clock}: {other:?}"),
        }
    }
    // In version 7 the buffer names its clock.
    let mut seven = forge::trace_dat_7(&records, forge::Packing::None);
    let at = seven.windows(6).rposition(|bytes| bytes == b"\0mono\0").unwrap() + 1;
    seven[at..at + 4].copy_from_slice(b"tick");
    assert!(matches!(read(&seven), Err(ImportError::Clock(named)) if named == "tick"));
}

/// The list of clocks of version 6, with the clock of all forms.
const CLOCKS: &[u8] = b"local global [mono] boot\n";

#[test]
fn records_of_all_buffers_are_read_in_order_of_time() {
    let records = forge::happening(ROUNDS);
    let plain = happened(&read(&forge::trace_dat_6(&records)).unwrap().0);
    let (switches, rest): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|record| record.data[..2] == 300u16.to_le_bytes());
    let seven =
        |buffers: &[(&str, &str, &[forge::Record])], packing| forge::trace_dat_7_of(buffers, packing, &[]);
    // trace-cmd writes the option of a text also for a top buffer without records.
    let text = forge::option(20, &[0; 8]);
    let files = [
        forge::trace_dat_6_in(&rest, CLOCKS, &[(&switches, CLOCKS)]),
        forge::trace_dat_6_in(&[], CLOCKS, &[(&switches, CLOCKS), (&rest, CLOCKS)]),
        seven(&[("", "mono", &rest), ("sched", "mono", &switches)], forge::Packing::Zstd),
        seven(&[("a", "mono", &switches), ("", "mono", &[]), ("b", "mono", &rest)], forge::Packing::None),
        forge::trace_dat_7_of(&[("a", "mono", &switches), ("b", "mono", &rest)], forge::Packing::Zlib, &text),
    ];
    for (number, file) in files.iter().enumerate() {
        let (events, totals) = read(file).unwrap_or_else(|error| panic!("file {number}: {error}"));
        assert_eq!(happened(&events), plain, "file {number}");
        assert_eq!((totals.ending, totals.damaged_bytes), (Ending::Finished, 0), "file {number}");
    }
}

#[test]
fn an_event_in_two_buffers_is_read_once() {
    let records = forge::happening(ROUNDS);
    let plain = happened(&read(&forge::trace_dat_6(&records)).unwrap().0);
    // Each buffer stamps an event by itself.
    let mut again = records.clone();
    again.iter_mut().for_each(|record| record.time_ns += 60);
    for buffers in [
        [("", "mono", &records[..]), ("again", "mono", &again[..])],
        [("", "mono", &again[..]), ("again", "mono", &records[..])],
    ] {
        let (events, _) = read(&forge::trace_dat_7_of(&buffers, forge::Packing::None, &[])).unwrap();
        assert_eq!(happened(&events), plain);
    }
}

#[test]
fn buffers_of_different_clocks_are_refused_by_name() {
    let records = forge::happening(1);
    let seven = [("", "mono", &records[..]), ("x", "global", &records[..])];
    let files = [
        forge::trace_dat_7_of(&seven, forge::Packing::None, &[]),
        forge::trace_dat_6_in(&records, CLOCKS, &[(&records, b"local [global] mono boot\n")]),
    ];
    for file in files {
        match read(&file) {
            Err(ImportError::Clocks(first, other)) => assert_eq!((&*first, &*other), ("mono", "global")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_list_of_buffers_without_end_needs_little_memory() {
    let records = forge::happening(1);
    let many: Vec<(&[forge::Record], &[u8])> = vec![(&records, CLOCKS); 5000];
    let (events, _) = read(&forge::trace_dat_6_in(&records, CLOCKS, &many)).unwrap();
    assert_eq!(happened(&events), happened(&read(&forge::trace_dat_6(&records)).unwrap().0));
}

/// The text of a file's notes.
fn notes(file: &[u8]) -> String {
    let mut import = Import::open(Cursor::new(file)).unwrap();
    while import.next_event().unwrap().is_some() {}
    import.notes().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn missing_switches_ask_for_what_would_bring_them() {
    // One in eight switches of the first CPU is missing: some are counted as lost, or far more than lost.
    let switches = |rounds| {
        let mut records = forge::happening(rounds);
        let mut at = 0;
        records.retain(|record| {
            at += u32::from(record.cpu == 0 && record.data[..2] == 300u16.to_le_bytes());
            record.cpu != 0 || record.data[..2] != 300u16.to_le_bytes() || at % 8 != 3
        });
        records
    };
    assert!(notes(&forge::perf_plain(&switches(10))).contains("larger buffers: `-m 8M`"));
    assert!(notes(&forge::trace_dat_6(&switches(10))).contains("larger buffers"));
    assert!(notes(&forge::perf_plain(&switches(300))).contains("without filters"));
}

#[test]
fn files_of_related_tools_are_named() {
    let error = |file: &[u8]| read(file).expect_err("it cannot be read").to_string();
    let records = forge::happening(1);
    let mut latency = forge::trace_dat_6(&records);
    let at = latency.windows(10).position(|bytes| bytes == b"flyrecord\0").unwrap();
    latency[at..at + 10].copy_from_slice(b"latency  \0");
    assert!(error(&latency).contains("text of a latency tracer"), "{}", error(&latency));
    // simpleperf counts its own features from 128 on.
    let mut simpleperf = forge::perf_plain(&records);
    simpleperf[72 + 16] |= 1;
    assert!(read(&simpleperf).is_ok(), "it has all that is needed");
    // The feature that describes the tracepoints.
    simpleperf[72] &= !(1 << 1);
    assert!(error(&simpleperf).contains("simpleperf"), "{}", error(&simpleperf));
    simpleperf[72 + 16] = 0;
    assert!(!error(&simpleperf).contains("simpleperf"), "{}", error(&simpleperf));
}

#[test]
fn unreadable_files_are_refused_with_the_reason() {
    let error = |file: &[u8]| read(file).expect_err("it cannot be read").to_string();
    assert!(matches!(read(b"SPRY"), Err(ImportError::Unknown)));
    let mut unknown = forge::trace_dat_6(&forge::happening(1));
    unknown[10] = b'5';
    assert!(error(&unknown).contains("version 5"));
    let plain = forge::perf_plain(&forge::happening(1));
    // The size of the data: perf writes it, and the formats, when it exits.
    let mut killed = plain.clone();
    killed[48..56].fill(0);
    assert!(error(&killed).contains("perf was killed"));
    // `enable_on_exec` of the first event, in the flags that follow 40 bytes after its start.
    let mut one_command = plain;
    one_command[112 + 41] |= 1 << 4;
    assert!(error(&one_command).contains("perf record -a"));
    let mut packed = forge::trace_dat_7(&forge::happening(1), forge::Packing::Zstd);
    let name_at = packed.windows(4).position(|bytes| bytes == b"zstd").unwrap();
    packed[name_at..name_at + 4].copy_from_slice(b"lzma");
    assert!(error(&packed).contains("`lzma`"));
}

#[test]
fn pages_that_belong_to_two_cpus_are_damage() {
    let mut file = forge::trace_dat_6(&forge::happening(1));
    let places_at = file.windows(10).position(|bytes| bytes == b"flyrecord\0").unwrap() + 10;
    file.copy_within(places_at..places_at + 16, places_at + 16);
    assert!(matches!(read(&file), Err(ImportError::Damaged("list of CPUs"))));
}

#[test]
fn a_section_that_is_named_without_end_is_damage() {
    let mut file = forge::trace_dat_7(&forge::happening(1), forge::Packing::None);
    let place_at = file.windows(9).position(|bytes| bytes == b"none\x001.0\0").unwrap() + 9;
    let section = |kind: u16, data: &[u8]| {
        [&u64::from(kind).to_le_bytes()[..], &(data.len() as u64).to_le_bytes(), data].concat()
    };
    // The names of the kernel's functions (19): one section of 1 MiB, named a thousand times.
    let names_at = file.len() as u64;
    let names = vec![b'\n'; 1 << 20];
    file.extend(section(19, &[&(names.len() as u32).to_le_bytes(), &names[..]].concat()));
    let name = [&19u16.to_le_bytes()[..], &8u32.to_le_bytes(), &names_at.to_le_bytes()].concat();
    let options_at = file.len() as u64;
    file.extend(section(0, &name.repeat(1000)));
    file[place_at..place_at + 8].copy_from_slice(&options_at.to_le_bytes());
    assert!(matches!(read(&file), Err(ImportError::Damaged("description of tracepoints"))));
}

#[test]
fn identifiers_that_many_events_name_are_damage() {
    let mut file = forge::perf_plain(&forge::happening(1));
    let attr = file[112..112 + 128].to_vec();
    let ids = (file.len() as u64, 1u64 << 20);
    file.resize(file.len() + (1 << 20), 0);
    let attrs_at = file.len() as u64;
    let attrs = [&attr[..], &ids.0.to_le_bytes(), &ids.1.to_le_bytes()].concat().repeat(64);
    file[24..32].copy_from_slice(&attrs_at.to_le_bytes());
    file[32..40].copy_from_slice(&(attrs.len() as u64).to_le_bytes());
    file.extend(attrs);
    assert!(matches!(read(&file), Err(ImportError::Damaged("list of events"))));
}

#[test]
fn a_number_that_no_cpu_has_is_damage() {
    let mut records = forge::happening(1);
    let wakeup = records.iter_mut().find(|record| record.data[..2] == 302u16.to_le_bytes()).unwrap();
    wakeup.data[32..36].copy_from_slice(&8192u32.to_le_bytes());
    let bytes = wakeup.data.len() as u64;
    for (name, file) in forge::forms(&records) {
        let (events, totals) = read(&file).unwrap();
        assert_eq!(happened(&events).len(), records.len() - 1, "{name}");
        assert_eq!((totals.damaged_bytes >= bytes, totals.events), (true, counted(&events)), "{name}");
    }
    // The last feature of the file is the number of CPUs.
    let mut file = forge::perf_plain(&records);
    let cpus_at = file.len() - 8;
    file[cpus_at..].copy_from_slice(&[0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
    assert_eq!(Import::open(Cursor::new(file)).unwrap().header().cpus, 8192);
}
