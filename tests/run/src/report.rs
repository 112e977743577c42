//! The report of the tests: a line for each program, then the failures with the output of the tests, then
//! the slowest tests.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use crate::pool::QueuedTest;
use crate::programs::Program;
use crate::test::TestEnd;

/// A test that takes longer has a line of its own as soon as it has ended.
const LONG: Duration = Duration::from_secs(10);

/// How many of the last lines of a failed test's output the short report repeats.
const SHOWN_AGAIN: usize = 10;

/// How many of the slowest tests are listed.
const SLOWEST: usize = 10;

/// The results of the tests so far.
pub struct Report {
    since: Instant,
    passed: usize,
    passed_before: usize,
    failures: Vec<FailedTest>,
    /// The time and the name of each test that has ended.
    times: Vec<(Duration, String)>,
    /// The results of each program's tests, by the program's number.
    tallies: Vec<Tally>,
}

/// A test that has failed.
struct FailedTest {
    name: String,
    why: String,
    output: String,
}

/// The results of one program's tests.
#[derive(Clone, Default)]
struct Tally {
    tests: usize,
    left: usize,
    failed: usize,
    time: Duration,
}

impl Report {
    /// A report without results.
    pub fn new() -> Report {
        let since = Instant::now();
        Report {
            since,
            passed: 0,
            passed_before: 0,
            failures: Vec::new(),
            times: Vec::new(),
            tallies: Vec::new(),
        }
    }

    /// Enters a failure that was found without a test: it counts as a failed test.
    pub fn fault(&mut self, name: &str, why: &str) {
        println!("FAILED  {name}: {why}");
        self.failures.push(FailedTest { name: name.to_owned(), why: why.to_owned(), output: String::new() });
    }

    /// Enters how many tests are left out because they passed with equal inputs.
    pub fn passed_before(&mut self, count: usize) {
        if count > 0 {
            println!("{} passed before with equal guests, and are not run again", tests(count));
        }
        self.passed_before = count;
    }

    /// Enters that these tests are to run now, `workers` of them side by side.
    pub fn begin(&mut self, programs: &[Program], tasks: &[QueuedTest], workers: usize) {
        self.tallies.resize(programs.len(), Tally::default());
        for task in tasks {
            self.tallies[task.program].tests += 1;
            self.tallies[task.program].left += 1;
        }
        match (tasks.len(), workers) {
            (0, _) => {}
            (count, 1) => println!("{}, one after another:", tests(count)),
            (count, _) => println!("{}, {workers} side by side:", tests(count)),
        }
    }

    /// Enters that a test has ended.
    pub fn ended(&mut self, programs: &[Program], task: &QueuedTest, ended: TestEnd) {
        let source = &programs[task.program].source;
        let name = task.shown(programs);
        let tally = &mut self.tallies[task.program];
        tally.left -= 1;
        tally.time += ended.time;
        let time = seconds(ended.time);
        if let Some(failure) = ended.failure {
            println!("FAILED  {time}  {name}: {}", failure.why);
            tally.failed += 1;
            self.failures.push(FailedTest { name: name.clone(), why: failure.why, output: failure.output });
        } else {
            self.passed += 1;
            if ended.time > LONG {
                println!("        {time}  {name}");
            }
        }
        if tally.left == 0 {
            let word = if tally.failed == 0 { "ok    " } else { "FAILED" };
            println!("{word}  {}  {source}, {}", seconds(tally.time), tests(tally.tests));
        }
        self.times.push((ended.time, name));
    }

    /// Prints the failed tests and the slowest tests. Returns whether all have passed.
    pub fn finish(&mut self, programs: &[Program]) -> bool {
        for failed in &self.failures {
            println!("\n== FAILED {}: {}\n{}", failed.name, failed.why, failed.output.trim_end());
        }
        self.times.sort_by_key(|&(time, _)| Reverse(time));
        println!("\nThe slowest:");
        for (time, name) in self.times.iter().take(SLOWEST) {
            println!("  {}  {name}", seconds(*time));
        }
        for (program, tally) in programs.iter().zip(&self.tallies).filter(|(_, tally)| tally.left > 0) {
            println!("NOT RUN: {} of {}", tests(tally.left), program.source);
        }
        println!(
            "\n{} passed, {} failed, in {:.0} s",
            self.passed,
            self.failed(),
            self.since.elapsed().as_secs_f64()
        );
        self.failed() == 0
    }

    /// Each failure in short: its name, its reason, and the last lines of the test's output.
    pub fn failures_in_short(&self) -> String {
        let short = |failed: &FailedTest| {
            format!("FAILED {}: {}\n{}", failed.name, failed.why, last_lines(&failed.output, SHOWN_AGAIN))
        };
        self.failures.iter().map(short).collect()
    }

    /// How many tests have passed, have failed, and were left out because they passed before.
    pub fn counts(&self) -> String {
        format!("{} {} {}\n", self.passed, self.failed(), self.passed_before)
    }

    fn failed(&self) -> usize {
        self.failures.len() + self.tallies.iter().map(|tally| tally.left).sum::<usize>()
    }
}

/// The last lines of a text that are not empty, each after two spaces.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].iter().map(|line| format!("  {line}\n")).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:7.2} s", time.as_secs_f64())
}

fn tests(count: usize) -> String {
    format!("{count} {}", if count == 1 { "test" } else { "tests" })
}
