//! Runs the real `spry` on the running kernel, for tests that compare its traces with other accounts.

pub mod desk;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_test_run::programs;

/// Fails the test if it does not run as root: recording the kernel needs root, and skipping the test
/// would hide that.
///
/// # Panics
/// If the test does not run as root.
pub fn need_root() {
    assert!(
        spry_sys::process::is_root(),
        "this test records the running kernel: run it as root (./x test does)"
    );
}

/// The program `spry` under test.
///
/// # Panics
/// If the program cannot be built.
pub fn spry() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| programs().join("spry"))
}

/// The program that plants delays in the kernel: it is an example of the recorder's crate.
///
/// # Panics
/// If the program cannot be built.
pub fn planter() -> PathBuf {
    programs().join("examples/plant")
}

/// The program that keeps a daemon's socket busy.
///
/// # Panics
/// If the program cannot be built.
pub fn besieger() -> PathBuf {
    programs().join("examples/besiege")
}

/// Runs a command to its end and returns its output.
///
/// # Panics
/// If the command cannot be started or fails; the message has the command's standard error.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs `spry` with these arguments to its end. Returns its output.
///
/// # Panics
/// If `spry` fails.
pub fn spry_says<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> String {
    let output = run(Command::new(spry()).args(args));
    String::from_utf8(output.stdout).expect("spry prints UTF-8")
}

/// A recording by `spry record` that runs. It is stopped when the value is dropped.
pub struct Recording {
    child: Child,
    file: PathBuf,
}

impl Recording {
    /// Starts recording these groups of events (such as `sched,timer`) into `file`. The call returns once the
    /// recording has begun.
    ///
    /// # Panics
    /// If the recording does not begin within 10 s.
    pub fn start(file: &Path, groups: &str) -> Recording {
        let mut command = Command::new(spry());
        command.args(["record", "--json", "--quiet", "--events", groups, "-o"]).arg(file);
        // The recording ends by itself after this time, so a test that fails to stop it leaves no recorder
        // behind.
        command.args(["--duration", "120"]).stdout(Stdio::piped());
        let child = command.spawn().expect("spry starts");
        let recording = Recording { child, file: file.to_owned() };
        let patience = Instant::now() + Duration::from_secs(10);
        while fs::metadata(file).map_or(0, |meta| meta.len()) == 0 {
            assert!(Instant::now() < patience, "spry wrote nothing into {} within 10 s", file.display());
            thread::sleep(Duration::from_millis(20));
        }
        // The recorder writes the head of the file before the first event, so the test waits until events are
        // recorded.
        thread::sleep(Duration::from_millis(500));
        recording
    }

    /// Stops the recording as Ctrl-C does. Returns the last line that the recorder printed, which is JSON.
    ///
    /// # Panics
    /// If the recorder failed or lost events.
    pub fn stop(mut self) -> Value {
        // The child was not waited for, so the process id is still its own.
        spry_sys::signal::send(self.child.id(), spry_sys::Signal::INT).expect("it is still there");
        let mut said = String::new();
        self.child.stdout.take().expect("it is piped").read_to_string(&mut said).expect("spry prints UTF-8");
        let status = self.child.wait().expect("the recorder ends");
        assert!(status.success(), "spry record: {status}");
        let last = said.lines().last().expect("--json ends with a line");
        let summary: Value = serde_json::from_str(last).expect("the last line is JSON");
        assert_eq!(summary["lost"], 0, "events were lost while recording {}", self.file.display());
        summary
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // If the recorder can neither be killed nor waited for, nothing more can be done.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The output of `spry report --json` for a trace.
///
/// # Panics
/// If the command fails or does not print JSON.
pub fn report(file: &Path) -> Value {
    let said = spry_says([OsStr::new("report"), file.as_os_str(), OsStr::new("--json")]);
    serde_json::from_str(&said).expect("report --json prints JSON")
}

/// The report's entry of one thread.
///
/// # Panics
/// If the report does not list the thread.
pub fn task(report: &Value, tid: u32) -> &Value {
    let tasks = report["tasks"].as_array().expect("the report lists tasks");
    tasks.iter().find(|task| task["tid"] == tid).unwrap_or_else(|| panic!("the report lacks task {tid}"))
}

/// Threads that are in no list of tasks, with switches that neither perf nor Spry sees. On some virtual
/// machines these are the threads of process 1.
///
/// # Panics
/// If there is no process 1.
pub fn hidden_threads() -> BTreeSet<u64> {
    let threads = of_threads(1, "comm");
    assert!(!threads.is_empty(), "there is a process 1");
    threads.into_iter().map(|(tid, _)| tid.into()).collect()
}

/// The text of this file in `/proc` of each thread of a process, by the threads' numbers. A thread that ends
/// meanwhile is left out; a process that has ended has no threads.
pub fn of_threads(tgid: u32, file: &str) -> Vec<(u32, String)> {
    let threads = fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    let text = |thread: fs::DirEntry| {
        let tid = thread.file_name().to_str()?.parse().ok()?;
        Some((tid, fs::read_to_string(thread.path().join(file)).ok()?))
    };
    threads.filter_map(text).collect()
}

/// A number of the report.
///
/// # Panics
/// If the value is not a number.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// The rows of a trace's CSV export, and the names of the columns.
pub struct Table {
    columns: csv::StringRecord,
    reader: csv::Reader<fs::File>,
}

impl Table {
    /// Exports a trace into `dir` and opens the exported file.
    ///
    /// # Panics
    /// If the export fails.
    pub fn of(trace: &Path, dir: &Path) -> Table {
        let out = dir.join("events.csv");
        let args = ["export".as_ref(), trace.as_os_str(), "--to".as_ref(), "csv".as_ref(), "-o".as_ref()];
        spry_says(args.into_iter().chain([out.as_os_str()]));
        let mut reader = csv::Reader::from_path(&out).expect("the export can be read");
        let columns = reader.headers().expect("its first line names the columns").clone();
        Table { columns, reader }
    }

    /// Hands every row to `visit`.
    ///
    /// # Panics
    /// If a row cannot be read.
    pub fn each(mut self, mut visit: impl FnMut(Row<'_>)) {
        let mut record = csv::StringRecord::new();
        while self.reader.read_record(&mut record).expect("a row can be read") {
            visit(Row { columns: &self.columns, record: &record });
        }
    }
}

/// A row of an export.
pub struct Row<'a> {
    columns: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    /// The text in this column of the row.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn text(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| name == column);
        &self.record[at.unwrap_or_else(|| panic!("the export has no column {column}"))]
    }

    /// The number in this column of the row; `None` if the column is empty.
    ///
    /// # Panics
    /// If there is no such column, or the column holds no number.
    pub fn number(&self, column: &str) -> Option<u64> {
        let text = self.text(column);
        (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("{column}: {text} is no number")))
    }
}
