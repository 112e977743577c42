//! Plays a task that is made of steps, and keeps how late it woke, what it showed and what it answered.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::memory::Buffers;
use super::stage::{Stage, Start, Thread, become_class};
use super::sync;
use super::sys::{self, Ended, Forked};
use super::{RunError, control::Shared};
use crate::metrics::{Metrics, Samples};
use crate::scenario::model::{Class, Scenario};
use crate::scenario::program::{ObjectId, Program, Step, TimerMode, TimerRef};

/// Samples for which there is room before a thread would allocate.
const ROOM: usize = 1 << 15;

/// Why the steps stop.
pub(super) enum Halt {
    /// The run is over.
    Over,
    /// Something failed.
    Failed(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

type Done = Result<(), Halt>;

/// Plays a program of steps from the start line to the run's end or its own.
pub(super) fn play(
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
    /// When the last thing that was waited for was due, ns.
    due_ns: u64,
    frame: u64,
    /// Of one frame, ns; 0: it shows none.
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
    threads: Vec<Thread<Result<Metrics, String>>>,
    processes: Vec<i32>,
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

    /// Makes what the steps will need, so that nothing is made while time is measured.
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
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < bytes {
            file.set_len(bytes).map_err(failed)?;
        }
        self.files.push((name.to_owned(), file));
        Ok(())
    }

    fn open_device(&mut self, path: &str) -> Result<(), RunError> {
        if !self.files.iter().any(|(known, _)| known == path) {
            let file = OpenOptions::new().write(true).open(path);
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
            metrics.count("frames_due", frames_due(self.start, self.frame_period_ns));
        }
        if self.echoes {
            metrics.quantiles("response_ns", &self.responses, &["p50", "p99", "max"]);
        }
        for thread in self.threads.drain(..) {
            metrics.join(thread.join()?.map_err(RunError::Failed)?);
        }
        for tgid in self.processes.drain(..) {
            sys::signal_process(tgid, libc::SIGKILL);
            while sys::ended(tgid) == Ended::NotYet {
                std::thread::yield_now();
            }
        }
        Ok(metrics)
    }

    fn over(&self) -> Done {
        if self.stage.over() { Err(Halt::Over) } else { Ok(()) }
    }

    fn all(&mut self, program: &Program) -> Done {
        let mut done = 0;
        while program.times.is_none_or(|times| done < times) {
            self.over()?;
            self.once(&program.steps)?;
            done += 1;
            self.passes += 1;
        }
        Ok(())
    }

    fn once(&mut self, steps: &[Step]) -> Done {
        for step in steps {
            self.step(step)?;
        }
        Ok(())
    }

    fn shared(&self, object: ObjectId) -> &'static Shared {
        self.stage.control().shared(object)
    }

    fn step(&mut self, step: &Step) -> Done {
        let stage = self.stage;
        let over = || stage.over();
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
            Step::Lock(object) => sync::lock(self.scenario, *object, self.shared(*object), &over),
            Step::Unlock(object) => sync::unlock(self.scenario, *object, self.shared(*object)),
            Step::ConditionWait { condition, lock } => self.condition_wait(*condition, *lock),
            Step::Signal(object) => sync::signal(self.shared(*object), 1),
            Step::Broadcast(object) => sync::signal(self.shared(*object), i32::MAX),
            Step::Sync { condition, lock } => {
                sync::lock(self.scenario, *lock, self.shared(*lock), &over);
                sync::signal(self.shared(*condition), 1);
                self.condition_wait(*condition, *lock);
                sync::unlock(self.scenario, *lock, self.shared(*lock));
            }
            Step::Suspend(object) => sync::wait_change(&self.shared(*object).word, &over),
            Step::Barrier(object) => sync::barrier(self.scenario, *object, self.shared(*object), &over),
            Step::Fork { task } => self.fork(*task)?,
            Step::Exec { argv } => self.exec(argv)?,
            Step::WriteFile { .. }
            | Step::ReadFile { .. }
            | Step::SyncFile { .. }
            | Step::WriteDevice { .. } => {
                self.storage(step)?;
            }
            Step::Memory(memory) => self.buffers.go_through(memory, &over),
            Step::Frame { period_ns } => self.frame(*period_ns)?,
            Step::Yield => std::thread::yield_now(),
            Step::Mark(text) => spry_mark::mark(text),
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

    /// Sleeps, and keeps how late it woke.
    fn sleep_until(&mut self, due_ns: u64) -> Done {
        while self.stage.sleep_until(due_ns) == sys::Woke::Interrupted {
            self.over()?;
        }
        self.woken(due_ns);
        Ok(())
    }

    fn woken(&mut self, due_ns: u64) {
        self.due_ns = due_ns;
        let now_ns = self.stage.now_ns();
        if self.counts(due_ns) && self.counts(now_ns) {
            self.late.push(now_ns.saturating_sub(due_ns));
        }
    }

    fn counts(&self, ns: u64) -> bool {
        (self.start.measure_from_ns..self.start.measure_to_ns).contains(&ns)
    }

    fn timer(&mut self, timer: TimerRef, period_ns: u64, mode: TimerMode) -> Done {
        let now_ns = self.stage.now_ns();
        let last_ns = match timer {
            TimerRef::Own(at) => self.timers[at],
            TimerRef::Shared(object) => {
                Some(self.shared(object).time_ns.load(Ordering::SeqCst)).filter(|&ns| ns > 0)
            }
        };
        let mut next_ns = last_ns.unwrap_or(self.start.t0_ns.max(self.due_ns)) + period_ns;
        let missed = next_ns <= now_ns;
        if missed && mode == TimerMode::Relative {
            next_ns = now_ns;
        }
        match timer {
            TimerRef::Own(at) => self.timers[at] = Some(next_ns),
            TimerRef::Shared(object) => self.shared(object).time_ns.store(next_ns, Ordering::SeqCst),
        }
        if missed { Ok(()) } else { self.sleep_until(next_ns) }
    }

    fn condition_wait(&mut self, condition: ObjectId, lock: ObjectId) {
        let stage = self.stage;
        let word = &self.shared(condition).word;
        let seen = word.load(Ordering::SeqCst);
        sync::unlock(self.scenario, lock, self.shared(lock));
        while word.load(Ordering::SeqCst) == seen && !stage.over() {
            sys::futex_wait(word, seen, None);
        }
        sync::lock(self.scenario, lock, self.shared(lock), &|| stage.over());
    }

    fn talk(&mut self, step: &Step) -> Done {
        match *step {
            Step::Wait { object, bytes } => {
                let shared = self.shared(object);
                let from = shared.ends[0].load(Ordering::SeqCst);
                if from == 0 {
                    let stage = self.stage;
                    sync::take_count(&shared.word, &|| stage.over());
                    return Ok(());
                }
                let mut left = bytes as usize;
                while left > 0 {
                    let read = sys::read(from, &mut self.bytes[..left]);
                    left -= self.carried(read, "reading from")?;
                }
            }
            Step::Wake { object, bytes } => {
                let shared = self.shared(object);
                let to = shared.ends[1].load(Ordering::SeqCst);
                if to == 0 {
                    shared.word.fetch_add(1, Ordering::SeqCst);
                    sys::futex_wake(&shared.word, 1);
                    return Ok(());
                }
                let mut left = bytes as usize;
                while left > 0 {
                    let written = sys::write(to, &self.bytes[..left]);
                    left -= self.carried(written, "writing to")?;
                }
            }
            Step::Key { object } => {
                let shared = self.shared(object);
                let due_ns = if self.due_ns > 0 { self.due_ns } else { self.stage.now_ns() };
                shared.push_stamp(due_ns);
                while self.carried(sys::write(shared.ends[1].load(Ordering::SeqCst), b"k"), "writing to")?
                    == 0
                {}
            }
            Step::Echo { object } => {
                let due_ns = self.shared(object).pop_stamp();
                if let Some(due_ns) = due_ns.filter(|&due_ns| self.counts(due_ns)) {
                    self.responses.push(self.stage.now_ns().saturating_sub(due_ns));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// How many bytes went through; none at a signal.
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

    fn storage(&mut self, step: &Step) -> Done {
        let (Step::WriteFile { file: name, .. }
        | Step::ReadFile { file: name, .. }
        | Step::SyncFile { file: name }
        | Step::WriteDevice { path: name, .. }) = step
        else {
            return Ok(());
        };
        let Some((_, file)) = self.files.iter().find(|(known, _)| known == name) else { return Ok(()) };
        let result = match step {
            Step::WriteFile { bytes, .. } => file.write_all_at(&self.bytes[..*bytes as usize], 0),
            Step::ReadFile { bytes, .. } => file.read_exact_at(&mut self.bytes[..*bytes as usize], 0),
            Step::SyncFile { .. } => file.sync_all(),
            Step::WriteDevice { bytes, .. } => {
                let mut left = *bytes as usize;
                let mut result = Ok(());
                while left > 0 && result.is_ok() {
                    let part = left.min(self.bytes.len());
                    result = io::Write::write_all(&mut &*file, &self.bytes[..part]);
                    left -= part;
                }
                result
            }
            _ => Ok(()),
        };
        result.map_err(|error| RunError::Failed(format!("file {name}: {error}")).into())
    }

    /// Shows the frame that is due, or the next one; those that are late by more than half their time are dropped.
    fn frame(&mut self, period_ns: u64) -> Done {
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
        self.shown += u64::from(late_ns <= period_ns / 2 && self.counts(due_ns));
        Ok(())
    }

    /// Another task's steps begin: in a thread where tasks share this process, else in a process.
    fn fork(&mut self, task: usize) -> Done {
        let spec = &self.scenario.tasks[task];
        let crate::scenario::model::Action::Steps(program) = &spec.action else { return Ok(()) };
        if spec.process.is_some() {
            let thread = self.fork_thread(task)?;
            self.threads.push(thread);
            return Ok(());
        }
        self.processes.retain(|&tgid| sys::ended(tgid) == Ended::NotYet);
        let failed = |error| RunError::Failed(format!("task {}: fork: {error}", spec.name));
        match sys::fork().map_err(failed)? {
            Forked::Parent { tgid } => self.processes.push(tgid),
            Forked::Child => {
                sys::die_with_parent();
                sys::set_name(&spec.name);
                self.stage.control().register_thread(sys::tid());
                let code = match Actor::new(self.scenario, program, self.stage, self.class) {
                    Ok(actor) => i32::from(actor.finish(program).is_err()),
                    Err(_) => 1,
                };
                sys::exit_now(code);
            }
        }
        Ok(())
    }

    fn fork_thread(&self, task: usize) -> Result<Thread<Result<Metrics, String>>, RunError> {
        // The thread reads the scenario anew from its text: it may outlive the borrow of this one.
        let text = (self.scenario.text.clone(), self.scenario.file.clone());
        let sets: Vec<(String, String)> =
            self.scenario.variables.iter().map(|v| (v.name.clone(), v.value.clone())).collect();
        let class = self.class;
        self.stage.spawn(&self.scenario.tasks[task].name, move |stage| {
            let scenario =
                Scenario::parse_with(&text.0, &text.1, &sets).map_err(|error| error.to_string())?;
            let spec = &scenario.tasks[task];
            let crate::scenario::model::Action::Steps(program) = &spec.action else {
                return Ok(Metrics::new());
            };
            stage.control().register_thread(sys::tid());
            let play = || {
                let actor = Actor::new(&scenario, program, stage, class)?;
                become_class(spec.class.or(class).unwrap_or(Class::Other { nice: 0, slice_ns: 0 }))
                    .map_err(RunError::Failed)?;
                actor.finish(program)
            };
            play().map_err(|error: RunError| error.to_string())
        })
    }

    fn exec(&mut self, argv: &[String]) -> Done {
        let mut command = self.stage.command(&argv[0]);
        command.args(&argv[1..]).current_dir(self.stage.scratch());
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let child = command.spawn();
        let child = child.map_err(|error| RunError::Failed(format!("{}: {error}", argv[0])))?;
        let tgid = child.id() as i32;
        loop {
            match sys::wait(tgid) {
                Ended::NotYet if self.stage.over() => {
                    sys::signal_process(tgid, libc::SIGKILL);
                }
                Ended::NotYet => {}
                Ended::Code(0) | Ended::NoSuchChild => return self.over(),
                _ if self.stage.over() => return Err(Halt::Over),
                ended => {
                    let text =
                        format!("task {}: {} failed: {ended:?}", self.stage.task_name(), argv.join(" "));
                    return Err(RunError::Failed(text).into());
                }
            }
        }
    }

    fn become_other(&mut self, class: Option<Class>, affinity: Option<&[u32]>) -> Done {
        if let Some(cpus) = affinity {
            sys::set_affinity(cpus).map_err(|error| {
                RunError::Failed(format!("task {}: CPUs {cpus:?}: {error}", self.stage.task_name()))
            })?;
        }
        if let Some(class) = class {
            become_class(class)
                .map_err(|text| RunError::Failed(format!("task {}: {text}", self.stage.task_name())))?;
        }
        Ok(())
    }
}

/// How many frames are due within what is measured, one every period from the start on.
pub(crate) fn frames_due(start: Start, period_ns: u64) -> u64 {
    // Frame k is due at t0 + k periods; the frames due before a time are the whole periods up to it, rounded up.
    let before = |ns: u64| ns.saturating_sub(start.t0_ns).div_ceil(period_ns);
    before(start.measure_to_ns) - before(start.measure_from_ns)
}
