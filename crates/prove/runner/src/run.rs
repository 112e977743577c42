//! One run of a scenario, from the checks of the machine to the results.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use spry_scenario::model::{Action, Class, Scenario, ScenarioTask};
use spry_scenario::outcome::{MeasuredTime, Outcome};
use spry_scenario::program::{ObjectKind, Step};
use spry_scratch::Scratch;
use spry_sys::{Signal, clock, futex, process, signal};

use crate::children::{Children, Member, Plan};
use crate::control::{ABORT, Channel, Control, GO};
use crate::work::Work;
use crate::{ground, groups, stage, x11};

/// The reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine does not meet the scenario's demands. The text describes what the user can do.
    #[error("{0}")]
    Machine(String),
    /// The run failed for another reason, which the text describes.
    #[error("{0}")]
    Failed(String),
    /// The run was given up because another task failed.
    #[error("the run was given up")]
    GivenUp,
    /// A signal stopped the run.
    #[error("interrupted")]
    Interrupted,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all pseudo-random numbers.
    pub seed: u64,
    /// How CPU time is turned into work; `None`: the runner calibrates it.
    pub work: Option<Work>,
    /// The class of the tasks for which the scenario names no class.
    pub class: Option<Class>,
    /// The directory in which the run makes its own directory for files; `None`: the system's directory for
    /// temporary files.
    pub scratch: Option<PathBuf>,
}

/// Whether SIGINT (Ctrl-C), SIGTERM or SIGHUP has come. There is no value before the first run.
static INTERRUPTED: OnceLock<&AtomicBool> = OnceLock::new();

/// Whether a signal has requested that the runner stops.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|came| came.load(Ordering::SeqCst))
}

/// Plays a scenario. The calling process must have one thread only, because the tasks are forked from it.
/// This handles SIGINT, SIGTERM and SIGHUP, and may change the CPUs and the class of the calling thread. It
/// ends every process and removes every file that it made before it returns.
///
/// # Errors
/// If the machine does not meet the scenario's demands, if a task failed, or if a signal stopped the run.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Outcome, RunError> {
    if let Some(came) = INTERRUPTED.get() {
        came.store(false, Ordering::SeqCst);
    }
    let came = signal::note_and_end_waits(&[Signal::INT, Signal::TERM, Signal::HUP]);
    INTERRUPTED.get_or_init(|| came);
    ground::check_programs(&scenario.programs())?;
    ground::take_cpus(scenario)?;
    process::adopt_orphans();
    let _quantum = ground::set_rr_quantum(scenario.machine.rr_quantum_us)?;
    let groups = groups::Groups::make(scenario)?;
    let scratch = Scratch::make(options.scratch.as_deref())
        .map_err(|error| RunError::Failed(format!("cannot make a temporary directory: {error}")))?;
    let display = start_display(scenario, options.class)?;
    let work = options.work.unwrap_or_else(Work::calibrate);
    let control = Control::new(open_channels(scenario)?)?;
    let display_name = display.as_deref().map(|server| server.name().to_owned());
    let keyboard = display.as_deref().and_then(DisplayServer::keyboard).map(own).transpose()?;
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
            keyboard: keyboard.clone(),
        })?;
    }
    rise_above(scenario, options)?;
    let threads = plans.iter().map(|plan| plan.threads(scenario)).sum();
    children.until_ready(threads)?;
    let measured = play(scenario, control, &mut children)?;
    let results = children.collect()?;
    Ok(Outcome::gathered(scenario, options.seed, work.to_json(), measured, results))
}

/// Begins the run and waits for its end. Returns the measured time.
fn play(
    scenario: &Scenario,
    control: &'static Control,
    children: &mut Children,
) -> Result<MeasuredTime, RunError> {
    // The run begins 50 ms after the threads are woken, so that all threads can sleep again until then.
    let t0_ns = clock::monotonic_ns() + 50_000_000;
    let end_ns = t0_ns.saturating_add(scenario.warmup_ns).saturating_add(scenario.duration_ns);
    control.t0_ns.store(t0_ns, Ordering::SeqCst);
    control.end_ns.store(end_ns, Ordering::SeqCst);
    control.go.store(GO, Ordering::SeqCst);
    futex::wake_all(control.go);
    // A task that ends by itself writes its results before the run's end. If all tasks end by themselves, the
    // run ends with the last task.
    while clock::monotonic_ns() < end_ns && !was_interrupted() && !children.read_results(until(end_ns))? {}
    control.stop.store(1, Ordering::SeqCst);
    if was_interrupted() {
        return Err(RunError::Interrupted);
    }
    let from_ns = t0_ns.saturating_add(scenario.warmup_ns);
    let to_ns = clock::monotonic_ns().clamp(from_ns, end_ns);
    // A trace of the run uses the kernel's clock, so the times are converted to it.
    Ok(MeasuredTime { from_ns: clock::to_kernel_ns(from_ns), to_ns: clock::to_kernel_ns(to_ns) })
}

fn until(end_ns: u64) -> Duration {
    let left_ms = end_ns.saturating_sub(clock::monotonic_ns()) / 1_000_000;
    Duration::from_millis(left_ms.min(3_600_000) + 1)
}

/// An X server that was started for a run. When this value is dropped, the server ends.
pub trait DisplayServer {
    /// The name of the server's display, for example ":7".
    fn name(&self) -> &str;
    /// The kernel's keyboard that the server reads; `None` if it reads none. Keys are written to it (see
    /// [`crate::x11::uinput::strike`]).
    fn keyboard(&self) -> Option<BorrowedFd<'_>>;
}

/// A descriptor for the tasks, of a keyboard that a server has open.
fn own(keyboard: BorrowedFd<'_>) -> Result<Arc<OwnedFd>, RunError> {
    let keyboard = keyboard.try_clone_to_owned();
    keyboard.map(Arc::new).map_err(|error| RunError::Failed(format!("no keyboard for tasks: {error}")))
}

/// Starts the X server that a scenario needs. The server has the class of the tasks that name no class.
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

/// The plans of a scenario's processes: one process for each instance of a task, or one process for all tasks
/// that name the same process.
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
pub(crate) fn threads_of(task: &ScenarioTask) -> u32 {
    match &task.action {
        Action::Steps(_) => 1,
        Action::Kind(kind) => kind.threads(),
    }
}

/// Gives the runner a class above the classes of its tasks if these are real-time classes: the runner must
/// get the CPU at the end of the run.
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

/// Makes the pipes and sockets of a scenario before any process is forked, so that all processes inherit
/// them. Returns the channel of each object; `None` if the object has no channel.
fn open_channels(scenario: &Scenario) -> Result<Vec<Option<Channel>>, RunError> {
    let open = |kind| match kind {
        ObjectKind::Pipe => spry_sys::pipe().map(|(from, to)| Some(Channel { from, to })),
        ObjectKind::Socket => {
            UnixStream::pair().map(|(from, to)| Some(Channel { from: from.into(), to: to.into() }))
        }
        _ => Ok(None),
    };
    let objects = scenario.objects.iter().map(|object| {
        open(object.kind)
            .map_err(|error| RunError::Failed(format!("{} \"{}\": {error}", object.kind, object.name)))
    });
    objects.collect()
}

/// Gives up the run before it begins: no task starts.
pub(crate) fn give_up(control: &Control) {
    control.stop.store(1, Ordering::SeqCst);
    control.go.store(ABORT, Ordering::SeqCst);
    futex::wake_all(control.go);
}
