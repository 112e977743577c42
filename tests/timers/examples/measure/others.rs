//! The same operations on other timer queues. None of them has an overshoot, and their ticks are 1 ms.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::wheels::TimerEntryWithDelay;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use nexus_timer::Wheel;
use tokio_util::time::DelayQueue;

use crate::micro::{Operation, PENDING, far_ns, least};

pub fn operations(rounds: usize) -> Vec<Operation> {
    [nexus(rounds), hierarchical(rounds), tokio_wheel(rounds)].concat()
}

fn after(at: u64) -> Duration {
    Duration::from_nanos(far_ns(at))
}

fn nexus(rounds: usize) -> Vec<Operation> {
    let start = Instant::now();
    let mut wheel: Wheel<u32> = Wheel::unbounded(PENDING as usize + 1, start);
    let mut handles: Vec<_> = (0..PENDING).map(|at| Some(wheel.schedule(start + after(at), 0))).collect();
    let again = least(rounds, |at| {
        let handle = &mut handles[(at % PENDING) as usize];
        let old = handle.take().expect("it is pending");
        *handle = Some(wheel.reschedule(old, start + after(at * 7 % PENDING)));
    });
    let cancel = least(rounds, |at| {
        let handle = wheel.schedule(start + after(at * 7 % PENDING), 0);
        black_box(wheel.cancel(handle));
    });
    for handle in handles.into_iter().flatten() {
        wheel.cancel(handle);
    }
    let (mut now, mut due) = (start, Vec::new());
    let take = least(rounds, |_| {
        now += Duration::from_millis(1);
        wheel.schedule_forget(now, 0);
        now += Duration::from_millis(1);
        wheel.poll(now, &mut due);
        black_box(due.pop());
    });
    vec![
        Operation { name: "nexus-timer: arm again, 1 to 2 s ahead", ns: again },
        Operation { name: "nexus-timer: arm and cancel, 1 to 2 s ahead", ns: cancel },
        Operation { name: "nexus-timer: arm, and take when due, one pending", ns: take },
    ]
}

#[derive(Debug)]
struct Entry {
    id: u64,
    delay: Duration,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }
}

impl TimerEntryWithDelay for Entry {
    fn delay(&self) -> Duration {
        self.delay
    }
}

fn hierarchical(rounds: usize) -> Vec<Operation> {
    let mut wheel: QuadWheelWithOverflow<Entry> = QuadWheelWithOverflow::new();
    let entry = |id: u64, at: u64| Rc::new(Entry { id, delay: after(at) });
    for id in 0..PENDING {
        wheel.insert_ref(entry(id, id)).expect("it has time");
    }
    let again = least(rounds, |at| {
        let id = at % PENDING;
        wheel.cancel(&id).expect("it is pending");
        wheel.insert_ref(entry(id, at * 7 % PENDING)).expect("it has time");
    });
    let cancel = least(rounds, |at| {
        wheel.insert_ref(entry(PENDING, at * 7 % PENDING)).expect("it has time");
        wheel.cancel(&PENDING).expect("it is pending");
    });
    vec![
        Operation { name: "hierarchical_hash_wheel_timer: arm again, 1 to 2 s ahead", ns: again },
        Operation { name: "hierarchical_hash_wheel_timer: arm and cancel, 1 to 2 s ahead", ns: cancel },
    ]
}

/// tokio's wheel without its driver, in the form of tokio-util.
fn tokio_wheel(rounds: usize) -> Vec<Operation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    let mut queue: DelayQueue<u32> = DelayQueue::with_capacity(PENDING as usize + 1);
    let start = tokio::time::Instant::now();
    let keys: Vec<_> = (0..PENDING).map(|at| queue.insert_at(0, start + after(at))).collect();
    let again = least(rounds, |at| {
        queue.reset_at(&keys[(at % PENDING) as usize], start + after(at * 7 % PENDING));
    });
    let cancel = least(rounds, |at| {
        let key = queue.insert_at(0, start + after(at * 7 % PENDING));
        black_box(queue.remove(&key));
    });
    vec![
        Operation { name: "tokio-util's DelayQueue: arm again, 1 to 2 s ahead", ns: again },
        Operation { name: "tokio-util's DelayQueue: arm and cancel, 1 to 2 s ahead", ns: cancel },
    ]
}
