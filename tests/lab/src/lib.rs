//! Runs jobs in the lab, for tests that hold its results and its failures against what is promised.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use spry_lab::{
    Event, FileSource, GuestCommand, Job, Lab, LabError, LabMachine, LabOptions, MachineSpec, Outcome, Stop,
};

/// The lab with programs that are as new as this test: those of `SPRY_PROGRAMS`, or such as cargo builds now.
///
/// # Panics
/// Where they cannot be built, or the lab cannot be opened.
pub fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        let options = LabOptions { programs: Some(programs()), ..LabOptions::default() };
        Lab::open(options).unwrap_or_else(|error| panic!("the lab cannot be opened: {error}"))
    })
}

/// The directory of Spry's programs.
///
/// # Panics
/// Where they cannot be built.
pub fn programs() -> PathBuf {
    if let Some(path) = env::var_os("SPRY_PROGRAMS") {
        return PathBuf::from(path);
    }
    let test = env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down").to_owned();
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args([
        "build",
        "--release",
        "-p",
        "spry-lab",
        "-p",
        "spry-workload",
        "-p",
        "spry-cli",
        "-p",
        "spry-scheduler",
    ]);
    build.arg("--target-dir").arg(&target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = build.output().unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("release")
}

/// An example program of a crate, as new as this test and of its profile.
///
/// # Panics
/// Where it cannot be built.
pub fn example(package: &str, name: &str) -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down");
    let profile = if test.starts_with(target.join("release")) { "release" } else { "checked" };
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--profile", profile, "-p", package, "--example", name, "--target-dir"]);
    let output = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(profile).join("examples").join(name)
}

/// A machine, fetched and built.
///
/// # Panics
/// Where it cannot be had.
pub fn machine(spec: &MachineSpec) -> LabMachine {
    lab().prepare(spec, &quiet, &Stop::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// Nobody watches.
pub fn quiet(_: Event<'_>) {}

/// Runs a job to its end. It is begun again, at most four times, where QEMU 7.2 was at fault: on several CPUs where it ran code that the
/// kernel was just changing, and where an interrupt saved flags that no processor has. Since equal inputs fail alike, the kernel
/// then has a parameter more, which nobody reads.
///
/// # Errors
/// As the lab says.
pub fn run(machine: &LabMachine, job: &Job) -> Result<Outcome, LabError> {
    let mut job = job.clone();
    for _ in 0..4 {
        match lab().run(machine, &job, &quiet, &Stop::new()) {
            Err(error) if job.cpus > 1 && is_half_changed_code(&error.to_string()) => {
                eprintln!("begun again, the emulator having run half changed code: {error}");
            }
            Err(error) if has_impossible_flags(&error.to_string()) => {
                eprintln!("begun again, the emulator having made up flags: {error}");
                job.cmdline.push("spry.again".to_owned());
            }
            done => return done,
        }
    }
    lab().run(machine, &job, &quiet, &Stop::new())
}

/// Whether a panic tells of flags above bit 21, the last that there is: the emulator computes those of `cmpxchg16b` from what an
/// earlier instruction left, and an interrupt right behind it saves them.
fn has_impossible_flags(panic: &str) -> bool {
    let flags = panic.lines().filter_map(|line| line.split_once("EFLAGS: ")?.1.split_whitespace().next());
    flags.filter_map(|flags| u64::from_str_radix(flags, 16).ok()).any(|flags| flags >> 22 != 0)
}

/// Whether a panic is of a CPU that ran a jump or a no-operation of the kernel's while another one exchanged it for the
/// other: it stands behind its first byte, which was a breakpoint a moment before. QEMU 7.2 lets that happen.
fn is_half_changed_code(panic: &str) -> bool {
    let code = panic.lines().filter_map(|line| line.split_once("Code: ")).map(|(_, bytes)| bytes);
    code.map(|bytes| bytes.split_whitespace().collect::<Vec<_>>()).any(|bytes| {
        let at = bytes.iter().position(|byte| byte.starts_with('<'));
        at.filter(|&at| at > 0).is_some_and(|at| {
            matches!((bytes[at - 1], bytes[at]), ("e9" | "eb", _) | ("66", "<90>") | ("0f", "<1f>"))
        })
    })
}

/// A job of one shell script.
pub fn script(text: &str) -> Job {
    let argv = ["/bin/sh", "-c", text].map(str::to_owned).into();
    Job { commands: vec![GuestCommand { argv, env: Vec::new(), limit_s: 60 }], ..Job::default() }
}

/// The same with `spry` among its commands.
///
/// # Panics
/// Where it cannot be built.
pub fn spry_script(text: &str) -> Job {
    let mut job = script(text);
    job.files.insert("/spry/bin/spry".to_owned(), FileSource::File(programs().join("spry")));
    job
}

/// What the first command printed.
///
/// # Panics
/// Where there is no such result.
pub fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.files["0.stdout"]).into_owned()
}

/// How many directories of this process' runs are in the cache that the lab uses.
///
/// # Panics
/// Where they cannot be counted.
pub fn run_directories(lab: &Lab) -> usize {
    let path: &Path = &lab.cache().join("runs");
    let entries = std::fs::read_dir(path).expect("the cache has a directory of runs").filter_map(Result::ok);
    let own = format!("{}-", std::process::id());
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

#[cfg(test)]
mod tests {
    use super::{has_impossible_flags, is_half_changed_code};

    #[test]
    fn flags_that_no_processor_has_are_told_from_those_of_a_panic_of_the_kernel_s_own() {
        assert!(has_impossible_flags("a panic\n[ 0.6] RSP: 0018:ffa0000000013400 EFLAGS: 04808626"));
        assert!(!has_impossible_flags("a panic\n[ 0.6] RSP: 0018:ffa0000000013400 EFLAGS: 00010246"));
        assert!(!has_impossible_flags(
            "a panic\n[ 0.6] RSP: 002b:00007fff1333fa48 EFLAGS: 00000297 ORIG_RAX: 0"
        ));
        assert!(!has_impossible_flags("the guest ended without results"));
    }

    #[test]
    fn a_trap_behind_the_first_byte_of_what_is_exchanged_is_half_changed_code_and_others_are_not() {
        assert!(is_half_changed_code("[ 15.3] Code: 0f 1e fa 41 54 55 53 eb <1b> e8 91 72 ed ff"));
        assert!(is_half_changed_code("a panic\n[ 11.8] Code: e8 38 dc fc ff e9 <9a> 00 00 00 0f"));
        assert!(is_half_changed_code("[ 1.7] Code: fa 41 54 55 53 66 <90> e8 91 72"));
        assert!(is_half_changed_code("[ 1.7] Code: fa 41 54 55 53 0f <1f> 44 00 00"));
        assert!(!is_half_changed_code("[ 15.3] Code: 0f 1e fa 41 54 55 53 <0f> 0b eb 1b e8"));
        assert!(!is_half_changed_code("Kernel panic - not syncing: Out of memory"));
    }
}
