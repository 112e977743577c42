//! The tasks' processes: forked, waited for, read from, and ended by their ids whatever happens.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::control::Control;
use super::stage::{Inner, LOOK_AGAIN, Stage};
use super::sys::{self, Ended, Forked};
use super::{RunError, give_up, steps, threads_of, was_interrupted};
use crate::metrics::Metrics;
use crate::scenario::model::{Action, Class, Scenario};

/// How long tasks may take to end after the run's end.
const ENDING: Duration = Duration::from_secs(10);
/// How long tasks may take to get ready.
const GETTING_READY: Duration = Duration::from_secs(300);

/// One process to be.
pub(super) struct Plan {
    /// The name of the process that its members share.
    pub process: Option<String>,
    /// Who plays in it.
    pub members: Vec<Member>,
    /// The class of those that name none.
    pub class: Option<Class>,
}

/// An instance of a task.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub task: usize,
    pub instance: u32,
}

impl Plan {
    /// How many of its threads come to the start line.
    pub(super) fn threads(&self, scenario: &Scenario) -> u32 {
        self.members.iter().map(|member| threads_of(&scenario.tasks[member.task])).sum()
    }
}

/// The processes of a run; dropping it ends those that are left.
pub(super) struct Children {
    control: &'static Control,
    /// Processes of the runner that are none of the tasks'.
    spared: Vec<i32>,
    running: Vec<Child>,
}

struct Child {
    tgid: i32,
    name: String,
    /// Where its result comes from; -1 once that is closed.
    results: i32,
    text: Vec<u8>,
    ended: Ended,
}

impl Children {
    /// None yet; what the runner has started before outlives them.
    pub(super) fn new(control: &'static Control) -> Self {
        Self { control, spared: sys::children(), running: Vec::new() }
    }

    /// Forks a process for a plan.
    pub(super) fn start(
        &mut self,
        scenario: &Scenario,
        plan: &Plan,
        inner: &dyn Fn(Member) -> Inner,
    ) -> Result<(), RunError> {
        let failed = |error| RunError::Failed(format!("no process for a task: {error}"));
        let [from, to] = sys::channel(sys::Channel::Pipe).map_err(failed)?;
        match sys::fork().map_err(failed)? {
            Forked::Parent { tgid } => {
                sys::close(to);
                sys::never_wait(from);
                let name = scenario.tasks[plan.members[0].task].name.clone();
                self.running.push(Child {
                    tgid,
                    name,
                    results: from,
                    text: Vec::new(),
                    ended: Ended::NotYet,
                });
                Ok(())
            }
            Forked::Child => {
                let stages =
                    plan.members.iter().map(|&member| (member.task, Stage::new(inner(member)))).collect();
                let played = panic::catch_unwind(AssertUnwindSafe(|| child(scenario, plan, stages)));
                let said = match &played {
                    Ok(Ok(results)) => json!({ "results": results }),
                    Ok(Err(RunError::GivenUp)) => sys::exit_now(3),
                    Ok(Err(error)) => json!({ "error": error.to_string() }),
                    Err(_) => json!({ "error": "a task panicked" }),
                };
                say(to, said.to_string().as_bytes());
                sys::exit_now(0);
            }
        }
    }

    /// Waits until so many threads are at the start line.
    pub(super) fn until_ready(&mut self, threads: u32) -> Result<(), RunError> {
        let begun = Instant::now();
        loop {
            let ready = self.control.ready.load(Ordering::SeqCst);
            if ready >= threads {
                return Ok(());
            }
            sys::futex_wait(&self.control.ready, ready, Some(LOOK_AGAIN));
            if was_interrupted() {
                return Err(RunError::Interrupted);
            }
            self.read_results(Duration::ZERO)?;
            if let Some(child) = self.running.iter().find(|child| child.results < 0) {
                return Err(child.failure("ended before it began"));
            }
            if begun.elapsed() > GETTING_READY {
                return Err(RunError::Failed(format!(
                    "after {GETTING_READY:?} {ready} of {threads} threads are ready"
                )));
            }
        }
    }

    /// Reads what the processes say, waiting at most so long for the next word; whether all have said all.
    pub(super) fn read_results(&mut self, limit: Duration) -> Result<bool, RunError> {
        let open: Vec<i32> =
            self.running.iter().map(|child| child.results).filter(|&results| results >= 0).collect();
        if open.is_empty() {
            return Ok(true);
        }
        for fd in sys::readable(&open, limit) {
            let Some(child) = self.running.iter_mut().find(|child| child.results == fd) else { continue };
            let mut buffer = [0; 65536];
            match sys::read(fd, &mut buffer) {
                Ok(0) => {
                    sys::close(fd);
                    child.results = -1;
                    child.check()?;
                }
                Ok(read) => child.text.extend(&buffer[..read]),
                // Nothing yet, or a signal.
                Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Waits for the end of all processes and takes their results: task and metrics of each instance.
    pub(super) fn collect(mut self) -> Result<Vec<(usize, Metrics)>, RunError> {
        let begun = Instant::now();
        while !self.read_results(LOOK_AGAIN)? {
            self.control.interrupt_threads();
            if was_interrupted() {
                return Err(RunError::Interrupted);
            }
            if begun.elapsed() > ENDING {
                let slow = self.running.iter().find(|child| child.results >= 0);
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

    /// Fails if what it said is a failure.
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
    /// Ends, by their ids, the tasks' processes and what they have started and left.
    fn drop(&mut self) {
        give_up(self.control);
        for child in self.running.iter_mut().filter(|child| child.results >= 0) {
            sys::signal_process(child.tgid, libc::SIGKILL);
        }
        for child in &mut self.running {
            while child.ended == Ended::NotYet {
                child.ended = sys::ended(child.tgid);
                if child.ended == Ended::NotYet {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            if child.results >= 0 {
                sys::close(child.results);
            }
        }
        end_orphans(&self.spared);
    }
}

/// Ends whom the tasks have started and left: they are the runner's children now.
fn end_orphans(spared: &[i32]) {
    // What they have started becomes the runner's in turn, so it takes rounds; each can only be short.
    for _ in 0..1000 {
        let left: Vec<i32> = sys::children().into_iter().filter(|tgid| !spared.contains(tgid)).collect();
        if left.is_empty() {
            return;
        }
        for tgid in left {
            sys::signal_process(tgid, libc::SIGKILL);
            let _ = sys::ended(tgid);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn nothing(_: i32) {}

/// What a task's process does: plays its members' parts, and says what came of it.
fn child(scenario: &Scenario, plan: &Plan, stages: Vec<(usize, Stage)>) -> Result<Vec<Value>, RunError> {
    sys::die_with_parent();
    for signal in [libc::SIGUSR1, libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        sys::on_signal(signal, nothing);
    }
    let name = plan.process.as_deref().unwrap_or(&scenario.tasks[plan.members[0].task].name);
    sys::set_name(name);
    let locked = sys::lock_memory();
    let results = match &stages[..] {
        [(task, stage)] => vec![(*task, play(scenario, *task, stage, plan.class)?)],
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = stages
                .iter()
                .map(|(task, stage)| {
                    let body = move || {
                        sys::set_name(&scenario.tasks[*task].name);
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
    let cpu_ns = sys::process_cpu_ns();
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
        Action::Kind { role, .. } => role.play(stage),
    }
}

/// Writes all of a text; the reader reads until the end.
fn say(fd: i32, mut text: &[u8]) {
    while !text.is_empty() {
        match sys::write(fd, text) {
            Ok(written) => text = &text[written..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
