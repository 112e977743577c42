//! The status: the state of the daemon, and the processes in use. An unknown value is null, never 0.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Quanta, Ticks, Tuning};

/// The status. An ordinary user gets only the part about this user's own processes and devices; values that
/// depend on other users' programs are null then.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The users that the status covers: all, or the caller alone.
    #[serde(default)]
    pub scope: Scope,
    /// The actuator in charge: `scx`, `fair`, or `none`.
    pub actuator: String,
    /// How long ago the daemon started, s.
    pub uptime_s: f64,
    /// How long the latest round took, from reading the maps to the last write, ns; null before the first
    /// round, and for ordinary users.
    pub policy_ns_last: Option<u64>,
    /// The tick and the quantum that a user has set; null if neither is set.
    #[serde(default)]
    pub tuning: Option<Tuning>,
    /// The quanta of other classes that a user has set.
    #[serde(default)]
    pub quanta: Quanta,
    /// The cost of the tick that a user has set; null without one, in its first second, and for
    /// ordinary users.
    #[serde(default)]
    pub ticks: Option<Ticks>,
    /// Timer slack by class; null if the daemon changes none, and for ordinary users.
    #[serde(default)]
    pub timer_slack: Option<TimerSlack>,
    /// The longest time for which the scheduler's housekeeping kept a CPU since the scheduler was loaded, ns;
    /// null without a scheduler in the kernel, and for ordinary users.
    #[serde(default)]
    pub housekeeping_ns_longest: Option<u64>,
    /// Processes in use, by level; then processes moved by hand; then other processes that take CPU
    /// time, most first.
    pub tasks: Vec<TaskStatus>,
    /// Dependencies between processes that were not counted because there were too many processes or
    /// dependencies; null for ordinary users.
    pub lost_edges: Option<u64>,
    /// The daemon's own process.
    pub tgid: u32,
    /// The daemon's version.
    pub version: String,
    /// Which rules the policy follows.
    pub policy: PolicyName,
    /// Whether the daemon acts.
    pub acting: ActingStatus,
    /// How many rounds there were so far.
    pub rounds: Rounds,
    /// How large the graph of dependencies between processes is; null if dependencies cannot be seen, and
    /// for ordinary users.
    pub graph: Option<GraphSize>,
    /// Displays, terminals and other devices.
    pub devices: Vec<Device>,
    /// CPU time of the daemon divided by its uptime, in CPUs; null for ordinary users.
    pub daemon_cpu_share: Option<f64>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// Timer slack by class: how late the timers of each class may expire, and the threads to which the
/// daemon has given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimerSlack {
    /// The slack of programs in use, ns.
    pub in_use_ns: u64,
    /// The number of threads in use to which the daemon gave this slack.
    pub in_use_threads: u64,
    /// The slack of users' other programs, ns.
    pub background_ns: u64,
    /// The number of other threads to which the daemon gave this slack.
    pub background_threads: u64,
}

/// The set of users that an answer covers: their processes and devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All users' processes and devices: root has asked.
    #[default]
    All,
    /// The caller's own processes and devices, as if there were no others, at the end of the latest second.
    Own,
}

/// Which rules the policy follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyName {
    /// The rules of the thesis, with named departures.
    Default,
    /// The rules of the thesis, literally.
    Thesis,
}

/// Whether the daemon acts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActingStatus {
    /// The state of the daemon.
    pub state: State,
    /// How long the daemon has done this, s.
    pub since_s: f64,
    /// How often the kernel has ejected the scheduler.
    pub ejections: u64,
    /// The latest ejection of the scheduler.
    pub ejected: Option<Ejection>,
    /// When the daemon tries again to put the scheduler in charge, s from now.
    pub retry_in_s: Option<f64>,
}

/// The state of the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The daemon acts: its policy schedules the tasks.
    Acting,
    /// The daemon only observes; it changes nothing.
    Observing,
    /// The kernel has ejected the scheduler: the kernel's own scheduler runs all tasks.
    Ejected,
}

/// An ejection of the scheduler by the kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ejection {
    /// How long ago this was, s.
    pub ago_s: f64,
    /// The kernel's reason, in the kernel's words, which may name processes; ordinary users get a text that
    /// refers them to root instead.
    pub reason: String,
}

/// How many rounds there were so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rounds {
    /// How many rounds came at the end of a second.
    pub regular: u64,
    /// How many rounds came early, for a process that is new to the user; null for ordinary users.
    pub early: Option<u64>,
    /// How many seconds passed without a round, because the daemon was stopped or had no CPU.
    pub missed: u64,
    /// How long the longest round took, ns; null for ordinary users.
    pub longest_ns: Option<u64>,
}

/// How large the graph of dependencies is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GraphSize {
    /// How many processes have edges.
    pub processes: u64,
    /// How many edges gave way to others because a process had too many.
    pub recycled: u64,
}

/// A device: something that people see or touch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// The device's name: `:0`, `/dev/pts/3`.
    pub name: String,
    /// The device's kind: `x11`, `terminal`, `report`.
    pub kind: String,
    /// The device's state: `connected` and the like; if it is not connected, with the reason.
    pub state: String,
    /// The server process of the device.
    pub tgid: Option<u32>,
}

/// A process that is shown.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The process' number.
    pub tgid: u32,
    /// The process' name.
    pub comm: String,
    /// The class that the process has, or would have if the daemon acted.
    pub class: TaskClass,
    /// The level of a process in use; 0 is the display server's, and the lowest level is served first.
    pub level: Option<u8>,
    /// The distance from the device, in half edges.
    pub distance: Option<u16>,
    /// The credit for input and drawing that was subtracted from the distance, in half edges.
    pub shortcut: Option<u16>,
    /// How many input events a second the process receives; null if no device reports it.
    pub input_per_s: Option<f64>,
    /// How many screens a second the process draws; null if no device reports it.
    pub output_per_s: Option<f64>,
    /// The CPU time that the threads of the process have together in an epoch, ms.
    pub quantum_ms: Option<f64>,
    /// CPU time divided by time, lately, in CPUs; null until it has been measured.
    pub cpu_share: Option<f64>,
    /// How many rounds of drawing the process does in a second.
    pub frames_per_s: Option<f64>,
    /// How long the process' threads took from becoming runnable to running, on average lately, us.
    pub dispatch_us: Option<f64>,
    /// Whether the process was put into its class by hand.
    pub by_hand: bool,
    /// The way from the device to the process, both included; empty for a process that is not in use.
    pub path: Vec<Step>,
}

/// A scheduling class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskClass {
    /// Spry's own daemon.
    Daemon,
    /// Threads of the kernel.
    Kthread,
    /// Processes in use.
    Interactive,
    /// All other tasks, by fair shares.
    Other,
    /// Tasks that get only CPU time that no other task needs.
    Idle,
}

impl fmt::Display for TaskClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TaskClass::Daemon => "daemon",
            TaskClass::Kthread => "kthread",
            TaskClass::Interactive => "interactive",
            TaskClass::Other => "other",
            TaskClass::Idle => "idle",
        })
    }
}

/// A step of the way from a device to a process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The process at this step; null for the device itself.
    pub tgid: Option<u32>,
    /// The process' name, or the device's.
    pub name: String,
    /// The process' level.
    pub level: Option<u8>,
    /// How often the process of the step before waited for this one lately, halved each second; null if a
    /// device reported this process instead.
    pub weight: Option<u32>,
    /// How many input events a second this process receives itself.
    pub input_per_s: Option<f64>,
    /// How many screens a second this process draws itself.
    pub output_per_s: Option<f64>,
}
