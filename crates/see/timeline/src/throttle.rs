//! Throttled tasks: runnable, but not allowed to run, since the quota of their group is spent.

use std::sync::Arc;

use spry_trace::event::{Limit, Throttled};

use crate::interval::{Cut, LimitIndex, Observer, WaitCause};
use crate::machine::Timeline;
use crate::task::TaskState;

impl Timeline {
    /// A limit that a wait's cause names.
    pub fn limit(&self, limit: LimitIndex) -> &Limit {
        &self.limits[limit.0 as usize]
    }

    pub(crate) fn throttled(&mut self, throttled: &Throttled, to: &mut impl Observer) {
        if throttled.tid.is_idle() {
            return;
        }
        let index = self.tasks.touch(throttled.tid, self.now_ns);
        if self.tasks.get(index).state != TaskState::Waiting {
            return;
        }
        let limit = self.limit_index(&throttled.limit);
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(index);
        task.cause = WaitCause::Throttled { limit };
        let (cpu, since_ns) = (task.cpu, task.since_ns);
        // A task that got its CPU as soon as it was allowed to run has not waited for it.
        let until_ns = throttled.throttled_ns.map(|ns| since_ns.saturating_add(ns));
        let Some(until_ns) = until_ns.filter(|&until_ns| until_ns < now_ns) else { return };
        if until_ns > since_ns {
            self.close_wait_at(index, cpu, until_ns, Cut::default(), to);
        }
        let task = self.tasks.get_mut(index);
        task.cause = WaitCause::Released { limit };
        task.since_ns = until_ns;
        task.waking_ns = until_ns;
    }

    fn limit_index(&mut self, limit: &Arc<Limit>) -> LimitIndex {
        let at = self.limits.iter().position(|known| known == limit).unwrap_or_else(|| {
            self.limits.push(Arc::clone(limit));
            self.limits.len() - 1
        });
        LimitIndex(at as u32)
    }
}
