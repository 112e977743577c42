//! Tests that turns have the length that `spry tune` sets on the newest kernel, and that the machine's
//! slice is restored.

use std::collections::BTreeMap;

use serde_json::Value;
use spry_lab::{Job, MachineSpec, Outcome, Record, TRACE};
use spry_lab_tests::attacks::number_after;
use spry_lab_tests::{SLOW_CPU, machine, printed, run, spry_script};
use spry_timeline::{Observer, Ran, Timeline, Window};
use spry_trace::Reader;

/// Two loops on one CPU with the usual slice, with slices of their own, and with the machine's slice; then
/// `spry` is killed.
const SCRIPT: &str = r#"
export PATH=/spry/bin:$PATH
slice=/sys/kernel/debug/sched/base_slice_ns
cat >/tmp/two <<'end'
cp /spry/spin /tmp/$1
/tmp/$1 & one=$!
/tmp/$1 & other=$!
sleep 0.4
kill $one $other
end
echo "first $(cat $slice)"
sh /tmp/two usual
spry tune --json --quantum-us 3000 -- sh /tmp/two long 2>/tmp/said
head -1 /tmp/said
spry tune --quantum-us 500 -- sh /tmp/two short
spry tune --all --quantum-us 7000 -- sh /tmp/two machine
spry tune --quantum-us 500 -- spry tune --quantum-us 2000 -- sh /tmp/two inner
spry tune --class rr --quantum-us 20000 -- cat /proc/sys/kernel/sched_rr_timeslice_ms | sed 's/^/robin /'
spry tune --all --quantum-us 5000 -- sleep 60 & killed=$!
until [ $(cat $slice) = 5000000 ]; do sleep 0.01; done
kill -KILL $killed
for n in $(seq 100); do [ $(cat $slice) = 5000000 ] || break; sleep 0.01; done
echo "last $(cat $slice)"
"#;

/// The length of each stay on the CPU, ns, by the name of the program.
#[derive(Default)]
struct Stays(BTreeMap<String, Vec<u64>>);

impl Stays {
    fn of(outcome: &Outcome) -> Stays {
        let mut stays = Stays::default();
        let mut reader = Reader::new(&outcome.files[TRACE][..]).expect("a trace");
        let mut timeline = Timeline::new(reader.header(), Window { from_ns: 0, to_ns: u64::MAX });
        while let Some(event) = reader.next_event().expect("a whole trace") {
            timeline.push(event, &mut stays);
        }
        stays
    }

    /// How many of a program's stays were as long as a slice, us, or up to a tenth longer.
    fn count(&self, name: &str, slice_us: u64) -> usize {
        let stays = self.0.get(name).unwrap_or_else(|| panic!("no {name}"));
        let is_whole = |&&ns: &&u64| (slice_us * 1000..=slice_us * 1100).contains(&ns);
        stays.iter().filter(is_whole).count()
    }
}

impl Observer for Stays {
    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        let name = now.task(ran.task).comm().to_string();
        self.0.entry(name).or_default().push(ran.wall_ns());
    }
}

#[test]
fn turns_are_as_long_as_tune_has_them_and_the_slice_comes_back() {
    let job = Job { shift: SLOW_CPU, record: Some(Record::default()), ..spry_script(SCRIPT) };
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let said = printed(&outcome);
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]).into_owned();
    let stays = Stays::of(&outcome);
    let asked = [("usual", 700), ("long", 3000), ("short", 500), ("machine", 7000), ("inner", 2000)];
    let counts = asked.map(|(name, slice_us)| (name, stays.count(name, slice_us)));
    println!("turns of the length that was asked for: {counts:?}");
    // The kernel does not always arm its timer again. Then turns end at ticks, one every 4 ms.
    assert!(counts.iter().all(|&(_, count)| count >= 10), "{counts:?}: {said}{errors}");
    let number = |name: &str| number_after(&said, &format!("{name} "));
    assert_eq!(number("first"), number("last"), "{said}{errors}");
    assert_eq!(number("robin"), 20.0, "{said}{errors}");
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}{errors}"));
    let set: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(set["knobs"][0]["now"]["ns"], 3_000_000, "{set}");
}

/// Counts the clock device's interrupts a second beside ten shells that sleep 10 ms at a time, without and
/// with a timer slack of 20 ms.
const SLEEPERS: &str = r#"
export PATH=/spry/bin:$PATH
cat >/tmp/sleepers <<'end'
ticks() { awk '/^ *LOC:/ { print $2 }' /proc/interrupts; }
for n in 1 2 3 4 5 6 7 8 9 10; do while :; do sleep 0.01; done & all="$all $!"; done
sleep 1; before=$(ticks); sleep 3; echo $1 $((($(ticks) - before) / 3))
kill $all
end
sh /tmp/sleepers usual
spry slack --overshoot 20ms -- sh /tmp/sleepers slack
"#;

#[test]
fn timer_slack_makes_one_wake_up_serve_several_sleepers() {
    let outcome = run(&machine(&MachineSpec::default()), &spry_script(SLEEPERS)).expect("it runs");
    let said = printed(&outcome);
    println!("{said}");
    let per_second = |name: &str| number_after(&said, &format!("{name} "));
    assert!(per_second("usual") > 2.0 * per_second("slack"), "{said}");
}
