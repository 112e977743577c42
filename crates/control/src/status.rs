//! How the daemon is, and who is in use. What is not known is null, never 0.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What acts: `scx`, `fair`, or `none`.
    pub actuator: String,
    /// Since the daemon started, s.
    pub uptime_s: f64,
    /// The latest round, from reading the maps to the last write, ns; null before the first.
    pub policy_ns_last: Option<u64>,
    /// Who is in use, by level; then who was moved by hand; then who else takes CPU time, most first.
    pub tasks: Vec<Task>,
    /// Dependencies between processes that were not counted because there were too many of either.
    pub lost_edges: u64,
    /// The daemon's own process.
    pub tgid: u32,
    /// Its version.
    pub version: String,
    /// Whose rules it follows.
    pub policy: PolicyName,
    /// What it may do and does.
    pub acting: Acting,
    /// Rounds so far.
    pub rounds: Rounds,
    /// Who depends on whom, in figures; null where that cannot be seen.
    pub graph: Option<GraphSize>,
    /// Displays, terminals and other devices.
    pub devices: Vec<Device>,
    /// CPU time of the daemon over its uptime, in CPUs.
    pub daemon_cpu_share: f64,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Whose rules the policy follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyName {
    /// The thesis', with named departures.
    Default,
    /// The thesis' literally.
    Thesis,
}

/// Whether the daemon acts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Acting {
    /// What it does.
    pub state: State,
    /// Since when, s ago.
    pub since_s: f64,
    /// How often the kernel has taken the scheduler out.
    pub ejections: u64,
    /// The latest of these.
    pub ejected: Option<Ejection>,
    /// When it tries again, s from now.
    pub retry_in_s: Option<f64>,
}

/// What the daemon does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Tasks are scheduled by what it finds.
    Acting,
    /// It only looks.
    Observing,
    /// The kernel took the scheduler out: tasks are with the kernel's own.
    Ejected,
}

/// That the kernel took the scheduler out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ejection {
    /// When, s ago.
    pub ago_s: f64,
    /// In the kernel's words.
    pub reason: String,
}

/// Rounds so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rounds {
    /// At the end of a second.
    pub regular: u64,
    /// Early ones, for somebody new.
    pub early: u64,
    /// Seconds without a round, the daemon having been stopped or without a CPU.
    pub missed: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// Who depends on whom, in figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GraphSize {
    /// Processes with edges.
    pub processes: u64,
    /// Edges that gave way to others, a process having too many.
    pub recycled: u64,
}

/// Something that people see or touch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// `:0`, `/dev/pts/3`.
    pub name: String,
    /// `x11`, `terminal`, `report`.
    pub kind: String,
    /// `connected` and the like, with the reason where it is not.
    pub state: String,
    /// The process behind it.
    pub tgid: Option<u32>,
}

/// A process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its number.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// Where it is scheduled, or would be if the daemon acted.
    pub class: TaskClass,
    /// Among those in use; 0 is the display server's, the lowest is served first.
    pub level: Option<u8>,
    /// From the device, in half edges.
    pub distance: Option<u16>,
    /// What was taken off the distance, in half edges.
    pub shortcut: Option<u16>,
    /// Input events a second; null if nothing tells, or if it is not the caller's to know.
    pub input_per_s: Option<f64>,
    /// Screens drawn a second; null likewise.
    pub output_per_s: Option<f64>,
    /// CPU time of each of its threads in an epoch, ms.
    pub quantum_ms: Option<f64>,
    /// CPU time over time lately, in CPUs; null until it has been measured.
    pub cpu_share: Option<f64>,
    /// Rounds of drawing a second.
    pub frames_per_s: Option<f64>,
    /// From becoming runnable to running, on average lately, us.
    pub dispatch_us: Option<f64>,
    /// Whether it was put into its class by hand.
    pub by_hand: bool,
    /// The way from the device to it, both included; empty for who is not in use.
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
    /// In use.
    Interactive,
    /// Everything else, by fair shares.
    Other,
    /// Only what nobody else wants.
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
    /// The process; null for the device itself.
    pub tgid: Option<u32>,
    /// The process' name, or the device's.
    pub name: String,
    /// Its level.
    pub level: Option<u8>,
    /// How often the step before waited for this one lately, halved each second; null where a device tells instead.
    pub weight: Option<u32>,
    /// Input events a second that this one receives itself.
    pub input_per_s: Option<f64>,
    /// Screens a second that this one draws itself.
    pub output_per_s: Option<f64>,
}
