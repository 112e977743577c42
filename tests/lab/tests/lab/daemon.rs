//! Tests the daemon while it is in charge through sched_ext: storms of tasks, the daemon's own end, and the
//! end of its observers. They also test the daemon's reports of each.

use std::collections::BTreeSet;

use serde_json::Value;
use spry_lab::{FileSource, Flavour, Job, KernelChoice, MachineSpec, Topology};
use spry_lab_tests::{example, is_long, machine, printed, programs, run, shell, with_spin};

/// The beginning of every script: functions for frequent questions of the scripts.
const WORDS: &str = r#"
exec 2>&1
cd /tmp
ext=/sys/kernel/sched_ext
is() { [ "$(cat $ext/state)" = $1 ]; }
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
# NAME CONDITION...: says how long it took until that held. It is asked each 20 ms, or each $pause seconds.
until_() {
    name=$1 from=$(now); shift
    while ! "$@" >/dev/null 2>&1; do
        [ $(($(now) - from)) -lt 9000 ] || { echo "$name never"; return; }
        sleep ${pause:-0.02}
    done
    echo "$name $((($(now) - from) * 10)) ms"
}
status() { echo "status-$1 $(spry sched status --json)"; }
says() { spry sched status --json | grep -q "$1"; }
# Asking takes as much of the CPU as loading does.
start() { spry-sched run "$@" 2>>/tmp/log & daemon=$!; pause=0.5; until_ loaded says '"state"'; pause=; }
loops() { for i in $(seq $1); do /spry/spin & echo $! >>/tmp/loops; done; }
end_loops() { kill -9 $(cat /tmp/loops); rm /tmp/loops; }
ticks() { cut -d' ' -f14 /proc/$1/stat; }
in_ext() { grep -q '^ext.enabled *: *1' /proc/$1/sched; }
nice_of() { cut -d' ' -f19 /proc/$1/stat; }
# SECONDS [COMMAND...]: asks for the status each two seconds until the time is over, and says how long each
# answer took. Runs the command after each answer.
ask_for() {
    end=$(($(now) + $1 * 100)); shift
    while sleep 2; [ $(now) -lt $end ]; do until_ answer spry sched status --json; "$@"; done
}
# Ends the daemon, and says how long it took until the kernel's own scheduler was back.
end_daemon() { kill $daemon; until_ gone is disabled; }
"#;

/// The output of a script.
pub struct ScriptOutput(pub String);

impl ScriptOutput {
    /// The text that follows a word at the beginning of a line.
    pub fn after(&self, word: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no `{word}` in {}", self.0))
    }

    /// The number that follows a word at the beginning of a line.
    pub fn number(&self, word: &str) -> f64 {
        let text = self.after(word).split_whitespace().next().unwrap_or_default();
        text.parse().unwrap_or_else(|_| panic!("no number after `{word}` in {}", self.0))
    }

    /// All numbers that follow a word.
    pub fn numbers(&self, word: &str) -> Vec<f64> {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect()
    }

    /// The JSON text that follows a word at the beginning of a line.
    pub fn json(&self, word: &str) -> Value {
        let text = self.after(word);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text} in {}", self.0))
    }

    /// The daemon's status that was printed under a name.
    pub fn status(&self, name: &str) -> Value {
        self.json(&format!("status-{name}"))
    }

    /// Checks that the daemon has been in charge all the time until it printed its status under a name.
    pub fn was_in_charge(&self, name: &str) {
        let status = self.status(name);
        assert_eq!(status["actuator"], "scx", "{}", self.0);
        assert_eq!(status["acting"]["state"], "acting", "{}", self.0);
        assert_eq!(status["acting"]["ejections"], 0, "{}", self.0);
        assert_eq!(self.number("rejected"), 0.0, "{}", self.0);
    }

    /// Checks that the daemon has been in charge all the time, and still is.
    pub fn is_in_charge(&self, name: &str) {
        self.was_in_charge(name);
        assert_eq!(self.after("state"), "enabled", "{}", self.0);
    }

    /// Checks that the daemon was in charge until `end_daemon`. Checks the number of answers to `ask_for`,
    /// the longest of these waits, ms, and the time that the end took, ms.
    pub fn answered(&self, name: &str, least: usize, answer_most_ms: f64, gone_most_ms: f64) {
        let (answers, gone_ms) = (self.numbers("answer"), self.number("gone"));
        println!("answers {answers:?} ms, gone {gone_ms} ms");
        self.was_in_charge(name);
        assert!(answers.len() >= least && !self.0.contains("answer never"), "{answers:?}: {}", self.0);
        assert!(answers.iter().all(|&ms| ms <= answer_most_ms), "{answers:?}: {}", self.0);
        assert!(gone_ms <= gone_most_ms, "{}", self.0);
    }
}

/// The machine that a script runs on.
pub struct Place {
    pub spec: MachineSpec,
    pub cpus: u32,
    /// An instruction takes 2 to the power of this number, in nanoseconds.
    pub shift: u8,
    pub memory_mib: u32,
    /// The example programs among the script's commands.
    pub examples: &'static [&'static str],
}

impl Default for Place {
    fn default() -> Place {
        Place {
            spec: MachineSpec::default(),
            cpus: 1,
            shift: 1,
            memory_mib: 1792,
            examples: &["crowd", "storm"],
        }
    }
}

/// The output of a script that can use Spry's programs and the place's examples.
pub fn said(place: &Place, text: &str) -> ScriptOutput {
    let text = format!(
        "{WORDS}{text}\necho \"state $(cat $ext/state)\"; echo \"rejected $(cat \
         $ext/nr_rejected)\"; cat /tmp/log"
    );
    let mut job = with_spin(Job {
        topology: Topology::of_cores(place.cpus),
        shift: place.shift,
        memory_mib: place.memory_mib,
        commands: vec![shell(&text, 600)],
        ..Job::default()
    });
    for name in place.examples {
        let file = FileSource::File(example(name));
        job.files.insert(format!("/spry/bin/{name}"), file);
    }
    for name in ["spry", "spry-sched", "spry-eyes"] {
        job.files.insert(format!("/spry/bin/{name}"), FileSource::File(programs().join(name)));
    }
    let outcome = run(&machine(&place.spec), &job).unwrap_or_else(|error| panic!("{error}"));
    ScriptOutput(printed(&outcome))
}

#[test]
fn processes_and_groups_in_a_storm_leave_the_machine_usable() {
    let said = said(
        &Place::default(),
        "start --actuator scx; loops 2; storm fork 2; storm exec 2; storm cgroups 2; end_loops; status end",
    );
    said.is_in_charge("end");
    assert!(said.number("processes") >= 500.0, "{}", said.0);
    assert!(said.number("programs") >= 200.0, "{}", said.0);
    assert!(said.number("moves") >= 200.0, "{}", said.0);
    assert_eq!(said.number("stuck"), 0.0, "{}", said.0);
    let latest = said.numbers("latest");
    assert!(latest.len() == 3 && latest.iter().all(|&ms| ms <= 500.0), "{}", said.0);
    for part in said.after("parts").split_whitespace() {
        let part: f64 = part.parse().expect("a number");
        assert!((29.0..38.0).contains(&part), "{}", said.0);
    }
}

#[test]
fn on_two_cpus_it_stays_in_charge_while_one_goes_in_a_storm() {
    let text = "start --actuator scx
        for kind in fork exec affinity cgroups; do storm $kind 5 & storms=\"$storms $!\"; done
        for time in 1 2 3; do for online in 0 1; do
            echo $online >/sys/devices/system/cpu/cpu1/online; sleep 0.5
        done; done
        wait $storms; status end";
    let said = said(&Place { cpus: 2, ..Place::default() }, text);
    said.is_in_charge("end");
    // The storms run beside each other, and beside sixteen loops: they do 120 to 976 moves, and 184 to 344
    // under EEVDF.
    for (what, least) in [("processes", 50.0), ("programs", 16.0), ("affinities", 1000.0), ("moves", 80.0)] {
        assert!(said.number(what) >= least, "{what}: {}", said.0);
    }
    assert_eq!(said.numbers("stuck"), [0.0, 0.0], "{}", said.0);
    let latest = said.numbers("latest");
    assert!(latest.len() == 4 && latest.iter().all(|&ms| ms <= 500.0), "{}", said.0);
}

#[test]
fn clients_by_the_hundred_and_their_server_s_end_are_survived() {
    let text = "start --actuator scx --trust-synthetic
        serve() { Xvfb :7 -screen 0 640x480x24 -noreset -nolisten tcp >/dev/null 2>&1 & server=$!; }
        watches() { says '\"name\":\":7\",\"kind\":\"x11\",\"state\":\"watched\",\"tgid\":'$1; }
        serve; until_ watched watches $server; export DISPLAY=:7
        storm clients 5; status storm
        kill -9 $server; until_ unseen eval '! watches $server'; status without
        sleep 2
        serve; until_ again watches $server; storm clients 1; status end";
    let packages = BTreeSet::from(["xvfb".to_owned()]);
    let said =
        said(&Place { spec: MachineSpec { packages, ..MachineSpec::default() }, ..Place::default() }, text);
    said.is_in_charge("end");
    let clients = said.numbers("clients");
    assert!(clients.len() == 2 && clients[0] >= 450.0 && clients[1] > 0.0, "{}", said.0);
    let latest = said.numbers("latest");
    assert!(latest.len() == 2 && latest.iter().all(|&ms| ms <= 500.0), "{}", said.0);
    for word in ["watched", "unseen", "again"] {
        assert!(said.number(word) <= 5000.0, "{word}: {}", said.0);
    }
    let tgid = |name: &str| said.status(name)["tgid"].clone();
    assert_eq!(tgid("storm"), tgid("end"), "the same daemon: {}", said.0);
}

#[test]
fn a_daemon_that_is_stopped_keeps_tasks_and_a_killed_one_none() {
    let text = "start --actuator scx; loops 3; loop=$(head -n1 /tmp/loops)
        spry sched set $loop --class interactive; sleep 1
        before=$(ticks $loop); kill -STOP $daemon; sleep 15; spry sched status --json; sleep 15
        echo used $(($(ticks $loop) - before)); in_ext $loop && echo still-there 1
        kill -CONT $daemon; sleep 2; status continued; sleep 3; status later
        kill -9 $daemon; until_ disabled is disabled; in_ext $loop || echo with-the-kernel 1
        spry sched status --json; before=$(ticks $loop); sleep 2; echo runs $(($(ticks $loop) - before))
        end_loops; start --actuator scx; status anew";
    let said = said(&Place { shift: 3, ..Place::default() }, text);
    let all = &said.0;
    // The unit is a hundredth of a second.
    assert!(said.number("used") >= 0.85 * 3000.0, "{all}");
    assert!(all.contains("still-there 1") && all.contains("is stopped, and tasks go on"), "{all}");
    let continued = said.status("continued");
    assert!(continued["warnings"].to_string().contains("the daemon did not run for"), "{all}");
    assert!(continued["rounds"]["missed"].as_u64().is_some_and(|missed| missed >= 29), "{all}");
    assert_eq!(
        (&continued["acting"]["state"], &continued["acting"]["ejections"]),
        (&"acting".into(), &0.into())
    );
    let rounds = |name: &str| said.status(name)["rounds"]["regular"].as_u64().expect("a number");
    assert!(rounds("later") >= rounds("continued") + 2, "{all}");
    assert!(said.number("disabled") <= 1000.0 && all.contains("with-the-kernel 1"), "{all}");
    assert!(all.contains("no scheduler daemon is running"), "{all}");
    assert!(said.number("runs") >= 20.0, "{all}");
    said.is_in_charge("anew");
}

#[test]
fn when_memory_runs_out_the_daemon_lives_or_the_tasks_are_back() {
    let text = "start --actuator scx; storm memory; status memory; echo daemon $daemon
        echo 1000 >/proc/$daemon/oom_score_adj; storm memory; until_ without is disabled";
    let said = said(&Place { memory_mib: 768, ..Place::default() }, text);
    assert!(said.0.contains("killed true"), "{}", said.0);
    assert_eq!(said.status("memory")["tgid"], said.number("daemon"), "{}", said.0);
    assert_eq!(said.status("memory")["acting"]["state"], "acting", "{}", said.0);
    assert!(said.number("without") <= 1000.0, "{}", said.0);
    assert_eq!((said.after("state"), said.number("rejected")), ("disabled", 0.0), "{}", said.0);
}

#[test]
fn the_guardian_does_not_take_a_stopped_daemon_for_a_dead_one() {
    let text = "start --actuator fair; loops 1; loop=$(cat /tmp/loops)
        spry sched set $loop --class interactive; kill -STOP $daemon; echo raised $(nice_of $loop)
        sleep 30; echo stopped $(nice_of $loop)
        kill -CONT $daemon; sleep 2; status continued; echo continued $(nice_of $loop)
        kill -9 $daemon; restored() { [ $(nice_of $loop) = 0 ]; }; until_ restored restored; end_loops";
    let said = said(&Place { shift: 3, ..Place::default() }, text);
    let all = &said.0;
    let raised = said.number("raised");
    assert!(raised < 0.0, "{all}");
    assert_eq!(said.number("stopped"), raised, "{all}");
    // The daemon chooses the decrease of the nice value anew each second, so only the sign is tested.
    assert!(said.number("continued") < 0.0, "{all}");
    assert_eq!(said.status("continued")["acting"]["state"], "acting", "{all}");
    assert!(said.number("restored") <= 1000.0, "{all}");
}

#[test]
fn tick_and_quantum_are_turned_while_it_runs_and_given_back() {
    let turned = "
        start; loops 2; sleep 1
        switches() { awk '/^nonvoluntary/ { print $2 }' /proc/$(head -n 1 /tmp/loops)/status; }
        rate() { before=$(switches); sleep 2; echo \"$1 $(($(switches) - before))\"; }
        into() { for loop in $(cat /tmp/loops); do spry sched set $loop --class $1; done; }
        rate own; spry tune --quantum-us 500; rate short; status tuned
        for class in idle interactive; do
            into $class; spry tune --class $class --quantum-us 500; rate $class
        done
        status classes; spry tune --default --class fair; rate interactive-without-tick; status without-tick
        spry tune --default; into auto; status default; rate again
        spry tune --tick-hz 50000; echo wrong $?; end_loops";
    let said = said(&Place::default(), turned);
    let tuning = |name: &str| said.status(name)["tuning"].clone();
    assert_eq!(tuning("tuned"), serde_json::json!({ "tick_hz": 2000, "quantum_us": 500 }));
    assert_eq!((tuning("default"), said.number("wrong")), (Value::Null, 2.0), "{}", said.0);
    // Two loops take turns: in 2 s each has 2,000 quanta of 500 us, and some 300 quanta of 3 ms.
    assert!(said.number("short") >= 1_500.0, "{}", said.0);
    assert!(said.number("own") <= 600.0 && said.number("again") <= 600.0, "{}", said.0);
    // Tasks of IDLE have as many. Quanta in use that were given within 2.1 ms are ordered by what is left.
    for name in ["idle", "interactive", "interactive-without-tick"] {
        assert!(said.number(name) >= 1_000.0, "{name}: {}", said.0);
    }
    let quanta = |name: &str| said.status(name)["quanta"].clone();
    let set = serde_json::json!({ "interactive_us": 500, "idle_us": 500 });
    assert_eq!((quanta("classes"), quanta("without-tick")), (set.clone(), set), "{}", said.0);
    assert_eq!(quanta("default"), serde_json::json!({ "interactive_us": null, "idle_us": null }));
    // The tick fires at the end of each quantum, and its cost is counted while there is a tick.
    let ticks = said.status("tuned")["ticks"]["all"].clone();
    let number = |key: &str| ticks[key].as_f64().unwrap_or_else(|| panic!("no {key}: {}", said.0));
    let (per_s, callback_ns, share) = (number("per_s"), number("callback_ns"), number("cpu_share"));
    println!("{per_s} callbacks a second, {callback_ns} ns each, {share} of a CPU");
    assert!((1_500.0..=2_100.0).contains(&per_s), "{ticks}");
    assert!(callback_ns > 0.0 && (share - per_s * callback_ns / 1e9).abs() < 1e-6, "{ticks}");
    for name in ["without-tick", "default"] {
        assert_eq!(said.status(name)["ticks"], Value::Null, "{name}: {}", said.0);
    }
}

#[test]
fn taken_out_by_the_kernel_it_says_so_and_comes_back() {
    let text = "start --actuator scx; sleep 1000 & sleeper=$!
        eject() { echo S >/proc/sysrq-trigger; until_ $1 is disabled; until_ told says \
        '\"state\":\"ejected\"'; status $1; }
        eject first; until_ back is enabled; until_ says-so says '\"state\":\"acting\"'; status back
        in_ext $sleeper && echo there-again 1
        eject second; kill $sleeper";
    let said = said(&Place { shift: 2, ..Place::default() }, text);
    let all = &said.0;
    let acting = |name: &str| said.status(name)["acting"].clone();
    for (name, times, pause_s) in [("first", 1, 1.0), ("second", 2, 5.0)] {
        assert!(said.number(name) <= 1000.0, "{all}");
        assert_eq!(said.status(name)["actuator"], "none", "{all}");
        assert_eq!(acting(name)["ejections"], times, "{all}");
        let reason = acting(name)["ejected"]["reason"].to_string();
        assert!(reason.to_lowercase().contains("sysrq"), "{reason}: {all}");
        let retry_in_s = acting(name)["retry_in_s"].as_f64().expect("it will try again");
        assert!(retry_in_s <= pause_s && retry_in_s > pause_s - 1.0, "{retry_in_s}: {all}");
    }
    assert!(said.numbers("told").iter().all(|&ms| ms <= 1500.0), "{all}");
    assert_eq!(acting("back")["state"], "acting", "{all}");
    assert!(all.contains("there-again 1"), "{all}");
}

/// The short form has a quarter of the tasks.
#[test]
fn thousands_beside_one_in_use_run_in_a_third_of_the_watchdog() {
    let (count, seconds) = if is_long() { (20_000, 11) } else { (5_000, 11) };
    let text = format!(
        "start --actuator scx
        mkfifo gate; crowd {count} {seconds} 0 1 100 <gate & exec 3>gate; until_ hogs pidof hog
        spry sched set $(pidof hog) --class interactive; exec 3>&-; wait $!; status end"
    );
    let said = said(&Place { shift: 0, memory_mib: 3072, ..Place::default() }, &text);
    for what in ["longest wait", "crowd had", "hogs had"] {
        println!("{what} {}", said.after(what));
    }
    said.is_in_charge("end");
    assert!(said.0.contains(&format!("did not run in {seconds} s: 0 of {count}")), "{}", said.0);
    assert!(said.number("longest wait") <= 10_000.0, "{}", said.0);
    assert!(said.number("hogs had") >= 40.0, "{}", said.0);
}

/// With ticks of 4 ms alone, 10,000 tasks would not all get a turn within 30 s, the limit of the watchdog; it
/// would take 40 s. With so many tasks a round of the daemon takes longer than 30 s. Therefore the scheduler
/// itself sets when its threads must wake. The short form has a quarter of the tasks and of the time.
#[test]
fn on_the_real_time_kernel_thousands_run_within_the_watchdog() {
    let (count, seconds) = if is_long() { (10_000, 40) } else { (2_500, 10) };
    let text = format!(
        "start --actuator scx
        mkfifo gate; crowd {count} {seconds} 0 1 <gate & exec 3>gate; until_ hogs pidof hog
        spry sched set $(pidof hog) --class interactive; exec 3>&-; wait $!; status end"
    );
    let spec = MachineSpec { kernel: KernelChoice::Newest(Flavour::Rt), ..MachineSpec::default() };
    let said = said(&Place { spec, shift: 0, memory_mib: 3072, ..Place::default() }, &text);
    for what in ["longest wait", "did not run", "crowd had", "hogs had"] {
        println!("{what} {}", said.after(what));
    }
    said.is_in_charge("end");
    assert!(said.number("hogs had") >= 40.0, "{}", said.0);
}

/// Checks that the daemon chooses sched_ext by itself, and stays in charge while tasks are moved between
/// CPUs. The long form has all numbers of CPUs.
fn stays_in_charge_on(flavour: Flavour, cpus: &[u32]) {
    let kernel = KernelChoice::Newest(flavour);
    for &cpus in if is_long() { &[1, 2, 4] } else { cpus } {
        let spec = MachineSpec { kernel: kernel.clone(), ..MachineSpec::default() };
        let said = said(&Place { spec, cpus, ..Place::default() }, "start; storm affinity 2; status end");
        said.is_in_charge("end");
        assert!(said.number("affinities") >= 100.0, "{cpus} CPUs: {}", said.0);
        assert_eq!(said.number("stuck"), 0.0, "{cpus} CPUs: {}", said.0);
        let warnings = said.status("end")["warnings"].to_string();
        assert_eq!(warnings.contains("real-time"), flavour == Flavour::Rt, "{warnings}");
    }
}

#[test]
fn it_stays_in_charge_of_the_kernel_with_all_drivers() {
    stays_in_charge_on(Flavour::Generic, &[2]);
}

#[test]
fn it_stays_in_charge_of_the_real_time_kernel_without_timers() {
    stays_in_charge_on(Flavour::Rt, &[2]);
}

#[test]
fn it_stays_in_charge_of_the_kernel_for_virtual_machines() {
    stays_in_charge_on(Flavour::Cloud, &[1]);
}
