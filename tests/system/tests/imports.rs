//! What is read of perf's and trace-cmd's files is what they say of them themselves, and what Spry saw at the same moment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spry_system_tests::{Recording, Table, need_root, number, report, run};

/// A switch: when, from whom, to whom.
type Switch = (u64, u64, u64);
/// Switches by CPU, in their order.
type ByCpu = BTreeMap<u64, Vec<Switch>>;

/// Switches, forks, renames, exits and migrations, none of them many.
const LOAD: &str = "exec >/dev/null; perf bench sched pipe -l 3000 & hackbench -g 1 -l 20
    for i in $(seq 20); do /bin/true; done; wait; sleep 0.2";

fn our_switches(file: &Path, dir: &Path) -> ByCpu {
    let mut found = ByCpu::new();
    Table::of(file, dir).each(|row| {
        if row.text("event") == "switch" {
            let number = |column| row.number(column).expect("a switch has it");
            let switch = (number("time_ns"), number("tid"), number("other_tid"));
            found.entry(number("cpu")).or_default().push(switch);
        }
    });
    found
}

/// What a tool prints of its file, on standard output.
fn says(command: &mut Command) -> String {
    String::from_utf8_lossy(&run(command).stdout).into_owned()
}

/// Names may hold anything, so fields are taken from their last place.
fn field(text: &str, name: &str) -> u64 {
    let value = text.rsplit_once(name).unwrap_or_else(|| panic!("no {name} in {text}")).1;
    let value = value.split([' ', '\t']).next().unwrap_or_default();
    let parsed = match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => value.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{name}{value} in {text}"))
}

/// `[000]  2312.878033600: sched:sched_switch: ...`, whatever stands before it.
fn head(line: &str) -> Option<(u64, u64)> {
    let (cpu, rest) = line.split_once('[')?.1.split_once(']')?;
    let time = rest.trim_start().split_once(':')?.0;
    // Of clocks that it does not know trace-cmd prints the plain number.
    let (seconds, nanoseconds) = time.split_once('.').unwrap_or(("0", time));
    let seconds: u64 = seconds.parse().ok()?;
    Some((cpu.parse().ok()?, seconds * 1_000_000_000 + nanoseconds.parse::<u64>().ok()?))
}

fn perf_switches(file: &Path) -> ByCpu {
    let mut script = Command::new("perf");
    script.args(["script", "--ns", "-F", "cpu,time,event,trace", "-i"]).arg(file);
    let mut found = ByCpu::new();
    for line in says(&mut script).lines().filter(|line| line.contains(" sched:sched_switch: ")) {
        let (cpu, time_ns) = head(line).unwrap_or_else(|| panic!("perf printed {line}"));
        let (left, right) = line.rsplit_once(" ==> ").expect("a switch goes somewhere");
        let switch = (time_ns, field(left, " prev_pid="), field(right, " next_pid="));
        found.entry(cpu).or_default().push(switch);
    }
    found
}

fn trace_cmd_switches(file: &Path) -> ByCpu {
    let mut command = Command::new("trace-cmd");
    command.args(["report", "-t", "-R", "-i"]).arg(file);
    let mut found = ByCpu::new();
    for line in says(&mut command).lines().filter(|line| line.contains(" sched_switch: ")) {
        // A task's name may hold brackets too.
        let (before, after) = line.split_once(" sched_switch: ").expect("it was looked for");
        let from = before.rfind('[').expect("the CPU is in brackets");
        let (cpu, time_ns) = head(&before[from..]).unwrap_or_else(|| panic!("trace-cmd printed {line}"));
        let switch = (time_ns, field(after, " prev_pid="), field(after, " next_pid="));
        found.entry(cpu).or_default().push(switch);
    }
    found
}

fn assert_same(what: &str, ours: &ByCpu, theirs: &ByCpu) {
    let count = theirs.values().map(Vec::len).sum::<usize>();
    assert!(count > 3000, "{what}: only {count} switches were recorded");
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{what}: CPUs");
    for (cpu, theirs) in theirs {
        let ours = &ours[cpu];
        let first = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
        if let Some(at) = first {
            panic!("{what}: switch {at} of CPU {cpu} is {:?}, not {:?}", ours[at], theirs[at]);
        }
        assert_eq!(ours.len(), theirs.len(), "{what}: switches of CPU {cpu}");
    }
}

/// Records the load with perf into a file; through its standard output if the arguments end in `-o -`.
fn perf_record(file: &Path, arguments: &str) {
    let mut command = Command::new("perf");
    command.args(arguments.split(' '));
    if arguments.ends_with("-o -") {
        command.stdout(File::create(file).expect("scratch space can be written to"));
    } else {
        command.arg("-o").arg(file);
    }
    run(command.args(["--", "bash", "-c", LOAD]));
}

#[test]
fn every_form_of_perf_data_has_the_switches_that_perf_says() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let events = "-e sched:sched_switch,sched:sched_waking,sched:sched_wakeup";
    let forms = [
        ("perf sched record", "sched record -m 2048".to_owned()),
        ("compressed", format!("record -q -z -a -m 2048 {events}")),
        ("mixed, with call graphs", format!("record -q -a -g -m 2048 {events} -e cpu-clock")),
        ("piped", format!("record -q -a -m 2048 {events} -k CLOCK_MONOTONIC -o -")),
    ];
    for (form, arguments) in forms {
        let file = dir.path().join("any.name");
        perf_record(&file, &arguments);
        assert_same(form, &our_switches(&file, dir.path()), &perf_switches(&file));
    }
}

/// The kernels of some virtual machines refuse trace-cmd's first writes, all of which say what is so already. It is then
/// shown plain files in the places of those, which nobody else sees. It leaves its buffer's size and tracing switched off, so both
/// are put back.
const TRACE_CMD: &str = r#"
mount --make-rprivate /sys
mount --make-rprivate /proc
for file in /proc/sys/kernel/ftrace_enabled /sys/kernel/tracing/set_ftrace_filter /sys/kernel/tracing/set_ftrace_notrace \
    /sys/kernel/tracing/set_graph_function /sys/kernel/tracing/set_graph_notrace /sys/kernel/tracing/set_ftrace_pid; do
    [ -e "$file" ] || continue
    case $file in
    */ftrace_enabled) (cat "$file" >"$file") 2>/dev/null ;;
    *) (: >"$file") 2>/dev/null ;;
    esac || mount --bind "$STAND_IN" "$file"
done
size=$(sed 's/ .*//' /sys/kernel/tracing/buffer_size_kb) on=$(cat /sys/kernel/tracing/tracing_on)
trap 'echo "$size" >/sys/kernel/tracing/buffer_size_kb; echo "$on" >/sys/kernel/tracing/tracing_on' EXIT
trace-cmd record "$@"
"#;

#[test]
fn both_versions_of_trace_dat_have_the_switches_that_trace_cmd_says() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let stand_in = dir.path().join("stand-in");
    fs::write(&stand_in, "1\n").expect("scratch space can be written to");
    let forms: [(&str, &[&str]); 3] = [
        ("version 6", &["--file-version", "6", "-C", "mono"]),
        ("version 7, compressed, with losses", &["--file-version", "7", "-b", "64"]),
        (
            "version 7, plain",
            &["--file-version", "7", "--compression", "none", "-C", "boot", "-e", "irq", "-e", "timer"],
        ),
    ];
    for (form, arguments) in forms {
        let file = dir.path().join("any.name");
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "unchanged", "sh", "-c", TRACE_CMD, "sh"])
            .args(arguments)
            .args(["-e", "sched", "-o"]);
        run(command.arg(&file).args(["bash", "-c", LOAD]).env("STAND_IN", &stand_in));
        assert_same(form, &our_switches(&file, dir.path()), &trace_cmd_switches(&file));
        let said = says(Command::new("trace-cmd").args(["report", "--stat", "-i"]).arg(&file));
        let lost: u64 = said
            .lines()
            .filter(|line| line.starts_with("overrun: "))
            .map(|line| field(line, "overrun: "))
            .sum();
        assert_eq!(report(&file)["trace"]["lost"], lost, "{form}: {said}");
    }
}

/// `   76402.250143 [0001]  hackbench[4493/4484]      0.792      0.769      0.039      S`: the task, how long it had been off
/// the CPU and how much of that it could have run, ms, and in which state it left.
fn timehist_row(line: &str) -> Option<(u64, f64, f64, char)> {
    let mut words = line.split_whitespace().rev();
    let state = words.next()?.chars().next()?;
    let _ran = words.next()?;
    let (delay_ms, off_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let tid = words.next()?.strip_suffix(']')?.rsplit_once('[')?.1;
    Some((tid.split('/').next()?.parse().ok()?, off_ms, delay_ms, state))
}

/// Each task's longest wait by perf's account: for a CPU after a wake-up, or back on one after it was pushed off.
fn perf_longest_ms(file: &Path) -> BTreeMap<u64, f64> {
    let mut command = Command::new("perf");
    let said = says(command.args(["sched", "timehist", "--state", "-i"]).arg(file));
    let (mut longest, mut left_in) = (BTreeMap::new(), BTreeMap::new());
    for (tid, off_ms, delay_ms, state) in said.lines().filter_map(timehist_row) {
        // Pushed off inside the kernel is a state that older perfs take for another one.
        let was_pushed_off = matches!(left_in.insert(tid, state), Some('R' | 'W'));
        let wait_ms: f64 = if was_pushed_off { off_ms } else { delay_ms };
        let most: &mut f64 = longest.entry(tid).or_insert(0.0);
        *most = most.max(wait_ms);
    }
    longest
}

fn task(report: &Value, tid: u64) -> Option<&Value> {
    report["tasks"].as_array().expect("the report lists tasks").iter().find(|task| task["tid"] == tid)
}

#[test]
fn the_longest_delay_of_each_task_is_that_of_perf_sched_timehist() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("perf.data");
    perf_record(&file, "sched record -m 2048");
    let report = report(&file);
    let (mut same, mut other) = (0, Vec::new());
    for (tid, theirs_ms) in perf_longest_ms(&file) {
        // Of those that were there before, perf counts only what comes after its first event of them.
        let Some(task) = task(&report, tid).filter(|task| number(&task["start_ns"]) > 0.0) else { continue };
        let ours_ms = task["dispatch_latency_ns"]["max"].as_f64().unwrap_or(0.0) / 1e6;
        if (ours_ms - theirs_ms).abs() < 0.002 { same += 1 } else { other.push((tid, theirs_ms, ours_ms)) }
    }
    assert!(same >= 20, "only {same} tasks were compared");
    assert!(other.len() * 20 <= same, "tasks, perf's and our longest delays, ms: {other:?}");
}

/// What is compared of a task that lived while both recorded.
struct Account {
    switches: (u64, u64),
    wait_ns: f64,
    run_ns: f64,
}

fn account(task: &Value) -> Account {
    let count = |name: &str| task["switches"][name].as_u64().expect("switches are counted");
    Account {
        switches: (count("voluntary"), count("involuntary")),
        wait_ns: number(&task["runnable_wait_ns"]),
        run_ns: number(&task["runtime_ns"]),
    }
}

/// So often perf may lack switches, which it does without counting them.
const ATTEMPTS: usize = 5;
/// perf's stamps are taken at other moments of the same switch, and its waits begin at the waking.
const PER_SWITCH_NS: f64 = 10_000.0;

/// Tasks whose accounts agree, and descriptions of those that do not.
fn compare(spry: &Value, perf: &Value) -> (usize, Vec<String>) {
    let (mut same, mut other) = (0, Vec::new());
    let tasks = perf["tasks"].as_array().expect("the report lists tasks");
    for theirs in tasks.iter().filter(|task| number(&task["start_ns"]) > 0.0 && !task["end_ns"].is_null()) {
        let Some(ours) = task(spry, theirs["tid"].as_u64().expect("a task has a number")) else { continue };
        let (a, b) = (account(ours), account(theirs));
        let slack_ns = PER_SWITCH_NS * (a.switches.0 + a.switches.1 + 1) as f64;
        let is_same = a.switches == b.switches
            && (a.wait_ns - b.wait_ns).abs() < slack_ns
            && (a.run_ns - b.run_ns).abs() < slack_ns;
        if is_same { same += 1 } else { other.push(format!("{ours}\n{theirs}")) }
    }
    (same, other)
}

#[test]
fn at_the_same_moment_spry_records_the_same_switches_waits_and_run_times() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let (trace, file) = (dir.path().join("same.spry"), dir.path().join("perf.data"));
    let mut last = Vec::new();
    for _ in 0..ATTEMPTS {
        let recording = Recording::start(&trace, "sched");
        perf_record(&file, "sched record -k CLOCK_MONOTONIC -m 2048");
        recording.stop();
        let (same, other) = compare(&report(&trace), &report(&file));
        if same >= 20 && other.len() * 20 <= same {
            return;
        }
        last = other;
    }
    panic!("in none of {ATTEMPTS} recordings did the accounts agree; at last not of\n{}", last.join("\n"));
}
