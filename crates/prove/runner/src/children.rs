//! The tasks' processes: the runner forks them, reads their results, waits for them, and ends them by their
//! ids on every way out.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spry_scenario::metrics::Metrics;
use spry_scenario::model::{Action, Class, Scenario};
use spry_sys::memory::Locked;
use spry_sys::{Signal, clock, file, futex, measured, memory, poll, process, signal};

use crate::control::Control;
use crate::run::{RunError, give_up, threads_of, was_interrupted};
use crate::stage::{self, DIES_WITH_PARENT, Inner, LOOK_AGAIN, Stage, kill};
use crate::{kinds, steps};

/// How long the tasks' processes may take to end after the end of the run.
const ENDING: Duration = Duration::from_secs(10);
/// How long a process that has written its results may take to exit. It is killed then.
const EXITING: Duration = Duration::from_secs(2);
/// How long the tasks' processes may take until all their threads are at the start line.
const GETTING_READY: Duration = Duration::from_secs(300);

/// The plan of one process: the instances of tasks that play in it.
pub(crate) struct Plan {
    /// The name of the process that several tasks share; `None` if the process is for one instance alone.
    pub process: Option<String>,
    /// The instances of tasks that play in the process.
    pub members: Vec<Member>,
    /// The class of the instances if their task names no class.
    pub class: Option<Class>,
}

/// An instance of a task.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub task: usize,
    pub instance: u32,
}

impl Plan {
    /// How many threads of the plan's instances come to the start line.
    pub(crate) fn threads(&self, scenario: &Scenario) -> u32 {
        self.members.iter().map(|member| threads_of(&scenario.tasks[member.task])).sum()
    }
}

/// The processes of a run. When this value is dropped, the processes that still run are ended.
pub(crate) struct Children {
    control: &'static Control,
    /// The children that the runner had before it started tasks. They are not ended.
    spared: Vec<u32>,
    running: Vec<Child>,
}

struct Child {
    tgid: u32,
    name: String,
    /// The pipe from which the runner reads the results of the process; `None` once it is closed.
    results: Option<OwnedFd>,
    text: Vec<u8>,
}

impl Children {
    /// Makes a set without processes. The children that the runner already has are not ended later.
    pub(crate) fn new(control: &'static Control) -> Self {
        Self { control, spared: own_children(), running: Vec::new() }
    }

    /// Forks a process for a plan.
    pub(crate) fn start(
        &mut self,
        scenario: &Scenario,
        plan: &Plan,
        inner: &dyn Fn(Member) -> Inner,
    ) -> Result<(), RunError> {
        let failed = |error| RunError::Failed(format!("no process for a task: {error}"));
        let (from, to) = spry_sys::pipe().map_err(failed)?;
        let body = || {
            let stages =
                plan.members.iter().map(|&member| (member.task, Stage::new(inner(member)))).collect();
            let played = panic::catch_unwind(AssertUnwindSafe(|| child(scenario, plan, stages)));
            let said = match &played {
                Ok(Ok(results)) => json!({ "results": results }),
                Ok(Err(RunError::GivenUp)) => return 3,
                Ok(Err(error)) => json!({ "error": error.to_string() }),
                Err(_) => json!({ "error": "a task panicked" }),
            };
            // The runner reads the pipe to its end, or has exited.
            let _ = file::write_all(&to, said.to_string().as_bytes());
            0
        };
        let tgid = process::fork(body).map_err(failed)?;
        file::never_wait(&from).map_err(failed)?;
        let name = scenario.tasks[plan.members[0].task].name.clone();
        self.running.push(Child { tgid, name, results: Some(from), text: Vec::new() });
        Ok(())
    }

    /// Waits until this many threads are at the start line.
    pub(crate) fn until_ready(&mut self, threads: u32) -> Result<(), RunError> {
        let begun = Instant::now();
        loop {
            let ready = self.control.ready.load(Ordering::SeqCst);
            if ready >= threads {
                return Ok(());
            }
            futex::wait(self.control.ready, ready, Some(LOOK_AGAIN));
            if was_interrupted() {
                return Err(RunError::Interrupted);
            }
            self.read_results(Duration::ZERO)?;
            if let Some(child) = self.running.iter().find(|child| child.results.is_none()) {
                return Err(child.failure("ended before it began"));
            }
            if begun.elapsed() > GETTING_READY {
                return Err(RunError::Failed(format!(
                    "after {GETTING_READY:?} {ready} of {threads} threads are ready"
                )));
            }
        }
    }

    /// Reads results that the processes have written. Waits at most this long for the next bytes. Returns
    /// whether all processes have written all their results.
    pub(crate) fn read_results(&mut self, limit: Duration) -> Result<bool, RunError> {
        let open: Vec<&OwnedFd> = self.running.iter().filter_map(|child| child.results.as_ref()).collect();
        if open.is_empty() {
            return Ok(true);
        }
        let mut polls: Vec<_> = open.into_iter().map(poll::readable).collect();
        // If a signal comes, no pipe can be read.
        let _ = poll::wait(&mut polls, Some(limit));
        let ready: Vec<bool> = polls.iter().map(|poll| !poll.revents().is_empty()).collect();
        let open = self.running.iter_mut().filter(|child| child.results.is_some());
        for (child, _) in open.zip(ready).filter(|&(_, ready)| ready) {
            let Some(results) = &child.results else { continue };
            let mut buffer = [0; 65536];
            match measured::read(results.as_fd(), &mut buffer) {
                Ok(0) => {
                    child.results = None;
                    child.check()?;
                }
                Ok(read) => child.text.extend(&buffer[..read]),
                // No bytes have come yet, or a signal interrupted the read.
                Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Waits for the end of all processes. Returns for each instance the index of its task and its metrics.
    pub(crate) fn collect(mut self) -> Result<Vec<(usize, Metrics)>, RunError> {
        let begun = Instant::now();
        while !self.read_results(LOOK_AGAIN)? {
            self.control.interrupt_threads();
            if was_interrupted() {
                return Err(RunError::Interrupted);
            }
            if begun.elapsed() > ENDING {
                let slow = self.running.iter().find(|child| child.results.is_some());
                let name = slow.map_or("?", |child| &child.name);
                return Err(RunError::Failed(format!(
                    "task {name} did not end within {ENDING:?} of the run's end"
                )));
            }
        }
        let mut results = Vec::new();
        for child in &self.running {
            results.extend(child.results()?);
        }
        Ok(results)
    }
}

impl Child {
    fn failure(&self, what: &str) -> RunError {
        RunError::Failed(format!("task {} {what}", self.name))
    }

    /// Fails if the process has reported a failure.
    fn check(&self) -> Result<(), RunError> {
        self.results().map(|_| ())
    }

    fn results(&self) -> Result<Vec<(usize, Metrics)>, RunError> {
        let said: Value = serde_json::from_slice(&self.text).map_err(|_| self.failure("died"))?;
        if let Some(error) = said.get("error").and_then(Value::as_str) {
            return Err(RunError::Failed(error.to_owned()));
        }
        let results = said.get("results").and_then(Value::as_array);
        let read = |entry: &Value| {
            Some((usize::try_from(entry.get(0)?.as_u64()?).ok()?, Metrics::from_wire(entry.get(1)?)?))
        };
        results
            .and_then(|results| results.iter().map(read).collect())
            .ok_or_else(|| self.failure("said nothing that makes sense"))
    }
}

impl Drop for Children {
    /// Ends the tasks' processes by their ids, and also the processes that they started and did not end. A
    /// process that has written its results may exit by itself first.
    fn drop(&mut self) {
        give_up(self.control);
        for child in self.running.iter().filter(|child| child.results.is_some()) {
            kill(child.tgid);
        }
        let begun = Instant::now();
        for child in self.running.drain(..) {
            while matches!(process::try_wait(child.tgid), Ok(None)) {
                if begun.elapsed() > EXITING {
                    kill(child.tgid);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        end_orphans(&self.spared);
    }
}

/// Ends the processes that the tasks started and did not end. They have become the runner's children.
fn end_orphans(spared: &[u32]) {
    // When a process ends, its children become the runner's children in turn. So this takes several rounds,
    // each of which is short.
    for _ in 0..1000 {
        let left: Vec<u32> = own_children().into_iter().filter(|tgid| !spared.contains(tgid)).collect();
        if left.is_empty() {
            return;
        }
        for tgid in left {
            kill(tgid);
            let _ = process::try_wait(tgid);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The children of the calling thread, which is the process' first thread.
fn own_children() -> Vec<u32> {
    let path = format!("/proc/self/task/{}/children", process::tid());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Plays the instances of a plan in their task's process, and returns their results.
fn child(scenario: &Scenario, plan: &Plan, stages: Vec<(usize, Stage)>) -> Result<Vec<Value>, RunError> {
    // The kernel accepts this signal, so the call does not fail.
    let _ = DIES_WITH_PARENT.apply();
    signal::end_waits(&[Signal::USR1, Signal::INT, Signal::TERM, Signal::HUP]);
    let name = plan.process.as_deref().unwrap_or(&scenario.tasks[plan.members[0].task].name);
    stage::set_name(name);
    let locked = memory::lock(Locked::All);
    let results = match &stages[..] {
        [(task, stage)] => vec![(*task, play(scenario, *task, stage, plan.class)?)],
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = stages
                .iter()
                .map(|(task, stage)| {
                    let body = move || {
                        stage::set_name(&scenario.tasks[*task].name);
                        play(scenario, *task, stage, plan.class)
                    };
                    let builder = std::thread::Builder::new().stack_size(256 << 10);
                    let thread = builder.spawn_scoped(scope, body);
                    (*task, thread)
                })
                .collect();
            threads
                .into_iter()
                .map(|(task, thread)| {
                    let thread = thread.map_err(|error| RunError::Failed(format!("no thread: {error}")))?;
                    let played = thread.join().map_err(|_| RunError::Failed("a task panicked".into()))?;
                    Ok((task, played?))
                })
                .collect::<Result<Vec<_>, RunError>>()
        })?,
    };
    let cpu_ns = clock::own_cpu_ns();
    let mut said = Vec::new();
    for (at, (task, mut metrics)) in results.into_iter().enumerate() {
        if at == 0 {
            metrics.add_cpu(cpu_ns);
            if let Err(error) = &locked {
                metrics.note(format!("memory is not locked ({error}): page faults may delay tasks"));
            }
        }
        said.push(json!([task, metrics.to_wire()]));
    }
    Ok(said)
}

fn play(scenario: &Scenario, task: usize, stage: &Stage, class: Option<Class>) -> Result<Metrics, RunError> {
    match &scenario.tasks[task].action {
        Action::Steps(program) => steps::play(scenario, program, stage, class),
        Action::Kind(kind) => kinds::play(kind, stage),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_closed_its_pipe_and_stays_is_ended() {
        let control = Control::new(Vec::new()).expect("there is memory");
        let mut children = Children::new(control);
        let mut stays = Command::new("sleep").arg("1000").spawn().expect("there is `sleep`");
        let name = "stays".to_owned();
        children.running.push(Child { tgid: stays.id(), name, results: None, text: Vec::new() });
        let begun = Instant::now();
        drop(children);
        assert!(begun.elapsed() < Duration::from_secs(500), "the process was ended, not awaited");
        assert!(stays.wait().is_err(), "the process is reaped");
    }
}
