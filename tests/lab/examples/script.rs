//! Runs a shell script in the lab and prints its output. It helps to find the reason of a test's failure:
//! `cargo run --profile checked -p spry-lab-tests --example script CPUS FILE [TRACE]`. With TRACE the run is
//! recorded into that file. The guest's PATH contains Spry's programs, the scheduler's examples, and the
//! files of `SPRY_TEST_FILES` (separated by `:`). `SPRY_TEST_KERNEL=newest-rt` names a kernel,
//! `SPRY_TEST_PACKAGES` the distribution's packages in the guest and `SPRY_TEST_MODULES` the kernel's modules
//! (both separated by spaces), and `SPRY_TEST_SCRATCH_MIB` the size of an ext4 file system at `/scratch`.
//! `SPRY_TEST_SHIFT=2` makes an instruction take 2 to the power of 2, in nanoseconds; `SPRY_TEST_MIB` is the
//! size of the guest's memory without the image, MiB. Without these two, the job has the values that the lab
//! gives every job.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::str::FromStr;

use spry_lab::{Job, MachineSpec, Record, TRACE, Topology};
use spry_lab_tests::{kernel_of_environment, machine, printed, run, script_with_programs};

fn main() {
    let mut args = env::args().skip(1);
    let cpus = args.next().expect("CPUS").parse().expect("a number of CPUs");
    let text = fs::read_to_string(args.next().expect("FILE")).expect("a script");
    let trace = args.next();
    let job = script_with_programs(&text, 600);
    let job = Job {
        topology: Topology::of_cores(cpus),
        record: trace.as_ref().map(|_| Record::default()),
        results_mib: 512,
        shift: number_of_environment("SPRY_TEST_SHIFT").unwrap_or(job.shift),
        memory_mib: number_of_environment("SPRY_TEST_MIB").unwrap_or(job.memory_mib),
        ..job
    };
    let spec = MachineSpec {
        kernel: kernel_of_environment(),
        packages: words_of_environment("SPRY_TEST_PACKAGES"),
        modules: words_of_environment("SPRY_TEST_MODULES"),
        scratch_mib: number_of_environment("SPRY_TEST_SCRATCH_MIB").unwrap_or(0),
        ..MachineSpec::default()
    };
    let outcome = run(&machine(&spec), &job).unwrap_or_else(|error| panic!("{error}"));
    if let Some(trace) = trace {
        fs::write(&trace, &outcome.files[TRACE]).unwrap_or_else(|error| panic!("{trace}: {error}"));
    }
    print!("{}", printed(&outcome));
}

/// The words of an environment variable; none if the variable is not set.
fn words_of_environment(name: &str) -> BTreeSet<String> {
    env::var(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The number in an environment variable; `None` if the variable is not set.
fn number_of_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is expected")))
}
