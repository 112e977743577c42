//! Tests every way in which a run can fail: the error names the right failure, and no process or file
//! is left behind.

use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use spry_experiment::scheduler::{Program, Setting, Sign};
use spry_lab::{Event, Job, LabError, MachineSpec, Stage, Stop};
use spry_lab_tests::{emulators_of, lab, machine, quiet, run, run_directories, script};

/// A script that keeps the guest, and so the emulator, busy.
const BUSY: &str = "while :; do :; done";

/// The tests count emulators and run directories. Therefore only one test runs at a time, and the program has
/// no other tests.
static ALONE: Mutex<()> = Mutex::new(());

fn fails(job: &Job) -> LabError {
    let machine = machine(&MachineSpec::default());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let error = run(&machine, job).expect_err("it fails");
    assert_eq!(run_directories(lab()), 0);
    assert_eq!(emulators_of(std::process::id()), Vec::<u32>::new());
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
    // The lab looks at the guest's stage now and then, so it may miss a stage before this one, which lasts.
    let kill = |event: Event<'_>| {
        if event == Event::Guest(Stage::Running) {
            for emulator in emulators_of(std::process::id()) {
                // The process is a child of this process and was not waited for.
                _ = spry_sys::signal::send(emulator, spry_sys::Signal::KILL);
            }
        }
    };
    let error = lab().run(&machine, &script(BUSY), &kill, &Stop::new()).expect_err("it fails");
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
        Instant::now()
    });
    let error = lab().run(&machine, &script(BUSY), &quiet, &stop).expect_err("it is stopped");
    let took = asker.join().expect("it asks").elapsed();
    assert!(matches!(error, LabError::Interrupted), "{error}");
    assert!(took < Duration::from_secs(2), "it ended after {took:?}");
    assert_eq!(emulators_of(std::process::id()), Vec::<u32>::new());
    assert_eq!(run_directories(lab()), 0);
}
