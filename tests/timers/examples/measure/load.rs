//! The load: periodic timers with deadlines that are evenly spread, 197,000 a second.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use spry_timer::now_ns;

/// The number of timers, each with this period: 197,000 deadlines a second, one each 5.08 us.
pub const TIMERS: u64 = 197;
pub const PERIOD_NS: u64 = 1_000_000;
/// The length of a piece of work, in ns: at its end is a trigger point.
pub const PIECE_NS: u64 = 20_000;

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The CPU time for timers, in percent of one CPU.
    pub cpu_percent: f64,
    /// The lateness of each expiry, in ns.
    pub late_ns: Vec<u32>,
    /// The number of deadlines within the time.
    pub expected: u64,
}

/// The first deadline of a timer, in ns.
pub fn first_deadline_ns(start_ns: u64, timer: u64) -> u64 {
    start_ns + PERIOD_NS + timer * PERIOD_NS / TIMERS
}

/// The number of deadlines before the end.
pub fn expected(start_ns: u64, end_ns: u64) -> u64 {
    let of = |timer| {
        let first_ns = first_deadline_ns(start_ns, timer);
        if first_ns > end_ns { 0 } else { (end_ns - first_ns) / PERIOD_NS + 1 }
    };
    (0..TIMERS).map(of).sum()
}

/// A list with room for this time, so that it does not grow during the measurement.
pub fn lateness(time: Duration) -> Vec<u32> {
    Vec::with_capacity((time.as_secs_f64() * 1.2e9 / PERIOD_NS as f64) as usize * TIMERS as usize + 1000)
}

/// The CPU time of the calling thread, in ns.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A piece of work of a given length, as a number of steps.
#[derive(Clone, Copy)]
pub struct Piece(u64);

impl Piece {
    /// Finds the number of steps that take this CPU time.
    pub fn of(ns: u64) -> Piece {
        const STEPS: u64 = 200_000;
        let took = |_| {
            let before_ns = cpu_ns();
            Piece(STEPS).work();
            cpu_ns() - before_ns
        };
        let least_ns = (0..9).map(took).min().unwrap_or(1).max(1);
        Piece((STEPS * ns / least_ns).max(1))
    }

    #[inline(never)]
    pub fn work(self) {
        let mut state = black_box(1_u64);
        for _ in 0..self.0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

/// The length of a slice, with timers and without them in turn.
const SLICE: Duration = Duration::from_millis(50);

/// The CPU time for timers in a loop with work: slices of work alone are compared with slices of work and
/// timers. The outcome's CPU time is the additional time of a piece of work with timers. `slice` works until
/// the time has passed, and returns the number of its pieces and the number of its deadlines.
pub fn beside_work(
    time: Duration,
    piece: Piece,
    mut slice: impl FnMut(Piece, Duration, &mut Vec<u32>) -> (u64, u64),
) -> Outcome {
    let mut outcome = Outcome { late_ns: lateness(time), ..Outcome::default() };
    let mut shares = Vec::new();
    let until_ns = now_ns() + time.as_nanos() as u64;
    while now_ns() < until_ns {
        let alone = |_| {
            let before_ns = cpu_ns();
            let end_ns = now_ns() + SLICE.as_nanos() as u64 / 2;
            let mut pieces = 0;
            while pieces % 8 != 0 || now_ns() < end_ns {
                piece.work();
                pieces += 1;
            }
            (cpu_ns() - before_ns) as f64 / pieces as f64
        };
        let first = alone(());
        let before_ns = cpu_ns();
        let (pieces, expected) = slice(piece, SLICE, &mut outcome.late_ns);
        let with = (cpu_ns() - before_ns) as f64 / pieces as f64;
        let plain = (first + alone(())) / 2.0;
        shares.push((with - plain) / with * 100.0);
        outcome.expected += expected;
    }
    shares.sort_by(f64::total_cmp);
    outcome.cpu_percent = shares[shares.len() / 2];
    outcome
}
