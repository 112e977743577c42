//! A person's desktop beside an attack: a film, typing, and four loops of another session, under EEVDF and under the
//! daemon.

use std::fmt;

use serde_json::Value;
use spry_lab::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, GuestCommand, Job, LabError, MachineSpec, Topology};

use crate::attacks::{By, begin, number_after};
use crate::{example, machine, printed, programs, run};

/// The film and what is typed at, as they ship with Spry.
const SCENARIO: &str = include_str!("../../../scenarios/attacked-x11.toml");
/// How long these go on before they are measured, s.
const WARM_UP_S: u32 = 4;
/// What starting the X server and its clients may take beyond that, s.
const OVERHEAD_S: u32 = 120;

/// What is typed at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypedAt {
    /// An X11 client that stands in for an editor.
    Editor,
    /// bash in xterm.
    Shell,
}

impl fmt::Display for TypedAt {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            TypedAt::Editor => "editor",
            TypedAt::Shell => "shell",
        })
    }
}

/// Which scheduler the desktop is under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Desk {
    /// The kernel's own.
    Eevdf,
    /// The daemon, acting through sched_ext.
    Spry,
}

/// A desktop beside an attack of another user's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attacked<'a> {
    /// The attack; none: the same without it.
    pub attack: Option<&'a str>,
    /// What is typed at.
    pub typed_at: TypedAt,
    /// CPUs of the machine.
    pub cpus: u32,
    /// For how long, s.
    pub seconds: u32,
}

/// How the desktop and the loops fared.
#[derive(Clone, PartialEq, Debug)]
pub struct Fared {
    /// Frames that were shown, and that were due.
    pub frames: (u64, u64),
    /// From a key to its drawing, the 99 % quantile, ms.
    pub typing_ms: f64,
    /// What four loops a CPU had of one CPU, percent.
    pub loops_part: f64,
    /// The longest time that one of them waited, ms.
    pub loops_longest_ms: f64,
    /// Whether the scheduler that began is in charge at the end, without having been taken out meanwhile.
    pub in_charge: bool,
    /// All that was printed.
    pub text: String,
}

/// Runs a desktop beside an attack.
///
/// # Errors
/// What went wrong in the lab.
///
/// # Panics
/// Where it does not tell how it fared.
pub fn desktop(attacked: &Attacked<'_>, desk: Desk) -> Result<Fared, LabError> {
    let Attacked { attack, typed_at, cpus, seconds } = *attacked;
    let begin = attack.map_or_else(String::new, |attack| begin(attack, 0, By::OtherUser));
    // The loops are measured from a second on after they began, until the film is over.
    let text = format!(
        "{begin}
        setsid /spry/crowd {loops} {all} >/tmp/crowd & crowd=$!
        spry-runner run --scenario /spry/attacked.toml --set seconds={seconds} --set relays=0 --set typed_at={typed_at} \
            --set cpus={cpus} --work instructions:0 --out /results/runner.json || exit
        wait $crowd; cat /tmp/crowd; echo enabled $(cat /sys/kernel/sched_ext/enable_seq) times
        cat /sys/kernel/sched_ext/state",
        loops = 4 * cpus,
        all = WARM_UP_S + seconds,
    );
    let program = Program {
        file: programs().join("spry-sched"),
        args: ["run", "--actuator", "scx", "--trust-synthetic"].map(str::to_owned).to_vec(),
        sign: Sign::SchedExt,
    };
    // Naming the runner brings it there.
    let argv = ["/bin/sh", "-c", &text, "spry-runner"].map(str::to_owned).to_vec();
    let mut job = Job {
        topology: Topology::of_cores(cpus),
        setup: Setup { program: (desk == Desk::Spry).then_some(program), ..Setup::default() },
        commands: vec![GuestCommand { argv, env: Vec::new(), limit_s: WARM_UP_S + seconds + OVERHEAD_S }],
        ..Job::default()
    };
    job.files.insert("/spry/attacked.toml".to_owned(), FileSource::Bytes(SCENARIO.as_bytes().to_vec()));
    for name in ["crowd", "attack"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example("spry-scheduler", name)));
    }
    let packages = ["xvfb", "xterm", "bash"].map(str::to_owned).into();
    let outcome = run(&machine(&MachineSpec { packages, ..MachineSpec::default() }), &job)?;
    let text = printed(&outcome);
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]);
    let runner = outcome.files.get("runner.json").unwrap_or_else(|| panic!("no results: {text}{errors}"));
    let metrics = serde_json::from_slice::<Value>(runner).expect("the runner writes JSON")["metrics"].clone();
    let frames = |name: &str| metrics[name].as_u64().unwrap_or_else(|| panic!("no {name}: {metrics}"));
    let typing_ns = metrics["response_ns"]["p99"].as_f64().unwrap_or_else(|| panic!("no keys: {metrics}"));
    Ok(Fared {
        frames: (frames("frames_shown"), frames("frames_due")),
        typing_ms: typing_ns / 1e6,
        loops_part: number_after(&text, "crowd had"),
        loops_longest_ms: number_after(&text, "longest wait"),
        in_charge: match desk {
            Desk::Eevdf => text.trim_end().ends_with("disabled"),
            Desk::Spry => text.contains("enabled 1 times") && text.trim_end().ends_with("enabled"),
        },
        text: format!("{text}{errors}"),
    })
}
