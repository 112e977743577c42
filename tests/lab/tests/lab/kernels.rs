//! Tests that every kernel of the lab boots, is the kernel of its name, and allows Spry's recorder to run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{
    Event as Told, Flavour, Job, KernelChoice, LabMachine, MachineSpec, Record, Stop, TRACE, Topology,
    Variant,
};
use spry_lab_tests::attacks::number_after;
use spry_lab_tests::{
    SLOW_CPU, example, is_long, lab, machine, printed, run, script, script_with_programs, spry_script,
};
use spry_trace::Reader;
use spry_trace::event::Event;
use spry_trace::reader::Ending;

pub(crate) fn with_kernel(kernel: KernelChoice) -> LabMachine {
    machine(&MachineSpec { kernel, ..MachineSpec::default() })
}

/// A machine with the kernel of this name, which is built if the cache does not have it, and its release.
pub(crate) fn with_built_kernel(name: &str) -> (LabMachine, String) {
    let variant: Variant = name.parse().expect("it is a name");
    let (variant, kernel) =
        lab().build_kernel(&variant, None, &|_: Told<'_>| {}, &Stop::new()).expect("it is built");
    (with_kernel(KernelChoice::Built(variant)), kernel.release)
}

/// The output of `uname -rv` in the guest, and the trace of a recording.
fn recorded(machine: &LabMachine) -> (String, Vec<u8>) {
    let job = Job { record: Some(Record::default()), ..script("uname -rv") };
    let mut outcome = run(machine, &job).expect("it runs");
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]).into_owned();
    assert_eq!(outcome.commands[0].exit, Some(0), "{errors}");
    (printed(&outcome), outcome.files.remove(TRACE).expect("there is a trace"))
}

/// Checks that the recorder's trace on a machine is complete and has switches. Returns the output of
/// `uname -rv` there.
pub(crate) fn takes_the_recorder(machine: &LabMachine) -> String {
    let (uname, trace) = recorded(machine);
    assert!(uname.starts_with(&machine.kernel.release), "{uname}");
    let mut reader = Reader::new(&trace[..]).expect("a trace");
    let mut switches = 0;
    while let Some(stamped) = reader.next_event().expect("it can be read") {
        switches += u32::from(matches!(stamped.event, Event::Switch(_)));
    }
    let totals = reader.totals();
    assert!(
        switches >= 10 && totals.ending == Ending::Finished && totals.lost == 0,
        "{switches}, {totals:?}"
    );
    uname
}

#[test]
fn the_newest_kernel_has_sched_ext_and_takes_the_recorder() {
    let machine = with_kernel(KernelChoice::Newest(Flavour::Cloud));
    assert_eq!(machine.kernel.option("CONFIG_SCHED_CLASS_EXT").as_deref(), Some("y"));
    takes_the_recorder(&machine);
}

#[test]
fn the_release_s_kernel_takes_the_recorder() {
    takes_the_recorder(&with_kernel(KernelChoice::Stable(Flavour::Cloud)));
}

/// Only the long form runs this test, because it fetches another release's lists and kernel.
#[test]
fn the_older_release_s_kernel_takes_the_recorder() {
    if !is_long() {
        return;
    }
    takes_the_recorder(&with_kernel(KernelChoice::Older(Flavour::Cloud)));
}

/// In the long form only, as above.
#[test]
fn the_older_release_s_kernel_takes_the_collection() {
    if !is_long() {
        return;
    }
    let machine = with_kernel(KernelChoice::Older(Flavour::Cloud));
    let text = "spry-sched run & daemon=$!; sleep 5; spry sched status; kill $daemon; wait $daemon";
    let said = printed(&run(&machine, &script_with_programs(text, 60)).expect("it runs"));
    assert!(said.contains("in charge through fair") && !said.contains("who depends on whom"), "{said}");
}

#[test]
fn the_real_time_kernel_is_one_and_takes_the_recorder() {
    let machine = with_kernel(KernelChoice::Stable(Flavour::Rt));
    let uname = takes_the_recorder(&machine);
    assert!(uname.contains("PREEMPT_RT"), "{uname}");
}

#[test]
fn preemption_of_the_release_s_kernel_is_chosen_at_boot() {
    let machine = with_kernel(KernelChoice::Stable(Flavour::Cloud));
    for model in ["none", "voluntary", "full"] {
        let job = Job {
            cmdline: vec![format!("preempt={model}")],
            ..script("cat /sys/kernel/debug/sched/preempt")
        };
        let outcome = run(&machine, &job).expect("it runs");
        assert!(printed(&outcome).contains(&format!("({model})")), "{}", printed(&outcome));
    }
}

/// Counts the ticks of 2 s beside a loop, and sets a quantum of two ticks.
const TICKS: &str = "
ticks() { awk '/^ *LOC:/ { print $2 }' /proc/interrupts; }
while :; do :; done & loop=$!
sleep 1; before=$(ticks); sleep 2; echo $((($(ticks) - before) / 2))
kill $loop
cd /proc/sys/kernel
echo 100 >sched_rr_timeslice_us && cat sched_rr_timeslice_us sched_rr_timeslice_ms
echo 60 >sched_rr_timeslice_ms && cat sched_rr_timeslice_us
";

/// In the long form only: the kernel is built, which takes up to 10 minutes.
#[test]
fn a_kernel_of_20000_hz_ticks_so_and_takes_quanta_of_100_us() {
    if !is_long() {
        return;
    }
    let (machine, release) = with_built_kernel("20000hz-periodic");
    assert!(release.ends_with("-spry-20000hz-periodic"), "{release}");
    takes_the_recorder(&machine);
    let outcome = run(&machine, &script(TICKS)).expect("it runs");
    let printed = printed(&outcome);
    let words: Vec<u64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[ticks, quantum_us, quantum_ms, longer_us] = words.as_slice() else { panic!("{printed}") };
    assert!((19_600..=20_400).contains(&ticks), "{printed}");
    assert_eq!((quantum_us, quantum_ms, longer_us), (100, 1, 60_000));
}

/// Records a loop in a group below a group that may have 10 ms of each 100 ms, and another loop beside it.
const THROTTLED: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p limited/below
echo '10000 100000' >limited/cpu.max; cd /tmp
sh -c 'while :; do :; done' & beside=$!
spry record --quiet -o t.spry -- timeout 1.2 sh -c 'echo $$ >/sys/fs/cgroup/limited/below/cgroup.procs
    while :; do :; done'
kill $beside; spry report --json t.spry; echo; cat /sys/fs/cgroup/limited/cpu.stat";

#[test]
fn throttled_waits_are_as_long_as_a_group_s_cpu_stat_says() {
    for kernel in [KernelChoice::Newest(Flavour::Cloud), KernelChoice::Stable(Flavour::Cloud)] {
        let job = Job { shift: SLOW_CPU, ..spry_script(THROTTLED) };
        let outcome = run(&with_kernel(kernel), &job).expect("it runs");
        let text = printed(&outcome);
        let whole: Value =
            serde_json::from_str(text.lines().find(|line| line.starts_with('{')).expect(&text))
                .expect("the report is JSON");
        let blamed = whole["delays"]["blame"].as_array().expect("a list").iter();
        let quota = blamed.filter(|blame| blame["culprit"]["kind"] == "quota");
        let told_ns = quota.map(|blame| blame["total_ns"].as_f64().expect("a number"));
        let told_ns = told_ns.fold(0.0, f64::max);
        let kernel_ns = number_after(&text, "throttled_usec") * 1e3;
        println!("{told_ns} ns were told, the kernel says {kernel_ns} ns");
        assert!(kernel_ns > 0.5e9 && (told_ns / kernel_ns - 1.0).abs() < 0.01, "{told_ns}: {text}");
        let limit = r#""throttled":{"group":"/limited","quota_ns":10000000,"period_ns":100000000}"#;
        assert!(text.contains(limit), "{text}");
    }
}

/// Records, under Spry's scheduler, a loop and a task that wakes again and again. They are in a group below
/// another, which may have 10 ms of each 100 ms. Another loop runs beside them.
const LIMITED_BY_SCHEDULER: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p limited/below
echo '10000 100000' >limited/cpu.max; cd /tmp
for name in loops beside; do cp /spry/spin $name; done
./beside & ./loops & echo $! >/sys/fs/cgroup/limited/below/cgroup.procs
(echo 0 >/sys/fs/cgroup/limited/below/cgroup.procs; while :; do sleep 0.01; done) & sleep 1
spry record --quiet -d 2 -o t.spry; spry report --json t.spry; echo; cat /sys/kernel/sched_ext/state";

#[test]
fn waits_for_limits_that_spry_s_scheduler_keeps_are_throttled() {
    let program =
        Program { file: example("scx_stack"), args: vec!["hog=1:200000".to_owned()], sign: Sign::SchedExt };
    let setup = Setup { program: Some(program), ..Setup::default() };
    let job = Job { shift: SLOW_CPU, setup, ..spry_script(LIMITED_BY_SCHEDULER) };
    let outcome = run(&machine(&MachineSpec::default()), &job).expect("it runs");
    let text = printed(&outcome);
    assert!(text.trim_end().ends_with("enabled"), "{text}");
    let line = text.lines().find(|line| line.starts_with('{')).expect(&text);
    let whole: Value = serde_json::from_str(line).expect("the report is JSON");
    let total_ns = |victim: &str, is_counted: &dyn Fn(&Value) -> bool| -> f64 {
        let blame = whole["delays"]["blame"].as_array().expect("a list").iter();
        let asked = blame.filter(|blame| blame["victim"]["comm"] == victim && is_counted(&blame["culprit"]));
        asked.map(|blame| blame["total_ns"].as_f64().expect("a number")).sum()
    };
    // These tasks also wait for the loop beside them, and for each other.
    for (victim, least) in [("loops", 0.85), ("sleep", 0.5)] {
        let quota_ns = total_ns(victim, &|culprit| culprit["kind"] == "quota");
        let all_ns = total_ns(victim, &|_| true);
        println!("{victim}: {quota_ns} of {all_ns} ns");
        assert!(quota_ns > 1e8 && quota_ns / all_ns >= least, "{victim}: {quota_ns} of {all_ns} ns: {text}");
    }
    assert!(total_ns("beside", &|culprit| culprit["kind"] == "quota") <= 0.0, "{text}");
    let limit = r#""throttled":{"group":"/limited","quota_ns":10000000,"period_ns":100000000}"#;
    assert!(text.contains(limit), "{text}");
}

/// Records two loops on two CPUs while the second CPU is offline for a second.
const OFFLINE: &str = "
cd /tmp; /spry/spin & /spry/spin & sleep 1
spry record --quiet -o t.spry -- sh -c 'cd /sys/devices/system/cpu/cpu1
    sleep 0.5; echo 0 >online; sleep 1; echo 1 >online; sleep 0.5'
spry report --json t.spry";

#[test]
fn a_cpu_that_goes_offline_while_it_is_recorded_is_not_busy() {
    let job = Job { shift: SLOW_CPU, topology: Topology::of_cores(2), ..spry_script(OFFLINE) };
    for kernel in [KernelChoice::Newest(Flavour::Cloud), KernelChoice::Stable(Flavour::Cloud)] {
        let outcome = run(&with_kernel(kernel), &job).expect("it runs");
        let text = printed(&outcome);
        let line = text.lines().find(|line| line.starts_with('{')).expect(&text);
        let whole: Value = serde_json::from_str(line).expect("the report is JSON");
        let [idle_ns, busy_ns] =
            ["idle_ns", "busy_ns"].map(|field| whole["cpus"][1][field].as_f64().expect("a number"));
        println!("idle for {idle_ns} ns, busy for {busy_ns} ns");
        // The CPU is offline for the second, and for the time that going offline and coming online take.
        assert!((0.95e9..1.5e9).contains(&idle_ns) && busy_ns >= 0.6e9, "{text}");
        // No switch is missing. Wake-ups by a CPU that is going or coming are hidden as well.
        for field in ["missing_switch_in", "missing_switch_out"] {
            assert_eq!(whole["trace"]["oddities"][field], 0, "{text}");
        }
    }
}

/// Puts the files of a kernel of the distribution below a directory, as in an unpacked package. Returns the
/// path of the image.
fn unpacked(kernel: &LabMachine, below: &Path) -> PathBuf {
    let release = &kernel.kernel.release;
    let kernels = fs::read_dir(lab().cache().join("kernels")).expect("kernels are kept").flatten();
    let is_it = |path: &PathBuf| {
        let about = fs::read_to_string(path.join("kernel.json")).unwrap_or_default();
        about.contains(&kernel.kernel.digest)
    };
    let home = kernels.map(|entry| entry.path()).find(is_it).expect("it was unpacked");
    let (boot, modules) = (below.join("boot"), below.join("lib/modules"));
    fs::create_dir_all(&boot).expect("a directory");
    fs::create_dir_all(&modules).expect("a directory");
    for (from, to) in [("vmlinuz", "vmlinuz"), ("config", "config")] {
        symlink(home.join(from), boot.join(format!("{to}-{release}"))).expect("a link");
    }
    symlink(home.join("modules"), modules.join(release)).expect("a link");
    boot.join(format!("vmlinuz-{release}"))
}

#[test]
fn a_kernel_given_as_a_file_boots_with_its_modules() {
    let packaged = with_kernel(KernelChoice::Stable(Flavour::Cloud));
    let tree = tempfile::tempdir().expect("a directory");
    let kernel = KernelChoice::File(unpacked(&packaged, tree.path()));
    // The file system in memory needs two modules of the kernel.
    let machine = machine(&MachineSpec { kernel, scratch_mib: 16, ..MachineSpec::default() });
    assert_eq!(machine.kernel.digest, packaged.kernel.digest);
    let outcome = run(&machine, &script("uname -r; grep -c /scratch /proc/mounts")).expect("it runs");
    assert_eq!(printed(&outcome), format!("{}\n1\n", packaged.kernel.release));
    let program = Program { file: "scx_mine".into(), args: Vec::new(), sign: Sign::SchedExt };
    let error =
        machine.check(&Setup { program: Some(program), ..Setup::default() }).expect_err("it has none");
    assert!(error.to_string().contains("has no sched_ext"), "{error}");
}
