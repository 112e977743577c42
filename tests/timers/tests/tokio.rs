//! Sleeps and intervals of tokio's tasks, with real time: a sleep may be late but not early.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use spry_timer::Refused;
use spry_timer::tokio::Time;
use tokio::runtime::Runtime;

const SHORT: Duration = Duration::from_micros(50);
const LONG: Duration = Duration::from_secs(3600);

fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime")
}

fn two_threads() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_io().build().expect("a runtime")
}

#[test]
fn a_sleep_ends_after_its_deadline_and_not_before() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        for delay_us in [0, 1, 80, 300, 1500] {
            let deadline = Instant::now() + Duration::from_micros(delay_us);
            time.sleep_until(deadline, SHORT).await;
            // Both clocks were read one after another at the start.
            assert!(Instant::now() + Duration::from_micros(5) >= deadline, "{delay_us}");
        }
    });
}

#[test]
fn a_deadline_in_the_past_has_been_reached() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let start = Instant::now();
        time.sleep_until(start - LONG, LONG).await;
        time.sleep(Duration::ZERO, LONG).await;
        assert!(start.elapsed() < LONG);
    });
}

#[test]
fn no_tick_is_lost_on_one_thread_or_two() {
    for runtime in [one_thread(), two_threads()] {
        runtime.block_on(async {
            let time = Time::start().expect("a runtime runs");
            let tasks: Vec<_> = (0..20)
                .map(|task| {
                    let (start, period) = (Instant::now(), Duration::from_micros(500 + task));
                    let mut ticks =
                        time.interval(period, Duration::from_micros(100)).expect("it can be kept");
                    tokio::spawn(async move {
                        for _ in 0..40 {
                            ticks.tick().await;
                        }
                        assert!(start.elapsed() >= 40 * period);
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("it ends");
            }
            let counts = time.counts();
            assert!(counts.hard + counts.soft <= 20 * 40, "{counts:?}");
        });
    }
}

#[test]
fn an_interval_keeps_to_its_first_tick() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let first = Instant::now() + Duration::from_micros(700);
        let period = Duration::from_micros(300);
        let mut ticks = time.interval_at(first, period, SHORT).expect("it can be kept");
        for tick in 0..5 {
            let late = ticks.tick().await;
            assert!(Instant::now() + Duration::from_micros(5) >= first + tick * period + late);
        }
    });
}

#[test]
fn ticks_that_were_missed_follow_at_once() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let mut ticks = time.interval(Duration::from_millis(1), SHORT).expect("it can be kept");
        std::thread::sleep(Duration::from_millis(8));
        let start = Instant::now();
        let late: Vec<Duration> = [ticks.tick().await, ticks.tick().await, ticks.tick().await].to_vec();
        assert!(late[0] >= Duration::from_millis(7) && late[2] >= Duration::from_millis(5), "{late:?}");
        assert!(late[0] > late[1] || start.elapsed() > Duration::from_millis(1));
    });
}

#[test]
fn the_end_of_a_sleep_wakes_all_tasks_that_are_due() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let woken = Arc::new(AtomicU64::new(0));
        // Their backstop is an hour later: only a trigger point can wake them in time.
        for _ in 0..10 {
            let (sleep, woken) = (time.sleep(Duration::from_millis(1), LONG), woken.clone());
            tokio::spawn(async move {
                sleep.await;
                woken.fetch_add(1, Ordering::Relaxed);
            });
        }
        time.sleep(Duration::from_millis(2), SHORT).await;
        tokio::task::yield_now().await;
        time.check();
        tokio::task::yield_now().await;
        assert_eq!(woken.load(Ordering::Relaxed), 10);
    });
}

#[test]
fn a_sleep_that_is_dropped_wakes_nothing() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let mut context = Context::from_waker(Waker::noop());
        let mut sleep = Box::pin(time.sleep(Duration::from_micros(100), SHORT));
        assert_eq!(sleep.as_mut().poll(&mut context), Poll::Pending);
        drop(sleep);
        time.sleep(Duration::from_millis(1), SHORT).await;
        let counts = time.counts();
        assert_eq!(counts.hard + counts.soft, 1);
    });
}

#[test]
fn a_task_that_is_always_late_lets_others_run() {
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let mut ticks = time.interval(Duration::from_nanos(1), Duration::ZERO).expect("it can be kept");
        let late = tokio::spawn(async move {
            loop {
                ticks.tick().await;
            }
        });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        late.abort();
        assert!(late.await.expect_err("it never ends").is_cancelled());
    });
}

#[test]
fn impossible_intervals_are_refused_in_one_line() {
    let outside = Time::start().expect_err("no runtime runs");
    assert!(!outside.to_string().contains('\n'), "{outside}");
    one_thread().block_on(async {
        let time = Time::start().expect("a runtime runs");
        let refused = time.interval(SHORT, 2 * SHORT).expect_err("the overshoot is above the period");
        assert_eq!(refused, Refused::Overshoot { overshoot_ns: 100_000, period_ns: 50_000 });
        assert_eq!(time.interval(Duration::ZERO, Duration::ZERO).expect_err("no period"), Refused::NoPeriod);
    });
}
