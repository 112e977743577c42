//! From events to intervals: the task that had each CPU, the tasks that waited for one, the blocked tasks,
//! and the start of each state.
//!
//! [`Timeline`] is a state machine fed one event at a time, in order of time over all CPUs. It reports every
//! interval to an [`Observer`] when the interval ends. State that the trace does not show stays unknown: no
//! interval is invented.

mod cpu;
mod interval;
mod life;
mod machine;
mod switch;
mod task;
mod throttle;
mod tick;
mod wake;

pub use cpu::{Holder, Slice, TimelineCpu};
pub use interval::{
    Cut, Idled, InterruptKind, Interrupted, Migrated, Observer, Ran, RunEnd, Slept, Switched, Ticked,
    WaitCause, Waited, Waking, Woken,
};
pub use machine::{Oddities, Timeline, Window};
pub use task::{ProcessIndex, TaskIndex, TaskState, TimelineProcess, TimelineTask};
