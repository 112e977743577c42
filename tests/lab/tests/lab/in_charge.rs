//! Tests programs that once ended the daemon's scheduler or broke one of its bounds: the daemon stays in
//! charge, answers, and ends in time, and others keep their part. The long forms take a minute.

use spry_lab::{Job, MachineSpec, Topology};
use spry_lab_tests::attacks::{Beside, By, Under, beside, number_after};
use spry_lab_tests::desktop::film_beside_floods;
use spry_lab_tests::{SLOW_CPU, is_long, machine, printed, run, script_with_programs};

use crate::daemon::{Place, said};

/// Changes the CPUs of one loop of SCHED_IDLE without end, beside eight others of the same user. Prints the
/// run time of that loop, us.
const PUT_BACK: &str = "
start --actuator scx
ran() { cut -d' ' -f1 /proc/$1/schedstat; }
attack as 1000 attack idle-crowd 8 & attack as 1000 attack idle-crowd 1 & last=$!; sleep 1
attack as 1000 attack masks $last & sleep 1
before=$(ran $last); ask_for SECONDS
echo loop-ran $((($(ran $last) - before) / 1000)); status end; end_daemon";

#[test]
fn an_idle_loop_that_is_put_back_does_not_end_the_scheduler() {
    // The kernel ends a scheduler if a task waits for 30 s.
    let seconds = if is_long() { 60 } else { 4 };
    let place = Place { cpus: 2, shift: 3, examples: &["attack"], ..Place::default() };
    let said = said(&place, &PUT_BACK.replace("SECONDS", &seconds.to_string()));
    let (all, status) = (&said.0, said.status("end"));
    println!("{all}");
    said.answered("end", seconds / 4, 1_000.0, 1_000.0);
    assert!(said.number("loop-ran") > 0.0, "{all}");
    assert!(status["housekeeping_ns_longest"].as_u64().is_some_and(|ns| ns > 0), "{all}");
}

/// Runs two loops of a user all the time, on one CPU. Three programs end while they have run more than others
/// of their class: a task of a user that began before the scheduler was loaded, the children of a program in
/// use, as of `make`, and that program. After each end root starts twelve processes, one after the other.
/// Prints how long one of them waited for the CPU at worst, ns. Each reads that time as soon as it runs.
const BEGINS: &str = "
as() { attack as 1000 \"$@\" & }
begins() {
    rm -f /tmp/waits
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        (read ran waited slices </proc/self/schedstat; echo $waited >>/tmp/waits)
    done
    echo $1 waited $(sort -n /tmp/waits | tail -n1) ns
}
as sh -c 'until [ -e /tmp/go ]; do sleep 0.2; done
    i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; : >/tmp/old-ended'
as /spry/spin; as /spry/spin
scx_stack /tmp/in-use=1:200000 &
until [ \"$(cat /sys/kernel/sched_ext/state)\" = enabled ]; do sleep 0.1; done
begins nothing
: >/tmp/go; until [ -e /tmp/old-ended ]; do sleep 0.01; done; begins old
as sh -c 'attack children 160000 & echo $! >/tmp/in-use; wait; exec sleep 100'; sleep 2
make=$(cat /tmp/in-use); child=$(cat /proc/$make/task/$make/children)
kill -9 $make $child; begins make
as sh -c 'attack daemons 160000 & echo $! >/tmp/in-use; wait; exec sleep 100'; sleep 2
kill -9 $(cat /tmp/in-use) $(pidof attack); begins orphans
cat /sys/kernel/sched_ext/state";

#[test]
fn root_s_new_programs_pay_no_user_s_debts() {
    let job = Job { topology: Topology::of_cores(1), shift: SLOW_CPU, ..script_with_programs(BEGINS, 120) };
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    println!("{text}");
    assert!(text.trim_end().ends_with("enabled"), "{text}");
    // In six draws, the longest wait was 9.2 to 12.5 ms with debts and 5.8 to 11.0 ms without any.
    for after in ["nothing", "old", "make", "orphans"] {
        assert!(number_after(&text, &format!("{after} waited")) <= 18_000_000.0, "after {after}: {text}");
    }
}

#[test]
fn sets_of_cpus_of_one_user_leave_places_for_others() {
    // Each of the sets contains the first CPU, which examines at most 16 of the sets.
    let asked = Beside { loops: 3, within: Some(3), ..Beside::four_a_cpu("asleep 28", By::OtherUser, 8, 3) };
    let eevdf = beside(&asked, Under::Eevdf).unwrap_or_else(|error| panic!("{error}"));
    let place = Place { cpus: 8, shift: SLOW_CPU, examples: &["attack", "crowd"], ..Place::default() };
    let said = said(
        &place,
        "start --actuator scx; attack as 1000 attack asleep 28 & sleep 1
        attack within 3 crowd 3 3; status end",
    );
    println!("EEVDF {}: {}", eevdf.part, said.0);
    said.is_in_charge("end");
    assert!(said.number("crowd had") >= 0.8 * eevdf.part, "EEVDF {}: {}", eevdf.part, said.0);
    assert!(said.number("longest wait") <= 50.0, "{}", said.0);
    let warnings = said.status("end")["warnings"].to_string();
    assert!(warnings.contains("times a set of CPUs found no place"), "{warnings}");
}

// The film needs 77 % of the CPU. Each kind of flood has at most its part of it.
#[test]
fn a_film_loses_no_frame_to_three_floods_at_once() {
    let count = if is_long() { 600 } else { 300 };
    let film = film_beside_floods(count).expect("the lab runs it");
    println!("{} of {} frames: {}", film.frames.0, film.frames.1, film.text);
    assert!(film.in_charge, "{}", film.text);
    assert!(number_after(&film.text, "runnable") >= f64::from(2 * count), "{}", film.text);
    assert!(film.frames.1 >= 249 && film.frames.0 == film.frames.1, "{:?}: {}", film.frames, film.text);
}
