//! Measures the CPU time and the waits of endless loops beside programs that try to get more than their
//! share, under EEVDF and under the scheduler.

use std::env;

use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, KernelChoice, LabError, MachineSpec, Topology};

use crate::{SLOW_CPU, example, machine, printed, printed_before, run, shell, with_spin};

/// The attacks that the scheduler's example `attack` implements, each with its number.
pub const ATTACKS: [&str; 23] = [
    "threads 900",
    "threads-early 900",
    "forks 900",
    "forks-early 900",
    "children 900",
    "daemons 900",
    "siblings 900",
    "exec 900",
    "ring 900",
    "sleepers 900",
    "naps 2900",
    "idlers 900",
    "idler 900",
    "idle-forks 900",
    "idle-crowd 50",
    "bomb 900",
    "crowd 50",
    "policy $loop",
    "masks $loop",
    "nice $loop",
    "self-batch 2",
    "ttys 1",
    "ttys 4",
];

/// The scheduler that is in charge during an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// The kernel's own scheduler.
    Eevdf,
    /// The scheduler without its daemon. No task is in use.
    Stack,
}

/// The user that starts the attack's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The same user, in the session of the loops.
    Neighbour,
    /// Another user, in a session of its own.
    OtherUser,
}

/// The results of the loops, of which there are four for each CPU by default.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopResults {
    /// The part of one CPU that all loops together got, percent.
    pub part: f64,
    /// The longest time that one of the loops waited, ms.
    pub longest_ms: f64,
    /// Whether the scheduler that was loaded at the start is still in charge at the end.
    pub in_charge: bool,
    /// The number of processes at the end, including the machine's own processes.
    pub processes: u32,
    /// The latest tid that the kernel assigned. Each new task gets a greater one.
    pub last_tid: u32,
    /// Everything that the guest printed.
    pub text: String,
}

/// The number that follows some words.
///
/// # Panics
/// If no number follows the words.
pub fn number_after(text: &str, words: &str) -> f64 {
    let number = text.split_once(words).and_then(|(_, rest)| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no `{words}` in {text}"))
}

/// How long an attack lasts in a test, s: the value of `SPRY_TEST_ATTACK_S`, or 4 without it.
///
/// # Panics
/// If the value is not a number.
pub fn test_seconds() -> u32 {
    env::var("SPRY_TEST_ATTACK_S").map_or(4, |text| text.parse().expect("a number of seconds"))
}

/// The setting of a measurement: loops beside an attack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside<'a> {
    /// The attack. If it attacks another task, a further loop is that task.
    pub attack: &'a str,
    /// The attack's nice value.
    pub attack_nice: i32,
    /// The user that starts the attack's program.
    pub by: By,
    /// The number of loops.
    pub loops: u32,
    /// The loops' nice value.
    pub nice: i32,
    /// The number of CPUs that the loops may use, from the first on; `None`: they may use all CPUs.
    pub within: Option<u32>,
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// An instruction takes 2 to the power of this number, in nanoseconds.
    pub shift: u8,
    /// How long the measurement lasts, s.
    pub seconds: u32,
    /// The kernel of the machine.
    pub kernel: KernelChoice,
}

impl<'a> Beside<'a> {
    /// A setting with four loops for each CPU beside an attack; all have nice value 0.
    pub fn four_a_cpu(attack: &'a str, by: By, cpus: u32, seconds: u32) -> Beside<'a> {
        let kernel = KernelChoice::default();
        Beside {
            attack,
            attack_nice: 0,
            by,
            loops: 4 * cpus,
            nice: 0,
            within: None,
            cpus,
            shift: SLOW_CPU,
            seconds,
            kernel,
        }
    }
}

/// Shell commands that start an attack in the background. If the attack is on another task, they start a
/// further loop as that task.
pub(crate) fn begin(attack: &str, nice: i32, by: By) -> String {
    let user = match by {
        By::Neighbour => "",
        By::OtherUser => "/spry/attack as 1000",
    };
    format!(
        "cat >/tmp/begin <<'end'
        case '{attack}' in *loop) /spry/spin & loop=$!;; esac
        exec /spry/attack {attack} {nice}
end
        {user} sh /tmp/begin &"
    )
}

/// The last word of the line of `processes` and of `/proc/loadavg`: the latest tid that the kernel assigned.
fn last_tid(text: &str) -> Option<u32> {
    text.lines().find(|line| line.starts_with("processes "))?.split_whitespace().last()?.parse().ok()
}

/// Measures the CPU time and the waits of the loops beside an attack.
///
/// # Errors
/// If the lab fails.
///
/// # Panics
/// If the loops do not print their results.
pub fn beside(beside: &Beside<'_>, under: Under) -> Result<LoopResults, LabError> {
    let Beside { attack, attack_nice, by, loops, nice, within, cpus, shift, seconds, ref kernel } = *beside;
    let program =
        Program { file: example("scx_stack"), args: vec!["hog=1:200000".to_owned()], sign: Sign::SchedExt };
    let begin = begin(attack, attack_nice, by);
    let on = within.map_or_else(String::new, |cpus| format!("/spry/attack within {cpus}"));
    let text = format!(
        "{begin} sleep 1; {on} /spry/crowd {loops} {seconds} {nice}; set -- /proc/[0-9]*; \
         echo processes $# $(cat /proc/loadavg); cat /sys/kernel/sched_ext/state"
    );
    let mut job = with_spin(Job {
        topology: Topology::of_cores(cpus),
        shift,
        setup: Setup { program: (under == Under::Stack).then_some(program), ..Setup::default() },
        commands: vec![shell(&text, seconds + 60)],
        ..Job::default()
    });
    for name in ["crowd", "attack"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example(name)));
    }
    let spec = MachineSpec { kernel: kernel.clone(), ..MachineSpec::default() };
    let machine = machine(&spec);
    let text = match under {
        Under::Eevdf => printed_before(&machine, &job)?,
        Under::Stack => printed(&run(&machine, &job)?),
    };
    let state = if under == Under::Stack { "enabled" } else { "disabled" };
    Ok(LoopResults {
        part: number_after(&text, "crowd had"),
        longest_ms: number_after(&text, "longest wait"),
        in_charge: text.trim_end().ends_with(state),
        processes: number_after(&text, "processes") as u32,
        last_tid: last_tid(&text).unwrap_or_else(|| panic!("no load in {text}")),
        text,
    })
}
