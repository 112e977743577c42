//! The epoll loop, with real time: bounds hold on a busy machine, since a timer may be late but not early.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use spry_timer::{Loop, READABLE, Ready, Refused, Terms, Trigger, measure_costs, now_ns};

#[test]
fn the_backstop_fires_a_timer_after_its_deadline() {
    let mut event_loop: Loop<u32> = Loop::new().expect("a loop");
    let start_ns = now_ns();
    for (value, delay_us) in [(2, 700), (1, 200), (3, 5_000)] {
        let delay = Duration::from_micros(delay_us);
        event_loop.arm_after(delay, Duration::from_micros(50), value).expect("it can be kept");
    }
    let (mut ready, mut order) = (Vec::new(), Vec::new());
    while order.len() < 3 {
        let trigger = event_loop.wait(&mut ready).expect("it waits");
        assert_eq!((trigger, ready.as_slice()), (Trigger::Backstop, [].as_slice()));
        event_loop.fire(trigger, |_, fired| order.push((fired.value, now_ns() >= fired.deadline_ns)));
    }
    assert_eq!(order, [(1, true), (2, true), (3, true)]);
    assert!(now_ns() - start_ns >= 5_000_000);
    assert_eq!((event_loop.timers().counts().hard, event_loop.timers().len()), (3, 0));
}

#[test]
fn a_descriptor_wakes_the_loop_before_a_long_backstop() {
    let mut event_loop: Loop<u32> = Loop::new().expect("a loop");
    let (mut ours, theirs) = UnixStream::pair().expect("two sockets");
    event_loop.add(&theirs, 7, READABLE).expect("it can be waited for");
    let hour = Duration::from_secs(3600);
    let soft = event_loop.arm_after(Duration::ZERO, hour, 1).expect("it can be kept");
    ours.write_all(b"x").expect("a byte");
    let mut ready = Vec::new();
    assert_eq!(event_loop.wait(&mut ready).expect("it waits"), Trigger::Check);
    assert_eq!(ready, [Ready { token: 7, flags: READABLE }]);
    let mut fired = 0;
    event_loop.check(|timers, it| {
        fired += it.value;
        assert_eq!((it.handle, timers.deadline_ns(soft)), (soft, None));
    });
    assert_eq!((fired, event_loop.timers().counts().soft), (1, 1));
    event_loop.remove(&theirs).expect("it was added");
    assert!(event_loop.remove(&theirs).is_err());
}

#[test]
fn a_timer_is_armed_while_another_one_fires() {
    let mut event_loop: Loop<u32> = Loop::new().expect("a loop");
    event_loop.arm_after(Duration::ZERO, Duration::ZERO, 1).expect("it can be kept");
    let (mut ready, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < 20 {
        let trigger = event_loop.wait(&mut ready).expect("it waits");
        event_loop.fire(trigger, |timers, fired| {
            seen.push(fired.value);
            let deadline_ns = fired.deadline_ns + fired.late_ns + 10_000;
            let terms = Terms::firm(deadline_ns, 20_000);
            timers.arm(fired.deadline_ns, terms, fired.value + 1).expect("it can be kept");
        });
    }
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}

#[test]
fn another_thread_arms_and_cancels_on_a_loop_that_sleeps() {
    let mut event_loop: Loop<u32> = Loop::new().expect("a loop");
    // It fires only if the other thread fails.
    event_loop.arm_after(Duration::from_secs(20), Duration::ZERO, 1000).expect("it can be kept");
    let hour = Duration::from_secs(3600);
    let held = event_loop.arm_after(hour, Duration::ZERO, 7).expect("it can be kept");
    let remote = event_loop.remote();
    let other = std::thread::spawn(move || {
        for value in 0..100 {
            let delay = Duration::from_micros(u64::from(value % 7) * 100);
            remote.arm_after(delay, Duration::from_micros(50), value).expect("it can be kept");
            std::thread::sleep(Duration::from_micros(u64::from(value % 3) * 50));
        }
        remote.cancel(held);
        remote.arm(Terms::firm(10, 20).every(5), 0).expect_err("the deadline is in the past")
    });
    let (mut ready, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < 100 || event_loop.timers().deadline_ns(held).is_some() {
        let trigger = event_loop.wait(&mut ready).expect("it waits");
        event_loop.fire(trigger, |_, fired| {
            assert!(fired.value < 100, "a timer is missing: {seen:?}");
            seen.push(fired.value);
        });
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert!(matches!(other.join().expect("it ends"), Refused::Past { deadline_ns: 10, .. }));
}

#[test]
fn a_loop_that_works_sees_other_threads_timers_at_a_check() {
    let mut event_loop: Loop<u32> = Loop::new().expect("a loop");
    let remote = event_loop.remote();
    let other = std::thread::spawn(move || remote.arm_after(Duration::ZERO, Duration::ZERO, 1));
    other.join().expect("it ends").expect("it can be kept");
    let mut seen = Vec::new();
    event_loop.check(|_, fired| seen.push(fired.value));
    assert_eq!(seen, [1]);
}

#[test]
fn a_token_or_terms_that_cannot_be_get_one_line() {
    let mut event_loop: Loop<u32> = Loop::new().expect("a loop");
    let (_ours, theirs) = UnixStream::pair().expect("two sockets");
    let error = event_loop.add(&theirs, u64::MAX, READABLE).expect_err("it is the backstop's");
    assert_eq!(error.to_string(), "a token is 0 to 18446744073709551613, not 18446744073709551615");
    let refused = event_loop.timers().arm(9, Terms::hard(8), 1);
    assert_eq!(refused, Err(Refused::Past { deadline_ns: 8, now_ns: 9 }));
}

#[test]
fn a_check_is_cheaper_than_an_expiry_on_this_machine() {
    let costs = measure_costs().expect("a timer");
    assert!(costs.check_ns < costs.hard_ns && costs.soft_ns < costs.hard_ns, "{costs:?}");
    // If one check in two fires a timer, the checks are worth their cost on any machine.
    assert!(costs.pay(50_000, 100_000), "{costs:?}");
}
