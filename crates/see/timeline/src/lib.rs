//! From events to intervals: which task had each CPU, which waited for one, which was blocked, and since
//! when.
//!
//! [`Timeline`] is a state machine fed one event at a time, in order of time over all CPUs. It tells an
//! [`Observer`] every interval when it ends. What the trace does not tell stays unknown: no interval is
//! invented.

mod cpu;
mod interval;
mod life;
mod machine;
mod switch;
mod task;
mod throttle;
mod tick;
mod wake;

pub use cpu::{Cpu, Holder, Slice};
pub use interval::{
    Cut, Idled, InterruptKind, Interrupted, Migrated, Observer, Ran, RunEnd, Slept, Switched, Ticked,
    WaitCause, Waited, Waking, Woken,
};
pub use machine::{Oddities, Timeline, Window};
pub use task::{Process, ProcessIndex, State, Task, TaskIndex};
