//! Tests a machine that is suspended to memory while it is recorded and scheduled.

use spry_lab::{Flavour, KernelChoice, MachineSpec};

use crate::daemon::{Place, said};

/// The machine is suspended as far as the kernel's own test of it goes: tasks frozen, devices and the second
/// CPU off, the clock stopped. Instead of sleeping, the kernel then waits for 5 s, and resumes.
const SUSPEND: &str = r#"
start --actuator scx; loops 1
spry record --quiet --events sched,timer -o trace.spry -d 5 &
recording=$!
until [ -s trace.spry ]; do sleep 0.2; done
sleep 2
echo core >/sys/power/pm_test
echo "before $(cut -d' ' -f1 /proc/uptime)"
echo mem >/sys/power/state
echo "suspended $?"
echo "after $(cut -d' ' -f1 /proc/uptime)"
wait $recording
echo "recorded $?"
echo "online $(cat /sys/devices/system/cpu/online)"
dmesg | grep -c 'CPU 1 is now offline' | sed 's/^/offline /'
echo "report $(spry report --json trace.spry)"
status end
"#;

#[test]
fn a_suspended_machine_is_recorded_and_scheduled_on() {
    let kernel = KernelChoice::Newest(Flavour::Generic);
    let spec = MachineSpec { kernel, ..MachineSpec::default() };
    let said = said(&Place { spec, cpus: 2, shift: 0, ..Place::default() }, SUSPEND);
    let words = ["suspended", "recorded", "online", "offline"].map(|word| said.after(word));
    assert_eq!(words, ["0", "0", "0-1", "1"], "{}", said.0);
    // The clock of the time since the boot has gone on, to the second. The trace's has stopped.
    assert!(said.number("after") - said.number("before") > 3.0, "{}", said.0);
    let report = said.json("report");
    let duration_ns = report["trace"]["duration_ns"].as_u64().expect("a number");
    assert!((4_900_000_000..5_500_000_000).contains(&duration_ns), "{duration_ns}");
    assert_eq!(report["trace"]["lost"], 0);
    for task in report["tasks"].as_array().expect("a list") {
        let longest_ns = task["dispatch_latency_ns"]["max"].as_u64().unwrap_or(0);
        assert!(longest_ns < 1_000_000_000, "{} waited for {longest_ns} ns", task["comm"]);
    }
    for timers in report["timers"].as_array().expect("a list") {
        let late_ns = timers["lateness_ns"]["max"].as_u64().expect("a number");
        assert!(late_ns < 1_000_000_000, "{} timer: {late_ns} ns late", timers["kind"]);
    }
    said.is_in_charge("end");
}
