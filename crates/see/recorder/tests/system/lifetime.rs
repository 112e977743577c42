//! Recordings as a whole on the real kernel: on and off, two at once, files, failures. Needs root.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{TraceFile, now_ns, own_tid, read, record, start};
use spry_recorder::{Error, Recorder, Switch};
use spry_trace::event::{Event, Lost};

fn doze(times: u32) {
    (0..times).for_each(|_| thread::sleep(Duration::from_millis(1)));
}

#[test]
fn nothing_is_recorded_while_switched_off_and_everything_after() {
    let file = TraceFile::new();
    let recording = start(&file.0, &[]);
    doze(20);
    recording.set_enabled(Switch::Off).unwrap();
    let off_ns = now_ns();
    doze(200);
    let on_ns = now_ns();
    recording.set_enabled(Switch::On).unwrap();
    doze(20);
    recording.stop().unwrap();
    let (_, events) = read(&file.0);
    let tid = own_tid();
    let mut gets = [0, 0, 0];
    for stamped in &events {
        if let Event::Switch(switch) = stamped.event {
            let part = usize::from(stamped.time_ns > off_ns) + usize::from(stamped.time_ns > on_ns);
            gets[part] += u32::from(switch.next == tid);
        }
    }
    assert!(gets[0] >= 15 && gets[1] <= 1 && gets[2] >= 15, "{gets:?}");
    let gaps = events.iter().filter(|stamped| stamped.event == Event::Lost(Lost { count: 0 })).count();
    assert!(gaps >= 1, "the gap is told");
}

#[test]
fn two_recorders_see_the_same() {
    let (one, other) = (TraceFile::new(), TraceFile::new());
    let recordings = [start(&one.0, &[]), start(&other.0, &[])];
    let (begin_ns, tid) = (now_ns(), own_tid());
    doze(100);
    let end_ns = now_ns();
    for recording in recordings {
        assert_eq!(recording.stop().unwrap().lost, 0);
    }
    let seen = |file: &TraceFile| {
        let (_, events) = read(&file.0);
        let switches = events.into_iter().filter_map(|stamped| match stamped.event {
            Event::Switch(switch) if (begin_ns..end_ns).contains(&stamped.time_ns) => {
                (switch.prev == tid || switch.next == tid).then_some((switch.prev, switch.next))
            }
            _ => None,
        });
        switches.collect::<Vec<_>>()
    };
    let (one, other) = (seen(&one), seen(&other));
    assert!(one.len() >= 190);
    assert_eq!(one, other);
}

#[test]
fn a_trace_is_for_its_owner_only() {
    let file = TraceFile::new();
    fs::write(&file.0, "something older").unwrap();
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o644)).unwrap();
    start(&file.0, &[]).stop().unwrap();
    assert_eq!(fs::metadata(&file.0).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(read(&file.0).1.len() > 10);
}

#[test]
fn a_full_disk_ends_the_recording_with_one_clear_line() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let recording = Recorder::builder().start(full).expect("these tests need root");
    let begin = Instant::now();
    while !recording.has_failed() && begin.elapsed() < Duration::from_secs(5) {
        doze(1);
    }
    assert!(recording.has_failed());
    let error = recording.stop().unwrap_err();
    assert!(matches!(error, Error::Write(_)));
    assert!(!error.to_string().contains('\n'));
}

#[test]
fn events_are_on_the_disk_within_a_tenth_of_a_second() {
    let file = TraceFile::new();
    let recording = start(&file.0, &[]);
    doze(100);
    let now_ns = now_ns();
    thread::sleep(Duration::from_millis(200));
    // The file is read now, as if the recorder had been killed here.
    let (_, events) = read(&file.0);
    assert!(events.iter().any(|stamped| stamped.time_ns > now_ns));
    recording.stop().unwrap();
}

#[test]
fn a_ring_of_an_impossible_size_is_refused() {
    for ring_bytes in [0, 1 << 16, 3 << 20] {
        let file = TraceFile::new();
        let sink = spry_recorder::create(&file.0).unwrap();
        let error = Recorder::builder().ring_bytes(ring_bytes).start(sink).err();
        assert!(matches!(error, Some(Error::RingSize(_))), "{ring_bytes}");
    }
}

#[test]
fn statistics_say_what_the_trace_holds() {
    let recorded = record(&[], || doze(50));
    let events = recorded.events.iter().filter(|stamped| stamped.event.is_counted()).count();
    assert_eq!(recorded.statistics.events, events as u64);
    assert!(recorded.statistics.drain_cpu_ns > 0 && recorded.statistics.duration_ns >= 50_000_000);
    assert_eq!(recorded.header.recorder_tgid, Some(std::process::id()));
}
