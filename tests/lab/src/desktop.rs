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
/// The scenario with the film alone, as it comes with Spry. The film needs 77 % of a CPU.
const FILM: &str = include_str!("../../../scenarios/movie-x11.toml");
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
    let scene = Scene { scenario: SCENARIO, cpus, seconds: WARM_UP_S + seconds, memory_mib: 1792 };
    let (metrics, text) = played(&scene, &text, desk)?;
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
            Desk::Eevdf => text.contains(" times\ndisabled"),
            Desk::Spry => text.contains("enabled 1 times\nenabled"),
        },
        text: format!(
            "{shown} of {due} frames, typing {typing_ms:.2} ms\n{text}",
            shown = frames.0,
            due = frames.1,
        ),
    })
}

/// A scenario, and the machine on which a script plays it.
struct Scene<'a> {
    scenario: &'a str,
    cpus: u32,
    /// How long the scenario takes, s.
    seconds: u32,
    memory_mib: u32,
}

/// Runs a script that plays a scenario of an X display. Returns the scenario's metrics, and everything that
/// the script printed.
fn played(scene: &Scene<'_>, text: &str, desk: Desk) -> Result<(Value, String), LabError> {
    let program = Program {
        file: programs().join("spry-sched"),
        args: ["run", "--actuator", "scx", "--trust-synthetic"].map(str::to_owned).to_vec(),
        sign: Sign::SchedExt,
    };
    // The last argument names the runner; therefore the lab copies the runner to the guest.
    let argv = ["/bin/sh", "-c", text, "spry-runner"].map(str::to_owned).to_vec();
    let mut job = with_spin(Job {
        topology: Topology::of_cores(scene.cpus),
        memory_mib: scene.memory_mib,
        setup: Setup { program: (desk == Desk::Spry).then_some(program), ..Setup::default() },
        commands: vec![GuestCommand { argv, env: Vec::new(), limit_s: scene.seconds + OVERHEAD_S }],
        ..Job::default()
    });
    job.files.insert("/spry/attacked.toml".to_owned(), FileSource::Bytes(scene.scenario.as_bytes().to_vec()));
    for name in ["crowd", "attack"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example(name)));
    }
    let packages = ["xvfb", "xterm", "bash"].map(str::to_owned).into();
    let outcome = run(&machine(&MachineSpec { packages, ..MachineSpec::default() }), &job)?;
    let text = format!("{}{}", printed(&outcome), String::from_utf8_lossy(&outcome.files["0.stderr"]));
    let runner = outcome.files.get("runner.json").unwrap_or_else(|| panic!("no results: {text}"));
    let metrics = serde_json::from_slice::<Value>(runner).expect("the runner writes JSON")["metrics"].clone();
    Ok((metrics, text))
}

/// The results of a film.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilmResult {
    /// How many frames were shown, and how many were due.
    pub frames: (u64, u64),
    /// Whether the daemon's scheduler is in charge at the end, and was in charge all the time.
    pub in_charge: bool,
    /// Everything that the guest printed.
    pub text: String,
}

/// Plays the film on one CPU under the daemon, beside loops of SCHED_IDLE, ordinary loops and eight terminals
/// that get characters without end. `count` is the number of loops of each kind. Each flood is of another
/// user.
///
/// # Errors
/// If the lab fails.
///
/// # Panics
/// If the guest does not print the results.
pub fn film_beside_floods(count: u32) -> Result<FilmResult, LabError> {
    // The shell's own words are used: beside thousands of loops each program would take long to begin.
    let text = format!(
        "as() {{ /spry/attack as $1 /spry/attack $2 $3 & }}
        load() {{ IFS=' /' read a b c runnable rest </proc/loadavg; }}
        want() {{ until load; [ $runnable -ge $1 ]; do sleep 0.5; done; }}
        as 1000 idle-crowd {count}; want {count}; as 1001 crowd {count}; want {all}; as 1002 ttys 8
        spry-runner run --scenario /spry/attacked.toml --work instructions:0 --out /results/runner.json || exit
        load; echo runnable $runnable
        read times </sys/kernel/sched_ext/enable_seq; read state </sys/kernel/sched_ext/state
        echo enabled $times times; echo $state",
        all = 2 * count,
    );
    let scene = Scene { scenario: FILM, cpus: 1, seconds: 20, memory_mib: 2816 };
    let (metrics, text) = played(&scene, &text, Desk::Spry)?;
    let count = |name: &str| metrics[name].as_u64().unwrap_or_else(|| panic!("no {name}: {metrics}"));
    Ok(FilmResult {
        frames: (count("frames_shown"), count("frames_due")),
        in_charge: text.contains("enabled 1 times\nenabled"),
        text,
    })
}
