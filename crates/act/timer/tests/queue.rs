//! Tests the guarantees of a queue, each with a case of its own.

use spry_timer::{Costs, Handle, PERIOD_NS, Refused, SOFT, Terms, Timers, Trigger};

/// The values of all timers that are due, in the order in which they fire.
fn taken(timers: &mut Timers<&'static str>, now_ns: u64) -> Vec<&'static str> {
    std::iter::from_fn(|| timers.take(now_ns, Trigger::Check)).map(|fired| fired.value).collect()
}

#[test]
fn timers_of_one_deadline_fire_in_the_order_of_arming() {
    let mut timers = Timers::new();
    let first = timers.arm(0, Terms::hard(9 * PERIOD_NS), "first").expect("it can be kept");
    timers.arm(0, Terms::soft(9 * PERIOD_NS), "second").expect("it can be kept");
    timers.arm(0, Terms::firm(9 * PERIOD_NS, 7), "third").expect("it can be kept");
    timers.rearm(0, first, Terms::hard(9 * PERIOD_NS)).expect("it can be kept");
    assert_eq!(taken(&mut timers, 10 * PERIOD_NS), ["second", "third", "first"]);
}

#[test]
fn the_papers_example_has_eleven_expiries_in_35_ms() {
    // Periods of 5 and 7 ms: the two deadlines at 35 ms are one expiry.
    let mut timers = Timers::new();
    for (period_ms, name) in [(5, "five"), (7, "seven")] {
        let period_ns = period_ms * 1_000_000;
        timers.arm(0, Terms::hard(period_ns).every(period_ns), name).expect("it can be kept");
    }
    let mut expiries = 0;
    while let Some(now_ns) = timers.backstop_ns().filter(|&it| it <= 35_000_000) {
        assert!(!taken(&mut timers, now_ns).is_empty());
        expiries += 1;
    }
    assert_eq!(expiries, 11);
}

#[test]
fn a_periodic_timer_does_not_drift_and_leaves_none_out() {
    let mut timers = Timers::new();
    timers.arm(0, Terms::firm(10, 5).every(10), "tick").expect("it can be kept");
    let deadlines = |timers: &mut Timers<&'static str>, now_ns| -> Vec<u64> {
        let fired = std::iter::from_fn(|| timers.take(now_ns, Trigger::Check));
        fired.map(|fired| fired.deadline_ns).collect()
    };
    assert_eq!(deadlines(&mut timers, 14), [10]);
    assert_eq!(deadlines(&mut timers, 45), [20, 30, 40]);
    assert_eq!(timers.backstop_ns(), Some(55));
}

#[test]
fn a_handle_does_not_name_a_later_timer_in_its_slot() {
    let mut timers = Timers::new();
    let old = timers.arm(0, Terms::hard(1), "old").expect("it can be kept");
    assert_eq!(taken(&mut timers, 1), ["old"]);
    let new = timers.arm(1, Terms::hard(2), "new").expect("it can be kept");
    assert_ne!(old, new);
    assert_eq!(timers.rearm(1, old, Terms::hard(5)), Err(Refused::Ended));
    assert_eq!(timers.cancel(old), None);
    assert_eq!(timers.cancel(Handle::from_bits(new.to_bits())), Some("new"));
}

#[test]
fn the_value_of_a_pending_timer_can_be_changed() {
    let mut timers = Timers::new();
    let handle = timers.arm(0, Terms::hard(5), "before").expect("it can be kept");
    *timers.value_mut(handle).expect("it is pending") = "after";
    assert_eq!(taken(&mut timers, 5), ["after"]);
    assert_eq!(timers.value_mut(handle), None);
}

#[test]
fn a_timer_that_cannot_be_gets_one_line_with_the_limits() {
    let mut timers = Timers::new();
    let mut line = |terms| timers.arm(1000, terms, "x").expect_err("it cannot be").to_string();
    assert_eq!(line(Terms::hard(400)), "a deadline is 1000 ns (now) or later, not 400 ns: 600 ns ago");
    assert_eq!(
        line(Terms::firm(2000, 600).every(500)),
        "an overshoot is 0 to 500 ns (the period) or infinite, not 600 ns"
    );
    assert_eq!(line(Terms::hard(2000).every(0)), "a period is 1 ns or longer, not 0");
    assert!(timers.is_empty());
    timers.arm(1000, Terms::soft(2000).every(500), "soft").expect("soft timers have no limit");
}

#[test]
fn a_refused_rearm_leaves_the_timer_as_it_was() {
    let mut timers = Timers::new();
    let handle = timers.arm(0, Terms::firm(50, 3), "x").expect("it can be kept");
    assert!(timers.rearm(20, handle, Terms::hard(10)).is_err());
    assert_eq!((timers.deadline_ns(handle), timers.backstop_ns()), (Some(50), Some(53)));
}

#[test]
fn no_backstop_is_armed_for_soft_timers() {
    let mut timers = Timers::new();
    timers.arm(0, Terms::soft(5), "soft").expect("it can be kept");
    timers.arm(0, Terms::firm(5, SOFT - 1), "beyond").expect("it can be kept");
    assert_eq!(timers.backstop_ns(), None);
    let late = timers.arm(0, Terms::hard(1 << 60), "hard").expect("it can be kept");
    assert_eq!(timers.backstop_ns(), Some(1 << 60));
    assert_eq!(timers.cancel(late), Some("hard"));
    assert_eq!(taken(&mut timers, 5), ["soft", "beyond"]);
}

#[test]
fn expiries_are_counted_by_what_fired_them() {
    let mut timers = Timers::new();
    for deadline_ns in 1..=5 {
        timers.arm(0, Terms::hard(deadline_ns), "x").expect("it can be kept");
    }
    assert!(!timers.poll(0) && timers.poll(2));
    assert_eq!(taken(&mut timers, 2).len(), 2);
    while timers.take(9, Trigger::Backstop).is_some() {}
    let counts = timers.counts();
    assert_eq!((counts.hard, counts.soft, counts.checks), (3, 2, 2));
}

#[test]
fn checks_pay_from_the_papers_break_even_on() {
    // 0.15 us / (8 us - 1 us) = 2.1 %.
    let costs = Costs::default();
    assert!(!costs.pay(214, 10_000) && costs.pay(215, 10_000));
    let dear_checks = Costs { hard_ns: 5, soft_ns: 5, check_ns: 1 };
    assert!(!dear_checks.pay(1_000, 1));
}

/// Passes trigger points; a timer is due at each `each`th check. Returns at how many points it checked.
fn checked(timers: &mut Timers<&'static str>, points: u64, each: u64) -> u64 {
    let mut checks = 0;
    for _ in 0..points {
        if !timers.wants_check() {
            continue;
        }
        checks += 1;
        if checks % each == 0 {
            timers.arm(0, Terms::hard(0), "due").expect("it can be kept");
        }
        if timers.poll(0) {
            assert_eq!(taken(timers, 0).len(), 1);
        }
    }
    checks
}

#[test]
fn checks_that_do_not_pay_rest_and_are_tried_again() {
    let mut timers = Timers::new();
    assert_eq!(checked(&mut timers, 100_000, 40), 100_000, "2.5 % fire a timer");
    let wasted = checked(&mut timers, 10_000_000, 100);
    assert!((1..200_000).contains(&wasted), "1 % fires a timer: {wasted} checks");
    // As soon as they pay again, the next trial turns them on.
    checked(&mut timers, 300_000, 10);
    assert_eq!(checked(&mut timers, 100_000, 10), 100_000);
}

#[test]
fn checks_do_not_rest_while_a_soft_timer_waits() {
    let mut timers = Timers::new();
    checked(&mut timers, 1_000_000, 1_000_000);
    assert!(!timers.is_checking());
    let soft = timers.arm(0, Terms::soft(1 << 40), "soft").expect("it can be kept");
    assert_eq!(checked(&mut timers, 50_000, 1_000_000), 50_000);
    timers.cancel(soft);
    assert!(checked(&mut timers, 50_000, 1_000_000) < 10_000);
}
