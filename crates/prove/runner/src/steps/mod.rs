//! Plays a task that is made of steps. Measures how late the task woke, which frames it showed, and how soon
//! it answered keys.

mod memory;

use std::io;
use std::path::Path;

use spry_scenario::metrics::{Metrics, Samples};
use spry_scenario::model::{Action, Class, Scenario};
use spry_scenario::program::{ObjectId, ObjectKind, Program, Step, TimerMode, TimerRef};

use self::memory::Buffers;
use crate::RunError;
use crate::stage::{ChildEnd, Complaints, File, Object, Process, Stage, Start, Thread, Woke};

/// How many samples a thread can keep before it would allocate memory.
const ROOM: usize = 1 << 15;

/// The reason why a task does no further steps.
enum Halt {
    /// The run is over.
    Over,
    /// A step of the task failed.
    Failed(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

type StepResult = Result<(), Halt>;

/// Plays a program of steps from the start line until the run ends or the program ends.
pub(crate) fn play(
    scenario: &Scenario,
    program: &Program,
    stage: &Stage,
    class: Option<Class>,
) -> Result<Metrics, RunError> {
    let mut actor = Actor::new(scenario, program, stage, class)?;
    actor.start = stage.start_line()?;
    actor.finish(program)
}

struct Actor<'a> {
    scenario: &'a Scenario,
    stage: &'a Stage,
    class: Option<Class>,
    start: Start,
    /// The due time of the event for which the task waited last, ns.
    due_ns: u64,
    frame: u64,
    /// The period of a frame, ns; 0 if the task shows no frames.
    frame_period_ns: u64,
    shown: u64,
    passes: u64,
    timers: Vec<Option<u64>>,
    files: Vec<(String, File)>,
    bytes: Vec<u8>,
    buffers: Buffers,
    late: Samples,
    responses: Samples,
    echoes: bool,
    threads: Vec<Thread<Result<Metrics, RunError>>>,
    processes: Vec<Process>,
}

impl<'a> Actor<'a> {
    fn new(
        scenario: &'a Scenario,
        program: &Program,
        stage: &'a Stage,
        class: Option<Class>,
    ) -> Result<Self, RunError> {
        let mut actor = Self {
            scenario,
            stage,
            class,
            start: stage.start(),
            due_ns: 0,
            frame: 0,
            frame_period_ns: 0,
            shown: 0,
            passes: 0,
            timers: Vec::new(),
            files: Vec::new(),
            bytes: Vec::new(),
            buffers: Buffers::default(),
            late: Samples::with_capacity(ROOM),
            responses: Samples::default(),
            echoes: false,
            threads: Vec::new(),
            processes: Vec::new(),
        };
        actor.prepare(program)?;
        Ok(actor)
    }

    /// Makes the buffers and files that the steps need, so that nothing is made in the measured time.
    fn prepare(&mut self, program: &Program) -> Result<(), RunError> {
        let mut failure = None;
        let mut largest = 0;
        program.visit(&mut |step| match step {
            Step::WriteFile { file, bytes } | Step::ReadFile { file, bytes } => {
                largest = largest.max(*bytes);
                failure = failure.take().or(self.open(file, *bytes).err());
            }
            Step::SyncFile { file } => failure = failure.take().or(self.open(file, 0).err()),
            Step::WriteDevice { path, bytes } => {
                largest = largest.max((*bytes).min(4 << 20));
                failure = failure.take().or(self.open_device(path).err());
            }
            Step::Wait { bytes, .. } | Step::Wake { bytes, .. } => largest = largest.max(u64::from(*bytes)),
            Step::Memory(memory) => self.buffers.add(memory),
            Step::Frame { period_ns } => self.frame_period_ns = *period_ns,
            Step::Timer { timer: TimerRef::Own(at), .. } => {
                self.timers.resize(self.timers.len().max(at + 1), None);
            }
            Step::Echo { .. } if !self.echoes => {
                (self.echoes, self.responses) = (true, Samples::with_capacity(ROOM));
            }
            _ => {}
        });
        self.bytes = vec![0x5a; largest as usize];
        failure.map_or(Ok(()), Err)
    }

    fn open(&mut self, name: &str, bytes: u64) -> Result<(), RunError> {
        if self.files.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let path = self.stage.scratch().join(name);
        let failed = |error| RunError::Failed(format!("file {}: {error}", path.display()));
        let file = self.stage.open_file(&path, bytes).map_err(failed)?;
        self.files.push((name.to_owned(), file));
        Ok(())
    }

    fn open_device(&mut self, path: &str) -> Result<(), RunError> {
        if !self.files.iter().any(|(known, _)| known == path) {
            let file = self.stage.open_device(Path::new(path));
            let file = file.map_err(|error| RunError::Failed(format!("device {path}: {error}")))?;
            self.files.push((path.to_owned(), file));
        }
        Ok(())
    }

    fn finish(mut self, program: &Program) -> Result<Metrics, RunError> {
        if let Err(Halt::Failed(error)) = self.all(program) {
            return Err(error);
        }
        let mut metrics = Metrics::new();
        metrics.count("passes", self.passes);
        if !self.late.is_empty() {
            metrics.quantiles("wake_lateness_ns", &self.late, &["p50", "p99", "max"]);
        }
        if self.frame_period_ns > 0 {
            metrics.count("frames_shown", self.shown);
            metrics.count("frames_due", self.start.frames_due(self.frame_period_ns));
        }
        if self.echoes {
            metrics.quantiles("response_ns", &self.responses, &["p50", "p99", "max"]);
        }
        for thread in self.threads.drain(..) {
            metrics.join(thread.join()??);
        }
        self.processes.drain(..).for_each(Process::end);
        Ok(metrics)
    }

    fn over(&self) -> StepResult {
        if self.stage.over() { Err(Halt::Over) } else { Ok(()) }
    }

    fn all(&mut self, program: &Program) -> StepResult {
        let mut done = 0;
        while program.times.is_none_or(|times| done < times) {
            self.over()?;
            self.once(&program.steps)?;
            done += 1;
            self.passes += 1;
        }
        Ok(())
    }

    fn once(&mut self, steps: &[Step]) -> StepResult {
        for step in steps {
            self.step(step)?;
        }
        Ok(())
    }

    fn object(&self, object: ObjectId) -> Object<'a> {
        self.stage.object(self.scenario, object)
    }

    fn step(&mut self, step: &Step) -> StepResult {
        let stage = self.stage;
        match step {
            Step::Run { ns } => stage.work(*ns),
            Step::RunFor { ns } => {
                let end_ns = stage.now_ns() + ns;
                while stage.now_ns() < end_ns && !stage.over() {
                    stage.work((*ns).min(30_000));
                }
            }
            Step::Sleep { ns } => self.sleep_until(stage.now_ns() + ns)?,
            Step::SleepUntil { ns } => self.sleep_until(self.start.t0_ns + ns)?,
            Step::Alarm { period_ns } => {
                let past = stage.now_ns().saturating_sub(self.start.t0_ns) / period_ns;
                self.sleep_until(self.start.t0_ns + (past + 1) * period_ns)?;
            }
            Step::Timer { timer, period_ns, mode } => self.timer(*timer, *period_ns, *mode)?,
            Step::Wait { .. } | Step::Wake { .. } | Step::Key { .. } | Step::Echo { .. } => {
                self.talk(step)?
            }
            Step::Lock(object) => self.object(*object).lock(),
            Step::Unlock(object) => self.object(*object).unlock(),
            Step::ConditionWait { condition, lock } => {
                self.object(*condition).wait_signal_without(self.object(*lock));
            }
            Step::Signal(object) => self.object(*object).signal(),
            Step::Broadcast(object) => self.object(*object).broadcast(),
            Step::Sync { condition, lock } => {
                let (condition, lock) = (self.object(*condition), self.object(*lock));
                lock.lock();
                condition.signal();
                condition.wait_signal_without(lock);
                lock.unlock();
            }
            Step::Suspend(object) => self.object(*object).wait_signal(),
            Step::Barrier(object) => self.object(*object).meet(),
            Step::Fork { task } => self.fork(*task)?,
            Step::Exec { argv } => self.exec(argv)?,
            Step::WriteFile { .. }
            | Step::ReadFile { .. }
            | Step::SyncFile { .. }
            | Step::WriteDevice { .. } => {
                self.storage(step)?;
            }
            Step::Memory(memory) => self.buffers.go_through(memory, &|| stage.over()),
            Step::Frame { period_ns } => self.frame(*period_ns)?,
            Step::Yield => stage.give_way(),
            Step::Mark(text) => stage.mark(text),
            Step::Repeat(program) => {
                let mut done = 0;
                while program.times.is_none_or(|times| done < times) {
                    self.over()?;
                    self.once(&program.steps)?;
                    done += 1;
                }
            }
            Step::JoinGroup(name) => stage.join_group(name)?,
            Step::Become { class, affinity } => self.become_other(*class, affinity.as_deref())?,
        }
        self.over()
    }

    /// Sleeps, and keeps how late the thread woke.
    fn sleep_until(&mut self, due_ns: u64) -> StepResult {
        while self.stage.sleep_until(due_ns) == Woke::Interrupted {
            self.over()?;
        }
        self.woken(due_ns);
        Ok(())
    }

    fn woken(&mut self, due_ns: u64) {
        self.due_ns = due_ns;
        let now_ns = self.stage.now_ns();
        if self.start.counts(due_ns) && self.start.counts(now_ns) {
            self.late.push(now_ns.saturating_sub(due_ns));
        }
    }

    fn timer(&mut self, timer: TimerRef, period_ns: u64, mode: TimerMode) -> StepResult {
        let now_ns = self.stage.now_ns();
        let last_ns = match timer {
            TimerRef::Own(at) => self.timers[at],
            TimerRef::Shared(object) => self.object(object).went_off_ns(),
        };
        let mut next_ns = last_ns.unwrap_or(self.start.t0_ns.max(self.due_ns)) + period_ns;
        let missed = next_ns <= now_ns;
        if missed && mode == TimerMode::Relative {
            next_ns = now_ns;
        }
        match timer {
            TimerRef::Own(at) => self.timers[at] = Some(next_ns),
            TimerRef::Shared(object) => self.object(object).goes_off_at(next_ns),
        }
        if missed { Ok(()) } else { self.sleep_until(next_ns) }
    }

    fn talk(&mut self, step: &Step) -> StepResult {
        match *step {
            Step::Wait { object, bytes } => {
                let object = self.object(object);
                if object.kind() == ObjectKind::Counter {
                    object.take_count();
                    return Ok(());
                }
                let mut left = bytes as usize;
                while left > 0 {
                    let read = object.read(&mut self.bytes[..left]);
                    left -= self.carried(read, "reading from")?;
                }
            }
            Step::Wake { object, bytes } => {
                let object = self.object(object);
                if object.kind() == ObjectKind::Counter {
                    object.add_count();
                    return Ok(());
                }
                let mut left = bytes as usize;
                while left > 0 {
                    left -= self.carried(object.write(&self.bytes[..left]), "writing to")?;
                }
            }
            Step::Key { object } => {
                let object = self.object(object);
                object.push_stamp(if self.due_ns > 0 { self.due_ns } else { self.stage.now_ns() });
                while self.carried(object.write(b"k"), "writing to")? == 0 {}
            }
            Step::Echo { object } => {
                let due_ns = self.object(object).pop_stamp();
                if let Some(due_ns) = due_ns.filter(|&due_ns| self.start.counts(due_ns)) {
                    self.responses.push(self.stage.now_ns().saturating_sub(due_ns));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The number of bytes that a read or a write carried; 0 if a signal interrupted it.
    fn carried(&self, result: io::Result<usize>, what: &str) -> Result<usize, Halt> {
        self.over()?;
        match result {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => {
                let text = format!("task {}: {what} a pipe or socket: {error}", self.stage.task_name());
                Err(RunError::Failed(text).into())
            }
        }
    }

    fn storage(&mut self, step: &Step) -> StepResult {
        let (Step::WriteFile { file: name, .. }
        | Step::ReadFile { file: name, .. }
        | Step::SyncFile { file: name }
        | Step::WriteDevice { path: name, .. }) = step
        else {
            return Ok(());
        };
        let Some((_, file)) = self.files.iter().find(|(known, _)| known == name) else { return Ok(()) };
        let result = match step {
            Step::WriteFile { bytes, .. } => file.write_at_start(&self.bytes[..*bytes as usize]),
            Step::ReadFile { bytes, .. } => file.read_at_start(&mut self.bytes[..*bytes as usize]),
            Step::SyncFile { .. } => file.sync(),
            Step::WriteDevice { bytes, .. } => {
                let mut left = *bytes as usize;
                let mut result = Ok(());
                while left > 0 && result.is_ok() {
                    let part = left.min(self.bytes.len());
                    result = file.write_on(&self.bytes[..part]);
                    left -= part;
                }
                result
            }
            _ => Ok(()),
        };
        result.map_err(|error| RunError::Failed(format!("file {name}: {error}")).into())
    }

    /// Shows the next frame, and waits until it is due. Frames that are late by more than half a
    /// period are dropped.
    fn frame(&mut self, period_ns: u64) -> StepResult {
        let now_ns = self.stage.now_ns();
        while now_ns > self.start.t0_ns + self.frame * period_ns + period_ns / 2 {
            self.frame += 1;
        }
        let due_ns = self.start.t0_ns + self.frame * period_ns;
        self.frame += 1;
        if due_ns > now_ns {
            self.sleep_until(due_ns)?;
        }
        let late_ns = self.stage.now_ns().saturating_sub(due_ns);
        self.shown += u64::from(late_ns <= period_ns / 2 && self.start.counts(due_ns));
        Ok(())
    }

    /// Starts the steps of another task: in a new thread if that task shares a process, else
    /// in a new process.
    fn fork(&mut self, task: usize) -> StepResult {
        let spec = &self.scenario.tasks[task];
        let Action::Steps(program) = &spec.action else { return Ok(()) };
        if spec.process.is_some() {
            let thread = self.fork_thread(task)?;
            self.threads.push(thread);
            return Ok(());
        }
        self.processes.retain(|process| !process.has_ended());
        let process = self.stage.fork(|| {
            self.stage.die_with_parent();
            self.stage.rename(&spec.name);
            self.stage.enlist();
            // The measurements of such a process are not collected, and neither is the reason of a failure.
            let _ = Actor::new(self.scenario, program, self.stage, self.class)
                .and_then(|actor| actor.finish(program));
        });
        let failed = |error| RunError::Failed(format!("task {}: fork: {error}", spec.name));
        self.processes.push(process.map_err(failed)?);
        Ok(())
    }

    fn fork_thread(&self, task: usize) -> Result<Thread<Result<Metrics, RunError>>, RunError> {
        // The new thread has a copy of the scenario, because it may outlive this thread's reference.
        let (scenario, class) = (self.scenario.clone(), self.class);
        self.stage.spawn(&self.scenario.tasks[task].name, move |stage| {
            let spec = &scenario.tasks[task];
            let Action::Steps(program) = &spec.action else { return Ok(Metrics::new()) };
            stage.enlist();
            let actor = Actor::new(&scenario, program, stage, class)?;
            stage.become_class(spec.class.or(class).unwrap_or(Class::Other { nice: 0, slice_ns: 0 }))?;
            actor.finish(program)
        })
    }

    fn exec(&mut self, argv: &[String]) -> StepResult {
        match self.stage.run_program(&argv[0], &argv[1..], Complaints::Shown)? {
            ChildEnd::Code(0) | ChildEnd::NoSuchChild => self.over(),
            _ if self.stage.over() => Err(Halt::Over),
            ended => {
                let text = format!("task {}: {} failed: {ended:?}", self.stage.task_name(), argv.join(" "));
                Err(RunError::Failed(text).into())
            }
        }
    }

    fn become_other(&mut self, class: Option<Class>, affinity: Option<&[u32]>) -> StepResult {
        if let Some(cpus) = affinity {
            self.stage.take_cpus(cpus)?;
        }
        if let Some(class) = class {
            self.stage.become_class(class)?;
        }
        Ok(())
    }
}
