//! Prints values of a movie beside eight endless loops. It compares runs that continued a saved machine with
//! runs that booted their machine: `cargo run --profile checked -p spry-lab-tests --example booted`.

use serde_json::Value;
use spry_lab::{Beginning, Job, MachineSpec, Topology};
use spry_lab_tests::{machine, run};

const MOVIE: &str = include_str!("../../../scenarios/movie.toml");
const SEEDS: u64 = 3;

/// The greatest lateness of a wake-up and the longest wait of a loop, us.
fn longest_us(cpus: u32, seed: u64, begins: Beginning) -> [f64; 2] {
    let number = seed.to_string();
    let arguments = ["--set", "stressers=8", "--seed", &number, "--work", "instructions:0"];
    let job = Job {
        begins,
        seed,
        topology: Topology::of_cores(cpus),
        ..Job::scenario(MOVIE, &arguments.map(str::to_owned), 60)
    };
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let figures: Value =
        serde_json::from_slice(&outcome.files["runner.json"]).expect("the runner writes JSON");
    [&figures["metrics"]["wake_lateness_ns"]["max"], &figures["metrics"]["starved_ns_max"]]
        .map(|figure| figure.as_f64().unwrap_or_else(|| panic!("{figures}")) / 1000.0)
}

fn main() {
    for cpus in [1, 2, 4] {
        for begins in [Beginning::FromMemory, Beginning::Booted] {
            let runs: Vec<String> = (1..=SEEDS)
                .map(|seed| longest_us(cpus, seed, begins))
                .map(|[late_us, starved_us]| format!("{late_us:.1} and {starved_us:.0}"))
                .collect();
            println!("CPUs: {cpus}, {begins:?}: longest lateness and wait, us: {}", runs.join("; "));
        }
    }
}
