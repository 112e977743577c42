//! The costs of single operations.

use std::hint::black_box;

use spry_timer::{Terms, Timers, Trigger, now_ns};

use crate::others;

/// An operation and its time, in ns.
#[derive(Clone)]
pub struct Operation {
    pub name: &'static str,
    pub ns: f64,
}

/// The number of pending timers.
pub const PENDING: u64 = 10_000;

/// How many times an operation is done between two readings of the clock.
const TIMES: u64 = 200_000;

/// The least time of an operation in any round: a disturbance can only add time.
pub fn least(rounds: usize, mut operation: impl FnMut(u64)) -> f64 {
    let round = |_| {
        let before_ns = now_ns();
        for at in 0..TIMES {
            operation(at);
        }
        (now_ns() - before_ns) as f64 / TIMES as f64
    };
    (0..rounds.max(5)).map(round).fold(f64::INFINITY, f64::min)
}

/// Deadlines from 1 s to 1.8 s.
pub fn far_ns(at: u64) -> u64 {
    1_000_000_000 + at * 77_777
}

/// All operations. If timers are pending, there are 10,000.
pub fn operations(rounds: usize) -> Vec<Operation> {
    let mut timers: Timers<u32> = Timers::with_capacity(PENDING as usize + 1);
    let handles: Vec<_> = (0..PENDING)
        .map(|at| timers.arm(0, Terms::firm(far_ns(at), 50_000), 0).expect("it can be kept"))
        .collect();
    let mut of = Vec::new();
    let mut note = |name, ns| of.push(Operation { name, ns });
    note("read the clock", least(rounds, |_| _ = black_box(now_ns())));
    note("poll, nothing due", least(rounds, |at| _ = black_box(timers.poll(black_box(at)))));
    let mut checked: Timers<u32> = Timers::new();
    checked.arm(0, Terms::soft(u64::MAX - 1), 0).expect("it can be kept");
    note(
        "check with the clock, nothing due",
        least(rounds, |_| {
            if checked.wants_check() {
                black_box(checked.poll(now_ns()));
            }
        }),
    );
    note(
        "spry-timer: arm again, 1 to 2 s ahead",
        least(rounds, |at| {
            let handle = handles[(at % PENDING) as usize];
            timers.rearm(0, handle, Terms::firm(far_ns(at * 7 % PENDING), 50_000)).expect("it can be kept");
        }),
    );
    note(
        "spry-timer: arm and cancel, 1 to 2 s ahead",
        least(rounds, |at| {
            let handle = timers.arm(0, Terms::firm(far_ns(at * 7 % PENDING), 9), 0).expect("it can be kept");
            black_box(timers.cancel(handle));
        }),
    );
    let mut due: Timers<u32> = Timers::new();
    let mut time_ns = 0;
    note(
        "spry-timer: arm, and take when due, one pending",
        least(rounds, |_| {
            time_ns += 1000;
            due.arm(time_ns, Terms::firm(time_ns, 50_000), 0).expect("it can be kept");
            black_box(due.take(time_ns, Trigger::Check));
        }),
    );
    of.extend(others::operations(rounds));
    of
}
