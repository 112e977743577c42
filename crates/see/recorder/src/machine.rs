//! The trace's header: the machine as the recorder finds it.

use std::ffi::CStr;
use std::fs;
use std::process::{Command, Stdio};

use spry_trace::{Groups, Header};

use crate::tick;

/// `uname`'s release, machine and version.
fn uname() -> (String, String, String) {
    let names = rustix::system::uname();
    let text = |field: &CStr| field.to_string_lossy().into_owned();
    (text(names.release()), text(names.machine()), text(names.version()))
}

/// The running kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningKernel {
    /// The kernel's release (`uname -r`).
    pub release: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// The preemption model in force, in the kernel's words, if it can be found.
    pub preemption: Option<String>,
    /// The sched_ext scheduler in force, if any.
    pub scheduler: Option<String>,
    /// The kernel's command line.
    pub boot_parameters: Option<String>,
}

impl RunningKernel {
    /// Reads the properties of the running kernel.
    pub fn ask() -> RunningKernel {
        RunningKernel::ask_with(&configuration(&uname().0))
    }

    fn ask_with(config: &str) -> RunningKernel {
        let (release, arch, version) = uname();
        let boot_parameters = read("/proc/cmdline");
        RunningKernel {
            preemption: preemption(config, &version, boot_parameters.as_deref().unwrap_or_default()),
            release,
            arch,
            scheduler: sched_ext(),
            boot_parameters,
        }
    }
}

/// Describes the machine under the name `machine`. The caller fills in the start of the recording and the
/// process of the recorder.
pub(crate) fn header(machine: String, cpus: usize, groups: Groups, command: Option<Vec<String>>) -> Header {
    let config = configuration(&uname().0);
    let (hz, tick_phase_ns) = tick::rate_and_phases(&config, cpus);
    let running = RunningKernel::ask_with(&config);
    Header {
        kernel: running.release,
        arch: running.arch,
        preemption: running.preemption,
        machine,
        cpus: cpus as u16,
        hz,
        tick_phase_ns,
        scheduler: running.scheduler,
        boot_parameters: running.boot_parameters,
        clock: "monotonic".into(),
        recorder_tgid: None,
        groups,
        unproven: spry_trace::Kinds::NONE,
        command,
        start_ns: 0,
        start_unix_ns: None,
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The configuration that the kernel was built with; empty if it cannot be read.
fn configuration(release: &str) -> String {
    if let Some(text) = read(&format!("/boot/config-{release}")) {
        return text;
    }
    let unpacked = Command::new("gzip").args(["-dc", "/proc/config.gz"]).stderr(Stdio::null()).output();
    unpacked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// The sched_ext scheduler in force.
fn sched_ext() -> Option<String> {
    (read("/sys/kernel/sched_ext/state")? == "enabled").then(|| read("/sys/kernel/sched_ext/root/ops"))?
}

/// The preemption model by debugfs, else by the kernel's version, boot parameters or configuration.
fn preemption(config: &str, version: &str, boot_parameters: &str) -> Option<String> {
    let chosen = |text: String| {
        let inner = text.split_once('(')?.1.split_once(')')?.0;
        Some(inner.to_owned())
    };
    if let Some(model) = read("/sys/kernel/debug/sched/preempt").and_then(chosen) {
        return Some(model);
    }
    if version.contains("PREEMPT_RT") {
        return Some("rt".into());
    }
    if let Some(model) =
        boot_parameters.split_ascii_whitespace().find_map(|word| word.strip_prefix("preempt="))
    {
        return Some(model.into());
    }
    let models = [("NONE", "none"), ("VOLUNTARY", "voluntary"), ("LAZY", "lazy")];
    let built =
        models.iter().find(|(name, _)| config.lines().any(|line| line == format!("CONFIG_PREEMPT_{name}=y")));
    match built {
        Some((_, model)) => Some((*model).into()),
        None => config.lines().any(|line| line == "CONFIG_PREEMPT=y").then(|| "full".into()),
    }
}
