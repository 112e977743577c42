//! Tests reservations by real rate in the lab. A consumer beside four loops keeps the pipe from its producer
//! about half full, and returns to this level after its load has changed.

use spry_lab::{FileSource, Job, MachineSpec, Topology};
use spry_lab_tests::attacks::number_after;
use spry_lab_tests::{DAEMON_ACTS, example, machine, printed, run, script_with_programs};

/// The consumer needs 20 % of a CPU, then 50 %, then 20 % at twice the pace. The printed values leave out the
/// first five seconds of each.
const TEXT: &str = "
cd /tmp
for i in 1 2 3 4; do /spry/spin & done
rated produce 200:1000:8 200:2500:8 400:500:8 | spry reserve --real-rate -- rated consume
spry reservations; cat /sys/kernel/sched_ext/state /tmp/log";

#[test]
fn a_consumer_beside_four_loops_keeps_its_pipe_half_full() {
    let mut job =
        Job { topology: Topology::of_cores(1), ..script_with_programs(&format!("{DAEMON_ACTS}{TEXT}"), 600) };
    let rated = FileSource::File(example("rated"));
    job.files.insert("/spry/bin/rated".to_owned(), rated);
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    println!("{text}");
    for phase in ["phase 1", "phase 2", "phase 3"] {
        let line = text.lines().find(|line| line.starts_with(phase));
        let line = line.unwrap_or_else(|| panic!("{phase} is missing: {text}"));
        assert!((40.0..=60.0).contains(&number_after(line, "median")), "{line}");
        assert!(number_after(line, "least") >= 25.0 && number_after(line, "most") <= 75.0, "{line}");
        // The producer never waited for room.
        assert!(number_after(line, "took") <= 8.1, "{line}");
    }
    assert!(text.contains("no reservation") && text.lines().any(|line| line == "enabled"), "{text}");
}
