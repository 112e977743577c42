//! Tests a machine that is suspended to memory while it is recorded and scheduled.

use serde_json::Value;
use spry_lab::{Flavour, Job, KernelChoice, MachineSpec, Topology};
use spry_lab_tests::{machine, printed, run, script_with_programs};

/// The machine is suspended as far as the kernel's own test of it goes: tasks frozen, devices and the second
/// CPU off, the clock stopped. Instead of sleeping, the kernel then waits for 5 s, and resumes.
const SUSPEND: &str = r#"
cd /tmp
daemon_says() { spry sched status --json 2>/tmp/errors | grep -q "$1"; }
spry-sched run --actuator scx 2>/tmp/log &
until daemon_says '"state":"acting"'; do sleep 0.5; done
/spry/spin &
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
echo "status $(spry sched status --json)"
"#;

#[test]
fn a_suspended_machine_is_recorded_and_scheduled_on() {
    let kernel = KernelChoice::Newest(Flavour::Generic);
    let spec = MachineSpec { kernel, ..MachineSpec::default() };
    let job = Job { topology: Topology::of_cores(2), ..script_with_programs(SUSPEND, 300) };
    let outcome = run(&machine(&spec), &job).unwrap_or_else(|error| panic!("{error}"));
    let said = printed(&outcome);
    let after = |word: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no `{word}` in {said}"))
    };
    let number = |word: &str| after(word).parse::<f64>().expect("a number");
    let json = |word: &str| serde_json::from_str::<Value>(after(word)).expect("it is JSON");
    assert_eq!(["suspended", "recorded", "online", "offline"].map(after), ["0", "0", "0-1", "1"], "{said}");
    // The clock of the time since the boot has gone on, to the second. The trace's has stopped.
    assert!(number("after") - number("before") > 3.0, "{said}");
    let report = json("report");
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
    let status = json("status");
    assert_eq!(status["acting"]["state"], "acting", "{status}");
    assert_eq!(status["acting"]["ejections"], 0, "{status}");
}
