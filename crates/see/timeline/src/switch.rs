//! Switches: the task that lost the CPU, the task that got it, and the new states of both.

use spry_trace::Tid;
use spry_trace::event::{PrevState, Switch};

use crate::cpu::{Holder, Slice};
use crate::interval::{Cut, Idled, Observer, Ran, RunEnd, Slept, Switched, WaitCause, Waited};
use crate::machine::Timeline;
use crate::task::{TaskIndex, TaskState};
use crate::tick::Turn;

impl Timeline {
    #[inline]
    pub(crate) fn switch(&mut self, cpu: u16, switch: &Switch, to: &mut impl Observer) {
        let at = usize::from(cpu);
        let holder = self.cpus[at].holder;
        let known = self.leaver(cpu, switch);
        let last_ns = match switch.stolen_ns {
            0 => self.cpus[at].since_ns,
            _ => self.cpus[at].counted_since_ns(),
        };
        // If an exec has changed the tid of a known holder, the holder stays the same task. Every other task
        // is found by its tid.
        let prev = match (known, self.cpus[at].holder) {
            (StayStart::Since(_), Holder::Task(task)) if self.tasks.get(task).tid == switch.prev => {
                Holder::Task(task)
            }
            _ => self.holder(switch.prev),
        };
        let next = self.holder(switch.next);
        let later = known.since_ns().map(|since_ns| (prev, since_ns));
        self.tell_ticks(cpu, Turn { holder, later }, to);
        if self.in_window() {
            let (time_ns, state) = (self.now_ns, switch.prev_state);
            to.switched(self, &Switched { time_ns, cpu, prev, next, state });
        }
        match known {
            StayStart::Since(start_ns) => {
                let end = RunEnd::Switched { state: switch.prev_state, next };
                let cut = Cut { start: self.cpus[at].start_cut, end: false };
                self.stay(
                    cpu,
                    prev,
                    Slice { start_ns, end_ns: self.now_ns, holder: prev },
                    i64::from(switch.stolen_ns) - (start_ns - last_ns) as i64,
                    end,
                    cut,
                    to,
                );
            }
            StayStart::Unknown => {}
        }
        if let Holder::Task(task) = prev {
            self.leave_cpu(cpu, task, switch, next, to);
        }
        if let Holder::Task(task) = next {
            self.get_cpu(cpu, task, switch.next_prio, to);
        }
        let since_ns = self.now_ns;
        let cpu = &mut self.cpus[at];
        cpu.holder = next;
        cpu.left = prev;
        cpu.since_ns = since_ns;
        cpu.taken_ns = None;
        cpu.start_cut = false;
    }

    /// Returns the time since which the leaving task had the CPU. Corrects the known state of tasks and CPUs
    /// where it contradicts the switch.
    #[inline]
    fn leaver(&mut self, cpu: u16, switch: &Switch) -> StayStart {
        let prev = switch.prev;
        let (holder, since_ns) = (self.cpus[usize::from(cpu)].holder, self.cpus[usize::from(cpu)].since_ns);
        match holder {
            Holder::Idle if prev.is_idle() => StayStart::Since(since_ns),
            Holder::Task(task) if self.tasks.get(task).tid == prev => StayStart::Since(since_ns),
            Holder::Unknown => match (self.cpus[usize::from(cpu)].taken_ns, self.unseen_since(cpu, switch)) {
                (Some(_), known @ StayStart::Since(_)) => known,
                _ => self.first_leaver(prev, since_ns),
            },
            Holder::Task(task) if self.took_over(task, prev) => StayStart::Since(since_ns),
            _ => self.wrong_leaver(cpu, switch),
        }
    }

    /// The earliest time since which the leaving task may have had the CPU, ns, if its switch to the CPU was
    /// not seen. Some kernels do not show certain tasks' switches away (in some virtual machines, the
    /// switches of init's threads). A leaving task that lost the CPU to such a hidden task and stayed
    /// runnable has had the CPU since the last seen switch. If this switch reports time that the kernel did
    /// not count, the hidden task had the CPU for that time, and the leaving task afterwards. If the idle
    /// task leaves, the CPU counts as idle since the last seen switch, despite a short unseen stay.
    fn unseen_since(&self, cpu: u16, switch: &Switch) -> StayStart {
        let this = &self.cpus[usize::from(cpu)];
        if switch.prev.is_idle() {
            return StayStart::Since(this.since_ns);
        }
        let Some(index) = self.tasks.find(switch.prev) else { return StayStart::Unknown };
        let task = self.tasks.get(index);
        let is_waiting = task.state == TaskState::Waiting;
        let stayed = this.left == Holder::Task(index) && is_waiting && task.since_ns == this.since_ns;
        let uncounted_ns = u64::try_from(switch.stolen_ns).unwrap_or(0);
        let came_ns = (this.counted_since_ns() + uncounted_ns).min(self.now_ns);
        match (stayed || switch.stolen_ns != 0, task.state) {
            (true, TaskState::Waiting | TaskState::Blocked) => StayStart::Since(came_ns.max(task.since_ns)),
            (true, TaskState::Unknown) => StayStart::Since(came_ns),
            _ => StayStart::Unknown,
        }
    }

    /// For a CPU's first switch after the start of the trace or a loss. `prev` has had the CPU since that
    /// start or loss, unless `prev` was seen elsewhere later.
    #[cold]
    fn first_leaver(&mut self, prev: Tid, since_ns: u64) -> StayStart {
        let Some(index) = self.tasks.find(prev).filter(|_| !prev.is_idle()) else {
            return StayStart::Since(since_ns);
        };
        let task = self.tasks.get(index);
        match task.state {
            TaskState::Running => {
                self.take_away(index);
                self.odd.missing_switch_in += 1;
                StayStart::Unknown
            }
            _ if task.guessed || task.since_ns <= since_ns => StayStart::Since(since_ns),
            _ => {
                self.odd.missing_switch_in += 1;
                StayStart::Unknown
            }
        }
    }

    /// A task that was not known to have the CPU leaves it: a switch is missing.
    #[cold]
    fn wrong_leaver(&mut self, cpu: u16, switch: &Switch) -> StayStart {
        self.odd.missing_switch_in += 1;
        let known = self.unseen_since(cpu, switch);
        let this = &mut self.cpus[usize::from(cpu)];
        let (holder, since_ns) = (this.holder, this.since_ns);
        this.start_cut = true;
        if let Holder::Task(task) = holder {
            self.forget_task(task);
            self.tasks.get_mut(task).since_ns = since_ns;
        }
        if let Some(index) = self.tasks.find(switch.prev).filter(|_| !switch.prev.is_idle()) {
            if self.tasks.get(index).state == TaskState::Running {
                self.take_away(index);
            }
        }
        known
    }

    /// Makes the task's state unknown from now on.
    pub(crate) fn forget_task(&mut self, task: TaskIndex) {
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(task);
        task.state = TaskState::Unknown;
        task.since_ns = now_ns;
        task.clear_pending();
    }

    /// A running task appears elsewhere: it lost the CPU that it was on at some unknown time before now.
    pub(crate) fn take_away(&mut self, task: TaskIndex) {
        let now_ns = self.now_ns;
        for cpu in &mut self.cpus {
            if cpu.holder == Holder::Task(task) {
                let since_ns = cpu.since_ns;
                cpu.forget(now_ns);
                cpu.taken_ns = Some(since_ns);
            }
        }
        self.forget_task(task);
    }

    /// Reports a stay on a CPU that has ended.
    #[expect(clippy::too_many_arguments, reason = "the parts of one interval")]
    pub(crate) fn stay(
        &mut self,
        cpu: u16,
        holder: Holder,
        slice: Slice,
        stolen_ns: i64,
        end: RunEnd,
        cut: Cut,
        to: &mut impl Observer,
    ) {
        self.cpus[usize::from(cpu)].remember(slice);
        let Some((start_ns, end_ns, cut)) = self.clip(slice.start_ns, slice.end_ns, cut) else { return };
        match holder {
            Holder::Task(task) => {
                // If the window cuts a stay, it is not known in which part the time was stolen.
                let most_ns = if start_ns > slice.start_ns { (end_ns - start_ns) as i64 } else { i64::MAX };
                let stolen_ns = stolen_ns.clamp(-most_ns, most_ns);
                to.ran(self, &Ran { task, cpu, start_ns, end_ns, stolen_ns, end, cut });
            }
            Holder::Idle => to.idled(self, &Idled { cpu, start_ns, end_ns }),
            Holder::Unknown => {}
        }
    }

    #[inline]
    fn leave_cpu(
        &mut self,
        cpu: u16,
        index: TaskIndex,
        switch: &Switch,
        next: Holder,
        to: &mut impl Observer,
    ) {
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(index);
        task.since_ns = now_ns;
        task.cpu = cpu;
        task.guessed = false;
        task.prio = switch.prev_prio;
        if switch.prev_state.is_runnable() {
            task.state = TaskState::Waiting;
            task.cause = WaitCause::Preempted { by: next };
            task.waking_ns = now_ns;
            task.has_moved = false;
            // A waking that came while the task ran found it runnable, and has no wake-up.
            task.clear_pending();
        } else if switch.prev_state.is_exit() {
            self.end(index, to);
        } else {
            task.state = TaskState::Blocked;
            task.slept_in = Some(switch.prev_state);
        }
    }

    fn end(&mut self, index: TaskIndex, to: &mut impl Observer) {
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(index);
        task.state = TaskState::Ended;
        task.end_at(now_ns);
        to.ended(self, index);
    }

    #[inline]
    fn get_cpu(&mut self, cpu: u16, index: TaskIndex, prio: u8, to: &mut impl Observer) {
        match self.tasks.get(index).state {
            TaskState::Waiting => self.close_wait(index, cpu, Cut::default(), to),
            TaskState::Blocked => self.get_cpu_unwoken(cpu, index, to),
            TaskState::Unknown | TaskState::Ended => {}
            TaskState::Running => {
                self.odd.missing_switch_out += 1;
                self.take_away(index);
            }
        }
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(index);
        task.state = TaskState::Running;
        task.since_ns = now_ns;
        task.cpu = cpu;
        task.guessed = false;
        task.prio = prio;
        task.clear_pending();
    }

    /// A blocked task gets a CPU without a wake-up. If there was a waking, the task has waited since that
    /// waking; without one, it is not known when the task's sleep ended.
    #[cold]
    fn get_cpu_unwoken(&mut self, cpu: u16, index: TaskIndex, to: &mut impl Observer) {
        match self.tasks.get(index).pending() {
            Some(pending) => {
                self.odd.waking_without_wakeup += 1;
                self.wake(index, cpu, pending.time_ns, pending, to);
                self.close_wait(index, cpu, Cut::default(), to);
            }
            None => self.odd.missing_wakeup += 1,
        }
    }

    /// Reports a wait that has ended, unless lost events hide whether the task waited all the time.
    #[inline]
    pub(crate) fn close_wait(&mut self, index: TaskIndex, cpu: u16, end_cut: Cut, to: &mut impl Observer) {
        self.close_wait_at(index, cpu, self.now_ns, end_cut, to);
    }

    /// Reports, as [`Timeline::close_wait`] does, a wait that ended at `end_ns`.
    pub(crate) fn close_wait_at(
        &mut self,
        index: TaskIndex,
        cpu: u16,
        end_ns: u64,
        end_cut: Cut,
        to: &mut impl Observer,
    ) {
        let task = self.tasks.get(index);
        if self.tainted(task.cpu, task.since_ns) {
            return;
        }
        let cut = Cut { start: task.guessed && task.cause == WaitCause::Unknown, ..end_cut };
        let (cause, waking_ns, moved) = (task.cause, task.waking_ns, task.has_moved.then_some(task.moved));
        if let Some((start_ns, end_ns, cut)) = self.clip(task.since_ns, end_ns, cut) {
            to.waited(self, &Waited { task: index, cpu, start_ns, end_ns, cause, waking_ns, moved, cut });
        }
    }

    /// Reports a sleep that ends at `end_ns`, unless lost events hide whether the task slept all the time.
    #[inline]
    pub(crate) fn close_sleep(
        &mut self,
        index: TaskIndex,
        end_ns: u64,
        end_cut: Cut,
        to: &mut impl Observer,
    ) {
        let task = self.tasks.get(index);
        if self.tainted(task.cpu, task.since_ns) {
            return;
        }
        let state: Option<PrevState> = task.slept_in;
        let cut = Cut { start: task.guessed, ..end_cut };
        if let Some((start_ns, end_ns, cut)) = self.clip(task.since_ns, end_ns.max(task.since_ns), cut) {
            to.slept(self, &Slept { task: index, start_ns, end_ns, state, cut });
        }
    }

    /// Whether events of the CPU have been lost since `since_ns`. A task that was last known to be on that
    /// CPU may then have done anything.
    #[inline]
    fn tainted(&self, cpu: u16, since_ns: u64) -> bool {
        let lost_at_ns = self.cpus.get(usize::from(cpu)).map_or(0, |cpu| cpu.lost_at_ns);
        lost_at_ns > since_ns
    }
}

/// The time since which a leaving task had the CPU, ns, if it is known.
#[derive(Clone, Copy)]
enum StayStart {
    Since(u64),
    Unknown,
}

impl StayStart {
    const fn since_ns(self) -> Option<u64> {
        match self {
            StayStart::Since(since_ns) => Some(since_ns),
            StayStart::Unknown => None,
        }
    }
}
