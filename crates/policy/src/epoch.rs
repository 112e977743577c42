//! The interactive class: quanta are spent, most left first, and given anew when all are spent (thesis, 8.3.3).

use std::collections::BTreeMap;

use crate::constants::WakeRule;

#[derive(Clone, Copy, Debug)]
struct Task {
    level: u8,
    quantum_us: u32,
    left_us: u32,
    /// Its place among the runnable by arrival; `None` while it is blocked.
    arrival: Option<u64>,
}

/// What a wake-up does to the one who has the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum OnWake {
    /// It goes on.
    Queue,
    /// The woken one takes the CPU at once.
    Preempt,
}

/// The tasks of the interactive class on one queue, by any key.
#[derive(Clone, Debug)]
pub struct Epochs<K> {
    tasks: BTreeMap<K, Task>,
    wake: WakeRule,
    arrivals: u64,
    epochs: u64,
}

impl<K: Copy + Ord> Epochs<K> {
    /// An empty class.
    pub fn new(wake: WakeRule) -> Epochs<K> {
        Epochs { tasks: BTreeMap::new(), wake, arrivals: 0, epochs: 0 }
    }

    /// A task enters, blocked, and has its quantum at once; or its standing changes: what is left of the old quantum is cut
    /// to the new one.
    pub fn set(&mut self, key: K, level: u8, quantum_us: u32) {
        let task =
            self.tasks.entry(key).or_insert(Task { level, quantum_us, left_us: quantum_us, arrival: None });
        (task.level, task.quantum_us) = (level, quantum_us);
        task.left_us = task.left_us.min(quantum_us);
    }

    /// A task leaves: it is interactive no more, or is no more.
    pub fn remove(&mut self, key: K) {
        self.tasks.remove(&key);
    }

    /// A child shares what its parent has left and nothing else: it has no quantum of its own before a round has seen it.
    pub fn fork(&mut self, parent: K, child: K) {
        let Some(from) = self.tasks.get_mut(&parent) else { return };
        let share_us = from.left_us / 2;
        from.left_us -= share_us;
        let child_task = Task { quantum_us: 0, left_us: share_us, arrival: None, ..*from };
        self.tasks.insert(child, child_task);
    }

    /// A task is runnable, while `running` has the CPU.
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

    /// A task waits for something else than the CPU.
    pub fn block(&mut self, key: K) {
        if let Some(task) = self.tasks.get_mut(&key) {
            task.arrival = None;
        }
    }

    /// A task had the CPU for that long.
    pub fn ran(&mut self, key: K, ran_us: u32) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        if let Some(task) = self.tasks.get_mut(&key) {
            task.left_us = task.left_us.saturating_sub(ran_us);
            // Behind its equals.
            task.arrival = task.arrival.map(|_| arrival);
        }
    }

    /// Who gets the CPU, and for how long at most, us. When none of the runnable has anything left, a new epoch begins: all
    /// tasks, blocked ones too, have their quanta again and nothing more.
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

    /// Epochs that are over.
    pub const fn epochs(&self) -> u64 {
        self.epochs
    }

    /// The runnable task with the most left (thesis) or on the lowest level; ties by the other, then first in, first out.
    fn first(&self) -> Option<(K, u32)> {
        let runnable = self.tasks.iter().filter(|(_, task)| task.arrival.is_some() && task.left_us > 0);
        let by_left = |task: &Task| (u64::from(u32::MAX - task.left_us), u64::from(task.level));
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
