//! One test in a process of its own: its start, and the conditions for a pass.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::pool::QueuedTest;
use crate::programs::Program;
use crate::running::{LIMIT, RunningTests};

/// At most this many bytes from the end of a test's output are shown.
const SHOWN_BYTES: u64 = 64 << 10;

/// The environment variable with the number of unused bytes that the lab gives each guest.
const SHAKE_VARIABLE: &str = "SPRY_LAB_SHAKE";

/// The output of a test program after it has run the one requested test.
const GOOD: &str = "test result: ok. 1 passed; 0 failed; 0 ignored";

/// The end of a test.
pub struct TestEnd {
    /// How long the test took.
    pub time: Duration,
    /// The reason why the test has failed; `None` if it has passed.
    pub failure: Option<Failure>,
}

/// The failure of a test.
pub struct Failure {
    /// The reason, in a few words.
    pub why: String,
    /// The output of the test.
    pub output: String,
}

/// Runs a test to its end; `None` if the tests were stopped before this one started.
pub fn run(program: &Program, task: &QueuedTest, running: &RunningTests) -> Option<TestEnd> {
    let start = Instant::now();
    let failure = match attempt(program, task, running) {
        Ok(None) => return None,
        Ok(Some((status, output))) => {
            let is_good = status.success() && output.contains(GOOD);
            (!is_good).then(|| Failure { why: why(status, start.elapsed()), output })
        }
        Err(error) => Some(Failure { why: format!("{error:#}"), output: String::new() }),
    };
    Some(TestEnd { time: start.elapsed(), failure })
}

fn why(status: ExitStatus, time: Duration) -> String {
    if time > LIMIT {
        format!("not done after {} minutes", LIMIT.as_secs() / 60)
    } else if status.success() {
        "the program did not run it".to_owned()
    } else {
        status.to_string()
    }
}

fn attempt(
    program: &Program,
    task: &QueuedTest,
    running: &RunningTests,
) -> Result<Option<(ExitStatus, String)>> {
    // The output goes to a file, not to a pipe: a file takes everything, and a process of the test that stays
    // behind does not keep it open.
    let mut output = tempfile::tempfile().context("no file for what it prints")?;
    let copy = || output.try_clone().map(Stdio::from).context("no file for what it prints");
    let mut command = program.command();
    command
        .args([task.name.as_str(), "--exact", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(copy()?)
        .stderr(copy()?);
    if task.shake_bytes > 0 {
        command.env(SHAKE_VARIABLE, task.shake_bytes.to_string());
    }
    if program.group.is_alone() {
        command.arg("--test-threads=1");
    }
    let Some(mut child) = running.start(&mut command).context("it cannot be started")? else {
        return Ok(None);
    };
    let status = child.wait().context("it cannot be waited for");
    running.ended(&child);
    Ok(Some((status?, end_of(&mut output).context("what it printed cannot be read")?)))
}

/// The end of a file, as text.
fn end_of(file: &mut File) -> std::io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
