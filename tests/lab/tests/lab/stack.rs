//! Tests the scheduler's stack of classes in the lab: it loads and stays in charge, no task starves, and
//! tasks get their shares.

use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, MachineSpec, Topology};
use spry_lab_tests::attacks::number_after;
use spry_lab_tests::{SLOW_CPU, example, is_long, machine, printed, programs, run, script};

/// The output of a script under the scheduler. Processes with the name `hog` are interactive. Checks that the
/// scheduler is in charge at the end.
pub fn under_the_stack(cpus: u32, text: &str) -> String {
    under_the_stack_at(SLOW_CPU, cpus, text)
}

/// The same output, on CPUs of another speed: an instruction takes 2 to the power of `shift` ns.
pub fn under_the_stack_at(shift: u8, cpus: u32, text: &str) -> String {
    with_places_at(shift, "hog=1:200000", cpus, text)
}

/// The output of a script under the scheduler. The rules give processes their places, and reservations, by
/// their names.
pub fn with_places(rules: &str, cpus: u32, text: &str) -> String {
    with_places_at(SLOW_CPU, rules, cpus, text)
}

/// The same output, on CPUs of another speed: an instruction takes 2 to the power of `shift` ns.
pub fn with_places_at(shift: u8, rules: &str, cpus: u32, text: &str) -> String {
    let args = rules.split(' ').map(str::to_owned).collect();
    let program = Program { file: example("scx_stack"), args, sign: Sign::SchedExt };
    let mut job = Job {
        topology: Topology::of_cores(cpus),
        shift,
        setup: Setup { program: Some(program), ..Setup::default() },
        ..script(&format!("{text}\ncat /sys/kernel/sched_ext/state"))
    };
    for name in ["crowd", "attack", "late"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example(name)));
    }
    job.files.insert("/spry/spry-runner".to_owned(), FileSource::File(programs().join("spry-runner")));
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]);
    assert!(text.trim_end().ends_with("enabled"), "{text}\n{errors}{}", outcome.console);
    text
}

#[test]
fn what_is_in_use_keeps_its_part_and_the_rest_has_its_share() {
    let text = under_the_stack_at(0, 1, "/spry/crowd 8 4 0 1");
    let (crowd, hog) = (number_after(&text, "crowd had"), number_after(&text, "hogs had"));
    assert!((4.0..6.5).contains(&crowd), "{text}");
    assert!(hog > 93.0, "{text}");
    assert!(number_after(&text, "hogs' longest wait") <= 16.0, "{text}");
}

/// Runs a loop in use beside kernel workers for eight terminals, thirty ordinary loops and thirty loops of
/// SCHED_IDLE, all of another user.
const SERVED: &str = "
as() { /spry/attack as 1000 /spry/attack $1 $2 & }
as ttys 8; as crowd 30; as idle-crowd 30; sleep 2; /spry/crowd 1 6 0 1";

#[test]
fn all_that_goes_before_what_is_in_use_has_a_fifth_together() {
    let text = under_the_stack_at(0, 1, SERVED);
    println!("{text}");
    assert!(number_after(&text, "hogs had") >= 79.0, "{text}");
}

#[test]
fn a_hundred_tasks_below_what_is_in_use_all_run_within_a_second() {
    // In each case the crowd comes below the loops in use at another phase of the scheduler's regular work,
    // which has a period of 200 ms. The loops in use are there before: if the tasks came earlier, some would
    // have had a whole slice. They would then wait for seconds until the others have had as much.
    for (nice, phase_ms) in [(19, 80), (0, 170)] {
        let in_use = "/spry/crowd 1 7 0 2 >/dev/null & sleep 1.5";
        let crowd = format!("{in_use}; sleep 0.{phase_ms:03}; /spry/crowd 100 4 {nice}; wait $!");
        let text = under_the_stack_at(0, 1, &crowd);
        assert!(number_after(&text, "longest wait") <= 1000.0, "nice {nice}, {phase_ms} ms: {text}");
    }
}

#[test]
fn a_task_that_comes_into_use_while_it_waits_passes_the_crowd() {
    for cpus in [1, 2] {
        let crowd = format!("/spry/crowd {} 9 & sleep 1; /spry/late /tmp/in-use 5; wait", 400 * cpus);
        let text = with_places("/tmp/in-use=1:200000", cpus, &crowd);
        println!("{cpus} CPUs: {text}");
        // Before that, the task gets its turn like each of the others.
        assert!(number_after(&text, "waited") >= 600.0, "{text}");
        // The loader reads the file every 250 ms.
        assert!(number_after(&text, "before,") <= 350.0, "{text}");
    }
}

#[test]
fn nice_holds_in_a_crowd() {
    let text = under_the_stack(
        1,
        "cd /tmp; mkfifo gate
        crowd() { /spry/crowd 60 3 $1 0 <gate | sed \"s/^/nice $1 /\" & }
        crowd 0; crowd 5; exec 3>gate; sleep 1; exec 3>&-; wait",
    );
    let had = [0, 5].map(|nice| number_after(&text, &format!("nice {nice} crowd had")));
    // The weights are 1024 and 335.
    assert!((2.5..3.6).contains(&(had[0] / had[1])), "{text}");
}

#[test]
fn nice_holds_on_a_cpu_whatever_runs_on_another_one() {
    // On the other CPU, the virtual times of tasks of nice 19 advance 68 times as fast as real time. Under
    // EEVDF the loops get 89.9 % beside loops of nice 10; the weights are 1024 and 110.
    let text = under_the_stack(
        2,
        "/spry/attack on 1 /spry/crowd 2 9 19 >/dev/null & /spry/attack on 0 /spry/crowd 4 9 10 >/dev/null &
        sleep 1; /spry/attack on 0 /spry/crowd 4 4",
    );
    println!("{text}");
    assert!((80.0..94.0).contains(&number_after(&text, "crowd had")), "{text}");
    // Eight tasks compete for the first CPU. In five draws the longest waits were 44 to 56 ms.
    assert!(number_after(&text, "longest wait") <= 70.0, "{text}");
}

#[test]
fn bound_tasks_and_others_share_a_cpu_evenly() {
    // Four loops may use the first CPU only, four may use both: each gets a quarter of a CPU.
    let text = under_the_stack(
        2,
        "/spry/crowd 4 9 | sed 's/^/free /' & /spry/attack on 0 /spry/crowd 4 9 | sed 's/^/bound /'; wait",
    );
    println!("{text}");
    for who in ["free", "bound"] {
        assert!((75.0..125.0).contains(&number_after(&text, &format!("{who} crowd had"))), "{text}");
    }
}

#[test]
fn bound_tasks_keep_their_part_beside_sets_of_cpus() {
    // Four loops are bound to each of the first two CPUs, two may use both of these, and four of nice 19 may
    // use all CPUs. The ten loops of the first two CPUs would have a fifth of a CPU each.
    let text = under_the_stack(
        4,
        "crowd() { name=$1; shift; \"$@\" | sed \"s/^/$name /\" & }
        crowd set /spry/attack within 2 /spry/crowd 2 3; crowd free /spry/crowd 4 3 19
        for cpu in 0 1; do crowd bound-$cpu /spry/attack on $cpu /spry/crowd 4 3; done; wait",
    );
    println!("{text}");
    for cpu in [0, 1] {
        assert!(number_after(&text, &format!("bound-{cpu} crowd had")) >= 52.0, "{text}");
    }
    // With one virtual time for the set and the other CPUs, the set had 106 %.
    assert!((25.0..80.0).contains(&number_after(&text, "set crowd had")), "{text}");
}

/// Prints the CPU time of a group with a limit of a fifth of a CPU, us: first alone, then beside two loops.
const LIMITED: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a && echo 20000 100000 >a/cpu.max
used() { awk '/usage_usec/ { print $2 }' a/cpu.stat; }
spin() { /spry/spin & }
for count in 1 2 3; do spin; echo $! >a/cgroup.procs; done
for beside in nobody others; do
    sleep 1; before=$(used); sleep 4; echo \"beside $beside $(($(used) - before))\"
    spin; spin
done";

#[test]
fn a_limit_of_a_group_holds_by_itself_and_beside_others() {
    let text = under_the_stack(1, LIMITED);
    for beside in ["nobody", "others"] {
        let part = number_after(&text, &format!("beside {beside}")) / 4e6;
        assert!((0.18..0.22).contains(&part), "{beside}: {part}: {text}");
    }
}

/// Lets a cgroup with forty loops spend its limit. From then on a program changes a loop's class again and
/// again, so that the loop is put back into its queue. Prints that loop's run time meanwhile, ms.
const PUT_BACK: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a
ran() { cut -d' ' -f1 /proc/$1/schedstat; }
for loop in $(seq 40); do /spry/spin & echo $! >a/cgroup.procs; done; last=$!
sleep 1; echo 1000 1000000 >a/cpu.max; sleep 1
/spry/attack policy $last & before=$(ran $last); sleep 10
echo ran $((($(ran $last) - before) / 1000))";

#[test]
fn a_task_over_its_limit_that_is_put_back_runs_in_time() {
    let text = under_the_stack(1, PUT_BACK);
    println!("{text}");
    assert!(number_after(&text, "ran") > 0.0, "{text}");
}

/// Begins 10,000 loops at once in a cgroup that may have 10 ms of each second. Prints the CPU time that they
/// got in 30 s, us, and the scheduler's counts.
const MANY_LIMITED: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a; mkfifo /tmp/gate
used() { awk '/usage_usec/ { print $2 }' a/cpu.stat; }
(echo 0 >a/cgroup.procs; exec /spry/crowd 10000 60 0 0 10000 </tmp/gate) & exec 3>/tmp/gate; sleep 6
echo 10000 1000000 >a/cpu.max; exec 3>&-; sleep 2; before=$(used); sleep 30
echo used $(($(used) - before)); cat /run/counts";

#[test]
fn ten_thousand_loops_over_their_limit_get_their_quota() {
    let cpus: &[u32] = if is_long() { &[1, 2, 4] } else { &[1] };
    for &cpus in cpus {
        let text = with_places_at(0, "--counts /run/counts hog=1:200000", cpus, MANY_LIMITED);
        println!("{cpus} CPUs: {text}");
        // Each loop got a CPU for moments once on average, so the kernel's watchdog sees it run.
        let passed = number_after(&text, "passed_by") + number_after(&text, "passed_inside");
        assert!(passed >= 10_000.0, "{text}");
        // Each has blocked, so it has a stay inside the kernel first.
        assert!(number_after(&text, "used") <= 0.015 * 30e6, "{text}");
        assert!(number_after(&text, "housekeeping_longest_ns") <= 200_000.0, "{text}");
    }
}

#[test]
fn an_idle_task_that_is_put_back_keeps_its_place() {
    // The last loop of SCHED_IDLE is put back again and again by a program that changes its CPUs.
    let text = under_the_stack(
        2,
        "/spry/attack idle-crowd 8 & /spry/attack idle-crowd 1 & last=$!; sleep 1
        ran() { cut -d' ' -f1 /proc/$last/schedstat; }
        /spry/attack masks $last & sleep 1; before=$(ran); sleep 4
        echo ran $((($(ran) - before) / 1000))",
    );
    println!("{text}");
    assert!(number_after(&text, "ran") > 0.0, "{text}");
}

#[test]
fn it_stays_in_charge_on_two_cpus_while_one_goes_and_comes() {
    let hotplug = "for online in 0 1; do echo $online >/sys/devices/system/cpu/cpu1/online; sleep 1; done";
    let text = under_the_stack(2, &format!("/spry/crowd 6 2 0 1\n{hotplug}\n/spry/crowd 6 2 0 4"));
    assert!(text.contains("did not run in 2 s: 0 of 6"), "{text}");
}

/// Starts loops that may use the second CPU only: one in use, one with nice value 0, one of SCHED_IDLE, and
/// one in a cgroup with a limit of 1 ms in each second. Prints the time for taking the second CPU offline,
/// and the CPU time of each loop in one second after that, ms.
const OFFLINE: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a && echo 1000 1000000 >a/cpu.max; cd /tmp
ran() { cut -d' ' -f1 /proc/$1/schedstat; }
for name in hog other idle limited; do cp /spry/attack $name; done
./hog loop 1 & loops=$!
./other loop 1 & loops=\"$loops $!\"
./idle idle-loop 1 & loops=\"$loops $!\"
./limited loop 1 & echo $! >/sys/fs/cgroup/a/cgroup.procs; loops=\"$loops $!\"
sleep 3
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
from=$(now); echo 0 >/sys/devices/system/cpu/cpu1/online; echo gone after $((($(now) - from) * 10))
for loop in $loops; do before=\"$before $(ran $loop)\"; done; sleep 1
for loop in $loops; do set -- $before; echo $(cat /proc/$loop/comm) had $((($(ran $loop) - $1) / 1000000)); \
shift; before=$*; done
echo 1 >/sys/devices/system/cpu/cpu1/online";

#[test]
fn tasks_of_every_class_bound_to_a_lost_cpu_run_elsewhere() {
    let text = under_the_stack_at(0, 2, OFFLINE);
    println!("{text}");
    assert!(number_after(&text, "gone after") <= 200.0, "{text}");
    assert!(number_after(&text, "hog had") >= 850.0, "{text}");
    assert!(number_after(&text, "other had") >= 15.0, "{text}");
    assert!(number_after(&text, "idle had") >= 1.0, "{text}");
}

#[test]
fn it_stays_in_charge_on_four_cpus() {
    let text = under_the_stack(4, "/spry/crowd 12 2 0 2\n/spry/crowd 12 2 0 6");
    assert!(text.contains("did not run in 2 s: 0 of 12"), "{text}");
}

/// Runs loops in two groups with weights 100 and 300. Prints the CPU time of each group in 4 s, us; of each
/// loop in these 4 s, ns; and of each loop since its start, ns.
const GROUPS: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a b
echo 100 >a/cpu.weight; echo 300 >b/cpu.weight
used() { awk '/usage_usec/ { print $2 }' $1/cpu.stat; }
for count in 1 5; do
    loops=
    for group in a b; do for i in $(seq $count); do
        /spry/spin & echo $! >$group/cgroup.procs; loops=\"$loops $!\"
    done; done
    ran() { for loop in $loops; do cut -d' ' -f1 /proc/$loop/schedstat; done; }
    sleep 1; a=$(used a); b=$(used b); before=$(ran); sleep 4; after=$(ran)
    echo \"with $count a $(($(used a) - a)) b $(($(used b) - b))\"
    set -- $before; echo each $count $(for ns in $after; do echo $((ns - $1)); shift; done)
    echo all $count $after
    kill -9 $loops; sleep 1
done";

#[test]
fn groups_have_their_weights_however_many_they_are() {
    let text = under_the_stack(1, GROUPS);
    for count in [1, 5] {
        let (_, text) = text.split_once(&format!("with {count} ")).unwrap_or_else(|| panic!("{text}"));
        let ratio = number_after(text, "b ") / number_after(text, "a ");
        assert!((2.7..3.3).contains(&ratio), "{count} in each: {text}");
        // Until the shell has put a loop into its group, the loop runs as a child of the shell, which is not
        // charged to the group. So the sums since the start differ by more than those of the 4 s.
        for (what, bound) in [("each", 1.05), ("all", 1.2)] {
            let (_, ran) = text.split_once(&format!("{what} {count} ")).unwrap_or_else(|| panic!("{text}"));
            let ran: Vec<f64> = ran.split_whitespace().map_while(|ns| ns.parse().ok()).collect();
            assert_eq!(ran.len(), 2 * count, "{text}");
            for group in ran.chunks(count) {
                let (least, most) =
                    group.iter().fold((f64::MAX, 0.0_f64), |(l, m), &ns| (l.min(ns), m.max(ns)));
                assert!(most / least <= bound, "{what}, {count} in each: {text}");
            }
        }
    }
}

#[test]
fn a_program_in_use_bound_to_a_cpu_runs_beside_a_greedy_one() {
    // Two programs with short quanta run all the time on the other CPU.
    let text = with_places(
        "greedy=1:200000 low=5:12000 brief=2:2000 short=3:2000",
        2,
        "ran() { cut -d' ' -f1 /proc/$1/schedstat; }
        cd /tmp
        for name in greedy low brief short; do cp /spry/attack $name; done
        ./greedy loop 0 & ./low loop 0 & low=$!
        ./brief loop 1 & ./short loop 1 & short=$!
        sleep 1; low_ns=$(ran $low) short_ns=$(ran $short); sleep 4
        echo low had $((($(ran $low) - low_ns) / 1000000)) short had $((($(ran $short) \
        - short_ns) / 1000000))",
    );
    // `low` gets 12 ms of each 212 ms of its CPU, and `short` gets half of the other CPU.
    assert!((150.0..300.0).contains(&number_after(&text, "low had")), "{text}");
    assert!((1700.0..2200.0).contains(&number_after(&text, "short had")), "{text}");
}

#[test]
fn fifty_threads_of_a_program_in_use_delay_as_little_as_one() {
    // The program has a quantum of 200 ms. Its last two slices end at a tick, up to 4 ms late. Meanwhile the
    // tasks below it get 5 %, which is 11 ms. The rest of the bound is for threads of the kernel.
    for threads in [1, 50] {
        let places = "attack=1:200000 hog=5:200000";
        let text =
            with_places_at(0, places, 1, &format!("/spry/attack crowd {threads} & /spry/crowd 0 4 0 1"));
        assert!(number_after(&text, "hogs' longest wait") <= 230.0, "{threads}: {text}");
        assert!((42.0..58.0).contains(&number_after(&text, "hogs had")), "{threads}: {text}");
    }
}

#[test]
fn ten_thousand_threads_of_two_cpus_leave_the_others_alone() {
    let text = under_the_stack_at(0, 4, "/spry/attack bound 10000 & /spry/crowd 8 2 0 0");
    // The crowd must get two CPUs, except for the kernel's own use.
    assert!(number_after(&text, "crowd had") >= 194.0, "{text}");
    assert!(number_after(&text, "longest wait") <= 100.0, "{text}");
}

#[test]
fn the_verifier_goes_through_few_instructions() {
    // On Linux 7.3.4 the verifier checks 230,000 instructions in all, and at most 88,000 of one program. Each
    // 100,000 more take 0.8 s of a CPU of the lab at each load. Other kernels count a little differently.
    let mut job =
        Job { topology: Topology::of_cores(4), shift: SLOW_CPU, ..script("/spry/scx_stack --programs") };
    let stack = FileSource::File(example("scx_stack"));
    job.files.insert("/spry/scx_stack".to_owned(), stack);
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let count = |line: &str| line.strip_prefix("program ")?.split_once(' ')?.1.parse::<u64>().ok();
    let counts: Vec<u64> = text.lines().filter_map(count).collect();
    let (all, most) = (counts.iter().sum::<u64>(), counts.iter().max().copied().unwrap_or(0));
    assert!(counts.len() >= 20 && all <= 290_000 && most <= 110_000, "{all} in all, at most {most}:\n{text}");
}
