//! Events that have no form in ftrace, as Perfetto track events: marks, timers, ticks, traffic, stacks,
//! accounts, losses.
//!
//! The field numbers come from `track_event.proto` and `track_descriptor.proto` in Perfetto's
//! published schema.

use std::collections::HashMap;

use spry_trace::Stamped;
use spry_trace::event::{Direction, Event, Tid, Urgency};

use super::protobuf::Message;
use super::row::{channel_name, policy_name, timer_name};
use super::tasks::Tasks;

/// Fields of `TracePacket`.
mod packet {
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE_ID: u64 = 10;
    pub const TRACK_EVENT: u64 = 11;
    pub const TIMESTAMP_CLOCK_ID: u64 = 58;
    pub const TRACK_DESCRIPTOR: u64 = 60;
}

/// Fields and values of `TrackEvent`.
mod event {
    pub const DEBUG_ANNOTATIONS: u64 = 4;
    pub const TYPE: u64 = 9;
    pub const TRACK_UUID: u64 = 11;
    pub const CATEGORIES: u64 = 22;
    pub const NAME: u64 = 23;
    pub const CALLSTACK: u64 = 55;
    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
}

/// `BUILTIN_CLOCK_MONOTONIC`.
pub(super) const CLOCK_MONOTONIC: u64 = 3;
/// All packets come from one writer.
pub(super) const SEQUENCE_ID: u64 = 1;
/// `Trace.packet`.
pub(super) const TRACE_PACKET: u64 = 1;

/// The tracks that were described so far, with their uuids.
#[derive(Default)]
pub(super) struct Tracks {
    described: HashMap<Track, u64>,
    uuids: u64,
}

/// The track on which an event is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Track {
    Thread(Tid),
    Ticks(u16),
    Schedule(u16),
    Lost(u16),
}

/// A value shown with an event.
enum Note<'a> {
    Number(&'static str, u64),
    Text(&'static str, &'a str),
}

impl Tracks {
    /// Adds the event's packets to a file, if the event is shown as a track event.
    pub(super) fn encode(&mut self, file: &mut Message, stamped: &Stamped, tasks: &Tasks) {
        use Note::{Number, Text};
        let mut add = |track, category, name: &str, notes: &[Note<'_>]| {
            let uuid = self.describe(file, track, tasks);
            packet(file, stamped.time_ns, uuid, |message| {
                message.uint(event::TYPE, event::INSTANT).string(event::CATEGORIES, category);
                message.string(event::NAME, name);
                notes.iter().for_each(|note| annotate(message, note));
            });
        };
        match &stamped.event {
            Event::Mark(mark) => add(Track::Thread(mark.tid), "mark", &mark.text, &[]),
            Event::Tick(tick) => {
                add(Track::Ticks(stamped.cpu), "tick", "tick", &[Number("due_ns", tick.due_ns)])
            }
            Event::TimerExpire(timer) => {
                let times = [Number("deadline_ns", timer.deadline_ns), Number("latest_ns", timer.latest_ns)];
                let track = match timer.tid {
                    Tid::IDLE => Track::Ticks(stamped.cpu),
                    tid => Track::Thread(tid),
                };
                add(track, "timer", &format!("{} timer expired", timer_name(timer.kind)), &times);
            }
            Event::NeedResched(need) => {
                let lazy = matches!(need.urgency, Urgency::Lazy);
                let notes = [
                    Number("tid", u64::from(need.tid.0)),
                    Number("target_cpu", u64::from(need.target_cpu)),
                    Text("urgency", if lazy { "lazy" } else { "now" }),
                ];
                add(Track::Schedule(need.target_cpu), "resched", "need-resched set", &notes);
            }
            Event::Ipc(ipc) => {
                let written = matches!(ipc.direction, Direction::Write);
                let kind = channel_name(ipc.channel.kind);
                let notes = [
                    Number("bytes", u64::from(ipc.bytes)),
                    Text("channel", kind),
                    Number("channel_id", ipc.channel.id),
                ];
                let name = format!("{kind} {}", if written { "write" } else { "read" });
                add(Track::Thread(ipc.tid), "ipc", &name, &notes);
            }
            Event::Prio(prio) => {
                let notes = [Text("policy", policy_name(prio.policy)), Number("prio", u64::from(prio.prio))];
                add(Track::Thread(prio.tid), "prio", "class or priority changed", &notes);
            }
            Event::Stat(stat) if !stat.tid.is_idle() => {
                let notes = [
                    Number("exec_ns", stat.exec_ns),
                    Number("utime_ns", stat.utime_ns),
                    Number("stime_ns", stat.stime_ns),
                ];
                add(Track::Thread(stat.tid), "stat", "the kernel's account", &notes);
            }
            Event::Lost(lost) => {
                let name = format!("{} events lost", lost.count);
                add(Track::Lost(stamped.cpu), "lost", &name, &[Number("count", lost.count)]);
            }
            _ => self.spans(file, stamped, tasks),
        }
    }

    fn spans(&mut self, file: &mut Message, stamped: &Stamped, tasks: &Tasks) {
        match &stamped.event {
            Event::ScheduleEnter => {
                let track = Track::Schedule(stamped.cpu);
                let uuid = self.describe(file, track, tasks);
                packet(file, stamped.time_ns, uuid, |message| {
                    message.uint(event::TYPE, event::SLICE_BEGIN).string(event::CATEGORIES, "resched");
                    message.string(event::NAME, "schedule()");
                });
            }
            Event::ScheduleExit => {
                let track = Track::Schedule(stamped.cpu);
                let uuid = self.describe(file, track, tasks);
                packet(file, stamped.time_ns, uuid, |message| {
                    message.uint(event::TYPE, event::SLICE_END);
                });
            }
            Event::Stack(stack) => {
                let track = Track::Thread(stack.tid);
                let uuid = self.describe(file, track, tasks);
                packet(file, stamped.time_ns, uuid, |message| {
                    message.uint(event::TYPE, event::INSTANT).string(event::CATEGORIES, "stack");
                    message.string(event::NAME, "leaves the CPU");
                    // TrackEvent.Callstack lists the outermost frame first.
                    message.message(event::CALLSTACK, |callstack| {
                        for frame in stack.frames.iter().rev() {
                            callstack.message(1, |message| {
                                message.string(1, frame);
                            });
                        }
                    });
                });
            }
            _ => {}
        }
    }

    /// Forgets the track of a thread that has ended: a later thread with its tid gets a track of its own.
    pub(super) fn forget(&mut self, tid: Tid) {
        self.described.remove(&Track::Thread(tid));
    }

    /// The track's uuid; describes the track before its first event.
    fn describe(&mut self, file: &mut Message, track: Track, tasks: &Tasks) -> u64 {
        if let Some(&uuid) = self.described.get(&track) {
            return uuid;
        }
        self.uuids += 1;
        let uuid = self.uuids;
        self.described.insert(track, uuid);
        file.message(TRACE_PACKET, |message| {
            message.uint(packet::SEQUENCE_ID, SEQUENCE_ID);
            message.message(packet::TRACK_DESCRIPTOR, |descriptor| {
                descriptor.uint(1, uuid);
                match track {
                    Track::Thread(tid) => describe_thread(descriptor, tid, tasks),
                    Track::Ticks(cpu) => _ = descriptor.string(2, &format!("CPU {cpu} ticks and timers")),
                    Track::Schedule(cpu) => _ = descriptor.string(2, &format!("CPU {cpu} schedule()")),
                    Track::Lost(cpu) => _ = descriptor.string(2, &format!("CPU {cpu} lost events")),
                }
            });
        });
        uuid
    }
}

/// Describes a thread's track. It is drawn under the thread if the thread's process is known; otherwise
/// it stands alone.
fn describe_thread(descriptor: &mut Message, tid: Tid, tasks: &Tasks) {
    let Some(tgid) = tasks.get(tid).and_then(|known| known.tgid) else {
        descriptor.string(2, &format!("{} {tid}", tasks.name(0, tid)));
        return;
    };
    descriptor.message(4, |thread| {
        thread.uint(1, tgid.0).uint(2, tid.0).string(5, &tasks.name(0, tid));
    });
}

fn packet(file: &mut Message, time_ns: u64, uuid: u64, fill: impl FnOnce(&mut Message)) {
    file.message(TRACE_PACKET, |message| {
        message.uint(packet::TIMESTAMP, time_ns).uint(packet::TIMESTAMP_CLOCK_ID, CLOCK_MONOTONIC);
        message.uint(packet::SEQUENCE_ID, SEQUENCE_ID);
        message.message(packet::TRACK_EVENT, |event| {
            event.uint(event::TRACK_UUID, uuid);
            fill(event);
        });
    });
}

/// `DebugAnnotation`: name 10, uint_value 3, string_value 6.
fn annotate(message: &mut Message, note: &Note<'_>) {
    message.message(event::DEBUG_ANNOTATIONS, |annotation| match *note {
        Note::Number(name, value) => _ = annotation.string(10, name).uint(3, value),
        Note::Text(name, value) => _ = annotation.string(10, name).string(6, value),
    });
}
