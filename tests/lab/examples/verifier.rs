//! Prints, as a table, how many instructions the kernel's verifier checks for each of Spry's BPF programs.
//! The columns are the archive's kernels on which the programs load, and the kernels of the named images:
//! `cargo run --release -p spry-lab-tests --example verifier [IMAGE...]`.

use std::collections::BTreeMap;

use spry_lab::{FileSource, Flavour, Job, KernelChoice, MachineSpec, Topology};
use spry_lab_tests::{example, machine, printed, run, script};

/// The numbers of CPUs. With one CPU some values are constants, and code that depends on them is removed from
/// the programs before they are verified.
const CPUS: [u32; 2] = [1, 4];

fn main() {
    let (mut columns, mut counts) = (Vec::new(), BTreeMap::<String, Vec<Option<u64>>>::new());
    let ours = [Flavour::Cloud, Flavour::Generic, Flavour::Rt].map(KernelChoice::Newest);
    let named = std::env::args_os().skip(1).map(|image| KernelChoice::File(image.into()));
    for kernel in ours.into_iter().chain(named) {
        let machine = machine(&MachineSpec { kernel, ..MachineSpec::default() });
        for cpus in CPUS {
            let mut job = Job { topology: Topology::of_cores(cpus), ..script("/spry/scx_stack --programs") };
            // With several CPUs the guest's time goes on with the time of this machine, so the limit is long.
            job.commands[0].limit_s = 600;
            let stack = example("scx_stack");
            job.files.insert("/spry/scx_stack".to_owned(), FileSource::File(stack));
            let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
            let text = printed(&outcome);
            for line in text.lines().filter_map(|line| line.strip_prefix("program ")) {
                let Some((name, count)) = line.split_once(' ') else { continue };
                let row = counts.entry(name.to_owned()).or_default();
                row.resize(columns.len(), None);
                row.push(count.parse().ok());
            }
            columns.push(format!(
                "{}, {cpus} CPU{}",
                machine.kernel.release,
                if cpus > 1 { "s" } else { "" }
            ));
        }
    }
    println!("| program | {} |", columns.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for (name, mut row) in counts {
        row.resize(columns.len(), None);
        let cells = row.iter().map(|count| count.map_or_else(|| "-".to_owned(), |count| count.to_string()));
        println!("| `{name}` | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}
