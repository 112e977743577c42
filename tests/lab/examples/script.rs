//! Runs a shell script in the lab and prints what it said: for looking into what a test found.
//! `cargo run --profile checked -p spry-lab-tests --example script CPUS FILE [TRACE]`; with TRACE the run is recorded
//! into that file. Spry's programs and the scheduler's examples stand in the guest's PATH, and files of
//! `SPRY_TEST_FILES` (apart by `:`) beside them; `SPRY_TEST_KERNEL=newest-rt` names a kernel.

use std::env;
use std::fs;

use spry_lab::{FileSource, Job, KernelChoice, MachineSpec, Record, TRACE, Topology};
use spry_lab_tests::{example, machine, printed, programs, run, shell};

fn main() {
    let mut args = env::args().skip(1);
    let cpus = args.next().expect("CPUS").parse().expect("a number of CPUs");
    let text = fs::read_to_string(args.next().expect("FILE")).expect("a script");
    let trace = args.next();
    let kernel = env::var("SPRY_TEST_KERNEL").map_or_else(
        |_| KernelChoice::default(),
        |name| name.parse().unwrap_or_else(|error| panic!("{error}")),
    );
    let mut job = Job {
        topology: Topology::of_cores(cpus),
        commands: vec![shell(&format!("exec 2>&1\n{text}"), 600)],
        record: trace.as_ref().map(|_| Record::default()),
        results_mib: 512,
        ..Job::default()
    };
    let own = ["spry", "spry-sched"].map(|name| programs().join(name));
    let examples =
        ["attack", "crowd", "late", "scx_stack", "storm"].map(|name| example("spry-scheduler", name));
    let named = env::var("SPRY_TEST_FILES").unwrap_or_default();
    let named = named.split(':').filter(|path| !path.is_empty()).map(Into::into);
    for path in own.into_iter().chain(examples).chain(named) {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        job.files.insert(format!("/spry/bin/{name}"), FileSource::File(path));
    }
    let spec = MachineSpec { kernel, ..MachineSpec::default() };
    let outcome = run(&machine(&spec), &job).unwrap_or_else(|error| panic!("{error}"));
    if let Some(trace) = trace {
        fs::write(&trace, &outcome.files[TRACE]).unwrap_or_else(|error| panic!("{trace}: {error}"));
    }
    print!("{}", printed(&outcome));
}
