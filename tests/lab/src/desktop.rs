//! Measures a person's desktop beside an attack, under EEVDF and under the daemon. The desktop has a film and
//! a program into which the person types; four loops for each CPU run in another session.

use std::fmt;

use serde_json::Value;
use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, GuestCommand, Job, LabError, MachineSpec, Topology};

use crate::attacks::{By, begin, number_after};
use crate::{example, machine, printed, programs, run, with_spin};

/// The scenario with the film and the typing, as it comes with Spry.
const SCENARIO: &str = include_str!("../../../scenarios/attacked-x11.toml");
/// How long the film and the typing run before they are measured, s.
const WARM_UP_S: u32 = 4;
/// How much longer the start of the X server and of its clients may take, s.
const OVERHEAD_S: u32 = 120;

/// The program into which the person types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypedAt {
    /// An X11 client that stands in for an editor.
    Editor,
    /// bash in a real xterm.
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

/// The scheduler under which the desktop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Desk {
    /// The kernel's own scheduler.
    Eevdf,
    /// Spry's daemon, which acts through sched_ext.
    Spry,
}

/// A desktop beside an attack by another user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttackedDesktop<'a> {
    /// The attack; `None`: the same desktop without an attack.
    pub attack: Option<&'a str>,
    /// The program into which the person types.
    pub typed_at: TypedAt,
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// How long the measurement lasts, s.
    pub seconds: u32,
}

/// The results for the desktop and the loops.
#[derive(Clone, PartialEq, Debug)]
pub struct DesktopResult {
    /// How many frames were shown, and how many were due.
    pub frames: (u64, u64),
    /// The time from a key to the drawing of its character: the 99 % quantile, ms.
    pub typing_ms: f64,
    /// The part of one CPU that all loops together got, percent.
    pub loops_part: f64,
    /// The longest time that one of the loops waited, ms.
    pub loops_longest_ms: f64,
    /// Whether the scheduler that was loaded at the start is still in charge at the end, and was in
    /// charge all the time.
    pub in_charge: bool,
    /// The results of the desktop in words, and everything that the guest printed.
    pub text: String,
}

/// Runs a desktop beside an attack.
///
/// # Errors
/// If the lab fails.
///
/// # Panics
/// If the guest does not print the results.
pub fn desktop(attacked: &AttackedDesktop<'_>, desk: Desk) -> Result<DesktopResult, LabError> {
    let AttackedDesktop { attack, typed_at, cpus, seconds } = *attacked;
    let begin = attack.map_or_else(String::new, |attack| begin(attack, 0, By::OtherUser));
    // The loops are measured from one second after their start until the end of the film.
    let text = format!(
        "{begin}
        setsid /spry/crowd {loops} {all} >/tmp/crowd & crowd=$!
        spry-runner run --scenario /spry/attacked.toml --set seconds={seconds} --set relays=0 --set \
        typed_at={typed_at} --set cpus={cpus} --work instructions:0 --out /results/runner.json || exit
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
    // The last argument names the runner; therefore the lab copies the runner to the guest.
    let argv = ["/bin/sh", "-c", &text, "spry-runner"].map(str::to_owned).to_vec();
    let mut job = with_spin(Job {
        topology: Topology::of_cores(cpus),
        setup: Setup { program: (desk == Desk::Spry).then_some(program), ..Setup::default() },
        commands: vec![GuestCommand { argv, env: Vec::new(), limit_s: WARM_UP_S + seconds + OVERHEAD_S }],
        ..Job::default()
    });
    job.files.insert("/spry/attacked.toml".to_owned(), FileSource::Bytes(SCENARIO.as_bytes().to_vec()));
    for name in ["crowd", "attack"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example(name)));
    }
    let packages = ["xvfb", "xterm", "bash"].map(str::to_owned).into();
    let outcome = run(&machine(&MachineSpec { packages, ..MachineSpec::default() }), &job)?;
    let text = printed(&outcome);
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]);
    let runner = outcome.files.get("runner.json").unwrap_or_else(|| panic!("no results: {text}{errors}"));
    let metrics = serde_json::from_slice::<Value>(runner).expect("the runner writes JSON")["metrics"].clone();
    let count = |name: &str| metrics[name].as_u64().unwrap_or_else(|| panic!("no {name}: {metrics}"));
    let frames = (count("frames_shown"), count("frames_due"));
    let typing_ns = metrics["response_ns"]["p99"].as_f64().unwrap_or_else(|| panic!("no keys: {metrics}"));
    let typing_ms = typing_ns / 1e6;
    Ok(DesktopResult {
        frames,
        typing_ms,
        loops_part: number_after(&text, "crowd had"),
        loops_longest_ms: number_after(&text, "longest wait"),
        in_charge: match desk {
            Desk::Eevdf => text.trim_end().ends_with("disabled"),
            Desk::Spry => text.contains("enabled 1 times") && text.trim_end().ends_with("enabled"),
        },
        text: format!(
            "{shown} of {due} frames, typing {typing_ms:.2} ms\n{text}{errors}",
            shown = frames.0,
            due = frames.1,
        ),
    })
}
