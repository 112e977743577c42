//! Prints how much CPU time crowds of endless loops get in the lab, beside a loop that the daemon counts as
//! in use: `cargo run --profile checked -p spry-lab-tests --example crowds COUNT...`.
//! `SPRY_TEST_KERNEL=newest-rt` names a kernel.

use spry_lab::{Job, MachineSpec};
use spry_lab_tests::{kernel_of_environment, machine, printed, run, script_with_programs};

fn main() {
    let machine = machine(&MachineSpec { kernel: kernel_of_environment(), ..MachineSpec::default() });
    for count in std::env::args().skip(1) {
        // The loops have nice value 0 and are measured for 8 s, from the moment at which the hog is in use.
        let text = format!(
            "spry-sched run --actuator scx >/dev/null 2>&1 &
            until spry sched status >/dev/null 2>&1; do sleep 0.2; done
            mkfifo gate; crowd {count} 8 0 1 <gate & exec 3>gate
            until pidof hog >/dev/null; do sleep 0.2; done
            spry sched set $(pidof hog) --class interactive >/dev/null; exec 3>&-; wait $!
            spry sched status | head -1"
        );
        let job = Job { shift: 1, memory_mib: 2048, ..script_with_programs(&text, 120) };
        let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
        println!("{count} on {}:\n{}", machine.kernel.release, printed(&outcome));
    }
}
