//! Plays a scenario with real processes and threads, and says what was measured.

pub(crate) mod alarm;
pub(crate) mod children;
pub(crate) mod control;
mod ground;
mod groups;
mod memory;
pub mod rng;
pub mod scratch;
pub mod stage;
pub(crate) mod steps;
mod sync;
pub(crate) mod sys;
pub mod work;

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::metrics::Metrics;
use crate::scenario::model::{Action, Class, Scenario, Task};
use crate::scenario::program::Step;
use crate::x11;
use children::{Children, Member, Plan};
use control::{ABORT, Control, GO};
use scratch::Scratch;
use work::Work;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine is not what the scenario asks for; what to do is said.
    #[error("{0}")]
    Machine(String),
    /// Something went wrong.
    #[error("{0}")]
    Failed(String),
    /// The run was given up because of another task's failure.
    #[error("the run was given up")]
    GivenUp,
    /// Somebody stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// How a run is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds everything that happens by chance.
    pub seed: u64,
    /// How CPU time becomes work; `None`: it is calibrated.
    pub work: Option<Work>,
    /// The class of tasks that name none.
    pub class: Option<Class>,
    /// Where the run's own directory for files is made; `None`: where temporary files are.
    pub scratch: Option<PathBuf>,
}

/// What a run measured.
#[derive(Debug)]
pub struct Outcome {
    scenario: String,
    seed: u64,
    vary: Value,
    work: Work,
    measured: Measured,
    tasks: Vec<(String, u32, Metrics)>,
    notes: Vec<String>,
}

/// When was measured, ns of `CLOCK_MONOTONIC`, which is also a trace's clock.
#[derive(Clone, Copy, Debug)]
struct Measured {
    from_ns: u64,
    to_ns: u64,
}

impl Outcome {
    /// The run as one JSON object: scenario, seed, vary, work, measured, metrics, tasks, notes.
    pub fn to_json(&self) -> Value {
        let metrics: Vec<(String, Metrics)> =
            self.tasks.iter().map(|(name, _, metrics)| (name.clone(), metrics.clone())).collect();
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|(name, count, metrics)| json!({ "name": name, "count": count, "cpu_ns": metrics.cpu_ns() }))
            .collect();
        let work = match self.work {
            Work::Instructions { shift } => json!({ "counted": "instructions", "shift": shift }),
            Work::Calibrated { unit_ns } => json!({ "counted": "calibrated", "unit_ns": unit_ns }),
        };
        json!({
            "scenario": self.scenario,
            "seed": self.seed,
            "vary": self.vary,
            "work": work,
            "measured": { "from_ns": self.measured.from_ns, "to_ns": self.measured.to_ns },
            "metrics": Metrics::merge(&metrics),
            "tasks": tasks,
            "notes": self.notes,
        })
    }
}

/// Set by Ctrl-C and SIGTERM.
static INTERRUPTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn interrupted(_: i32) {
    INTERRUPTED.store(1, Ordering::SeqCst);
}

/// Whether somebody asked the runner to stop.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst) != 0
}

/// Plays a scenario. The calling process must have one thread: its tasks are forked from it. It takes SIGINT and SIGTERM
/// over, and the calling thread's CPUs and class; every process and file that it made is gone when it returns.
///
/// # Errors
/// That the machine is not what the scenario asks for, that a task failed, or that somebody stopped it.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Outcome, RunError> {
    INTERRUPTED.store(0, Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        sys::on_signal(signal, interrupted);
    }
    ground::check_programs(&scenario.programs())?;
    ground::take_cpus(scenario)?;
    sys::adopt_orphans();
    let _quantum = ground::set_rr_quantum(scenario.machine.rr_quantum_ms)?;
    let groups = groups::Groups::make(scenario)?;
    let scratch = Scratch::make(options.scratch.as_deref())
        .map_err(|error| RunError::Failed(format!("cannot make a temporary directory: {error}")))?;
    let display = start_display(scenario, options.class)?;
    let work = options.work.unwrap_or_else(Work::calibrate);
    let control = Control::new(scenario.objects.len())?;
    open_objects(scenario, control)?;
    let display_name = display.as_deref().map(|server| server.name().to_owned());
    let plans = plans(scenario, options);
    let mut children = Children::new(control);
    for plan in &plans {
        children.start(scenario, plan, &|member| stage::Inner {
            control,
            work,
            seed: options.seed,
            task: scenario.tasks[member.task].name.clone(),
            instance: member.instance,
            class: scenario.tasks[member.task].class.or(options.class),
            groups: groups.base.clone(),
            group: scenario.tasks[member.task].group.clone(),
            affinity: scenario.tasks[member.task].affinity.clone(),
            start_ns: scenario.tasks[member.task].start_ns,
            warmup_ns: scenario.warmup_ns,
            duration_ns: scenario.duration_ns,
            scratch: scratch.path().to_owned(),
            display: display_name.clone(),
            keyboard: display.as_deref().and_then(DisplayServer::keyboard),
        })?;
    }
    rise_above(scenario, options)?;
    let threads = plans.iter().map(|plan| plan.threads(scenario)).sum();
    children.until_ready(threads)?;
    let measured = play(scenario, control, &mut children)?;
    let results = children.collect()?;
    Ok(gathered(scenario, options, (work, measured), results))
}

/// Begins the run and waits for its end; when was measured.
fn play(
    scenario: &Scenario,
    control: &'static Control,
    children: &mut Children,
) -> Result<Measured, RunError> {
    // So that everybody is back in bed before the run begins.
    let t0_ns = sys::now_ns() + 50_000_000;
    let end_ns = t0_ns.saturating_add(scenario.warmup_ns).saturating_add(scenario.duration_ns);
    control.t0_ns.store(t0_ns, Ordering::SeqCst);
    control.end_ns.store(end_ns, Ordering::SeqCst);
    control.go.store(GO, Ordering::SeqCst);
    sys::futex_wake(&control.go, i32::MAX);
    // Tasks that end by themselves write their results; a run of such tasks alone ends with the last.
    while sys::now_ns() < end_ns && !was_interrupted() && !children.read_results(until(end_ns))? {}
    control.stop.store(1, Ordering::SeqCst);
    if was_interrupted() {
        return Err(RunError::Interrupted);
    }
    let from_ns = t0_ns.saturating_add(scenario.warmup_ns);
    Ok(Measured { from_ns, to_ns: sys::now_ns().clamp(from_ns, end_ns) })
}

fn until(end_ns: u64) -> Duration {
    Duration::from_nanos(end_ns.saturating_sub(sys::now_ns())).min(Duration::from_secs(3600))
        + Duration::from_millis(1)
}

/// An X server that was started for a run; dropping it ends it.
pub trait DisplayServer {
    /// The display's name, ":7".
    fn name(&self) -> &str;
    /// The keyboard of the kernel that it reads, to write keys to (see [`x11::uinput::strike`]), if it reads one.
    fn keyboard(&self) -> Option<RawFd>;
}

/// Starts the X server that a scenario wishes for; it has the class of the tasks that name none.
fn start_display(
    scenario: &Scenario,
    class: Option<Class>,
) -> Result<Option<Box<dyn DisplayServer>>, RunError> {
    let Some(size) = &scenario.machine.display else { return Ok(None) };
    if let Some(class) = class {
        stage::become_class(class).map_err(RunError::Machine)?;
    }
    Ok(Some(Box::new(x11::server::start(scenario.machine.server, size)?)))
}

/// The processes of a scenario: one for each instance of a task, or one for all that name the same process.
fn plans(scenario: &Scenario, options: &Options) -> Vec<Plan> {
    let mut plans: Vec<Plan> = Vec::new();
    for (task, spec) in scenario.tasks.iter().enumerate() {
        for instance in 0..spec.count {
            let member = Member { task, instance };
            let shared = spec.process.as_ref();
            match plans.iter_mut().find(|plan| shared.is_some() && plan.process.as_ref() == shared) {
                Some(plan) => plan.members.push(member),
                None => plans.push(Plan {
                    process: spec.process.clone(),
                    members: vec![member],
                    class: options.class,
                }),
            }
        }
    }
    plans
}

/// How many threads of an instance of a task come to the start line.
pub(crate) fn threads_of(task: &Task) -> u32 {
    match &task.action {
        Action::Steps(_) => 1,
        Action::Kind { role, .. } => role.threads(),
    }
}

/// The runner must get the CPU when the run ends, whatever its tasks do.
fn rise_above(scenario: &Scenario, options: &Options) -> Result<(), RunError> {
    let mut classes: Vec<Class> = Vec::new();
    for task in scenario.tasks.iter().filter(|task| task.count > 0) {
        classes.extend(task.class.or(options.class));
        if let Action::Steps(program) = &task.action {
            program.visit(&mut |step| {
                if let Step::Become { class: Some(class), .. } = step {
                    classes.push(*class);
                }
            });
        }
    }
    let highest = classes.iter().filter_map(|class| match class {
        Class::Fifo(priority) | Class::RoundRobin(priority) => Some(*priority),
        Class::Deadline { .. } => Some(98),
        _ => None,
    });
    match highest.max() {
        Some(priority) => stage::become_class(Class::Fifo((priority + 1).min(99))).map_err(RunError::Machine),
        None => Ok(()),
    }
}

/// Makes the pipes and sockets of a scenario, before anybody is forked.
fn open_objects(scenario: &Scenario, control: &'static Control) -> Result<(), RunError> {
    use crate::scenario::program::ObjectKind;
    for (at, object) in scenario.objects.iter().enumerate() {
        let channel = match object.kind {
            ObjectKind::Pipe => sys::Channel::Pipe,
            ObjectKind::Socket => sys::Channel::Socket,
            _ => continue,
        };
        let ends = sys::channel(channel)
            .map_err(|error| RunError::Failed(format!("{} \"{}\": {error}", object.kind, object.name)))?;
        for (slot, end) in control.shared(at).ends.iter().zip(ends) {
            slot.store(end, Ordering::SeqCst);
        }
    }
    Ok(())
}

fn gathered(
    scenario: &Scenario,
    options: &Options,
    (work, measured): (Work, Measured),
    results: Vec<(usize, Metrics)>,
) -> Outcome {
    let mut tasks: Vec<(String, u32, Metrics)> =
        scenario.tasks.iter().map(|task| (task.name.clone(), task.count, Metrics::new())).collect();
    for (task, metrics) in results {
        tasks[task].2.join(metrics);
    }
    let mut notes = scenario.notes.clone();
    for (_, _, metrics) in &tasks {
        for note in metrics.notes() {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    let vary = scenario.variables.iter().map(|v| (v.name.clone(), vary_value(&v.value))).collect();
    Outcome {
        scenario: scenario.name.clone(),
        seed: options.seed,
        vary: Value::Object(vary),
        work,
        measured,
        tasks,
        notes,
    }
}

/// A variable's value as JSON: a number where it is one.
fn vary_value(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => json!(whole),
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

/// Gives the run up: nobody starts.
pub(crate) fn give_up(control: &Control) {
    control.stop.store(1, Ordering::SeqCst);
    control.go.store(ABORT, Ordering::SeqCst);
    sys::futex_wake(&control.go, i32::MAX);
}
