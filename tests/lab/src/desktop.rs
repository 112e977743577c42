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
/// How long the film runs before it is measured, s. Its beginning is without attacks, and then the attacks
/// start their threads.
const FILM_WARM_UP_S: u32 = 40;
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
pub struct Attacked<'a> {
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
pub struct Fared {
    /// How many frames were shown, and how many were due.
    pub frames: (u64, u64),
    /// The time from a key to the drawing of its character: the 99 % quantile, ms.
    pub typing_ms: f64,
    /// The part of one CPU that all loops together got, percent.
    pub loops_part: f64,
    /// The longest time that one of the loops waited, ms.
    pub loops_longest_ms: f64,
    /// Whether the scheduler that was loaded at the start is still in charge at the end, and was in charge
    /// all the time.
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
pub fn desktop(attacked: &Attacked<'_>, desk: Desk) -> Result<Fared, LabError> {
    let Attacked { attack, typed_at, cpus, seconds } = *attacked;
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
    Ok(Fared {
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

/// The results of a film beside several attacks at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Film {
    /// How many frames were shown, and how many were due.
    pub frames: (u64, u64),
    /// The number of tasks that wanted to run shortly before the first frame that counts.
    pub runnable: u64,
    /// Whether the daemon's scheduler is in charge at the end, and was in charge all the time.
    pub in_charge: bool,
    /// Everything that the guest printed.
    pub text: String,
}

/// Plays the film on one CPU under the daemon. Each attack is by another user, and begins while the film
/// runs.
///
/// # Errors
/// If the lab fails.
///
/// # Panics
/// If the guest does not print the results.
pub fn film(attacks: &[&str], seconds: u32) -> Result<Film, LabError> {
    let scenario = FILM.replace("duration_s = 10", &format!("duration_s = {seconds}"));
    assert!(scenario.contains(&format!("duration_s = {seconds}")), "{FILM}");
    let begin: Vec<String> =
        (1000..).zip(attacks).map(|(uid, attack)| format!("as {uid} /spry/attack {attack}")).collect();
    // While thousands of tasks want to run, each new program takes the shell a long time. So it uses its
    // own commands only.
    let text = format!(
        "spry-runner run --scenario /spry/attacked.toml --set settle={FILM_WARM_UP_S} \
            --work instructions:0 --out /results/runner.json & film=$!
        as() {{ /spry/attack as \"$@\" & attacks=\"$attacks $!\"; }}
        sleep 6; {begin}
        sleep {before}
        IFS=' /' read one five fifteen runnable rest </proc/loadavg; echo runnable $runnable of $rest
        wait $film || exit; kill -9 $attacks
        echo enabled $(cat /sys/kernel/sched_ext/enable_seq) times; cat /sys/kernel/sched_ext/state",
        begin = begin.join("\n"),
        before = FILM_WARM_UP_S - 12,
    );
    let all_s = FILM_WARM_UP_S + seconds;
    let scene = Scene { scenario: &scenario, cpus: 1, seconds: all_s, memory_mib: 3072 };
    let (metrics, text) = played(&scene, &text, Desk::Spry)?;
    let count = |name: &str| metrics[name].as_u64().unwrap_or_else(|| panic!("no {name}: {metrics}"));
    Ok(Film {
        frames: (count("frames_shown"), count("frames_due")),
        runnable: number_after(&text, "runnable") as u64,
        in_charge: text.contains("enabled 1 times\nenabled"),
        text,
    })
}
