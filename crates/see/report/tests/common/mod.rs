//! The shared parts of this crate's tests: a small trace with every kind of event, and golden files.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::Arc;

use spry_trace::event::*;
use spry_trace::{Group, Groups, Header};

/// The header of the small trace.
pub fn header() -> Header {
    Header {
        kernel: "6.1.0-test".into(),
        arch: "x86_64".into(),
        machine: "sim".into(),
        cpus: 2,
        hz: Some(250),
        tick_phase_ns: vec![Some(1_000), Some(1_500)],
        clock: "monotonic".into(),
        start_ns: 1_000_000,
        start_unix_ns: Some(1_700_000_000_000_000_000),
        groups: Groups::from_iter(Group::ALL),
        ..Header::default()
    }
}

fn at(time_ns: u64, cpu: u16, event: Event) -> Stamped {
    Stamped { time_ns: 1_000_000 + time_ns, cpu, event }
}

fn task(tid: u32, tgid: u32, name: &str) -> Event {
    Event::Task(TaskInfo::new(Tid(tid), Tgid(tgid), Comm::new(name.as_bytes())))
}

fn switch(prev: u32, next: u32, prev_state: PrevState) -> Event {
    let prio = |tid| if tid == 0 { 120 } else { 100 + (tid % 40) as u8 };
    Event::Switch(Switch {
        prev: Tid(prev),
        next: Tid(next),
        prev_state,
        prev_prio: prio(prev),
        next_prio: prio(next),
        stolen_ns: 0,
    })
}

/// A trace of every kind of event on two CPUs, with names that need quoting.
pub fn events() -> Vec<Stamped> {
    let comm = |name: &str| Comm::new(name.as_bytes());
    let (editor, player) = (Tid(100), Tid(200));
    vec![
        at(0, 0, task(100, 100, "editor")),
        at(0, 1, task(200, 199, "play, \"er\"")),
        at(
            5,
            0,
            Event::Stat(TaskStat {
                tid: editor,
                state: StatState::Blocked,
                exec_ns: 7,
                utime_ns: 4_000_000,
                stime_ns: 0,
            }),
        ),
        at(10, 0, Event::IrqEnter(Irq::LocalTimer)),
        at(
            11,
            0,
            Event::TimerExpire(TimerExpire {
                tid: editor,
                kind: TimerKind::Sleep,
                deadline_ns: 1_000_002,
                latest_ns: 1_050_002,
            }),
        ),
        at(12, 0, Event::Waking(Waking { waker: Tid::IDLE, wakee: editor, context: Context::Hardirq })),
        at(13, 0, Event::Wakeup(Wakeup { tid: editor, target_cpu: 0, kind: WakeupKind::Again })),
        at(14, 0, Event::NeedResched(NeedResched { tid: Tid::IDLE, target_cpu: 0, urgency: Urgency::Now })),
        at(15, 0, Event::Tick(Tick { due_ns: 1_000_001 })),
        at(16, 0, Event::IrqExit(Irq::LocalTimer)),
        at(17, 0, Event::SoftirqEnter(Softirq(1))),
        at(18, 0, Event::SoftirqExit(Softirq(1))),
        at(19, 0, Event::ScheduleEnter),
        at(20, 0, switch(0, 100, PrevState::Runnable)),
        at(21, 0, Event::ScheduleExit),
        at(30, 1, switch(0, 200, PrevState::Runnable)),
        at(
            40,
            0,
            Event::Ipc(Ipc {
                tid: editor,
                direction: Direction::Write,
                channel: Channel { kind: ChannelKind::Pipe, id: 77 },
                bytes: 8,
            }),
        ),
        at(41, 0, Event::Waking(Waking { waker: editor, wakee: player, context: Context::Task })),
        at(
            42,
            1,
            Event::Ipc(Ipc {
                tid: player,
                direction: Direction::Read,
                channel: Channel { kind: ChannelKind::Pipe, id: 77 },
                bytes: 8,
            }),
        ),
        at(50, 1, Event::Mark(Mark { tid: player, text: "frame 1\nshown".into() })),
        at(
            60,
            0,
            Event::Fork(Fork {
                parent: editor,
                child: Tid(101),
                child_tgid: Tgid(101),
                comm: comm("editor"),
            }),
        ),
        at(61, 0, Event::Wakeup(Wakeup { tid: Tid(101), target_cpu: 1, kind: WakeupKind::New })),
        at(62, 0, Event::Migrate(Migrate { tid: Tid(101), from_cpu: 1, to_cpu: 0 })),
        at(63, 0, task(100, 100, "editor")),
        at(
            70,
            0,
            Event::Stack(Stack { tid: editor, frames: [Arc::from("do_wait"), Arc::from("main")].into() }),
        ),
        at(71, 0, switch(100, 101, PrevState::Sleeping)),
        at(72, 0, Event::Exec(Exec { tid: Tid(101), old_tid: Tid(101) })),
        at(73, 0, Event::Comm(Rename { tid: Tid(101), comm: comm("</script>") })),
        at(74, 0, Event::Prio(Prio { tid: Tid(101), policy: Policy::Fifo, prio: 50 })),
        at(80, 1, Event::Lost(Lost { count: 3 })),
        at(81, 1, switch(200, 0, PrevState::Preempted)),
        at(86, 1, Event::IdleState(Some(2))),
        at(88, 1, Event::IdleState(None)),
        at(90, 0, Event::IrqEnter(Irq::Device(17))),
        at(91, 0, Event::IrqExit(Irq::Device(17))),
        at(92, 0, Event::IrqEnter(Irq::Reschedule)),
        at(93, 0, Event::IrqExit(Irq::Reschedule)),
        at(95, 0, Event::Exit(Exit { tid: Tid(101) })),
        at(99, 0, switch(101, 0, PrevState::Zombie)),
    ]
}

/// Compares with a golden file of this crate.
pub fn assert_golden(name: &str, got: &str) {
    spry_test_run::assert_golden(env!("CARGO_MANIFEST_DIR"), name, got);
}
