//! A trace as Perfetto protobuf: scheduling and interrupts as ftrace bundles, other events as track events.
//!
//! Perfetto has no monotonic clock among ftrace's, so the clock snapshot declares boot time equal to it. This
//! is right except for the time that the machine was suspended before the recording.

use std::io::Write;

use spry_trace::event::{Event, TaskInfo, Tid};
use spry_trace::{Header, Stamped};

use super::ftrace::{Form, Scene};
use super::protobuf::Message;
use super::tasks::{News, Tasks};
use super::tracks::{CLOCK_MONOTONIC, SEQUENCE_ID, TRACE_PACKET, Tracks};
use super::{Export, ExportError};

/// Fields of `TracePacket`.
mod packet {
    pub const FTRACE_EVENTS: u64 = 1;
    pub const PROCESS_TREE: u64 = 2;
    pub const CLOCK_SNAPSHOT: u64 = 6;
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE_ID: u64 = 10;
    pub const FTRACE_STATS: u64 = 34;
    pub const SYSTEM_INFO: u64 = 45;
}

const CLOCK_REALTIME: u64 = 1;
const CLOCK_BOOTTIME: u64 = 6;

/// A bundle is closed at this size, so that memory stays at some 100 KiB and 64 KiB more a CPU.
const BUNDLE_BYTES: usize = 32 << 10;

/// Writes Perfetto protobuf.
pub struct PerfettoExport<W: Write> {
    out: W,
    /// Packets that are not written yet.
    file: Message,
    cpus: Vec<CpuTrack>,
    tasks: Tasks,
    tracks: Tracks,
    /// Fields of a `ProcessTree` that is not in the file yet.
    tree: Message,
    time_ns: u64,
}

/// The buffered events and the state of one CPU.
#[derive(Default)]
struct CpuTrack {
    events: Message,
    /// Whether events were lost before the first of `events`.
    lossy: bool,
    lost: u64,
    current: Tid,
}

impl<W: Write> PerfettoExport<W> {
    /// Writes the clock snapshot and the facts on the machine.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn new(out: W, header: &Header) -> Result<PerfettoExport<W>, ExportError> {
        let cpus = (0..header.cpus).map(|_| CpuTrack::default()).collect();
        let mut export = PerfettoExport {
            out,
            file: Message::default(),
            cpus,
            tasks: Tasks::new(header),
            tracks: Tracks::default(),
            tree: Message::default(),
            time_ns: header.start_ns,
        };
        export.clocks(header);
        export.system(header);
        export.write_file()?;
        Ok(export)
    }

    fn clocks(&mut self, header: &Header) {
        let clock = |snapshot: &mut Message, id, time_ns| {
            snapshot.message(1, |clock| _ = clock.uint(1, id).uint(2, time_ns));
        };
        self.packet(header.start_ns, packet::CLOCK_SNAPSHOT, |snapshot| {
            clock(snapshot, CLOCK_BOOTTIME, header.start_ns);
            clock(snapshot, CLOCK_MONOTONIC, header.start_ns);
            if let Some(unix_ns) = header.start_unix_ns {
                clock(snapshot, CLOCK_REALTIME, unix_ns);
            }
        });
    }

    fn system(&mut self, header: &Header) {
        self.packet(header.start_ns, packet::SYSTEM_INFO, |info| {
            info.message(1, |name| {
                name.string(1, "Linux").string(3, &header.kernel).string(4, &header.arch);
            });
            info.uint(8, header.cpus);
        });
    }

    fn packet(&mut self, time_ns: u64, which: u64, fill: impl FnOnce(&mut Message)) {
        self.file.message(TRACE_PACKET, |message| {
            message.uint(packet::TIMESTAMP, time_ns).uint(packet::SEQUENCE_ID, SEQUENCE_ID);
            message.message(which, fill);
        });
    }

    /// `ProcessTree`: a process has the name of its first thread.
    fn name_task(&mut self, info: &TaskInfo) {
        let name = String::from_utf8_lossy(info.comm.as_bytes());
        if info.tid.0 == info.tgid.0 {
            self.tree.message(1, |process| {
                process.uint(1, info.tgid.0).string(3, &name).uint(9, true);
            });
        }
        self.tree.message(2, |thread| {
            thread.uint(1, info.tid.0).string(2, &name).uint(3, info.tgid.0);
        });
    }

    fn lose(&mut self, cpu: u16, count: u64) {
        self.close_bundle(cpu);
        let cpu = &mut self.cpus[usize::from(cpu)];
        cpu.lossy = true;
        cpu.lost = cpu.lost.saturating_add(count);
    }

    fn close_tree(&mut self) {
        if self.tree.is_empty() {
            return;
        }
        let tree = std::mem::take(&mut self.tree);
        self.packet(self.time_ns, packet::PROCESS_TREE, |message| message.append(&tree));
    }

    fn close_bundle(&mut self, number: u16) {
        let cpu = &mut self.cpus[usize::from(number)];
        if cpu.events.is_empty() && !cpu.lossy {
            return;
        }
        self.file.message(TRACE_PACKET, |message| {
            message.uint(packet::SEQUENCE_ID, SEQUENCE_ID);
            message.message(packet::FTRACE_EVENTS, |bundle| {
                bundle.uint(1, number);
                bundle.append(&cpu.events);
                if cpu.lossy {
                    bundle.uint(3, true);
                }
            });
        });
        cpu.events.clear();
        cpu.lossy = false;
    }

    /// Writes `FtraceStats` at the end: Perfetto's viewer takes losses from its `overrun`.
    fn stats(&mut self) {
        let lost: Vec<u64> = self.cpus.iter().map(|cpu| cpu.lost).collect();
        self.packet(self.time_ns, packet::FTRACE_STATS, |stats| {
            stats.uint(1, 2u64);
            for (cpu, &overrun) in lost.iter().enumerate() {
                stats.message(2, |message| _ = message.uint(1, cpu as u64).uint(3, overrun));
            }
        });
    }

    fn write_file(&mut self) -> Result<(), ExportError> {
        self.out.write_all(self.file.bytes())?;
        self.file.clear();
        Ok(())
    }
}

impl<W: Write> Export for PerfettoExport<W> {
    fn event(&mut self, stamped: &Stamped) -> Result<(), ExportError> {
        let number = usize::from(stamped.cpu);
        if self.cpus.len() <= number {
            self.cpus.resize_with(number + 1, CpuTrack::default);
        }
        self.time_ns = stamped.time_ns;
        let news = self.tasks.learn(stamped.cpu, &stamped.event);
        match &stamped.event {
            Event::Task(info) if news == News::Told => self.name_task(info),
            Event::Task(_) => {}
            Event::Lost(lost) => self.lose(stamped.cpu, lost.count),
            _ => {}
        }
        let cpu = &mut self.cpus[number];
        let scene = Scene { tasks: &self.tasks, current: cpu.current };
        if scene.encode(&mut cpu.events, stamped) == Form::None {
            self.tracks.encode(&mut self.file, stamped, &self.tasks);
        }
        if let Event::Switch(switch) = &stamped.event {
            cpu.current = switch.next;
            if switch.prev_state.is_exit() {
                self.tracks.forget(switch.prev);
            }
        }
        self.tasks.forget(&stamped.event);
        if cpu.events.bytes().len() >= BUNDLE_BYTES {
            self.close_bundle(stamped.cpu);
        }
        if self.tree.bytes().len() >= BUNDLE_BYTES {
            self.close_tree();
        }
        if self.file.bytes().len() >= BUNDLE_BYTES { self.write_file() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        self.close_tree();
        for cpu in 0..self.cpus.len() {
            self.close_bundle(cpu as u16);
        }
        self.stats();
        self.write_file()?;
        Ok(self.out.flush()?)
    }
}
