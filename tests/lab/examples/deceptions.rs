//! Prints for each deception its CPU time divided by the CPU time of an honest loop. Both run beside a
//! person's editor and film under the daemon: `cargo run --profile checked -p spry-lab-tests --example
//! deceptions [SECONDS [CONTEST...]]`. A contest is a trick, such as `blinker@1000`, or several tricks at
//! once, which are separated by spaces. All contests share one boot.

use spry_lab_tests::deceptions::{TRICKS, contests};

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: u32 = args.next().map_or(20, |text| text.parse().expect("seconds"));
    let named: Vec<String> = args.collect();
    let asked: Vec<&str> =
        if named.is_empty() { TRICKS.to_vec() } else { named.iter().map(String::as_str).collect() };
    let seen = contests(&asked, seconds).unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{}", seen.text);
    println!(
        "| trick | CPU, s | honest loop, s | ratio | after 5 s | loop in use, s | any process in use, \
         s | way | in vain |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---|---|");
    for fared in seen.fared {
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {} | {} |",
            fared.trick,
            fared.deceiver_s,
            fared.honest_s,
            fared.ratio,
            fared.later_ratio,
            fared.hog_used_s,
            fared.used_s,
            fared.way,
            if fared.is_in_vain() { "yes" } else { "no" },
        );
    }
}
