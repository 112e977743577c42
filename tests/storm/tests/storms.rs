//! Storms in the lab: the scheduler stays in charge, no task waits for more than two seconds, counts of queues are right.

use std::process::Command;

fn holds(args: &[&str]) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_spry-storm")).arg("lab").args(args).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn in_three_storms_on_one_cpu_no_task_waits_for_two_seconds_and_counts_are_right() {
    holds(&["--seeds", "3"]);
}

#[test]
fn in_a_storm_on_four_cpus_that_go_and_come_no_task_waits_for_two_seconds_and_counts_are_right() {
    holds(&["--first", "2", "--cpus", "4", "--seconds", "5"]);
}
