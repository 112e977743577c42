//! Scenarios with a display, played by the real runner on a real Xvfb (Debian: xvfb, xterm).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

const MACHINE: &str = "[machine]\ncpus = 1\ndisplay = \"800x600\"\n";

static ALONE: Mutex<()> = Mutex::new(());

/// A scenario's file, removed when dropped.
struct Scenario(PathBuf);

impl Scenario {
    fn new(name: &str, times: &str, tasks: &str) -> Self {
        let path = std::env::temp_dir().join(format!("x11-scenarios-{}-{name}.toml", std::process::id()));
        fs::write(&path, format!("{times}\n{MACHINE}\n{tasks}")).expect("a file");
        Self(path)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spry-runner"));
        command.args(["run", "--scenario"]).arg(&self.0).stdin(Stdio::null());
        command
    }

    fn run(&self) -> Output {
        // All runs use the same CPU.
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        self.command().output().expect("spry-runner")
    }

    fn metrics(&self) -> Value {
        let output = self.run();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        result["metrics"].take()
    }

    fn error(&self) -> String {
        let output = self.run();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn number(metrics: &Value, name: &str) -> f64 {
    metrics[name].as_f64().unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

#[test]
fn the_player_shows_its_frames_and_the_screen_tells_the_same() {
    // A light film: the machine may be busy with other tests.
    let tasks = r#"
[[task]]
name = "film"
kind = "x11-player"
fps = 25
decode = 0.02
zoom = 1

[[task]]
name = "screen"
kind = "x11-frames"
target = "film"
fps = 25
"#;
    let metrics = Scenario::new("player", "warmup_s = 1\nduration_s = 8", tasks).metrics();
    let (shown, seen) = (number(&metrics, "film.frames_shown"), number(&metrics, "screen.frames_shown"));
    assert_eq!(number(&metrics, "screen.frames_due"), 200.0);
    assert!(shown >= 0.8 * 200.0, "{metrics}");
    assert!((shown - seen).abs() <= 0.01 * 200.0, "{metrics}");
    assert!(metrics["wake_lateness_ns"]["p50"].is_u64(), "{metrics}");
}

#[test]
fn the_typist_sees_how_long_the_editor_works_for_a_key() {
    let tasks = r#"
[[task]]
name = "editor"
kind = "x11-editor"
work = "15ms"

[[task]]
name = "typist"
kind = "x11-typist"
target = "editor"
"#;
    let metrics = Scenario::new("typist", "warmup_s = 1\nduration_s = 4", tasks).metrics();
    let response_ns = &metrics["response_ns"];
    let median_ns = response_ns["p50"].as_u64().expect("a median");
    assert!((15_000_000..250_000_000).contains(&median_ns), "{metrics}");
    assert!((30.0..=32.0).contains(&number(&metrics, "keys_typed")), "{metrics}");
    assert_eq!(number(&metrics, "keys_lost"), 0.0);
}

#[test]
fn the_game_makes_frames_of_cpu_time_and_the_screen_sees_them() {
    let tasks = r#"
[[task]]
name = "game"
kind = "x11-game"
frame_work = "5ms"

[[task]]
name = "screen"
kind = "x11-frames"
target = "game"
"#;
    let metrics = Scenario::new("game", "warmup_s = 0.5\nduration_s = 3", tasks).metrics();
    let drawn = number(&metrics, "game.frames_per_second");
    let share = number(&metrics, "cpu_share");
    assert!(drawn > 10.0 && share > 0.05, "{metrics}");
    // A frame takes 5 ms of work and some for its pixels; work is calibrated while other tests run.
    assert!((0.5..1.5).contains(&(drawn * 0.005 / share)), "{metrics}");
    assert!((drawn - number(&metrics, "screen.frames_per_second")).abs() <= 0.02 * drawn + 1.0, "{metrics}");
}

#[test]
fn typing_at_a_real_program_is_measured_to_its_drawing() {
    let tasks = r#"
[[task]]
name = "terminal"
kind = "program"
argv = ["xterm", "-fn", "fixed", "-e", "cat"]

[[task]]
name = "typist"
kind = "x11-typist"
target = "terminal"
preparing_keys = 15
"#;
    let metrics = Scenario::new("terminal", "warmup_s = 0.5\nduration_s = 3", tasks).metrics();
    assert_eq!(number(&metrics, "keys_lost"), 0.0, "{metrics}");
    assert!(
        metrics["response_ns"]["p50"].as_u64().is_some_and(|ns| (20_000..500_000_000).contains(&ns)),
        "{metrics}"
    );
    assert!(number(&metrics, "cpu_share") > 0.0, "{metrics}");
}

#[test]
fn a_program_without_a_window_ends_the_run_with_its_words() {
    let tasks = r#"
[[task]]
name = "silent"
kind = "program"
argv = ["sh", "-c", "echo nothing to show; exec sleep 60"]
patience = "1s"
"#;
    let error = Scenario::new("silent", "duration_s = 1", tasks).error();
    let wanted = "sh opened no window within 1 s; windows there are: none; it said: nothing to show";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn a_program_that_ends_early_ends_the_run_with_its_status() {
    let tasks = r#"
[[task]]
name = "short"
kind = "program"
argv = ["xterm", "-e", "sh", "-c", "sleep 1; echo done >&2"]
"#;
    let error = Scenario::new("short", "duration_s = 3", tasks).error();
    assert!(error.contains("xterm ended (exit status 0)"), "{error}");
}

#[test]
fn a_window_that_draws_no_keys_is_reported() {
    // The drawings of xterm at its start may seem to answer the first keys, but not all.
    let tasks = r#"
[[task]]
name = "deaf"
kind = "program"
argv = ["xterm", "-e", "sh", "-c", "stty -echo; exec sleep 60"]

[[task]]
name = "typist"
kind = "x11-typist"
target = "deaf"
preparing_keys = 12
"#;
    let error = Scenario::new("deaf", "duration_s = 1", tasks).error();
    assert!(error.contains("the window of task \"deaf\" draws nothing when it is typed at"), "{error}");
}

/// Ends the runner if a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The child processes of `tgid`, with their names.
fn children(tgid: u32) -> Vec<(String, String)> {
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let stats = fs::read_dir("/proc").expect("/proc").filter_map(|entry| stat(entry.ok()?));
    let parsed = stats.filter_map(|stat| {
        let (id, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let parent = rest.split(' ').nth(1)?;
        (parent == tgid.to_string()).then(|| (name.to_owned(), id.to_owned()))
    });
    parsed.collect()
}

#[test]
fn a_killed_runner_leaves_neither_server_nor_directory() {
    let tasks = "[[task]]\nname = \"game\"\nkind = \"x11-game\"\n";
    let scenario = Scenario::new("killed", "duration_s = 60", tasks);
    let mut running = Running(scenario.command().stdout(Stdio::null()).spawn().expect("spry-runner"));
    let prefix = format!("spry-{}-", running.0.id());
    let directories = || {
        let entries = fs::read_dir(std::env::temp_dir()).expect("a directory for temporary files");
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    let mut started = Vec::new();
    until("the game starts", || {
        started = children(running.0.id());
        ["Xvfb", "game"].iter().all(|name| started.iter().any(|(known, _)| known == name))
    });
    assert_eq!(directories(), 2, "the run's and the server's");
    running.0.kill().expect("a runner to kill");
    running.0.wait().expect("its end");
    until("the directories go", || directories() == 0);
    for (name, id) in started {
        // Another process may have its number by now, or its parent may not have reaped it yet.
        let gone = |stat: String| !stat.contains(&format!("({name})")) || stat.contains(") Z ");
        let stat = Path::new("/proc").join(id).join("stat");
        until(&format!("{name} ends"), || fs::read_to_string(&stat).map_or(true, gone));
    }
}
