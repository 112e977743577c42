//! What bystanders have beside programs that want more than their share, under EEVDF and under the scheduler.

use std::env;

use spry_lab::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, KernelChoice, LabError, MachineSpec, Topology};

use crate::{example, machine, printed, run, shell};

/// The attacks of the example `attack` of the scheduler, each with its number.
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

/// Who is in charge beside an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// The kernel's own scheduler.
    Eevdf,
    /// The scheduler without its daemon, nothing being in use.
    Stack,
}

/// Whose program the attack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// One that was started beside the loops, in their session.
    Neighbour,
    /// Another user's, in a session of its own.
    OtherUser,
}

/// What four loops a CPU had.
#[derive(Clone, PartialEq, Debug)]
pub struct Had {
    /// Of one CPU, percent.
    pub part: f64,
    /// The longest time that one of them waited, ms.
    pub longest_ms: f64,
    /// Whether the scheduler that began is in charge at the end.
    pub in_charge: bool,
    /// All that was printed.
    pub text: String,
}

/// The number that follows some words.
///
/// # Panics
/// Where there is none.
pub fn number_after(text: &str, words: &str) -> f64 {
    let number = text.split_once(words).and_then(|(_, rest)| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no `{words}` in {text}"))
}

/// For how long an attack goes on in a test, s: `SPRY_TEST_ATTACK_S`, 10 if that is not set.
///
/// # Panics
/// Where that is no number.
pub fn test_seconds() -> u32 {
    env::var("SPRY_TEST_ATTACK_S").map_or(10, |text| text.parse().expect("a number of seconds"))
}

/// Loops beside an attack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside<'a> {
    /// The attack; one on another task is on a further loop.
    pub attack: &'a str,
    /// Its nice value.
    pub attack_nice: i32,
    /// Whose it is.
    pub by: By,
    /// How many loops.
    pub loops: u32,
    /// Their nice value.
    pub nice: i32,
    /// CPUs of the machine.
    pub cpus: u32,
    /// For how long, s.
    pub seconds: u32,
    /// The machine's kernel.
    pub kernel: KernelChoice,
}

impl<'a> Beside<'a> {
    /// Four loops a CPU beside an attack, all of nice 0.
    pub fn four_a_cpu(attack: &'a str, by: By, cpus: u32, seconds: u32) -> Beside<'a> {
        let kernel = KernelChoice::default();
        Beside { attack, attack_nice: 0, by, loops: 4 * cpus, nice: 0, cpus, seconds, kernel }
    }
}

/// A shell's words that begin an attack, which goes on in the background. One on another task is on a further loop.
pub(crate) fn begin(attack: &str, nice: i32, by: By) -> String {
    let user = match by {
        By::Neighbour => "",
        By::OtherUser => "/spry/attack as 1000",
    };
    format!(
        "cat >/tmp/begin <<'end'
        case '{attack}' in *loop) (while :; do :; done) & loop=$!;; esac
        exec /spry/attack {attack} {nice}
end
        {user} sh /tmp/begin &"
    )
}

/// What loops have beside an attack.
///
/// # Errors
/// What went wrong in the lab.
///
/// # Panics
/// Where the loops do not tell what they had.
pub fn beside(beside: &Beside<'_>, under: Under) -> Result<Had, LabError> {
    let Beside { attack, attack_nice, by, loops, nice, cpus, seconds, ref kernel } = *beside;
    let program = Program {
        file: example("spry-scheduler", "scx_stack"),
        args: vec!["hog=1:200000".to_owned()],
        sign: Sign::SchedExt,
    };
    let begin = begin(attack, attack_nice, by);
    let text = format!(
        "{begin} sleep 1; /spry/crowd {loops} {seconds} {nice}; set -- /proc/[0-9]*; echo processes $# $(cat /proc/loadavg); cat /sys/kernel/sched_ext/state"
    );
    let mut job = Job {
        topology: Topology::of_cores(cpus),
        setup: Setup { program: (under == Under::Stack).then_some(program), ..Setup::default() },
        commands: vec![shell(&text, seconds + 60)],
        ..Job::default()
    };
    for name in ["crowd", "attack"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example("spry-scheduler", name)));
    }
    let spec = MachineSpec { kernel: kernel.clone(), ..MachineSpec::default() };
    let text = printed(&run(&machine(&spec), &job)?);
    let state = if under == Under::Stack { "enabled" } else { "disabled" };
    Ok(Had {
        part: number_after(&text, "crowd had"),
        longest_ms: number_after(&text, "longest wait"),
        in_charge: text.trim_end().ends_with(state),
        text,
    })
}
