//! The model of a scenario, once its variables have their values.

use crate::kinds::Kind;
use crate::program::{Object, Program};

/// A scenario: the tasks, the machine, the duration and the metrics.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The scenario's name. It is the file's name if the file gives no other.
    pub name: String,
    /// The purpose of the scenario, in one line.
    pub about: String,
    /// How long the tasks run before the measured time begins, ns.
    pub warmup_ns: u64,
    /// The length of the measured time, ns.
    pub duration_ns: u64,
    /// The metrics to show first, by name.
    pub measure: Vec<String>,
    /// The variables that can be set from outside, in the order of the file.
    pub variables: Vec<Variable>,
    /// The scenario's demands on the machine.
    pub machine: MachineWish,
    /// The tasks that run.
    pub tasks: Vec<ScenarioTask>,
    /// The objects that tasks wait on or share. The tasks' steps name them by their indices.
    pub objects: Vec<Object>,
    /// Parts of the file that were understood but have no effect here (options of an imported file).
    pub notes: Vec<String>,
    /// The name of the scenario's file, as it was given.
    pub file: String,
    /// The text of the file from which the scenario was read.
    pub text: String,
}

/// A value in a scenario that can be set from outside.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The variable's name, without the `$`.
    pub name: String,
    /// The variable's value if no other is set.
    pub default: String,
    /// The variable's present value.
    pub value: String,
    /// The values that the variable can have.
    pub allowed: AllowedValues,
    /// The effect of the variable, in a few words; may be empty.
    pub about: String,
}

/// The values that a variable can have.
#[derive(Clone, Debug, PartialEq)]
pub enum AllowedValues {
    /// The variable can have any text.
    Text,
    /// A number between `min` and `max`. It must be whole if the default is whole.
    Number {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
        /// Whether the number must be whole.
        whole: bool,
    },
    /// One of these words.
    OneOf(Vec<String>),
}

/// The demands of a scenario on the machine. A machine that cannot meet them reports an error.
#[derive(Clone, Debug, Default)]
pub struct MachineWish {
    /// How many CPUs the scenario gets; `None`: all CPUs of the machine.
    pub cpus: Option<u32>,
    /// Laboratory: how the CPUs are arranged in sockets, dies, cores and threads.
    pub topology: TopologyWish,
    /// The size of the screen of the X server that is started for the scenario, as "1024x768";
    /// `None`: no server.
    pub display: Option<String>,
    /// The X server that is started.
    pub server: XServer,
    /// Programs that must be on `PATH`, besides the programs that its tasks name.
    pub programs: Vec<String>,
    /// Debian packages that the laboratory's image must hold.
    pub packages: Vec<String>,
    /// Laboratory: an instruction takes 2 to the power of this number, in nanoseconds.
    pub shift: Option<u32>,
    /// Laboratory: which kernel the machine boots, and how it is configured.
    pub kernel: KernelWish,
    /// The quantum of the round-robin class, us, from 50 to 10 s (`kernel.sched_rr_timeslice_ms`). A quantum
    /// that is not a whole number of milliseconds needs a kernel with `kernel.sched_rr_timeslice_us`, which
    /// the lab builds. The old value is restored after the run.
    pub rr_quantum_us: Option<u32>,
    /// Laboratory: the scratch directory is an ext4 file system on a RAM disk of this many MiB.
    pub ram_disk_mb: Option<u32>,
}

/// How a laboratory's CPUs are arranged. The number of cores of a die follows from the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyWish {
    /// How many packages (sockets) the machine has.
    pub sockets: u32,
    /// How many dies each socket has.
    pub dies: u32,
    /// How many hardware threads each core has.
    pub threads: u32,
    /// Which cores share a last-level cache.
    pub cache: CacheWish,
    /// The size of each core's first-level data cache, bytes, as the guest sees it.
    pub l1d: Option<u64>,
    /// The size of each core's second-level cache, bytes, as the guest sees it.
    pub l2: Option<u64>,
    /// The size of each last-level cache, bytes, as the guest sees it.
    pub l3: Option<u64>,
}

impl Default for TopologyWish {
    fn default() -> Self {
        Self { sockets: 1, dies: 1, threads: 1, cache: CacheWish::Die, l1d: None, l2: None, l3: None }
    }
}

/// Which cores share one last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWish {
    /// All cores of a die share one cache.
    Die,
    /// Each core has a cache of its own.
    Core,
}

/// The X server, which has no real screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XServer {
    /// Xvfb. X clients press keys by requests to the server (XTEST).
    #[default]
    Xvfb,
    /// Xorg. Keys come from an input device that the runner makes in the kernel (uinput), and go through the
    /// kernel's input layer and the server's driver (evdev).
    Xorg,
}

impl XServer {
    /// The Debian packages that hold the server and its drivers.
    #[must_use]
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Xvfb => &["xvfb"],
            Self::Xorg => &["xserver-xorg-core", "xserver-xorg-video-dummy", "xserver-xorg-input-evdev"],
        }
    }

    /// The kernel modules that the server needs.
    #[must_use]
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Xvfb => &[],
            Self::Xorg => &["uinput", "evdev"],
        }
    }
}

/// The kernel that a laboratory boots, and its configuration.
#[derive(Clone, Debug, Default)]
pub struct KernelWish {
    /// The rate of the kernel's clock tick, Hz.
    pub hz: Option<u32>,
    /// The flavour of the distribution's kernel package ("cloud", "amd64", "rt").
    pub flavour: Option<String>,
    /// Further boot parameters for the kernel.
    pub cmdline: Option<String>,
    /// The kernel's preemption model ("none", "voluntary", "full", "lazy").
    pub preempt: Option<String>,
}

/// A task of the scenario. All its instances do the same.
#[derive(Clone, Debug)]
pub struct ScenarioTask {
    /// The task's name. The kernel shows its processes by this name.
    pub name: String,
    /// How many instances of the task run; 0 is allowed.
    pub count: u32,
    /// The task's class; `None`: the scenario names none, so the class is that of the run's option `--class`,
    /// or else `other`.
    pub class: Option<Class>,
    /// The CPUs on which the task may run; empty: all CPUs of the scenario.
    pub affinity: Vec<u32>,
    /// The task group of the task's threads, below the control group of the runner.
    pub group: Option<String>,
    /// How long after the other tasks this task starts, ns.
    pub start_ns: u64,
    /// The name of the process that the task shares with the tasks that name the same process; `None`: each
    /// of its instances has a process of its own.
    pub process: Option<String>,
    /// What the task does.
    pub action: Action,
}

/// What a task does.
#[derive(Clone, Debug)]
pub enum Action {
    /// The task does steps, one after the other.
    Steps(Program),
    /// The task is of a ready-made kind.
    Kind(Kind),
}

/// A scheduling class with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_OTHER`. A slice of 0 ns leaves the length of the slice to the scheduler.
    Other {
        /// The nice value, from -20 (gets the most CPU time) to 19.
        nice: i32,
        /// The length of the slice that the task requests, ns.
        slice_ns: u64,
    },
    /// `SCHED_BATCH`, with a nice value.
    Batch {
        /// The nice value, from -20 to 19.
        nice: i32,
    },
    /// `SCHED_IDLE`, without parameters.
    Idle,
    /// `SCHED_FIFO`, priority 1 to 99.
    Fifo(u32),
    /// `SCHED_RR`, priority 1 to 99.
    RoundRobin(u32),
    /// `SCHED_DEADLINE`: a budget in every period, by a deadline.
    Deadline {
        /// The CPU time of each period, ns.
        budget_ns: u64,
        /// The time from the beginning of the period to the deadline, ns.
        deadline_ns: u64,
        /// The period, ns.
        period_ns: u64,
    },
}

/// A duration that stands for "until all tasks end", ns: ten years.
pub(crate) const FOREVER_NS: u64 = 315_360_000_000_000_000;

/// The summary of a scenario that `spry-runner check` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary(Vec<String>);

impl Summary {
    /// The lines of the summary.
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

impl Scenario {
    /// Makes a summary for people: the tasks, the duration, and the variables that can be set.
    pub fn check(&self) -> Summary {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut lines = vec![format!(
            "{}: {} after {} s of warm-up, {}",
            self.name,
            if self.duration_ns >= FOREVER_NS {
                "until all tasks end,".to_owned()
            } else {
                format!("{} s", seconds(self.duration_ns))
            },
            seconds(self.warmup_ns),
            self.machine.cpus.map_or("all CPUs".into(), |cpus| counted(cpus, "CPU"))
        )];
        if !self.about.is_empty() {
            lines.push(format!("  {}", self.about));
        }
        for task in &self.tasks {
            let what = match &task.action {
                Action::Steps(program) => format!("{} steps", program.len()),
                Action::Kind(kind) => format!("kind {}", kind.name()),
            };
            let class = task.class.map_or(String::new(), |class| format!(", {class}"));
            lines.push(format!("  task {}: {} x {what}{class}", task.name, task.count));
        }
        for variable in &self.variables {
            let about =
                if variable.about.is_empty() { String::new() } else { format!(" ({})", variable.about) };
            lines.push(format!(
                "  variable {} = {}: {}{about}",
                variable.name, variable.value, variable.allowed
            ));
        }
        lines.extend(self.notes.iter().map(|note| format!("  note: {note}")));
        Summary(lines)
    }

    /// The programs that the scenario needs on `PATH`, for its machine and for its tasks. Each occurs once,
    /// and they are sorted by name.
    pub fn programs(&self) -> Vec<String> {
        let mut programs = self.machine.programs.clone();
        for task in self.tasks.iter().filter(|task| task.count > 0) {
            match &task.action {
                Action::Steps(program) => programs.extend(program.programs()),
                Action::Kind(kind) => programs.extend(kind.programs()),
            }
        }
        programs.sort();
        programs.dedup();
        programs
    }

    /// The generated files on which the scenario's tasks work ([`crate::kinds::x11::FILES`]),
    /// each once, sorted.
    pub fn files(&self) -> Vec<String> {
        self.of_kinds(Kind::files)
    }

    /// The source packages of the distribution that the scenario's tasks compile, each once, sorted.
    pub fn sources(&self) -> Vec<String> {
        self.of_kinds(Kind::sources)
    }

    /// The names that the ready-made kinds of the scenario's tasks give, each once, sorted.
    fn of_kinds(&self, names: fn(&Kind) -> Vec<String>) -> Vec<String> {
        let mut all = Vec::new();
        for task in self.tasks.iter().filter(|task| task.count > 0) {
            if let Action::Kind(kind) = &task.action {
                all.extend(names(kind));
            }
        }
        all.sort();
        all.dedup();
        all
    }
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl std::fmt::Display for Class {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other { nice, .. } => write!(out, "class other nice {nice}"),
            Self::Batch { nice } => write!(out, "class batch nice {nice}"),
            Self::Idle => write!(out, "class idle"),
            Self::Fifo(priority) => write!(out, "class fifo priority {priority}"),
            Self::RoundRobin(priority) => write!(out, "class rr priority {priority}"),
            Self::Deadline { budget_ns, period_ns, .. } => {
                write!(out, "class deadline {} us in {} us", budget_ns / 1000, period_ns / 1000)
            }
        }
    }
}

impl std::fmt::Display for AllowedValues {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text => write!(out, "any text"),
            Self::OneOf(words) => write!(out, "one of {}", words.join(", ")),
            Self::Number { min, max, whole } => {
                let what = if *whole { "a whole number" } else { "a number" };
                match (min.is_finite(), max.is_finite()) {
                    (true, true) => write!(out, "{what} from {min} to {max}"),
                    (true, false) => write!(out, "{what}, {min} or more"),
                    (false, true) => write!(out, "{what}, {max} or less"),
                    (false, false) => write!(out, "{what}"),
                }
            }
        }
    }
}
