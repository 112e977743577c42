//! Tests `spry latency` in the lab, where time passes with instructions. cyclictest measures the same
//! latencies, and delays that a test plants are found on other kernels too.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::Value;
use spry_lab::{FileSource, Flavour, Job, KernelChoice, LabMachine, MachineSpec, Outcome};
use spry_lab_tests::{example, is_long, machine, printed, programs, run, shell};

/// Runs a script that can use `spry`, cyclictest and the planter of delays.
fn ran(machine: &LabMachine, seed: u64, cmdline: &[&str], text: &str) -> Outcome {
    let mut job = Job {
        seed,
        cmdline: cmdline.iter().map(|&word| word.to_owned()).collect(),
        commands: vec![shell(&format!("exec 2>&1; cd /tmp; {text}"), 300)],
        ..Job::default()
    };
    job.files.insert("/spry/bin/spry".to_owned(), FileSource::File(programs().join("spry")));
    let plant = FileSource::File(example("plant"));
    job.files.insert("/spry/bin/plant".to_owned(), plant);
    run(machine, &job).unwrap_or_else(|error| panic!("{error}"))
}

fn with(kernel: KernelChoice) -> LabMachine {
    machine(&MachineSpec { kernel, packages: ["rt-tests".to_owned()].into(), ..MachineSpec::default() })
}

/// The microsecond of the sample with this rank in a histogram. Ranks count from 1.
fn ranked(histogram: &BTreeMap<u64, u64>, rank: f64) -> u64 {
    let mut below = 0;
    let found = histogram.iter().find(|&(_, &count)| {
        below += count;
        below as f64 >= rank
    });
    *found.or(histogram.last_key_value()).expect("there are samples").0
}

/// A quantile, and the range of microseconds in which chance leaves the same quantile of another sampler with
/// as many samples.
///
/// The number of samples below a quantile is binomial. The numbers of two samplers differ by the square root
/// of 2 more than one of them varies. The range has four times this deviation: a test compares four
/// quantiles, and samples taken during the same write to the file depend on each other.
fn quantile(histogram: &BTreeMap<u64, u64>, per_mille: u64) -> (u64, RangeInclusive<u64>) {
    let (total, part) = (histogram.values().sum::<u64>() as f64, per_mille as f64 / 1000.0);
    let (rank, spread) = (total * part, 4.0 * (2.0 * total * part * (1.0 - part)).sqrt());
    (ranked(histogram, rank), ranked(histogram, rank - spread)..=ranked(histogram, rank + spread))
}

/// Reads histograms from lines of the form `name microsecond count`. Lines of the same name are
/// added together.
fn pooled(texts: &[String]) -> BTreeMap<String, BTreeMap<u64, u64>> {
    let mut all: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name @ ("cyclictest" | "spry"), us, count] = words[..] {
            let (us, count): (u64, u64) = (us.parse().expect("a number"), count.parse().expect("a number"));
            *all.entry(name.to_owned()).or_default().entry(us).or_default() += count;
        }
    }
    all
}

/// Runs each sampler by itself, beside a load that stays in the kernel for a long time: it writes 8 MB at a
/// time to a file in memory.
const BOTH: &str = "
(while :; do dd if=/dev/zero of=/tmp/x bs=8M count=4; rm /tmp/x; done >/dev/null 2>&1) & load=$!
cyclictest -q -m -p80 -i500 -a0 -t1 -l4000 -h20000 --histfile=c >/dev/null
spry latency --quiet --rate 2000 --cpus 0 --samples 4000 --histfile s >/dev/null
kill $load
lines() { awk -v name=$1 '!/^#/ && NF >= 2 && $2 > 0 { print name, $1 + 0, $2 }' $2; }
lines cyclictest c; lines spry s";

#[test]
fn quantiles_are_cyclictest_s() {
    let machine = with(KernelChoice::default());
    let seeds = if is_long() { 4 } else { 1 };
    let texts: Vec<String> =
        (1..=seeds).map(|seed| printed(&ran(&machine, seed, &["preempt=lazy"], BOTH))).collect();
    let all = pooled(&texts);
    assert_eq!(all.len(), 2, "{texts:?}");
    for per_mille in [500, 900, 990, 999] {
        let [(theirs, chance), (ours, _)] =
            ["cyclictest", "spry"].map(|name| quantile(&all[name], per_mille));
        println!("{per_mille} per mille: cyclictest {theirs} us ({chance:?} by chance), spry {ours} us");
        let apart = ours.clamp(*chance.start(), *chance.end()).abs_diff(ours);
        assert!(
            apart <= 1 || apart * 50 <= theirs,
            "{per_mille} per mille: {theirs} ({chance:?}), {ours} us"
        );
    }
}

/// Plants a delay of this kind on a kernel. Returns the first culprit that is found.
fn first_culprit(machine: &LabMachine, kind: &str) -> Value {
    let text = format!(
        "plant {kind} 30 & sleep 1; spry latency --quiet --json --cpus 0 --threshold 2000 --duration 2"
    );
    let said = printed(&ran(machine, 1, &[], &text));
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    let report: Value = serde_json::from_str(line).expect("JSON");
    let unseen_ns = report["parts"]["unseen_ns"]["quantiles"]["0.99"].as_u64();
    assert!(unseen_ns.is_some_and(|ns| ns <= 2_000), "{report}");
    report["culprits"][0].clone()
}

fn planted_delays_are_named_on(kernel: KernelChoice) {
    let machine = with(kernel);
    for (kind, task, frame) in
        [("tracepoint", "planted", "plant_tracepoint"), ("softirq", "bpf_timer_cb", "plant_softirq")]
    {
        let culprit = first_culprit(&machine, kind);
        assert!(culprit["task"].as_str().is_some_and(|name| name.contains(task)), "{culprit}");
        assert!(culprit["stack"].to_string().contains(frame), "{culprit}");
        assert!(culprit["worst_ns"].as_u64().is_some_and(|ns| ns >= 4_500_000), "{culprit}");
    }
}

#[test]
fn planted_delays_are_named_on_the_newest_kernel() {
    planted_delays_are_named_on(KernelChoice::Newest(Flavour::Cloud));
}

#[test]
fn planted_delays_are_named_on_a_kernel_that_hides_schedule() {
    planted_delays_are_named_on(KernelChoice::Stable(Flavour::Cloud));
}

#[test]
fn the_real_time_clock_wakes_a_sampler_at_its_own_rates_only() {
    let machine = with(KernelChoice::default());
    let text = "spry latency --quiet --json --source rtc --rate 8192 --cpus 0 --samples 8192
        spry latency --quiet --source rtc --rate 1000 --cpus 0 --samples 100 || echo status $?";
    let said = printed(&ran(&machine, 1, &[], text));
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    let report: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&report["source"], &report["missed"]), (&"rtc".into(), &0.into()), "{report}");
    // Nothing else runs in the guest, so 8,192 interrupts take one second, and each is read at once.
    let elapsed_s = report["elapsed_s"].as_f64().unwrap_or_default();
    assert!((0.995..1.005).contains(&elapsed_s), "{report}");
    assert!(report["quantiles"]["0.99"].as_u64().is_some_and(|ns| ns < 10_000), "{report}");
    assert!(said.contains("powers of two from 2 to 8192") && said.contains("status 1"), "{said}");
}
