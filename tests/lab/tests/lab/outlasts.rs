//! Tests attacks that go on for as long as the kernel takes to end a scheduler: the daemon stays in charge,
//! answers, and ends in time. The kernel's limits are 21 s for a grace period of RCU, and 30 s for a task.

use spry_lab_tests::is_long;

use crate::daemon::{Place, Said, said};

/// Forty loops of an ordinary user share a quota of 1 ms of each second, and all but the first begin with it.
/// Another program changes the class of the first loop without end. Meanwhile root asks for the status every
/// two seconds. Prints how long each answer and the daemon's end took, ms, and the CPU time of the loops, us.
const QUOTA: &str = "start --actuator scx
a=/sys/fs/cgroup/a; echo +cpu >/sys/fs/cgroup/cgroup.subtree_control; mkdir $a; echo 1000 1000000 >$a/cpu.max
attack as 1000 /spry/spin & loop=$!; sleep 0.5; echo $loop >$a/cgroup.procs
for i in $(seq 39); do (echo 0 >$a/cgroup.procs; exec attack as 1000 /spry/spin) & done
attack as 1000 attack policy $loop &
used() { awk '/usage_usec/ { print $2 }' $a/cpu.stat; }
sleep 2; before=$(used); end=$(($(now) + SECONDS * 100))
while [ $(now) -lt $end ]; do until_ answer says acting; sleep 2; done
echo loops-had $(($(used) - before)); status end
kill $daemon; until_ gone is disabled";

/// Checks that the daemon is in charge at the end, that it answered, and that it ended in time.
fn outlasts(said: &Said) {
    let all = &said.0;
    let status = said.status("end");
    assert_eq!(status["actuator"], "scx", "{all}");
    assert_eq!(status["acting"]["ejections"], 0, "{all}");
    let answers = said.numbers("answer");
    assert!(answers.len() >= 5 && answers.iter().all(|&ms| ms <= 2000.0), "{answers:?}: {all}");
    assert!(said.number("gone") <= 1000.0, "{all}");
}

/// The short form takes 30 s, on one CPU only.
#[test]
fn loops_over_a_small_quota_do_not_end_the_scheduler() {
    let (cpus, seconds): (&[u32], u32) = if is_long() { (&[1, 2], 60) } else { (&[1], 30) };
    for &cpus in cpus {
        let said = said(
            &Place { cpus, shift: 3, ..Place::default() },
            &QUOTA.replace("SECONDS", &seconds.to_string()),
        );
        println!("{cpus} CPUs, {seconds} s: {}", said.0);
        outlasts(&said);
        // A thousandth of the time, and as much for what the loops owe of the time before.
        let loops_us = said.number("loops-had");
        assert!(loops_us > 0.0 && loops_us <= 2000.0 * f64::from(seconds), "{loops_us}: {}", said.0);
    }
}
