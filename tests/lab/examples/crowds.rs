//! Prints how crowds of loops fare below one in use under the scheduler's stack of classes, on a kernel of the lab:
//! `cargo run --profile checked -p spry-lab-tests --example crowds KERNEL COUNT...`, as `crowds newest-rt 8 100 1000`.

use spry_lab::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, KernelChoice, MachineSpec};
use spry_lab_tests::{example, machine, printed, run, script};

fn main() {
    let mut args = std::env::args().skip(1);
    let kernel: KernelChoice =
        args.next().unwrap_or_default().parse().unwrap_or_else(|error| panic!("{error}"));
    let machine = machine(&MachineSpec { kernel, ..MachineSpec::default() });
    for count in args {
        let program = Program {
            file: example("spry-scheduler", "scx_stack"),
            args: vec!["hog=1:200000".to_owned()],
            sign: Sign::SchedExt,
        };
        // For 6 s, nice 0, beside one in use.
        let mut job = Job {
            shift: 1,
            setup: Setup { program: Some(program), ..Setup::default() },
            ..script(&format!("/spry/crowd {count} 6 0 1"))
        };
        job.files.insert("/spry/crowd".to_owned(), FileSource::File(example("spry-scheduler", "crowd")));
        let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
        println!("{count} on {}:\n{}", machine.kernel.release, printed(&outcome));
    }
}
