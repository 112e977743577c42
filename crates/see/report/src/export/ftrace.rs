//! Scheduling and interrupt events in the form that Perfetto takes from ftrace (`FtraceEvent`).
//!
//! The field numbers come from Perfetto's published schema, `protos/perfetto/trace/ftrace/*.proto`.

use spry_trace::event::{Event, Fork, Irq, PrevState, Switch, Tid, WakeupKind};
use spry_trace::{Stamped, Tgid};

use super::protobuf::Message;
use super::tasks::Tasks;

/// `FtraceEventBundle.event`.
const BUNDLE_EVENT: u64 = 2;

/// Fields of `FtraceEvent`.
mod field {
    pub const TIMESTAMP: u64 = 1;
    pub const PID: u64 = 2;
    pub const SCHED_SWITCH: u64 = 4;
    pub const CPU_IDLE: u64 = 13;
    pub const SCHED_WAKEUP: u64 = 17;
    pub const SCHED_WAKING: u64 = 20;
    pub const IPI_ENTRY: u64 = 21;
    pub const IPI_EXIT: u64 = 22;
    pub const SOFTIRQ_ENTRY: u64 = 24;
    pub const SOFTIRQ_EXIT: u64 = 25;
    pub const IRQ_HANDLER_ENTRY: u64 = 36;
    pub const IRQ_HANDLER_EXIT: u64 = 37;
    pub const SCHED_WAKEUP_NEW: u64 = 114;
    pub const TASK_NEWTASK: u64 = 235;
    pub const TASK_RENAME: u64 = 236;
    pub const SCHED_PROCESS_EXEC: u64 = 237;
    pub const SCHED_PROCESS_EXIT: u64 = 238;
    pub const SCHED_PROCESS_FORK: u64 = 239;
    pub const SCHED_PROCESS_FREE: u64 = 240;
    pub const SCHED_MIGRATE_TASK: u64 = 491;
    pub const LOCAL_TIMER_ENTRY: u64 = 559;
    pub const LOCAL_TIMER_EXIT: u64 = 560;
}

/// The kernel's `CLONE_THREAD`, by which Perfetto distinguishes a new thread from a new process.
const CLONE_THREAD: u64 = 0x1_0000;
/// The kernel's `PWR_EVENT_EXIT`, which stands for the state of a CPU that leaves its idle state.
const IDLE_LEFT: u32 = u32::MAX;
/// The vector of the local timer interrupt on x86; Perfetto shows the event's name, not the number.
const LOCAL_TIMER_VECTOR: u64 = 236;

/// Whether Perfetto gets an event in ftrace's form.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Form {
    /// The event was added to the bundle.
    Ftrace,
    /// ftrace has no such event, or its event cannot carry the data of Spry's event.
    None,
}

/// The known state at the time of an event.
pub(super) struct Scene<'a> {
    pub(super) tasks: &'a Tasks,
    /// The task running on the event's CPU.
    pub(super) current: Tid,
}

impl Scene<'_> {
    /// Adds the event to a bundle of its CPU, if ftrace has a form for it.
    pub(super) fn encode(&self, bundle: &mut Message, stamped: &Stamped) -> Form {
        match &stamped.event {
            Event::Switch(switch) => self.switch(bundle, stamped, switch),
            Event::Fork(fork) => self.fork(bundle, stamped, fork),
            Event::Waking(waking) => self.add(bundle, stamped, field::SCHED_WAKING, |event| {
                self.task(event, stamped.cpu, waking.wakee);
            }),
            Event::Wakeup(wakeup) => {
                let which = match wakeup.kind {
                    WakeupKind::New => field::SCHED_WAKEUP_NEW,
                    WakeupKind::Again => field::SCHED_WAKEUP,
                };
                self.add(bundle, stamped, which, |event| {
                    self.task(event, stamped.cpu, wakeup.tid);
                    event.uint(5, wakeup.target_cpu);
                });
            }
            Event::Exec(exec) => self.add(bundle, stamped, field::SCHED_PROCESS_EXEC, |event| {
                event.uint(2, exec.tid.0).uint(3, exec.old_tid.0);
            }),
            Event::Exit(exit) => self.add(bundle, stamped, field::SCHED_PROCESS_EXIT, |event| {
                event.string(1, &self.tasks.name(stamped.cpu, exit.tid)).uint(2, exit.tid.0);
                if let Some(Tgid(tgid)) = self.tasks.get(exit.tid).and_then(|known| known.tgid) {
                    event.uint(3, tgid);
                }
            }),
            Event::Comm(rename) => self.add(bundle, stamped, field::TASK_RENAME, |event| {
                event.uint(1, rename.tid.0).string(3, &self.tasks.name(stamped.cpu, rename.tid));
            }),
            Event::Migrate(migrate) => self.add(bundle, stamped, field::SCHED_MIGRATE_TASK, |event| {
                event.string(1, &self.tasks.name(stamped.cpu, migrate.tid)).uint(2, migrate.tid.0);
                event.uint(4, migrate.from_cpu).uint(5, migrate.to_cpu);
            }),
            other => return self.interrupt(bundle, stamped, other),
        }
        Form::Ftrace
    }

    fn interrupt(&self, bundle: &mut Message, stamped: &Stamped, event: &Event) -> Form {
        match event {
            Event::IrqEnter(irq) => self.irq_enter(bundle, stamped, *irq),
            Event::IrqExit(irq) => self.irq_exit(bundle, stamped, *irq),
            Event::SoftirqEnter(softirq) => self.add(bundle, stamped, field::SOFTIRQ_ENTRY, |event| {
                event.uint(1, softirq.0);
            }),
            Event::SoftirqExit(softirq) => self.add(bundle, stamped, field::SOFTIRQ_EXIT, |event| {
                event.uint(1, softirq.0);
            }),
            Event::IdleState(state) => self.add(bundle, stamped, field::CPU_IDLE, |event| {
                event.uint(1, state.unwrap_or(IDLE_LEFT)).uint(2, stamped.cpu);
            }),
            _ => return Form::None,
        }
        Form::Ftrace
    }

    fn add(&self, bundle: &mut Message, stamped: &Stamped, which: u64, fill: impl FnOnce(&mut Message)) {
        bundle.message(BUNDLE_EVENT, |event| {
            event.uint(field::TIMESTAMP, stamped.time_ns).uint(field::PID, self.current.0);
            event.message(which, fill);
        });
    }

    /// `comm`, `pid` and `prio`, which the wake-up events have at the same numbers.
    fn task(&self, event: &mut Message, cpu: u16, tid: Tid) {
        event.string(1, &self.tasks.name(cpu, tid)).uint(2, tid.0);
        if let Some(prio) = self.tasks.get(tid).and_then(|known| known.prio) {
            event.int(3, prio_number(prio));
        }
    }

    fn switch(&self, bundle: &mut Message, stamped: &Stamped, switch: &Switch) {
        self.add(bundle, stamped, field::SCHED_SWITCH, |event| {
            event.string(1, &self.tasks.name(stamped.cpu, switch.prev)).uint(2, switch.prev.0);
            event.int(3, prio_number(switch.prev_prio)).uint(4, state_bits(switch.prev_state));
            event.string(5, &self.tasks.name(stamped.cpu, switch.next)).uint(6, switch.next.0);
            event.int(7, prio_number(switch.next_prio));
        });
        // The kernel frees a task later than it leaves the CPU for the last time, but no earlier. Perfetto
        // ends the thread here, so that a reused tid is a new thread.
        if switch.prev_state.is_exit() {
            self.add(bundle, stamped, field::SCHED_PROCESS_FREE, |event| {
                event.string(1, &self.tasks.name(stamped.cpu, switch.prev)).uint(2, switch.prev.0);
            });
        }
    }

    fn fork(&self, bundle: &mut Message, stamped: &Stamped, fork: &Fork) {
        self.add(bundle, stamped, field::SCHED_PROCESS_FORK, |event| {
            event.string(1, &self.tasks.name(stamped.cpu, fork.parent)).uint(2, fork.parent.0);
            event.string(3, &self.tasks.name(stamped.cpu, fork.child)).uint(4, fork.child.0);
        });
        let flags = if fork.child_tgid.0 == fork.child.0 { 0 } else { CLONE_THREAD };
        self.add(bundle, stamped, field::TASK_NEWTASK, |event| {
            event.uint(1, fork.child.0).string(2, &self.tasks.name(stamped.cpu, fork.child)).uint(3, flags);
        });
    }

    fn irq_enter(&self, bundle: &mut Message, stamped: &Stamped, irq: Irq) {
        match irq {
            Irq::Device(line) => self.add(bundle, stamped, field::IRQ_HANDLER_ENTRY, |event| {
                event.uint(1, line).string(2, &format!("irq {line}"));
            }),
            Irq::LocalTimer => self.add(bundle, stamped, field::LOCAL_TIMER_ENTRY, |event| {
                event.uint(1, LOCAL_TIMER_VECTOR);
            }),
            Irq::Reschedule | Irq::CallFunction | Irq::IrqWork => {
                self.add(bundle, stamped, field::IPI_ENTRY, |event| {
                    event.string(1, ipi_reason(irq));
                });
            }
        }
    }

    fn irq_exit(&self, bundle: &mut Message, stamped: &Stamped, irq: Irq) {
        match irq {
            Irq::Device(line) => self.add(bundle, stamped, field::IRQ_HANDLER_EXIT, |event| {
                event.uint(1, line).uint(2, 1u64);
            }),
            Irq::LocalTimer => self.add(bundle, stamped, field::LOCAL_TIMER_EXIT, |event| {
                event.uint(1, LOCAL_TIMER_VECTOR);
            }),
            Irq::Reschedule | Irq::CallFunction | Irq::IrqWork => {
                self.add(bundle, stamped, field::IPI_EXIT, |event| {
                    event.string(1, ipi_reason(irq));
                });
            }
        }
    }
}

/// The kernel's number for a priority: deadline tasks are -1.
fn prio_number(prio: u8) -> i64 {
    if prio == spry_trace::event::PRIO_DEADLINE { -1 } else { i64::from(prio) }
}

/// `prev_state` as `sched_switch` has shown it since Linux 4.14.
fn state_bits(state: PrevState) -> u64 {
    match state {
        PrevState::Runnable => 0,
        PrevState::Sleeping | PrevState::Other => 0x1,
        PrevState::DiskSleep => 0x2,
        PrevState::Stopped => 0x4,
        PrevState::Traced => 0x8,
        PrevState::Dead => 0x10,
        PrevState::Zombie => 0x20,
        PrevState::Parked => 0x40,
        PrevState::IdleSleep => 0x80,
        PrevState::Preempted => 0x100,
    }
}

/// The reasons in the words of arm64's `ipi_entry`, the only form that Perfetto has for such interrupts.
fn ipi_reason(irq: Irq) -> &'static str {
    match irq {
        Irq::Reschedule => "Rescheduling interrupts",
        Irq::CallFunction => "Function call interrupts",
        _ => "IRQ work interrupts",
    }
}
