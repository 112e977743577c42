//! Helpers of the recorder's tests on the real kernel. They need root.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use spry_recorder::{Recorder, Recording, Statistics, create};
use spry_trace::event::Event;
use spry_trace::{Group, Groups, Header, Reader, Stamped, Tid};

/// A file that is removed at the end of its test.
pub struct TraceFile(pub PathBuf);

impl TraceFile {
    pub fn new() -> TraceFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        TraceFile(std::env::temp_dir().join(format!("spry-test-{}-{number}.spry", std::process::id())))
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The result of a recording.
pub struct RecordedTrace {
    pub header: Header,
    pub events: Vec<Stamped>,
    pub statistics: Statistics,
}

impl RecordedTrace {
    /// The times at which a CPU was held by a task that the machine hides, ns. Some virtual machines have
    /// threads of their own in the guest. No list of tasks names them, and while such a thread runs, no
    /// tracepoint on that CPU reaches any program.
    pub fn hidden(&self) -> Vec<Range<u64>> {
        let named = |stamped: &Stamped| match stamped.event {
            Event::Task(task) => Some((task.tid, task.comm.to_string())),
            _ => None,
        };
        let names: HashMap<Tid, String> = self.events.iter().filter_map(named).collect();
        let mut held: HashMap<u16, (Tid, u64)> = HashMap::new();
        let mut spans = Vec::new();
        let is_hidden = |tid: Tid| names.get(&tid).is_some_and(String::is_empty);
        for stamped in &self.events {
            if let Event::Switch(switch) = stamped.event {
                let before = held.insert(stamped.cpu, (switch.next, stamped.time_ns));
                spans.extend(
                    before.filter(|before| is_hidden(before.0)).map(|before| before.1..stamped.time_ns),
                );
            }
        }
        spans.extend(held.into_values().filter(|last| is_hidden(last.0)).map(|last| last.1..u64::MAX));
        spans
    }
}

pub fn start(path: &Path, groups: &[Group]) -> Recording {
    let groups: Groups = groups.iter().copied().collect();
    let file = create(path).expect("the file can be made");
    Recorder::builder().groups(groups).start(file).expect("these tests need root and a kernel with BTF")
}

pub fn read(path: &Path) -> (Header, Vec<Stamped>) {
    let mut reader = Reader::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event.clone());
    }
    (reader.header().clone(), events)
}

/// Records while `work` runs.
pub fn record(groups: &[Group], work: impl FnOnce()) -> RecordedTrace {
    let file = TraceFile::new();
    let recording = start(&file.0, groups);
    work();
    let statistics = recording.stop().unwrap();
    let (header, events) = read(&file.0);
    RecordedTrace { header, events, statistics }
}

/// The calling thread.
pub fn own_tid() -> Tid {
    // SAFETY: no preconditions.
    Tid(unsafe { libc::gettid() } as u32)
}

/// Keeps the calling thread on one CPU.
pub fn pin(cpu: usize) {
    // SAFETY: a zeroed set is a valid one, and it lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// The clock of the trace, ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A pipe's two ends: to read from and to write to. (The standard library's own needs a newer Rust
/// than Debian's.)
pub fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    let status = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors are new, and nothing else owns them.
    ends.map(|end| File::from(unsafe { OwnedFd::from_raw_fd(end) })).into()
}
