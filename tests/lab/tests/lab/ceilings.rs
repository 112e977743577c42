//! Tests ceilings in the lab: a shared server answers its clients with reservations in time, even on a busy
//! machine. By its rank it takes no more than its bound, with any number of requests.

use serde_json::Value;
use spry_lab::{FileSource, Job, MachineSpec, Topology};
use spry_lab_tests::attacks::number_after;
use spry_lab_tests::{DAEMON_ACTS, example, machine, printed, programs, run, script_with_programs};

/// The part of every script after the start of the daemon: four loops, and a server.
const WORDS: &str = "
cd /tmp
hogs=''; for i in 1 2 3 4; do /spry/spin & hogs=\"$hogs $!\"; done
ran() { set -- $(cat /proc/$1/stat); shift 13; echo $(($1 + $2)); }
hogs_ran() { all=0; for hog in $hogs; do all=$((all + $(ran $hog))); done; echo $all; }
service serve /tmp/socket & server=$!
told() { echo \"told-$1 $(spry reservations --json)\"; }
reserved() { spry reserve --budget 2ms --period 20ms -- \"$@\"; }
";

fn said(text: &str) -> String {
    let text = format!("{DAEMON_ACTS}{WORDS}{text}\ncat /sys/kernel/sched_ext/state; cat /tmp/log");
    let mut job = Job { topology: Topology::of_cores(1), ..script_with_programs(&text, 600) };
    for (name, file) in [("service", example("service")), ("spry-runner", programs().join("spry-runner"))] {
        job.files.insert(format!("/spry/bin/{name}"), FileSource::File(file));
    }
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    println!("{text}");
    assert!(text.lines().any(|line| line == "enabled"), "{text}");
    text
}

/// The only server's entry in the output of `spry reservations`.
fn told(text: &str, name: &str) -> Value {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("told-{name} ")));
    let line = line.unwrap_or_else(|| panic!("nothing told of {name}: {text}"));
    let all: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    all["ceilings"][0].clone()
}

/// A number that a client printed about its answers.
fn answers(text: &str, name: &str, word: &str) -> f64 {
    let start = format!("{name} answers");
    let line = text.lines().find(|line| line.starts_with(&start));
    number_after(line.unwrap_or_else(|| panic!("{name} said nothing: {text}")), word)
}

#[test]
fn a_server_with_a_ceiling_answers_its_client_beside_four_loops() {
    let text = said(
        "reserved service ask low /tmp/socket 6000 20000 6
        spry ceiling --pid $server --bound 7ms
        reserved service ask high /tmp/socket 6000 20000 6 & sleep 5; told high; wait $!
        sleep 2; told none",
    );
    // The work takes 6 ms. Without a ceiling the server waits in turn with the loops.
    assert!(answers(&text, "high", "worst") <= 6500.0, "{text}");
    assert!(answers(&text, "low", "p99") >= 10_000.0, "{text}");
    let high = told(&text, "high");
    assert_eq!((&high["budget_ns"], &high["period_ns"]), (&7_000_000.into(), &20_000_000.into()), "{text}");
    // The request that waits when the ceiling begins, and the next one, may fall into one period. The server
    // is demoted then, so its next request may end in the following period, too. Eight draws had 2, 1 and 0.
    assert!(high["demoted"].as_u64().is_some_and(|periods| periods <= 3), "{text}");
    assert!(high["trouble"].is_null(), "{text}");
    assert!((6_000_000..6_500_000).contains(&high["longest_ns"].as_u64().expect("a number")), "{text}");
    // When its clients have ended, the server has no rank, and its blocked CPU time can be reserved.
    let none = told(&text, "none");
    assert!(none["slot"].is_null() && none["clients"].as_array().is_some_and(Vec::is_empty), "{text}");
}

#[test]
fn a_server_that_takes_more_than_its_bound_is_demoted() {
    let text = said(
        "spry ceiling --pid $server --bound 1ms
        spry reserve --budget 3276.8us --period 8192us -- spry-runner budget other 4 3276.8 8192 &
        reserved service ask long /tmp/socket 15000 20000 8 & long=$!
        sleep 5; before=$(hogs_ran); sleep 2; echo \"hogs had $(($(hogs_ran) - before))\"
        told long; wait $long",
    );
    let long = told(&text, "long");
    assert!(long["demoted"].as_u64().is_some_and(|periods| periods >= 20), "{text}");
    assert!(long["longest_ns"].as_u64().is_some_and(|longest| longest >= 14_000_000), "{text}");
    assert!(text.contains("took more than its bound of 1000us in 20000us"), "{text}");
    // The loops get four fifths of the time besides 5 % for the server, in ticks of 10 ms.
    assert!(number_after(&text, "hogs had") >= 140.0, "{text}");
}

#[test]
fn a_flood_of_requests_takes_nothing_from_reservations() {
    let text = said(
        "spry ceiling --pid $server --bound 1ms
        reserved service flood /tmp/socket 300 9 & flood=$!
        sleep 3
        spry reserve --budget 3276.8us --period 8192us -- spry-runner budget other 3 3276.8 8192 & other=$!
        sleep 1.5; before=$(hogs_ran); sleep 2; echo \"hogs had $(($(hogs_ran) - before))\"
        told flood; wait $other $flood",
    );
    let other = text.lines().find(|line| line.starts_with("other periods"));
    let other = other.unwrap_or_else(|| panic!("it said nothing: {text}"));
    assert!(number_after(other, "mean").abs() <= 3276.8 * 0.01, "{text}");
    assert!(told(&text, "flood")["demoted"].as_u64().is_some_and(|periods| periods >= 50), "{text}");
    // The other task has 40 %, the flood 10 % and the server 5 %; the loops have four fifths of 45 %.
    assert!(number_after(&text, "hogs had") >= 65.0, "{text}");
}

#[test]
fn a_bound_by_measurement_comes_near_what_requests_take() {
    let text = said(
        "spry ceiling --pid $server
        reserved service ask measured /tmp/socket 400 20000 10 7 & sleep 9; told measured; wait $!",
    );
    let of = told(&text, "measured");
    assert!((480_000..900_000).contains(&of["budget_ns"].as_u64().expect("a number")), "{text}");
    assert!(answers(&text, "measured", "worst") <= 1000.0, "{text}");
}
