//! Tests `spry reproduce` on the command line: its list, and mistakes that are found before anything runs.

use std::fs;
use std::process::{Command, Output};

fn spry(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spry")).args(args).output().expect("spry starts")
}

fn mistake(args: &[&str], code: i32, said: &str) {
    let output = spry(&[&["reproduce", "interactive"], args].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(error.contains(said), "{args:?}: {error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_list_has_every_figure_and_each_stand_in() {
    let output = spry(&["reproduce", "list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    let chapters = [("6", 8), ("9", 5)];
    for figure in
        chapters.iter().flat_map(|(chapter, last)| (1..=*last).map(move |n| format!("  {chapter}.{n}  ")))
    {
        assert!(text.contains(&figure), "no{figure}in {text}");
    }
    assert!(text.contains("LibreOffice Writer"));
}

#[test]
fn mistakes_of_the_command_line_exit_with_2() {
    mistake(&["--scheduler", "cfs"], 2, "eevdf, fifo, rr");
    mistake(&["--quick", "--stressers", "1"], 2, "cannot be used with");
    mistake(&["--stressers", "1,x"], 2, "invalid value 'x'");
    mistake(&["--stressers", "100000"], 2, "0..=1000");
    mistake(&["--only", "word"], 2, "applications are xine, quake");
    mistake(&["--seeds", "0"], 2, "1..=1000");
    mistake(&["--jobs", "0"], 2, "--jobs");
    mistake(&["--scheduler", "eevdf", "--scheduler", "eevdf"], 2, "named twice");
    mistake(&["--scheduler", "./nowhere/scx_mine"], 1, "no scheduler at");
}

#[test]
fn a_directory_that_holds_something_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "dear reader").unwrap();
    let path = dir.path().to_str().unwrap();
    mistake(&["--scheduler", "eevdf", "-o", path], 1, "holds no figures of spry reproduce");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["letter.txt"]);
}

#[test]
fn clock_resolution_names_its_cases_and_the_kernels_it_lacks() {
    let cache = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spry"));
        command.env("SPRY_CACHE", cache.path()).args(["reproduce", "clock-resolution"]).args(args);
        let output = command.arg("-o").arg(cache.path().join("out")).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = run(&["--case", "cont-3"]);
    assert!(code == Some(2) && error.contains("cases are blk-2, blk-8, cont-1"), "{error}");
    let (code, error) = run(&["--quick"]);
    assert!(code == Some(1) && error.contains("`spry lab kernel build --hz 20000 --periodic`"), "{error}");
}

#[test]
fn firm_timers_name_their_systems_and_the_kernel_they_lack() {
    let cache = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spry"));
        command.env("SPRY_CACHE", cache.path()).args(["reproduce", "time-sensitive"]).args(args);
        let output = command.arg("-o").arg(cache.path().join("out")).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (args, words) in [
        (&["--firm", "--case", "none"][..], "cases are 20-10ms, 50-10ms, 20-1ms"),
        (&["--case", "20-1ms"], "--firm"),
        (&["--firm", "--system", "deadline"], "deadline is not of figures 6 to 8"),
        (&["--system", "firm-500"], "add --firm"),
        (&["--firm", "--film", "5"], "cannot be used with"),
    ] {
        let (code, error) = run(args);
        assert!(code == Some(2) && error.contains(words), "{args:?}: {error}");
    }
    let (code, error) = run(&["--firm"]);
    assert!(code == Some(1) && error.contains("`spry lab kernel build --hz 100 --firm`"), "{error}");
}

#[test]
fn a_rate_that_no_kernel_has_is_refused_with_all_rates() {
    let output = spry(&["lab", "kernel", "build", "--hz", "2000"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the rates are 50, 100, 250, 300, 1000, 5000, 10000, 20000 Hz"), "{error}");
}
