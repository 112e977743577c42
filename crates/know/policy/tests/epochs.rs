//! The interactive class: which task gets the CPU, and when.

use spry_policy::{Epochs, OnWake, WakeRule};

#[test]
fn in_an_epoch_each_gets_its_quantum_and_nothing_is_carried_over() {
    let mut class = Epochs::new(WakeRule::MoreLeft);
    class.set("movie", 1, 200);
    class.set("shell", 3, 100);
    let _ = (class.wake("movie", None), class.wake("shell", None));
    let mut ran = [0, 0];
    for _ in 0..300 {
        let (key, most_us) = class.pick().unwrap();
        let slice_us = most_us.min(10);
        class.ran(key, slice_us);
        ran[usize::from(key == "shell")] += slice_us;
    }
    assert_eq!(ran, [2_000, 1_000]);
    // The last epoch is used up, but not counted yet: the next one begins with the next `pick`.
    assert_eq!(class.epochs(), 9);
}

#[test]
fn one_that_slept_through_an_epoch_has_one_quantum_not_two() {
    let mut class = Epochs::new(WakeRule::MoreLeft);
    class.set("hog", 1, 100);
    class.set("sleeper", 1, 100);
    let _ = class.wake("hog", None);
    for _ in 0..5 {
        let (key, left_us) = class.pick().unwrap();
        class.ran(key, left_us);
    }
    assert_eq!(class.left_us("sleeper"), Some(100));
}

#[test]
fn literally_a_woken_task_takes_the_cpu_only_with_more_left() {
    let mut class = Epochs::new(WakeRule::MoreLeft);
    class.set("hog", 5, 100);
    class.set("editor", 1, 200);
    let _ = class.wake("hog", None);
    class.ran("editor", 150);
    assert_eq!(class.wake("editor", Some("hog")), OnWake::Queue);
    class.ran("hog", 60);
    class.block("editor");
    assert_eq!(class.wake("editor", Some("hog")), OnWake::Preempt);
}

#[test]
fn by_default_a_lower_level_goes_first_as_long_as_it_has_anything_left() {
    let mut class = Epochs::new(WakeRule::LowerLevel);
    class.set("hog", 5, 100);
    class.set("editor", 1, 200);
    let _ = class.wake("hog", None);
    class.ran("editor", 199);
    assert_eq!(class.wake("editor", Some("hog")), OnWake::Preempt);
    assert_eq!(class.pick(), Some(("editor", 1)));
    class.ran("editor", 1);
    assert_eq!(class.pick(), Some(("hog", 100)));
    class.block("editor");
    assert_eq!(class.wake("editor", Some("hog")), OnWake::Queue, "its quantum is spent");
}

#[test]
fn equals_take_turns() {
    let mut class = Epochs::new(WakeRule::LowerLevel);
    for key in ["a", "b", "c"] {
        class.set(key, 2, 30);
        let _ = class.wake(key, None);
    }
    let mut order = String::new();
    for _ in 0..9 {
        let (key, _) = class.pick().unwrap();
        order += key;
        class.ran(key, 10);
    }
    assert_eq!(order, "abcabcabc");
}

#[test]
fn a_child_shares_the_remainder_and_gets_nothing_more_before_a_round_has_seen_it() {
    let mut class = Epochs::new(WakeRule::LowerLevel);
    class.set("shell", 1, 200);
    let _ = class.wake("shell", None);
    class.fork("shell", "cc1");
    assert_eq!((class.left_us("shell"), class.left_us("cc1")), (Some(100), Some(100)));
    class.block("shell");
    let _ = class.wake("cc1", None);
    let (key, left_us) = class.pick().unwrap();
    class.ran(key, left_us);
    assert_eq!(class.pick(), None, "a new epoch gives it nothing: it belongs to the class below");
}
