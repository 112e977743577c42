//! The command `spry lab`: the requirements, the kernels, the saved machines and the cache of the lab.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use indicatif::HumanBytes;
use serde_json::json;
use spry_experiment::Stop;
use spry_lab::{
    Cache, Lab, LabOptions, RATES_HZ, SavedMachine, State, Ticks, Timers, Variant, built_kernels, doctor,
    saved_machines,
};

use crate::args::{KernelCommand, LabArgs, LabCommand};
use crate::output;
use crate::steps::Steps;
use crate::stopping;

/// The kernels that can be chosen, and the purpose of each.
const KERNELS: [(&str, &str); 8] = [
    (
        "newest",
        "the newest that the distribution has, with sched_ext; the small flavour for virtual machines",
    ),
    ("newest-generic", "the same with all drivers: input devices of programs (uinput), Xorg"),
    ("newest-rt", "the newest real-time kernel"),
    ("stable", "the release's own; preempt=none, voluntary or full at boot; no sched_ext in Debian's 6.12"),
    ("stable-generic", "the same with all drivers"),
    ("stable-rt", "the release's real-time kernel"),
    ("older", "the kernel of the release before; no sched_ext in Debian's 6.1"),
    ("older-generic", "the same with all drivers"),
];
/// The folders that stay in the cache when the lab is cleaned: the built schedulers, and the journals of
/// loads that must still be cleaned up.
const KEPT: [&str; 2] = ["peers", "loads"];

/// Runs a subcommand of `spry lab`.
pub fn run(args: &LabArgs) -> Result<ExitCode> {
    match &args.command {
        LabCommand::Doctor => return examine(),
        LabCommand::Kernel { command: KernelCommand::Build { hz, periodic, firm, patch } } => {
            let ticks = if *periodic { Ticks::Always } else { Ticks::WhenBusy };
            let timers = if *firm { Timers::Firm } else { Timers::Stock };
            build(&Variant { ticks, timers, ..Variant::of(*hz)? }, patch.as_deref())?;
        }
        LabCommand::Kernels => output::print(&kernels(&Cache::open(&Cache::default_root())?))?,
        LabCommand::Machines { json } => {
            output::print(&machines(&Cache::open(&Cache::default_root())?, *json)?)?
        }
        LabCommand::Refresh => refresh()?,
        LabCommand::Clean => clean(&Cache::default_root())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn examine() -> Result<ExitCode> {
    let findings = doctor(&LabOptions::default(), &Stop::new());
    let mut text = String::new();
    for finding in &findings {
        let mark = match finding.state {
            State::Good => "good  ",
            State::Partly => "partly",
            State::Bad => "BAD   ",
        };
        text += &format!("{mark}  {}\n", finding.what);
        if let Some(remedy) = &finding.remedy {
            text += &format!("        -> {}\n", remedy.replace('\n', "\n           "));
        }
    }
    output::print(&text)?;
    if findings.iter().any(|finding| finding.state == State::Bad) {
        Ok(ExitCode::FAILURE)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

fn build(variant: &Variant, patch: Option<&Path>) -> Result<()> {
    let stop = stopping::on_signals()?;
    let lab = Lab::open(LabOptions::default())?;
    let steps = Steps::new();
    let built = lab.build_kernel(variant, patch, &|event: spry_lab::Event<'_>| steps.show(event), &stop);
    drop(steps);
    let (variant, kernel) = built.map_err(|error| stopping::told(error.into(), &stop))?;
    output::print(&format!("{} is built; `spry run --kernel {variant}` boots it.\n", kernel.release))
}

/// A list of the kernels that can be chosen: the distribution's, and kernels that were built.
fn kernels(cache: &Cache) -> String {
    let line = |name: &str, about: &str| format!("{name:15} {about}\n");
    let mut text: String = KERNELS.iter().map(|(name, about)| line(name, about)).collect();
    let built = built_kernels(cache);
    for (variant, release) in &built {
        text += &line(&variant.to_string(), &format!("built here: {release}"));
    }
    let left = |hz: &u32| !built.iter().any(|(variant, _)| Variant::of(*hz).is_ok_and(|of| of == *variant));
    let rates: Vec<String> = RATES_HZ.iter().filter(|hz| left(hz)).map(|hz| format!("{hz}hz")).collect();
    if !rates.is_empty() {
        text += &format!("{}\n", rates.join(", "));
        text += &line("", "can be built, with another tick: `spry lab kernel build --help`");
    }
    text
}

/// A list of the saved machines, the latest used last.
fn machines(cache: &Cache, json: bool) -> Result<String> {
    let machines = saved_machines(cache);
    if json {
        let rows: Vec<_> =
            machines.iter().map(|(machine, mib)| json!({ "machine": machine, "taken_mib": mib })).collect();
        return Ok(format!("{}\n", serde_json::to_string(&rows)?));
    }
    if machines.is_empty() {
        return Ok("No machine has been saved yet: the first run of a cell boots and saves one.\n".to_owned());
    }
    let row = |(machine, mib): &(Option<SavedMachine>, u64)| {
        let Some(machine) = machine else {
            return format!("{:61} {mib:>6} MiB  damaged; it is booted anew when it is needed\n", "?");
        };
        let SavedMachine { kernel, cpus, shift, memory_mib, packages, cmdline } = machine;
        format!(
            "{:28} {cpus:>4} {:>3} ns {memory_mib:>6} MiB {packages:>8} {mib:>6} MiB  {}\n",
            kernel.escape_debug().to_string(),
            1_u128.checked_shl(u32::from(*shift)).unwrap_or_default(),
            cmdline.escape_debug()
        )
    };
    let head = format!(
        "{:28} {:>4} {:>6} {:>10} {:>8} {:>10}  parameters\n",
        "kernel", "CPUs", "instr.", "memory", "packages", "on disk"
    );
    Ok(head + &machines.iter().map(row).collect::<String>())
}

fn refresh() -> Result<()> {
    let stop = stopping::on_signals()?;
    let lab = Lab::open(LabOptions::default())?;
    let steps = Steps::new();
    let done = lab.refresh(&|event: spry_lab::Event<'_>| steps.show(event), &stop);
    drop(steps);
    done.map_err(|error| stopping::told(error.into(), &stop))
}

/// Removes from the cache everything that can be fetched and built again.
fn clean(root: &Path) -> Result<()> {
    if !root.exists() {
        return Ok(());
    }
    let Some(bytes) = Cache::empty(root, &KEPT)? else {
        bail!("the lab is in use: wait until its runs have ended, or end them; nothing was removed");
    };
    output::print(&format!("Removed {} from {}.\n", HumanBytes(bytes), root.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_kernel_of_the_list_can_be_chosen() {
        let scratch = tempfile::tempdir().unwrap();
        let entry = scratch.path().join("built-20000hz-periodic+mine/key");
        fs::create_dir_all(&entry).unwrap();
        fs::write(entry.join("kernel.json"), "{\"release\":\"9-mine\",\"digest\":\"d\"}").unwrap();
        let text = kernels(&Cache::open(scratch.path()).unwrap());
        assert!(text.contains("20000hz-periodic+mine built here: 9-mine\n"), "{text}");
        let named =
            text.lines().filter(|line| !line.starts_with(' ')).flat_map(|line| match line.split_once(", ") {
                Some(_) if line.starts_with("50hz") => line.split(", ").collect::<Vec<_>>(),
                _ => line.split(' ').take(1).collect(),
            });
        let names: Vec<&str> = named.collect();
        assert_eq!(names.len(), KERNELS.len() + 1 + RATES_HZ.len(), "{names:?}");
        for name in names {
            name.parse::<spry_lab::KernelChoice>().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn cleaning_keeps_peers_and_loads_and_is_refused_during_a_build() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("spry");
        for dir in ["peers/bin", "loads", "images/ab"] {
            fs::create_dir_all(home.join(dir)).unwrap();
        }
        fs::write(home.join("images/ab/root"), "x").unwrap();
        clean(&home).unwrap();
        assert!(home.join("peers/bin").is_dir() && home.join("loads").is_dir());
        assert!(!home.join("images").exists());
        let cache = Cache::open(&home).unwrap();
        let built = cache.entry("images", "ab", &Stop::new(), |_| {
            assert!(clean(&home).unwrap_err().to_string().contains("in use"));
            Ok(())
        });
        assert!(built.unwrap().exists());
        drop(cache);
        fs::remove_dir_all(&home).unwrap();
        clean(&home).unwrap();
    }
}
