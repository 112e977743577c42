//! Forks, execs, renames, priorities, snapshots, losses, and the end of the trace.

use std::num::NonZeroU16;

use spry_trace::Tid;
use spry_trace::event::{Affinity, Exec, Fork, Lost, Prio, Rename, StatState, TaskStat};

use crate::cpu::{Holder, Slice};
use crate::interval::{Cut, Observer, RunEnd, WaitCause};
use crate::machine::Timeline;
use crate::task::{TaskIndex, TaskState};
use crate::tick::Turn;

impl Timeline {
    pub(crate) fn fork(&mut self, fork: &Fork) {
        if fork.child.is_idle() {
            return;
        }
        if let Some(old) = self.tasks.find(fork.child) {
            let task = self.tasks.get(old);
            if task.touched && task.state != TaskState::Ended {
                // The end of the task that had this tid was not seen.
                self.odd.reused_alive += 1;
                self.take_away(old);
                self.tasks.get_mut(old).end_at(self.now_ns);
            }
        }
        let index = self.tasks.fork(fork.child, fork.child_tgid, fork.comm, self.now_ns);
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(index);
        task.state = TaskState::Blocked;
        task.slept_in = None;
        task.guessed = false;
        task.since_ns = now_ns;
    }

    /// A thread other than the leader that calls exec goes on under the leader's tid.
    pub(crate) fn exec(&mut self, cpu: u16, exec: &Exec) {
        let caller = match self.cpus[usize::from(cpu)].holder {
            Holder::Task(task) => Some(task),
            Holder::Idle | Holder::Unknown => self.tasks.find(exec.old_tid),
        };
        if let Some(caller) = caller.filter(|&caller| self.tasks.get(caller).tid == exec.old_tid) {
            if exec.tid != exec.old_tid {
                self.exchange_tids(caller, exec.tid);
            }
        }
        self.tasks.touch(exec.tid, self.now_ns);
    }

    /// Whether `task`, which has a CPU, is now known as `tid`. A thread that calls exec and its ending leader
    /// exchange their tids some time before the exec event.
    #[cold]
    pub(crate) fn took_over(&mut self, task: TaskIndex, tid: Tid) -> bool {
        let Some(other) = self.tasks.find(tid) else { return false };
        let tgid = self.tasks.tgid(task).0;
        let takes = self.tasks.get(task).process == self.tasks.get(other).process
            && (tid.0 == tgid || self.tasks.get(task).tid.0 == tgid)
            && matches!(self.tasks.get(other).state, TaskState::Ended | TaskState::Running);
        if takes {
            self.exchange_tids(task, tid);
        }
        takes
    }

    /// Exchanges tids: `task` goes on under `tid`, and the task that had `tid` goes on under the
    /// old tid of `task`.
    fn exchange_tids(&mut self, task: TaskIndex, tid: Tid) {
        let old = std::mem::replace(&mut self.tasks.get_mut(task).tid, tid);
        let other = self.tasks.find(tid).filter(|&other| other != task);
        if let Some(other) = other {
            self.tasks.get_mut(other).tid = old;
        }
        self.tasks.bind(old, other);
        self.tasks.bind(tid, Some(task));
        let tgid = self.tasks.tgid(task);
        self.tasks.join(task, tgid);
    }

    /// The task that runs on a CPU, found by the tid in an event of that CPU.
    #[inline]
    pub(crate) fn runner(&mut self, cpu: u16, tid: Tid) -> Holder {
        let holder = self.cpus[usize::from(cpu)].holder;
        match holder {
            Holder::Task(task) if self.tasks.get(task).tid == tid || self.took_over(task, tid) => {
                Holder::Task(task)
            }
            _ => self.holder(tid),
        }
    }

    pub(crate) fn rename(&mut self, cpu: u16, rename: &Rename) {
        if rename.tid.is_idle() {
            return;
        }
        // A thread may rename another thread; only the tid of an ended task can mean the thread that runs
        // now.
        let living =
            self.tasks.find(rename.tid).filter(|&task| self.tasks.get(task).state != TaskState::Ended);
        let renamed = living.map_or_else(|| self.runner(cpu, rename.tid), Holder::Task);
        if let Holder::Task(index) = renamed {
            let task = self.tasks.get_mut(index);
            task.comm = rename.comm;
            task.named = true;
        }
    }

    pub(crate) fn prio(&mut self, prio: &Prio) {
        if prio.tid.is_idle() {
            return;
        }
        let index = self.tasks.touch(prio.tid, self.now_ns);
        let task = self.tasks.get_mut(index);
        task.policy = Some(prio.policy);
        task.prio = prio.prio;
    }

    pub(crate) fn affinity(&mut self, affinity: &Affinity) {
        if !affinity.tid.is_idle() {
            let index = self.tasks.touch(affinity.tid, self.now_ns);
            self.tasks.get_mut(index).bound_to = NonZeroU16::new(affinity.cpus);
        }
    }

    /// A snapshot gives the state of a task without earlier events. The task has been in that state since the
    /// start of the trace or the latest loss: otherwise an event would have shown a change.
    pub(crate) fn stat(&mut self, stat: &TaskStat, to: &mut impl Observer) {
        if stat.tid.is_idle() {
            return;
        }
        let index = match self.tasks.find(stat.tid) {
            // The account of a task that ended comes after the task's last switch, and perhaps after a new
            // task got its tid.
            Some(index) if self.tasks.get(index).state == TaskState::Ended => index,
            _ => self.tasks.touch(stat.tid, self.now_ns),
        };
        let since_ns = self.whole_since_ns;
        let task = self.tasks.get_mut(index);
        if task.state == TaskState::Unknown && task.guessed {
            let state = match stat.state {
                StatState::Runnable => TaskState::Waiting,
                StatState::Blocked => TaskState::Blocked,
                // The task's next switch shows on which CPU the task is.
                StatState::Running | StatState::Exited => TaskState::Unknown,
            };
            task.state = state;
            task.since_ns = since_ns.max(task.born_ns().unwrap_or(0));
            task.cause = WaitCause::Unknown;
            task.waking_ns = task.since_ns;
        }
        if self.in_window() {
            to.accounted(self, index, stat);
        }
    }

    /// Events of a CPU are missing between the CPU's latest event and now. It is not known which task has had
    /// the CPU since that event.
    pub(crate) fn lost(&mut self, cpu: u16, lost: &Lost, to: &mut impl Observer) {
        let now_ns = self.now_ns;
        let holder = self.cpus[usize::from(cpu)].holder;
        self.tell_ticks(cpu, Turn { holder, later: None }, to);
        let this = &mut self.cpus[usize::from(cpu)];
        let (start_ns, last_ns) = (this.since_ns, this.last_event_ns);
        let cut = Cut { start: this.start_cut, end: true };
        this.lost = this.lost.saturating_add(lost.count);
        this.lost_at_ns = now_ns;
        this.forget_interrupts();
        this.forget(now_ns);
        self.whole_since_ns = now_ns;
        let end_ns = last_ns.max(start_ns);
        self.stay(cpu, holder, Slice { start_ns, end_ns, holder }, 0, RunEnd::Open, cut, to);
        if let Holder::Task(task) = holder {
            self.forget_task(task);
            self.tasks.get_mut(task).since_ns = end_ns;
        }
    }

    /// Ends the trace (or the window) at `end_ns`: reports every open interval, cut there.
    pub fn finish(&mut self, end_ns: u64, to: &mut impl Observer) {
        self.now_ns = self.now_ns.max(end_ns);
        let end_ns = self.now_ns;
        let cut_end = Cut { start: false, end: true };
        for at in 0..self.cpus.len() {
            let holder = self.cpus[at].holder;
            self.tell_ticks(at as u16, Turn { holder, later: None }, to);
            let cpu = &mut self.cpus[at];
            let start_ns = cpu.since_ns;
            let cut = Cut { start: cpu.start_cut, end: true };
            cpu.forget(end_ns);
            self.stay(at as u16, holder, Slice { start_ns, end_ns, holder }, 0, RunEnd::Open, cut, to);
        }
        for index in self.tasks.indices() {
            let task = self.tasks.get(index);
            let cpu = task.cpu;
            match (task.state, task.pending()) {
                (TaskState::Waiting, _) => self.close_wait(index, cpu, cut_end, to),
                // The wake-up was not recorded, or is still to come.
                (TaskState::Blocked, Some(pending)) => {
                    self.wake(index, cpu, pending.time_ns, pending, to);
                    self.close_wait(index, cpu, cut_end, to);
                }
                (TaskState::Blocked, None) => self.close_sleep(index, end_ns, cut_end, to),
                (TaskState::Unknown | TaskState::Running | TaskState::Ended, _) => {}
            }
        }
    }
}
