//! Every way in which a run can fail is told as what it is, and leaves nothing behind.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use spry_lab::scheduler::{Program, Setting, Sign};
use spry_lab::{Event, Job, LabError, MachineSpec, Stage, Stop};
use spry_lab_tests::{lab, machine, quiet, run, run_directories, script};

/// Keeps the guest, and with it the emulator, busy.
const BUSY: &str = "while :; do :; done";

/// Emulators and run directories are counted, so one test at a time, and in a program without others.
static ALONE: Mutex<()> = Mutex::new(());

/// The emulators that this process has started and that still live.
fn emulators() -> Vec<libc::pid_t> {
    let own = std::process::id();
    let is_child = |entry: &fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        let parent = after_name.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        parent == Some(own) && stat.contains("(qemu)")
    };
    let entries = fs::read_dir("/proc").expect("there is a /proc").filter_map(Result::ok);
    entries.filter(is_child).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn fails(job: &Job) -> LabError {
    let machine = machine(&MachineSpec::default());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let error = run(&machine, job).expect_err("it fails");
    assert_eq!(run_directories(lab()), 0);
    assert_eq!(emulators(), Vec::<libc::pid_t>::new());
    error
}

#[test]
fn a_panic_is_told_with_its_reason() {
    let error = fails(&script("echo c >/proc/sysrq-trigger"));
    assert!(matches!(&error, LabError::Panic { reason, .. } if reason.contains("sysrq")), "{error}");
}

#[test]
fn a_command_that_hangs_is_told_with_its_limit() {
    let mut job = script("sleep 1000");
    job.commands[0].limit_s = 5;
    let error = fails(&job);
    assert!(
        matches!(&error, LabError::TimedOut { limit_s: 5, what, .. } if what.contains("sleep")),
        "{error}"
    );
}

#[test]
fn a_machine_that_takes_too_much_time_is_ended() {
    let error = fails(&Job { cpu_limit_s: 2, ..script(BUSY) });
    assert!(matches!(&error, LabError::TimedOut { limit_s: 2, stage, .. } if stage == "running"), "{error}");
}

#[test]
fn a_restart_without_results_is_told() {
    let error = fails(&script("reboot -f; sleep 10"));
    assert!(matches!(&error, LabError::GuestDied { stage, .. } if stage == "running"), "{error}");
}

#[test]
fn a_setting_that_the_kernel_refuses_is_named() {
    let mut job = script("true");
    let path = "/proc/sys/kernel/no_such_setting".to_owned();
    job.setup.settings.push(Setting { path, value: "1".to_owned() });
    let error = fails(&job);
    assert!(matches!(&error, LabError::Setting { path, .. } if path.ends_with("no_such_setting")), "{error}");
}

#[test]
fn a_scheduler_that_does_not_load_is_told_with_its_ending() {
    let mut job = script("true");
    job.setup.program =
        Some(Program { file: PathBuf::from("/bin/false"), args: Vec::new(), sign: Sign::SchedExt });
    let error = fails(&job);
    assert!(
        matches!(&error, LabError::SchedulerFailed { name, reason } if name == "false" && reason.contains("status 1")),
        "{error}"
    );
}

#[test]
fn results_that_do_not_fit_are_told() {
    let job = Job { results_mib: 1, ..script("head -c 2000000 /dev/zero >/results/large") };
    let error = fails(&job);
    assert!(matches!(&error, LabError::Guest(what) if what.contains("large")), "{error}");
}

#[test]
fn an_emulator_that_is_killed_is_told_from_a_guest_that_died() {
    let machine = machine(&MachineSpec::default());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let kill = |event: Event<'_>| {
        if event == Event::Guest(Stage::Waiting) {
            for emulator in emulators() {
                // SAFETY: kill takes numbers; the process is a child of this one that has not been waited for.
                unsafe { libc::kill(emulator, libc::SIGKILL) };
            }
        }
    };
    let error = lab().run(&machine, &script("true"), &kill, &Stop::new()).expect_err("it fails");
    assert!(matches!(&error, LabError::Qemu { status, .. } if status.contains("signal: 9")), "{error}");
    assert_eq!(run_directories(lab()), 0);
}

#[test]
fn a_stop_ends_a_run_at_once() {
    let machine = machine(&MachineSpec::default());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let stop = Stop::new();
    let request = stop.clone();
    let asker = thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        request.request();
    });
    let error = lab().run(&machine, &script(BUSY), &quiet, &stop).expect_err("it is stopped");
    asker.join().expect("it asks");
    assert!(matches!(error, LabError::Interrupted), "{error}");
    assert_eq!(emulators(), Vec::<libc::pid_t>::new());
    assert_eq!(run_directories(lab()), 0);
}
