//! What a scenario says, once its variables have their values.

use super::program::{Object, Program};
use crate::kinds::Role;

/// What runs, on which machine, for how long, and what is measured.
#[derive(Debug)]
pub struct Scenario {
    /// Its name, from the file's name if the file gives none.
    pub name: String,
    /// One line on what it is for.
    pub about: String,
    /// How long the tasks run before anything is measured, ns.
    pub warmup_ns: u64,
    /// How long is measured, ns.
    pub duration_ns: u64,
    /// The metrics to show first, by name.
    pub measure: Vec<String>,
    /// What can be set from outside, in the file's order.
    pub variables: Vec<Variable>,
    /// What the machine has to be like.
    pub machine: Machine,
    /// What runs.
    pub tasks: Vec<Task>,
    /// What tasks wait on and share, by index in their steps.
    pub objects: Vec<Object>,
    /// What was understood but does nothing here (options of an imported file).
    pub notes: Vec<String>,
    /// The file's name as it was given.
    pub file: String,
    /// The text that it was read from.
    pub text: String,
}

/// Something in a scenario that can be set from outside.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name, without the `$`.
    pub name: String,
    /// Its value where nothing else is said.
    pub default: String,
    /// Its value now.
    pub value: String,
    /// The values it can have.
    pub allowed: Allowed,
    /// What it does, in a few words; may be empty.
    pub about: String,
}

/// The values that a variable can have.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowed {
    /// Any text.
    Text,
    /// A number within these bounds; whole if the default is whole.
    Number {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
        /// Whether it must be whole.
        whole: bool,
    },
    /// One of these words.
    OneOf(Vec<String>),
}

/// Wishes for the machine; one that cannot grant a wish says so.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// How many CPUs the scenario gets; `None`: all there are.
    pub cpus: Option<u32>,
    /// Laboratory: how they hang together.
    pub topology: TopologyWish,
    /// The size of the screen of an X server that is started for it, as "1024x768".
    pub display: Option<String>,
    /// Which X server.
    pub server: XServer,
    /// Programs that must be on `PATH`, besides those that its tasks name.
    pub programs: Vec<String>,
    /// Debian packages that a laboratory's image must hold.
    pub packages: Vec<String>,
    /// Laboratory: an instruction takes 2 to the power of this nanoseconds.
    pub shift: Option<u32>,
    /// Laboratory: which kernel, booted how.
    pub kernel: KernelWish,
    /// The quantum of the round-robin class, ms (`kernel.sched_rr_timeslice_ms`); put back at the end.
    pub rr_quantum_ms: Option<u32>,
    /// Laboratory: the scratch directory is an ext4 file system on a RAM disk of this many MiB.
    pub ram_disk_mb: Option<u32>,
}

/// How a laboratory's CPUs hang together; how many cores a die has follows from the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyWish {
    /// Packages.
    pub sockets: u32,
    /// Dies of a socket.
    pub dies: u32,
    /// Hardware threads of a core.
    pub threads: u32,
    /// What shares a last-level cache.
    pub cache: CacheWish,
    /// How large its guest is told that each core's first-level cache of data is, bytes.
    pub l1d: Option<u64>,
    /// The same of the second level.
    pub l2: Option<u64>,
    /// The same of the last level.
    pub l3: Option<u64>,
}

impl Default for TopologyWish {
    fn default() -> Self {
        Self { sockets: 1, dies: 1, threads: 1, cache: CacheWish::Die, l1d: None, l2: None, l3: None }
    }
}

/// What of a machine shares one last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWish {
    /// All cores of a die.
    Die,
    /// Each core has its own.
    Core,
}

/// An X server that has no screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XServer {
    /// Keys are pressed by requests of X clients (XTEST).
    #[default]
    Xvfb,
    /// Keys come from a device of the kernel (uinput), through its input layer and the server's driver (evdev).
    Xorg,
}

impl XServer {
    /// The Debian packages that hold it and what it loads.
    #[must_use]
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Xvfb => &["xvfb"],
            Self::Xorg => &["xserver-xorg-core", "xserver-xorg-video-dummy", "xserver-xorg-input-evdev"],
        }
    }

    /// The kernel's modules that it needs.
    #[must_use]
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Xvfb => &[],
            Self::Xorg => &["uinput", "evdev"],
        }
    }
}

/// Which kernel a laboratory boots, and how.
#[derive(Clone, Debug, Default)]
pub struct KernelWish {
    /// Rate of its clock tick, Hz.
    pub hz: Option<u32>,
    /// Flavour of the distribution's package ("cloud", "amd64", "rt").
    pub flavour: Option<String>,
    /// Further boot parameters.
    pub cmdline: Option<String>,
    /// Preemption ("none", "voluntary", "full", "lazy").
    pub preempt: Option<String>,
}

/// One task: so many processes that do the same.
#[derive(Debug)]
pub struct Task {
    /// Its name, which its processes bear.
    pub name: String,
    /// How many of it run; 0 is allowed.
    pub count: u32,
    /// Its class; `None`: nothing was said, so `other`, or what the run's own `--class` says.
    pub class: Option<Class>,
    /// The CPUs it may run on; empty: all of the scenario's.
    pub affinity: Vec<u32>,
    /// The task group that its threads are in, below the runner's own.
    pub group: Option<String>,
    /// How long after the others it starts, ns.
    pub start_ns: u64,
    /// Tasks that name the same process share one; `None`: a process for each of its instances.
    pub process: Option<String>,
    /// What it does.
    pub action: Action,
}

/// What a task does.
#[derive(Debug)]
pub enum Action {
    /// Steps, one after the other.
    Steps(Program),
    /// A ready-made kind.
    Kind {
        /// The kind's name.
        name: &'static str,
        /// What plays it.
        role: Box<dyn Role>,
    },
}

/// A scheduling class with what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_OTHER`; a slice of 0 ns is the scheduler's own.
    Other {
        /// -20 (served most) to 19.
        nice: i32,
        /// The length of slice asked for, ns.
        slice_ns: u64,
    },
    /// `SCHED_BATCH`.
    Batch {
        /// -20 to 19.
        nice: i32,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`, priority 1 to 99.
    Fifo(u32),
    /// `SCHED_RR`, priority 1 to 99.
    RoundRobin(u32),
    /// `SCHED_DEADLINE`: a budget in every period, by a deadline.
    Deadline {
        /// CPU time a period, ns.
        budget_ns: u64,
        /// From the period's begin, ns.
        deadline_ns: u64,
        /// ns.
        period_ns: u64,
    },
}

/// A duration that stands for "until all tasks end", ns: ten years.
pub(crate) const FOREVER_NS: u64 = 315_360_000_000_000_000;

/// What `check` says of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary(Vec<String>);

impl Summary {
    /// Its lines.
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
    /// A summary for people: what runs, for how long, what can be varied.
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
                Action::Kind { name, .. } => format!("kind {name}"),
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

    /// Programs that must be on `PATH` for it to run: the machine's and its tasks', each once, sorted.
    pub fn programs(&self) -> Vec<String> {
        let mut programs = self.machine.programs.clone();
        for task in self.tasks.iter().filter(|task| task.count > 0) {
            match &task.action {
                Action::Steps(program) => programs.extend(program.programs()),
                Action::Kind { role, .. } => programs.extend(role.programs()),
            }
        }
        programs.sort();
        programs.dedup();
        programs
    }

    /// Generated files that its tasks work on ([`crate::x11::files`]), each once, sorted.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        for task in self.tasks.iter().filter(|task| task.count > 0) {
            if let Action::Kind { role, .. } = &task.action {
                files.extend(role.files());
            }
        }
        files.sort();
        files.dedup();
        files
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

impl std::fmt::Display for Allowed {
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
