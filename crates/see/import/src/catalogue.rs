//! The tracepoints that are read, each with the places of its fields in this file's records.

use rustc_hash::FxHashMap;
use spry_trace::event::{Irq, WakeupKind};
use spry_trace::{Group, Groups, Kind, Kinds};

use crate::format::{Format, Number, Text};
use crate::states::{Numbering, States};

/// A tracepoint that is read.
#[derive(Debug)]
pub(crate) enum Point {
    Switch(Box<SwitchPoint>),
    Waking { tid: Number, comm: Text, target_cpu: Option<Number> },
    Wakeup { kind: WakeupKind, tid: Number, comm: Text, target_cpu: Option<Number> },
    NewTask { tid: Number, comm: Text, clone_flags: Number },
    Fork { parent: Number, child: Number, comm: Text },
    Exec { tid: Number, old_tid: Number },
    Exit { tid: Number },
    Rename { tid: Option<Number>, comm: Text },
    Migrate { tid: Number, from_cpu: Number, to_cpu: Number },
    Runtime { tid: Number, runtime: Number },
    IrqLine { irq: Number, edge: Edge },
    IrqVector { irq: Irq, edge: Edge },
    Softirq { vec: Number, edge: Edge },
    TimerStart { timer: Number, function: Number, expires: Number, soft_expires: Number },
    TimerExpire { timer: Number, now: Number },
    IdleState { state: Number },
    Print { text: Text },
}

#[derive(Debug)]
pub(crate) struct SwitchPoint {
    pub(crate) prev: Number,
    pub(crate) prev_comm: Text,
    pub(crate) prev_prio: Number,
    pub(crate) prev_state: Number,
    pub(crate) next: Number,
    pub(crate) next_comm: Text,
    pub(crate) next_prio: Number,
    pub(crate) states: States,
}

/// Whether an interrupt or a softirq begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    Enter,
    Exit,
}

/// The places of the flags and of the task's number in every record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    pub(crate) flags: Number,
    pub(crate) tid: Number,
}

/// The tracepoints of one file.
#[derive(Debug)]
pub(crate) struct Catalogue {
    points: FxHashMap<u16, Point>,
    kind: Number,
    common: Common,
    has: Vec<&'static str>,
    groups: Groups,
}

/// Tracepoints that affect, by their presence in a file, the conversion of other tracepoints.
const TELLING: [&str; 19] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "task_newtask",
    "task_rename",
    "hrtimer_start",
    "hrtimer_expire_entry",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "local_timer_entry",
    "sched_migrate_task",
    "sched_stat_runtime",
    "cpu_idle",
];

impl Catalogue {
    /// The catalogue of a file with these formats, recorded on a machine of this architecture (`uname -m`).
    pub(crate) fn new(formats: &[Format], arch: &str) -> Catalogue {
        let common_of = |name| formats.iter().find_map(|format| format.number(name));
        let has = |name: &&str| formats.iter().any(|format| format.name == **name);
        let mut catalogue = Catalogue {
            points: FxHashMap::default(),
            kind: common_of("common_type").unwrap_or(Number::at(0, 2)),
            common: Common {
                flags: common_of("common_flags").unwrap_or(Number::at(2, 1)),
                tid: common_of("common_pid").unwrap_or(Number::at(4, 4)),
            },
            has: TELLING.into_iter().filter(has).collect(),
            groups: Groups::NONE,
        };
        catalogue.groups = catalogue.groups_on(arch, formats);
        for format in formats {
            let point = point(format).filter(|point| catalogue.is_wanted(point));
            if let Some(point) = point {
                catalogue.points.insert(format.id, point);
            }
        }
        catalogue
    }

    /// The groups with all their tracepoints in the file. Part of a group would be shown as the whole.
    fn groups_on(&self, arch: &str, formats: &[Format]) -> Groups {
        let has_all = |names: &[&str]| names.iter().all(|name| self.has(name));
        let is_x86 = matches!(arch, "x86_64" | "i686" | "i586" | "i486" | "i386" | "x86");
        let lines = ["irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit"];
        let mut groups = Groups::NONE.with(Group::Sched);
        if has_all(&lines) && (!is_x86 || self.has("local_timer_entry")) {
            groups = groups.with(Group::Irq);
        }
        if has_all(&["hrtimer_start", "hrtimer_expire_entry"]) {
            groups = groups.with(Group::Timer);
        }
        if self.has("cpu_idle") {
            groups = groups.with(Group::Idle);
        }
        // Wherever ftrace records, it records lines written to `trace_marker`.
        if formats.iter().any(|format| format.system == "ftrace" && format.name == "print") {
            groups = groups.with(Group::Mark);
        }
        groups
    }

    fn is_wanted(&self, point: &Point) -> bool {
        let group = match point {
            Point::IrqLine { .. } | Point::IrqVector { .. } | Point::Softirq { .. } => Group::Irq,
            Point::TimerStart { .. } | Point::TimerExpire { .. } => Group::Timer,
            Point::IdleState { .. } => Group::Idle,
            Point::Print { .. } => Group::Mark,
            _ => Group::Sched,
        };
        self.groups.contains(group)
    }

    /// The groups with all their tracepoints in the file.
    pub(crate) fn groups(&self) -> Groups {
        self.groups
    }

    /// Whether the file has a tracepoint (one of [`TELLING`]).
    pub(crate) fn has(&self, name: &str) -> bool {
        self.has.contains(&name)
    }

    /// The kinds of events for which the file has no tracepoint.
    pub(crate) fn lacks(&self) -> Kinds {
        let tracepoints = |kind| -> &[&str] {
            match kind {
                Kind::Waking => &["sched_waking"],
                Kind::Wakeup => &["sched_waking", "sched_wakeup"],
                Kind::Migration => &["sched_migrate_task"],
                // Only a few files show which timers are ticks, so that ticks count as lacking.
                Kind::Tick => &[],
                Kind::Birth => &["task_newtask", "sched_process_fork"],
                Kind::Stolen => &["sched_stat_runtime"],
            }
        };
        let has = |kind: &Kind| tracepoints(*kind).iter().any(|name| self.has(name));
        Kind::ALL.into_iter().filter(|kind| !has(kind)).collect()
    }

    /// Whether switches can be read.
    pub(crate) fn has_switches(&self) -> bool {
        self.points.values().any(|point| matches!(point, Point::Switch(_)))
    }

    /// The way in which switches name the state of the task that leaves.
    pub(crate) fn numbering(&self) -> Numbering {
        let of = |point: &Point| match point {
            Point::Switch(point) => Some(point.states.numbering()),
            _ => None,
        };
        self.points.values().find_map(of).unwrap_or(Numbering::Bits)
    }

    /// The place of the tracepoint's number in every record.
    pub(crate) fn kind(&self) -> Number {
        self.kind
    }

    /// The places of the fields that all records have.
    pub(crate) fn common(&self) -> Common {
        self.common
    }

    /// The tracepoint of this number; `None` if its records are not read.
    #[inline]
    pub(crate) fn point(&self, kind: i64) -> Option<&Point> {
        self.points.get(&u16::try_from(kind).ok()?)
    }
}

fn point(format: &Format) -> Option<Point> {
    let number = |name| format.number(name);
    let text = |name| format.text(name);
    Some(match (format.system.as_str(), format.name.as_str()) {
        ("sched", "sched_switch") => Point::Switch(Box::new(SwitchPoint {
            prev: number("prev_pid")?,
            prev_comm: text("prev_comm")?,
            prev_prio: number("prev_prio")?,
            prev_state: number("prev_state")?,
            next: number("next_pid")?,
            next_comm: text("next_comm")?,
            next_prio: number("next_prio")?,
            states: States::parse(&format.print),
        })),
        ("sched", "sched_waking") => {
            Point::Waking { tid: number("pid")?, comm: text("comm")?, target_cpu: number("target_cpu") }
        }
        ("sched", name @ ("sched_wakeup" | "sched_wakeup_new")) => Point::Wakeup {
            kind: if name == "sched_wakeup" { WakeupKind::Again } else { WakeupKind::New },
            tid: number("pid")?,
            comm: text("comm")?,
            target_cpu: number("target_cpu"),
        },
        ("sched", "sched_process_fork") => Point::Fork {
            parent: number("parent_pid")?,
            child: number("child_pid")?,
            comm: text("child_comm")?,
        },
        ("sched", "sched_process_exec") => Point::Exec { tid: number("pid")?, old_tid: number("old_pid")? },
        ("sched", "sched_process_exit") => Point::Exit { tid: number("pid")? },
        ("sched", "sched_migrate_task") => {
            Point::Migrate { tid: number("pid")?, from_cpu: number("orig_cpu")?, to_cpu: number("dest_cpu")? }
        }
        ("sched", "sched_stat_runtime") => {
            Point::Runtime { tid: number("pid")?, runtime: number("runtime")? }
        }
        ("task", "task_newtask") => {
            Point::NewTask { tid: number("pid")?, comm: text("comm")?, clone_flags: number("clone_flags")? }
        }
        ("task", "task_rename") => Point::Rename { tid: number("pid"), comm: text("newcomm")? },
        ("irq", "irq_handler_entry") => Point::IrqLine { irq: number("irq")?, edge: Edge::Enter },
        ("irq", "irq_handler_exit") => Point::IrqLine { irq: number("irq")?, edge: Edge::Exit },
        ("irq", "softirq_entry") => Point::Softirq { vec: number("vec")?, edge: Edge::Enter },
        ("irq", "softirq_exit") => Point::Softirq { vec: number("vec")?, edge: Edge::Exit },
        ("irq_vectors", name) => vector(name)?,
        ("timer", "hrtimer_start") => Point::TimerStart {
            timer: number("hrtimer")?,
            function: number("function")?,
            expires: number("expires")?,
            soft_expires: number("softexpires")?,
        },
        ("timer", "hrtimer_expire_entry") => {
            Point::TimerExpire { timer: number("hrtimer")?, now: number("now")? }
        }
        ("power", "cpu_idle") => Point::IdleState { state: number("state")? },
        ("ftrace", "print") => Point::Print { text: text("buf")? },
        _ => return None,
    })
}

fn vector(name: &str) -> Option<Point> {
    let (name, edge) = match name.strip_suffix("_entry") {
        Some(name) => (name, Edge::Enter),
        None => (name.strip_suffix("_exit")?, Edge::Exit),
    };
    let irq = match name {
        "local_timer" => Irq::LocalTimer,
        "reschedule" => Irq::Reschedule,
        "call_function" | "call_function_single" => Irq::CallFunction,
        "irq_work" => Irq::IrqWork,
        _ => return None,
    };
    Some(Point::IrqVector { irq, edge })
}
