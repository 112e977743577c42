//! What is said of the tests: a line a program, then failures with what they printed, then the slowest.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use crate::pool::Task;
use crate::programs::Program;
use crate::test::Ended;

/// A test that takes longer has a line of its own as soon as it has ended.
const LONG: Duration = Duration::from_secs(10);

/// So many of the slowest are listed.
const SLOWEST: usize = 10;

/// What has come of the tests.
pub struct Report {
    since: Instant,
    passed: usize,
    failures: Vec<Failed>,
    /// Of each test that has ended.
    times: Vec<(Duration, String)>,
    /// Of each program, by its number.
    tallies: Vec<Tally>,
}

/// What has failed.
struct Failed {
    name: String,
    why: String,
    output: String,
}

/// What has come of a program's tests.
#[derive(Clone, Default)]
struct Tally {
    tests: usize,
    left: usize,
    failed: usize,
    time: Duration,
}

impl Report {
    /// Of nothing yet.
    pub fn new() -> Report {
        let since = Instant::now();
        Report { since, passed: 0, failures: Vec::new(), times: Vec::new(), tallies: Vec::new() }
    }

    /// What failed without having been run: counted as a test.
    pub fn fault(&mut self, name: &str, why: &str) {
        println!("FAILED  {name}: {why}");
        self.failures.push(Failed { name: name.to_owned(), why: why.to_owned(), output: String::new() });
    }

    /// These tests are to run now, that many side by side.
    pub fn begin(&mut self, programs: &[Program], tasks: &[Task], workers: usize) {
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

    /// A test has ended.
    pub fn ended(&mut self, programs: &[Program], task: &Task, ended: Ended) {
        let source = &programs[task.program].source;
        let name = format!("{source} {}", task.name);
        let tally = &mut self.tallies[task.program];
        tally.left -= 1;
        tally.time += ended.time;
        let time = seconds(ended.time);
        if let Some(failure) = ended.failure {
            println!("FAILED  {time}  {name}: {}", failure.why);
            tally.failed += 1;
            self.failures.push(Failed { name: name.clone(), why: failure.why, output: failure.output });
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

    /// Says what has failed, and what took long. Whether all is well.
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

    /// How many have passed and failed. What was not run has failed.
    pub fn counts(&self) -> String {
        format!("{} {}\n", self.passed, self.failed())
    }

    fn failed(&self) -> usize {
        self.failures.len() + self.tallies.iter().map(|tally| tally.left).sum::<usize>()
    }
}

fn seconds(time: Duration) -> String {
    format!("{:7.2} s", time.as_secs_f64())
}

fn tests(count: usize) -> String {
    format!("{count} {}", if count == 1 { "test" } else { "tests" })
}
