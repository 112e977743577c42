//! A sample that was late: its culprits, with names.

use std::sync::Arc;

use spry_trace::event::{Comm, Softirq, Tgid, Tid};

use super::seat::WakeTimes;
use crate::decode::RawStack;
use crate::symbols::Symbols;
use crate::wire::*;

/// A sampler thread that ran later than the threshold.
#[derive(Clone, PartialEq, Debug)]
pub struct LateSample {
    /// The thread that waited.
    pub tid: Tid,
    /// The CPU that it got.
    pub cpu: u16,
    /// The time at which the thread was due to run, ns of the kernel's own monotonic clock.
    pub due_ns: u64,
    /// The times of the thread's wake-up, ns of the kernel's own monotonic clock.
    pub seen: WakeTimes,
    /// The tasks on the CPU while the thread was late, in order of time.
    pub looks: Vec<Look>,
    /// Interrupts, softirqs and timers' functions between the due time and the switch to the thread, the
    /// longest first; one may have run inside another.
    pub stretches: Vec<Stretch>,
}

/// The task on a CPU and its call stack, at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// The reason for this look at the CPU.
    pub when: When,
    /// The time of the look, ns of the kernel's own monotonic clock.
    pub time_ns: u64,
    /// The task that had the CPU.
    pub tid: Tid,
    /// The task's process.
    pub tgid: Tgid,
    /// The task's name.
    pub comm: Comm,
    /// The task's call stack: kernel frames first, the innermost first, without the frames of the interrupt
    /// in which the BPF program looked.
    pub frames: Box<[Arc<str>]>,
    /// The number of frames in the kernel; 0 if the task was in its own program.
    pub kernel_frames: usize,
}

/// The reason for a look at a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// The first interrupt after the thread's due time came.
    Due,
    /// The latest interrupt came while the thread was already late by the threshold.
    Late,
    /// The thread got the CPU.
    Switch,
}

/// A stretch of time in which the CPU ran an interrupt, a softirq or a timer's function.
#[derive(Clone, PartialEq, Debug)]
pub struct Stretch {
    pub span: Span,
    /// The length of the stretch after the thread's due time, ns.
    pub length_ns: u64,
}

/// Code that runs outside of tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Span {
    /// A device's interrupt, by its number.
    Irq(u32),
    Softirq(Softirq),
    /// A timer's function.
    Timer(Arc<str>),
}

impl LateSample {
    pub(super) fn of(raw: &spry_late, symbols: &mut Symbols, now_ns: u64) -> LateSample {
        let whens = [When::Due, When::Late, When::Switch];
        let mut looks: Vec<Look> = whens
            .into_iter()
            .zip(&raw.looked)
            .filter(|(_, looked)| looked.time_ns != 0)
            .map(|(when, looked)| look(when, looked, symbols, now_ns))
            .collect();
        looks.sort_by_key(|look| look.time_ns);
        let mut stretches: Vec<Stretch> =
            raw.spans.iter().filter_map(|span| stretch(span, symbols, now_ns)).collect();
        stretches.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
        LateSample {
            tid: Tid(raw.seat.tid),
            cpu: raw.cpu as u16,
            due_ns: raw.seat.due_ns,
            seen: WakeTimes {
                irq_ns: raw.seat.irq_ns,
                resched_ns: raw.seat.resched_ns,
                schedule_ns: raw.seat.schedule_ns,
                switch_ns: raw.seat.switch_ns,
            },
            looks,
            stretches,
        }
    }
}

fn look(when: When, raw: &spry_looked, symbols: &mut Symbols, now_ns: u64) -> Look {
    let addresses = |frames: &[u64], bytes: i32| {
        let count = usize::try_from(bytes).unwrap_or(0) / size_of::<u64>();
        frames[..count.min(frames.len())].to_vec()
    };
    let stack = RawStack {
        tid: Tid(raw.tid),
        tgid: Tgid(raw.tgid),
        kernel: addresses(&raw.kernel, raw.kernel_bytes),
        user: addresses(&raw.user, raw.user_bytes),
    };
    let (frames, kernel_frames) = match when {
        When::Switch => symbols.frames(&stack, now_ns),
        When::Due | When::Late => symbols.interrupted(&stack, now_ns),
    };
    let name = raw.comm.map(|byte| byte as u8);
    Look {
        when,
        time_ns: raw.time_ns,
        tid: Tid(raw.tid),
        tgid: Tgid(raw.tgid),
        comm: Comm::new(&name),
        frames,
        kernel_frames,
    }
}

fn stretch(raw: &spry_span, symbols: &mut Symbols, now_ns: u64) -> Option<Stretch> {
    let span = match raw.kind {
        SPRY_SPAN_IRQ => Span::Irq(raw.id),
        SPRY_SPAN_SOFTIRQ => Span::Softirq(Softirq(raw.id as u8)),
        SPRY_SPAN_HRTIMER | SPRY_SPAN_SOFT_HRTIMER | SPRY_SPAN_TIMER => {
            Span::Timer(symbols.kernel_name(raw.function, now_ns))
        }
        _ => return None,
    };
    Some(Stretch { span, length_ns: raw.length_ns })
}
