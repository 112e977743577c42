//! Every kernel that the lab offers boots, is what it is called, and takes Spry's recorder.

use spry_lab::{Flavour, Job, KernelChoice, LabMachine, MachineSpec, Record, TRACE};
use spry_lab_tests::{machine, printed, run, script};

fn with_kernel(kernel: KernelChoice) -> LabMachine {
    machine(&MachineSpec { kernel, ..MachineSpec::default() })
}

/// What `uname -rv` says in the guest, and the trace that a recording left.
fn recorded(machine: &LabMachine) -> (String, Vec<u8>) {
    let job = Job { record: Some(Record::default()), ..script("uname -rv") };
    let mut outcome = run(machine, &job).expect("it runs");
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]).into_owned();
    assert_eq!(outcome.commands[0].exit, Some(0), "{errors}");
    (printed(&outcome), outcome.files.remove(TRACE).expect("there is a trace"))
}

fn takes_the_recorder(machine: &LabMachine) {
    let (uname, trace) = recorded(machine);
    assert!(uname.starts_with(&machine.kernel.release), "{uname}");
    assert!(trace.starts_with(b"SPRYTRC") && trace.len() > 1000, "{} bytes", trace.len());
}

#[test]
fn the_newest_kernel_has_sched_ext_and_takes_the_recorder() {
    let machine = with_kernel(KernelChoice::Newest(Flavour::Cloud));
    assert_eq!(machine.kernel.option("CONFIG_SCHED_CLASS_EXT").as_deref(), Some("y"));
    takes_the_recorder(&machine);
}

#[test]
fn the_release_s_kernel_takes_the_recorder() {
    takes_the_recorder(&with_kernel(KernelChoice::Stable(Flavour::Cloud)));
}

#[test]
fn the_real_time_kernel_is_one_and_takes_the_recorder() {
    let machine = with_kernel(KernelChoice::Stable(Flavour::Rt));
    let (uname, trace) = recorded(&machine);
    assert!(uname.contains("PREEMPT_RT"), "{uname}");
    assert!(trace.starts_with(b"SPRYTRC"));
}

#[test]
fn preemption_of_the_release_s_kernel_is_chosen_at_boot() {
    let machine = with_kernel(KernelChoice::Stable(Flavour::Cloud));
    for model in ["none", "voluntary", "full"] {
        let job = Job {
            cmdline: vec![format!("preempt={model}")],
            ..script("cat /sys/kernel/debug/sched/preempt")
        };
        let outcome = run(&machine, &job).expect("it runs");
        assert!(printed(&outcome).contains(&format!("({model})")), "{}", printed(&outcome));
    }
}
