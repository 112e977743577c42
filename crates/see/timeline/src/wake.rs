//! Waking and wake-up: from which moment a task is runnable, and by which waker.

use spry_trace::event::{Context, Wakeup, WakeupKind};

use crate::cpu::Holder;
use crate::interval::{Cut, Observer, WaitCause, Waking, Woken};
use crate::machine::{PendingWaking, Timeline};
use crate::task::{TaskIndex, TaskState};

/// Stands for the waking of a wake-up if no waking was seen.
const UNSEEN: PendingWaking = PendingWaking { time_ns: 0, by: Holder::Unknown, context: Context::Unknown };

impl Timeline {
    #[inline]
    pub(crate) fn waking(&mut self, cpu: u16, waking: &spry_trace::event::Waking, to: &mut impl Observer) {
        if waking.wakee.is_idle() {
            return;
        }
        let by = self.runner(cpu, waking.waker);
        let index = self.tasks.touch(waking.wakee, self.now_ns);
        let (time_ns, context) = (self.now_ns, waking.context);
        self.tasks.get_mut(index).set_pending(PendingWaking { time_ns, by, context });
        if self.in_window() {
            to.waking(self, &Waking { time_ns, cpu, by, context, task: index });
        }
    }

    #[inline]
    pub(crate) fn wakeup(&mut self, wakeup: &Wakeup, to: &mut impl Observer) {
        if wakeup.tid.is_idle() {
            return;
        }
        let index = self.tasks.touch(wakeup.tid, self.now_ns);
        let task = self.tasks.get_mut(index);
        let pending = task.pending();
        task.clear_pending();
        match (task.state, wakeup.kind) {
            (TaskState::Blocked, WakeupKind::Again) => {
                self.odd.wakeup_without_waking += u64::from(pending.is_none());
                let pending = pending.unwrap_or(PendingWaking { time_ns: self.now_ns, ..UNSEEN });
                self.wake(index, wakeup.target_cpu, self.now_ns, pending, to);
            }
            (TaskState::Blocked | TaskState::Unknown, WakeupKind::New) => {
                if task.state == TaskState::Blocked {
                    self.close_sleep(index, self.now_ns, Cut::default(), to);
                }
                self.enqueue(index, wakeup.target_cpu, self.now_ns, self.now_ns, WaitCause::New, to);
            }
            (TaskState::Unknown, WakeupKind::Again) => {
                // The task may still have its CPU, if that CPU has had no switch yet; the CPU's next switch
                // will show it.
                let PendingWaking { time_ns, by, context } =
                    pending.unwrap_or(PendingWaking { time_ns: self.now_ns, ..UNSEEN });
                let cause = WaitCause::Woken { by, context };
                self.enqueue(index, wakeup.target_cpu, self.now_ns, time_ns, cause, to);
                self.tasks.get_mut(index).guessed = true;
            }
            // The wake-up found the task runnable: the task goes on running or waiting as before.
            (TaskState::Waiting | TaskState::Running | TaskState::Ended, _) => {
                self.odd.wakeup_of_runnable += 1
            }
        }
    }

    /// Makes a blocked task runnable from `time_ns` on.
    pub(crate) fn wake(
        &mut self,
        index: TaskIndex,
        cpu: u16,
        time_ns: u64,
        pending: PendingWaking,
        to: &mut impl Observer,
    ) {
        self.close_sleep(index, time_ns, Cut::default(), to);
        let PendingWaking { time_ns: waking_ns, by, context } = pending;
        self.enqueue(index, cpu, time_ns, waking_ns, WaitCause::Woken { by, context }, to);
    }

    fn enqueue(
        &mut self,
        index: TaskIndex,
        cpu: u16,
        time_ns: u64,
        waking_ns: u64,
        cause: WaitCause,
        to: &mut impl Observer,
    ) {
        let task = self.tasks.get_mut(index);
        task.state = TaskState::Waiting;
        // A waking seen before the task blocked does not make the task runnable before it blocked.
        task.since_ns = time_ns.max(if task.guessed { 0 } else { task.since_ns });
        task.guessed = false;
        task.cpu = cpu;
        task.cause = cause;
        task.waking_ns = waking_ns;
        task.has_moved = false;
        task.clear_pending();
        if self.in_window() {
            to.woken(self, &Woken { time_ns, task: index, cause });
        }
    }
}
