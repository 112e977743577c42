//! The interactive class. Its tasks spend their quanta, the task with the most left first. When all quanta
//! are spent, each task gets a new one (thesis, 8.3.3).

use std::collections::BTreeMap;

use crate::constants::WakeRule;

#[derive(Clone, Copy, Debug)]
struct Spender {
    level: u8,
    quantum_us: u32,
    left_us: u32,
    /// The task's place among the runnable tasks, by arrival; `None` while the task is blocked.
    arrival: Option<u64>,
}

/// What a wake-up does to the task that has the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum OnWake {
    /// The task goes on, and the woken task waits.
    Queue,
    /// The woken task takes the CPU at once.
    Preempt,
}

/// The tasks of the interactive class on one queue, by any key.
#[derive(Clone, Debug)]
pub struct Epochs<K> {
    tasks: BTreeMap<K, Spender>,
    wake: WakeRule,
    arrivals: u64,
    epochs: u64,
}

impl<K: Copy + Ord> Epochs<K> {
    /// An empty class.
    pub fn new(wake: WakeRule) -> Epochs<K> {
        Epochs { tasks: BTreeMap::new(), wake, arrivals: 0, epochs: 0 }
    }

    /// A new task enters the class: it is blocked, and has its whole quantum at once. Of a known task the
    /// standing changes: what is left of the old quantum is cut to the new quantum.
    pub fn set(&mut self, key: K, level: u8, quantum_us: u32) {
        let task = self.tasks.entry(key).or_insert(Spender {
            level,
            quantum_us,
            left_us: quantum_us,
            arrival: None,
        });
        (task.level, task.quantum_us) = (level, quantum_us);
        task.left_us = task.left_us.min(quantum_us);
    }

    /// A task leaves the class: it is interactive no more, or it has ended.
    pub fn remove(&mut self, key: K) {
        self.tasks.remove(&key);
    }

    /// A child task shares what its parent has left of the quantum and gets nothing else: the child has no
    /// quantum of its own until a round has seen it.
    pub fn fork(&mut self, parent: K, child: K) {
        let Some(from) = self.tasks.get_mut(&parent) else { return };
        let share_us = from.left_us / 2;
        from.left_us -= share_us;
        let child_task = Spender { quantum_us: 0, left_us: share_us, arrival: None, ..*from };
        self.tasks.insert(child, child_task);
    }

    /// A task becomes runnable, while the task `running` has the CPU.
    pub fn wake(&mut self, key: K, running: Option<K>) -> OnWake {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let Some(task) = self.tasks.get_mut(&key) else { return OnWake::Queue };
        task.arrival.get_or_insert(arrival);
        let task = *task;
        let Some(running) = running.and_then(|key| self.tasks.get(&key)) else { return OnWake::Queue };
        let has_more = task.left_us > running.left_us;
        let goes_first = match self.wake {
            WakeRule::MoreLeft => has_more,
            WakeRule::LowerLevel => {
                task.left_us > 0 && (task.level < running.level || (task.level == running.level && has_more))
            }
        };
        if goes_first { OnWake::Preempt } else { OnWake::Queue }
    }

    /// A task blocks: it waits for something else than the CPU.
    pub fn block(&mut self, key: K) {
        if let Some(task) = self.tasks.get_mut(&key) {
            task.arrival = None;
        }
    }

    /// A task had the CPU for `ran_us`.
    pub fn ran(&mut self, key: K, ran_us: u32) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        if let Some(task) = self.tasks.get_mut(&key) {
            task.left_us = task.left_us.saturating_sub(ran_us);
            // The task now stands behind the tasks that are its equals.
            task.arrival = task.arrival.map(|_| arrival);
        }
    }

    /// Which task gets the CPU, and for how many us at most. When no runnable task has anything left of its
    /// quantum, a new epoch begins: each task, a blocked one too, has its whole quantum again and no more
    /// than that.
    pub fn pick(&mut self) -> Option<(K, u32)> {
        if let Some(found) = self.first() {
            return Some(found);
        }
        self.tasks.values().find(|task| task.arrival.is_some() && task.quantum_us > 0)?;
        self.epochs += 1;
        self.tasks.values_mut().for_each(|task| task.left_us = task.quantum_us);
        self.first()
    }

    /// What a task has left of its quantum, us.
    pub fn left_us(&self, key: K) -> Option<u32> {
        self.tasks.get(&key).map(|task| task.left_us)
    }

    /// How many epochs are over.
    pub const fn epochs(&self) -> u64 {
        self.epochs
    }

    /// The runnable task that has the most left of its quantum (thesis) or is on the lowest level. Ties are
    /// decided by the other of these two numbers, then by the order of arrival.
    fn first(&self) -> Option<(K, u32)> {
        let runnable = self.tasks.iter().filter(|(_, task)| task.arrival.is_some() && task.left_us > 0);
        let by_left = |task: &Spender| (u64::from(u32::MAX - task.left_us), u64::from(task.level));
        let best = runnable.min_by_key(|(_, task)| {
            let (left, level) = by_left(task);
            let order = match self.wake {
                WakeRule::MoreLeft => (left, level),
                WakeRule::LowerLevel => (level, left),
            };
            (order, task.arrival)
        });
        best.map(|(&key, task)| (key, task.left_us))
    }
}
