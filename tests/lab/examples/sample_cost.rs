//! Prints how much CPU time a sample of cyclictest and of `spry latency` costs in the lab, in the kernel and
//! in the program together. A counting loop runs beside each of them, and the rounds that the loop loses are
//! counted: `cargo run --profile checked -p spry-lab-tests --example sample_cost`.

use spry_lab::MachineSpec;
use spry_lab_tests::{machine, printed, run, spry_script};

/// Each of the two samplers gets ready for 3 s; then the loop counts for 8 s.
const TEXT: &str = "
exec 2>&1; cd /tmp
cat >count.sh <<'END'
i=0; trap 'echo $i; exit' TERM; while :; do i=$((i+1)); done
END
beside() {
    name=$1; shift
    \"$@\" >/dev/null & sampler=$!
    sleep 3
    sh count.sh >rounds & loop=$!
    sleep 8
    kill -TERM $loop; wait $loop
    kill -INT $sampler; wait $sampler
    echo \"rounds $(cat rounds) $name\"
}
beside nobody sleep 100
beside cyclictest cyclictest -q -m -p80 -i500 -a0 -t1 -h1000 --histfile=c
beside 'spry latency' spry latency -q --rate 2000 --cpus 0
beside 'spry latency --split' spry latency -q --split --rate 2000 --cpus 0";

/// How long the loop counts, ns, with an instruction for each nanosecond; and how many samples are
/// taken in that time.
const COUNTED_NS: f64 = 8e9;
const SAMPLES: f64 = 16_000.0;

fn main() {
    let packages = ["rt-tests".to_owned()].into();
    let machine = machine(&MachineSpec { packages, ..MachineSpec::default() });
    let mut job = spry_script(TEXT);
    job.commands[0].limit_s = 300;
    let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let rounds: Vec<(&str, f64)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("rounds ")?.split_once(' '))
        .map(|(rounds, name)| (name, rounds.parse().expect("a number")))
        .collect();
    let [(_, alone), rest @ ..] = rounds.as_slice() else { panic!("{text}") };
    let cost = |rounds: f64| (1.0 - rounds / alone) * COUNTED_NS / SAMPLES;
    let theirs = rest.first().map_or(f64::NAN, |&(_, rounds)| cost(rounds));
    println!("{alone} rounds beside nobody, on {}\n", machine.kernel.release);
    println!("| | rounds | instructions a sample | of cyclictest's |\n|---|---:|---:|---:|");
    for &(name, rounds) in rest {
        println!("| {name} | {rounds} | {:.0} | {:.2} |", cost(rounds), cost(rounds) / theirs);
    }
}
