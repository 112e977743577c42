//! Tests cgroups and sessions under the scheduler's stack of classes; no task is in use. Each group gets the
//! CPU time of its weight, with any number of tasks and groups in it, and any changes by its owner.

use spry_lab_tests::attacks::number_after;

use crate::stack::{under_the_stack, under_the_stack_at};

/// Cgroups of a user, beside four loops of another session. The function `beside NAME` prints the share of
/// one CPU that these loops get.
const OWN: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p own/inner other
echo +cpu >own/cgroup.subtree_control; chown -R 1000 own; chmod 666 cgroup.procs
as() { /spry/attack as 1000 \"$@\" & attack=$!; sleep 1; }
beside() { echo beside $1 $(setsid /spry/crowd 4 3 | grep -E 'crowd had|longest wait [0-9]'); kill -9 \
$(pidof attack); sleep 0.5; }
";

/// The share that the four loops got beside one of the attacks, percent, and the longest time that one of
/// them waited, ms.
fn beside(text: &str, name: &str) -> (f64, f64) {
    let (_, rest) =
        text.split_once(&format!("beside {name} ")).unwrap_or_else(|| panic!("no {name} in {text}"));
    (number_after(rest, "crowd had"), number_after(rest, "longest wait"))
}

#[test]
fn a_group_has_its_weight_whatever_its_owner_does() {
    let text = under_the_stack_at(
        0,
        1,
        &format!(
            "{OWN}
            echo 1 >own/cpu.weight; as sh -c 'echo $$ >own/inner/cgroup.procs; exec /spry/attack crowd 100'
            beside least; echo 100 >own/cpu.weight
            echo 1 >own/cpu.idle; as sh -c 'echo $$ >own/inner/cgroup.procs; exec /spry/attack crowd 4'
            beside idle; echo 0 >own/cpu.idle
            as sh -c 'echo 19 >/proc/self/autogroup; exec /spry/attack crowd 4'
            beside autogroup
            as sh -c 'mkdir own/limited; echo 1000 1000 >own/limited/cpu.max; echo $$ \
            >own/limited/cgroup.procs
                exec /spry/attack idle-crowd 4'
            beside limited"
        ),
    );
    println!("{text}");
    // Under EEVDF the loops get 98, 99, 98 and 50 %. The last value is low, because there a cgroup with
    // SCHED_IDLE tasks counts as a group.
    for (name, least) in [("least", 94.0), ("idle", 96.0), ("autogroup", 96.0), ("limited", 80.0)] {
        let (part, longest_ms) = beside(&text, name);
        assert!(part >= least && longest_ms <= 50.0, "{name}: {text}");
    }
}

#[test]
fn a_group_in_which_a_task_wakes_now_and_then_is_counted() {
    let text = under_the_stack(
        1,
        &format!(
            "{OWN}
            mkdir own/light own/loops
            (echo 0 >own/light/cgroup.procs; exec /spry/attack light 50) &
            (echo 0 >other/cgroup.procs; exec /spry/attack crowd 4) & sleep 1
            (echo 0 >own/loops/cgroup.procs; exec /spry/crowd 4 3)"
        ),
    );
    println!("{text}");
    // Two groups share the CPU. In one of them nearly all CPU time goes to the loops.
    assert!(number_after(&text, "crowd had") >= 45.0, "{text}");
    // The bound is greater than 5 ms for each of nine tasks. The run time of a loop while the other group is
    // not counted counts double, once that group is counted.
    assert!(number_after(&text, "longest wait") <= 100.0, "{text}");
}

#[test]
fn tasks_that_are_bound_to_cpus_keep_none_from_its_turn() {
    let text = under_the_stack(
        2,
        &format!(
            "{OWN}
            /spry/attack as 1000 /spry/attack pump 20 & sleep 1
            /spry/attack on 0 /spry/crowd 4 3; kill -9 $(pidof attack); sleep 0.5
            /spry/attack as 1000 /spry/attack idle-bound 2 & sleep 2
            for task in $(pidof attack); do
                grep -q '0-1$' /proc/$task/status && free=$task
            done
            before=$(cut -d' ' -f1 /proc/$free/schedstat); sleep 3
            echo free had $((($(cut -d' ' -f1 /proc/$free/schedstat) - before) / 1000000))"
        ),
    );
    println!("{text}");
    // The crowd must get half of the first CPU, beside another session with twenty loops.
    assert!(number_after(&text, "crowd had") >= 40.0, "{text}");
    // The share of the task that may use both CPUs is a fifth of two CPUs, ms.
    assert!(number_after(&text, "free had") >= 600.0, "{text}");
}

/// Shell functions for loops in cgroups. They print the run time of each loop in two seconds, ms.
const LOOPS: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a b c
spin() { /spry/spin & echo $! >$1/cgroup.procs; loops=\"$loops $!\"; }
weights() { echo $1 >a/cpu.weight; echo $2 >b/cpu.weight; echo $3 >c/cpu.weight; }
ran() { for loop in $loops; do cut -d' ' -f1 /proc/$loop/schedstat; done; }
two_seconds() { ran >/tmp/before; sleep 2; ran | paste /tmp/before - | awk '{ print \"ran\", ($2 - $1) / \
1e6 }'; }
";

#[test]
fn tasks_have_their_parts_as_soon_as_weights_have_changed() {
    let text = under_the_stack(
        2,
        &format!(
            "{LOOPS} for group in a b c a b c a b; do spin $group; done
            for before in '1 1 10000' '1 100 10000' '1 1 1' '10000 1 10000'; do
                weights $before; sleep 1; weights 100 100 100; two_seconds
            done"
        ),
    );
    println!("{text}");
    let ran: Vec<f64> = text.lines().filter_map(|line| line.strip_prefix("ran ")?.parse().ok()).collect();
    assert_eq!(ran.len(), 32, "{text}");
    // Each cgroup gets a third of two CPUs. In two cgroups three loops share it (444 ms each), in the
    // third cgroup two loops share it (667 ms each).
    for (index, ran_ms) in ran.iter().enumerate() {
        let fair_ms = if index % 8 % 3 == 2 { 666.7 } else { 444.4 };
        assert!((0.85 * fair_ms..1.15 * fair_ms).contains(ran_ms), "loop {index}: {text}");
    }
}

/// Prints the share of a loop, percent, beside three loops in a cgroup of weight 1, and the share of these
/// three. Below that cgroup are 20 more, each within the preceding one.
const DEEP: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p beside deep && echo 1 >deep/cpu.weight
spin() { /spry/spin & }
used() { awk '/usage_usec/ { print $2 }' $1/cpu.stat; }
spin; echo $! >beside/cgroup.procs
cd deep; for depth in $(seq 20); do echo +cpu >cgroup.subtree_control; mkdir next; cd next; echo 10000 \
>cpu.weight; done
for count in 1 2 3; do spin; echo $! >cgroup.procs; done
cd /sys/fs/cgroup; sleep 1; before=$(used beside) deep=$(used deep); sleep 4
echo beside had $((($(used beside) - before) / 40000)) deep had $((($(used deep) - deep) / 40000))";

#[test]
fn a_group_gets_no_more_than_its_weight_at_any_depth() {
    let text = under_the_stack(1, DEEP);
    assert!(number_after(&text, "beside had") >= 95.0, "{text}");
}

/// The same measurement beside 3,200 cgroups, which an ordinary user can make below the user's own cgroup.
/// The user's loops run in cgroups for which the scheduler has no place.
const MANY: &str = "
cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p beside users/user/session/own; echo 1 \
>users/cpu.weight
for group in users users/user users/user/session users/user/session/own; do echo +cpu \
>$group/cgroup.subtree_control; done
spin() { /spry/spin & }
used() { awk '/usage_usec/ { print $2 }' $1/cpu.stat; }
spin; echo $! >beside/cgroup.procs
own=users/user/session/own
cd $own; mkdir $(seq 3200); cd /sys/fs/cgroup
for count in 1 2 3; do mkdir $own/last$count; spin; echo $! >$own/last$count/cgroup.procs; done
mkdir late; spin; echo $! >late/cgroup.procs
sleep 1; before=$(used beside) late=$(used late) users=$(used users); sleep 4
echo beside had $((($(used beside) - before) / 40000)) late had $((($(used late) - late) / 40000)) users \
had $((($(used users) - users) / 40000))";

#[test]
fn a_user_s_thousands_of_groups_get_no_more_than_their_weight() {
    let text = under_the_stack(1, MANY);
    println!("{text}");
    assert!((47.0..51.0).contains(&number_after(&text, "beside had")), "{text}");
    assert!((47.0..51.0).contains(&number_after(&text, "late had")), "{text}");
}
