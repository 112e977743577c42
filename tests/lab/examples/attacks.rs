//! Prints which part of a CPU four endless loops for each CPU get beside each attack. It measures under EEVDF
//! and under the scheduler's stack of classes: `cargo run --profile checked -p spry-lab-tests --example
//! attacks [CPUS [SECONDS [neighbour|user [ATTACK...]]]]`. With `user` another user runs the attack, in a
//! session of its own. `SPRY_TEST_KERNEL=newest-rt` names a kernel.

use std::env;

use spry_lab_tests::attacks::{ATTACKS, Beside, By, LoopResults, Under, beside};
use spry_lab_tests::kernel_of_environment;

fn main() {
    let mut args = env::args().skip(1);
    let cpus = args.next().map_or(1, |text| text.parse().expect("a number of CPUs"));
    let seconds: u32 = args.next().map_or(5, |text| text.parse().expect("seconds"));
    let by = match args.next().as_deref() {
        None | Some("neighbour") => By::Neighbour,
        Some("user") => By::OtherUser,
        Some(by) => panic!("{by}: neighbour or user"),
    };
    let named: Vec<String> = args.collect();
    let attacks: Vec<&str> =
        if named.is_empty() { ATTACKS.to_vec() } else { named.iter().map(String::as_str).collect() };
    let kernel = kernel_of_environment();
    println!(
        "| attack | EEVDF, % | longest wait, ms | Spry, % | longest wait, ms | in charge | of EEVDF's |"
    );
    println!("|---|---:|---:|---:|---:|---|---:|");
    for attack in attacks {
        let asked = Beside { kernel: kernel.clone(), ..Beside::four_a_cpu(attack, by, cpus, seconds) };
        let [eevdf, spry] = [Under::Eevdf, Under::Stack].map(|under| beside(&asked, under));
        match (eevdf, spry) {
            (Ok(eevdf), Ok(spry)) => {
                println!("{}", row(attack, &eevdf, &spry));
                eprintln!("{}{}", eevdf.text, spry.text);
            }
            (Err(error), _) | (_, Err(error)) => println!("| {attack} | {error} |"),
        }
    }
}

fn row(attack: &str, eevdf: &LoopResults, spry: &LoopResults) -> String {
    format!(
        "| {attack} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.2} |",
        eevdf.part,
        eevdf.longest_ms,
        spry.part,
        spry.longest_ms,
        if spry.in_charge { "yes" } else { "no" },
        spry.part / eevdf.part
    )
}
