//! Reads rt-app's files as scenarios: its tasks become threads of one process, as in rt-app.

mod events;
mod json;

use std::path::Path;

use crate::doc::{Entry, Node, Value};
use crate::mistake::{Mistake, closest, unknown};
use crate::model::{Action, Class, FOREVER_NS, MachineWish, Scenario, ScenarioTask};
use crate::program::{Object, ObjectId, ObjectKind, Program, Step};

/// The keys, besides events, that a task or a phase may have.
const PROPERTIES: [&str; 8] =
    ["loop", "policy", "priority", "dl-runtime", "dl-period", "dl-deadline", "cpus", "taskgroup"];
/// The keys that only a task may have. The last three set `SCHED_DEADLINE`, in rt-app's old way.
const OF_TASKS: [&str; 6] = ["instance", "delay", "phases", "period", "deadline", "runtime"];
/// The keys that rt-app supports and Spry does not.
const UNSUPPORTED: [(&str, &str); 3] = [
    ("util_min", "utilisation clamping"),
    ("util_max", "utilisation clamping"),
    ("nodes_membind", "binding memory to nodes"),
];
/// The keys of the "global" object that do not affect the workload: they configure rt-app's own logs
/// and calibration.
const WITHOUT_EFFECT: [&str; 10] = [
    "calibration",
    "logdir",
    "log_basename",
    "log_size",
    "logstats",
    "ftrace",
    "gnuplot",
    "frag",
    "cumulative_slack",
    "lock_pages",
];

/// Reads the text of a file of rt-app as a scenario.
pub(crate) fn parse(text: &str, file: &str, sets: &[(String, String)]) -> Result<Scenario, Mistake> {
    if let Some((name, _)) = sets.first() {
        let text = format!("there is no variable \"{name}\": rt-app's files have none");
        return Err(Mistake::new(file, 0, text));
    }
    let root = json::read(text, file)?;
    let mut reader =
        Reader { file, names: Vec::new(), objects: Vec::new(), notes: Vec::new(), global: Global::new() };
    for entry in reader.table(&root, "the file")? {
        match entry.key.as_str() {
            "global" => reader.global(&entry.node)?,
            "tasks" | "resources" => {}
            other => {
                return Err(
                    reader.wrong(entry, unknown("key of the file", other, &["tasks", "global", "resources"]))
                );
            }
        }
    }
    let Some(tasks) = root.get("tasks") else {
        return Err(Mistake::new(
            file,
            1,
            "there are no \"tasks\": rt-app's partial files are merged first, by its merge.py",
        ));
    };
    let entries = reader.table(tasks, "\"tasks\"")?;
    reader.names = entries.iter().map(|entry| entry.key.clone()).collect();
    let resumed = events::resumed(tasks);
    let tasks = entries.iter().map(|entry| reader.task(entry, &resumed)).collect::<Result<Vec<_>, _>>()?;
    events::count_parties(&tasks, &mut reader.objects);
    let name =
        Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(Scenario {
        name,
        about: "rt-app's".into(),
        warmup_ns: 0,
        duration_ns: reader.global.duration_ns,
        measure: Vec::new(),
        variables: Vec::new(),
        machine: MachineWish::default(),
        tasks,
        objects: reader.objects,
        notes: reader.notes,
        file: file.to_owned(),
        text: text.to_owned(),
    })
}

/// The settings in the file's "global" object.
struct Global {
    duration_ns: u64,
    policy: String,
    inherit: bool,
    io_device: String,
    buffer_bytes: u64,
}

impl Global {
    fn new() -> Self {
        Self {
            duration_ns: FOREVER_NS,
            policy: "SCHED_OTHER".into(),
            inherit: false,
            io_device: "/dev/null".into(),
            buffer_bytes: 4 << 20,
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    names: Vec<String>,
    objects: Vec<Object>,
    notes: Vec<String>,
    global: Global,
}

impl Reader<'_> {
    fn wrong(&self, entry: &Entry, text: impl Into<String>) -> Mistake {
        Mistake::new(self.file, entry.line, text)
    }

    fn table<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [Entry], Mistake> {
        match &node.value {
            Value::Table(entries) => Ok(entries),
            other => Err(Mistake::new(
                self.file,
                node.line,
                format!("{what} must be an object, not {}", other.what()),
            )),
        }
    }

    fn whole(&self, entry: &Entry) -> Result<i64, Mistake> {
        match entry.node.value {
            Value::Whole(number) => Ok(number),
            _ => Err(self.wrong(entry, format!("\"{}\" must be a whole number", entry.key))),
        }
    }

    /// A number of microseconds, or another number that must not be negative.
    fn positive(&self, entry: &Entry) -> Result<u64, Mistake> {
        let number = self.whole(entry)?;
        u64::try_from(number)
            .ok()
            .filter(|&number| number < 1 << 50)
            .ok_or_else(|| self.wrong(entry, format!("\"{}\" must be 0 or more, not {number}", entry.key)))
    }

    fn text<'n>(&self, entry: &'n Entry) -> Result<&'n str, Mistake> {
        match &entry.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(entry, format!("\"{}\" must be a text", entry.key))),
        }
    }

    fn object(&mut self, name: String, kind: ObjectKind) -> ObjectId {
        match self.objects.iter().position(|object| object.name == name) {
            Some(at) => at,
            None => {
                self.objects.push(Object { name, kind });
                self.objects.len() - 1
            }
        }
    }

    fn global(&mut self, node: &Node) -> Result<(), Mistake> {
        let mut without_effect = Vec::new();
        for entry in self.table(node, "\"global\"")? {
            match entry.key.as_str() {
                "duration" => match self.whole(entry)? {
                    -1 => self.global.duration_ns = FOREVER_NS,
                    seconds @ 1..=315_360_000 => self.global.duration_ns = seconds as u64 * 1_000_000_000,
                    other => {
                        return Err(self.wrong(
                            entry,
                            format!("\"duration\" must be -1 or seconds from 1, not {other}"),
                        ));
                    }
                },
                "default_policy" => {
                    self.global.policy = self.text(entry)?.to_owned();
                    self.class(&[entry], "default_policy")?;
                }
                "pi_enabled" => match entry.node.value {
                    Value::Flag(flag) => self.global.inherit = flag,
                    _ => return Err(self.wrong(entry, "\"pi_enabled\" must be true or false")),
                },
                "io_device" => self.global.io_device = self.text(entry)?.to_owned(),
                "mem_buffer_size" => self.global.buffer_bytes = self.positive(entry)?.max(1),
                key if WITHOUT_EFFECT.contains(&key) => without_effect.push(entry.key.clone()),
                _ => {
                    let mut known =
                        vec!["duration", "default_policy", "pi_enabled", "io_device", "mem_buffer_size"];
                    known.extend(WITHOUT_EFFECT);
                    self.pass_over(entry, "key of \"global\"", &known)?;
                }
            }
        }
        if !without_effect.is_empty() {
            let text = format!(
                "without effect here, where memory is locked, work calibrated and no log written: {}",
                without_effect.join(", ")
            );
            self.notes.push(text);
        }
        Ok(())
    }

    fn task(&mut self, entry: &Entry, resumed: &[String]) -> Result<ScenarioTask, Mistake> {
        let entries = self.table(&entry.node, "a task")?;
        let find = |key: &str| entries.iter().find(|entry| entry.key == key);
        for entry in entries {
            self.known(entry, &OF_TASKS)?;
        }
        let number = |key| find(key).map(|entry| self.positive(entry)).transpose();
        let (instances, delay_us) = (number("instance")?.unwrap_or(1), number("delay")?.unwrap_or(0));
        if instances > 10_000 {
            return Err(self.wrong(entry, "\"instance\" must be at most 10000"));
        }
        let properties: Vec<&Entry> = entries.iter().collect();
        let class = self.class(&properties, "policy")?;
        let affinity = self.cpus(&properties)?.unwrap_or_default();
        let group = self.group(&properties)?;
        let mut events = events::Events { task: &entry.key, resumed, timers: Vec::new() };
        let program = match find("phases") {
            Some(phases) => {
                let mut steps = Vec::new();
                for phase in self.table(&phases.node, "\"phases\"")? {
                    let inner = self.table(&phase.node, "a phase")?;
                    for entry in inner {
                        self.known(entry, &[])?;
                    }
                    steps.extend(self.changes(inner)?);
                    let times = self.times(inner, Some(1))?;
                    steps.push(Step::Repeat(Program { steps: self.events(inner, &mut events)?, times }));
                }
                Program { steps, times: self.times(entries, None)? }
            }
            None => Program { steps: self.events(entries, &mut events)?, times: self.times(entries, None)? },
        };
        if program.is_empty() {
            return Err(self.wrong(entry, format!("task \"{}\" has no events", entry.key)));
        }
        Ok(ScenarioTask {
            name: entry.key.clone(),
            count: instances as u32,
            class: Some(class.unwrap_or(self.policy(&self.global.policy, entry)?)),
            affinity,
            group,
            start_ns: delay_us * 1000,
            process: Some("rt-app".into()),
            action: Action::Steps(program),
        })
    }

    fn events(&mut self, entries: &[Entry], events: &mut events::Events<'_>) -> Result<Vec<Step>, Mistake> {
        let is_event =
            |entry: &&Entry| !PROPERTIES.contains(&entry.key.as_str()) && events::word(&entry.key).is_some();
        entries.iter().filter(is_event).map(|entry| self.event(entry, events)).collect()
    }

    /// Notes a key that neither rt-app nor Spry supports: rt-app ignores it. A key that is probably a
    /// misspelling of a known key is a mistake.
    fn pass_over(&mut self, entry: &Entry, what: &str, known: &[&str]) -> Result<(), Mistake> {
        if closest(&entry.key, known).is_some() {
            return Err(self.wrong(entry, unknown(what, &entry.key, known)));
        }
        let note =
            format!("line {}: \"{}\" is not known and is passed over, as by rt-app", entry.line, entry.key);
        self.notes.push(note);
        Ok(())
    }

    /// Takes a property or an event. Fails at a key that is not supported.
    fn known(&mut self, entry: &Entry, more: &[&str]) -> Result<(), Mistake> {
        let key = entry.key.as_str();
        if let Some((_, what)) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == key) {
            return Err(self.wrong(entry, format!("\"{key}\" is not supported: {what}")));
        }
        if PROPERTIES.contains(&key) || more.contains(&key) || events::word(key).is_some() {
            return Ok(());
        }
        let known: Vec<&str> = PROPERTIES.iter().chain(more).chain(&events::WORDS).copied().collect();
        self.pass_over(entry, "key of rt-app", &known)
    }

    fn times(&self, entries: &[Entry], default: Option<u64>) -> Result<Option<u64>, Mistake> {
        let Some(entry) = entries.iter().find(|entry| entry.key == "loop") else { return Ok(default) };
        match self.whole(entry)? {
            -1 => Ok(None),
            _ => self.positive(entry).map(Some),
        }
    }

    /// The steps that change the thread's class, CPUs or task group as a phase begins.
    fn changes(&self, entries: &[Entry]) -> Result<Vec<Step>, Mistake> {
        let properties: Vec<&Entry> = entries.iter().collect();
        let mut steps: Vec<Step> = self.group(&properties)?.map(Step::JoinGroup).into_iter().collect();
        let (class, affinity) = (self.class(&properties, "policy")?, self.cpus(&properties)?);
        if class.is_some() || affinity.is_some() {
            steps.push(Step::Become { class, affinity });
        }
        Ok(steps)
    }

    fn cpus(&self, entries: &[&Entry]) -> Result<Option<Vec<u32>>, Mistake> {
        let Some(entry) = entries.iter().find(|entry| entry.key == "cpus") else { return Ok(None) };
        let number = |node: &Node| match node.value {
            Value::Whole(cpu) => u32::try_from(cpu).ok(),
            _ => None,
        };
        match &entry.node.value {
            Value::List(items) => items.iter().map(number).collect::<Option<Vec<_>>>(),
            _ => None,
        }
        .map(Some)
        .ok_or_else(|| self.wrong(entry, "\"cpus\" must be a list of CPU numbers"))
    }

    /// The class that the keys of a task or a phase set; `None` if no key sets one.
    fn class(&self, entries: &[&Entry], policy_key: &str) -> Result<Option<Class>, Mistake> {
        let find = |key: &str| entries.iter().find(|entry| entry.key == key).copied();
        let us = |key| find(key).map(|entry| self.positive(entry)).transpose();
        let named = find(policy_key);
        let priority = find("priority");
        let runtime = us("dl-runtime")?;
        let Some(any) = named.or(priority).or(find("dl-runtime")) else { return Ok(None) };
        let policy = match named {
            Some(entry) => self.text(entry)?,
            None => &self.global.policy,
        };
        let class = self.policy(policy, any)?;
        let level = priority.map(|entry| self.whole(entry)).transpose()?;
        let place = priority.unwrap_or(any);
        let nice =
            || match level.unwrap_or(0) {
                nice @ -20..=19 => Ok(nice as i32),
                other => Err(self
                    .wrong(place, format!("\"priority\" of {policy} must be from -20 to 19, not {other}"))),
            };
        let fixed = || match level.unwrap_or(10) {
            level @ 1..=99 => Ok(level as u32),
            other => {
                Err(self.wrong(place, format!("\"priority\" of {policy} must be from 1 to 99, not {other}")))
            }
        };
        Ok(Some(match class {
            Class::Other { .. } => Class::Other { nice: nice()?, slice_ns: runtime.unwrap_or(0) * 1000 },
            Class::Batch { .. } => Class::Batch { nice: nice()? },
            Class::Idle => Class::Idle,
            Class::Fifo(_) => Class::Fifo(fixed()?),
            Class::RoundRobin(_) => Class::RoundRobin(fixed()?),
            Class::Deadline { .. } => {
                // A task may have the old names of these keys too. If both names are present, the new one is
                // used.
                let budget = runtime.or(us("runtime")?);
                let Some(budget) = budget.filter(|&us| us > 0) else {
                    return Err(self.wrong(any, "SCHED_DEADLINE needs \"dl-runtime\", in us"));
                };
                let period = us("dl-period")?.or(us("period")?).unwrap_or(budget);
                let deadline = us("dl-deadline")?.or(us("deadline")?).unwrap_or(period);
                Class::Deadline {
                    budget_ns: budget * 1000,
                    deadline_ns: deadline * 1000,
                    period_ns: period * 1000,
                }
            }
        }))
    }

    fn policy(&self, name: &str, entry: &Entry) -> Result<Class, Mistake> {
        Ok(match name {
            "SCHED_OTHER" => Class::Other { nice: 0, slice_ns: 0 },
            "SCHED_BATCH" => Class::Batch { nice: 0 },
            "SCHED_IDLE" => Class::Idle,
            "SCHED_RR" => Class::RoundRobin(10),
            "SCHED_FIFO" => Class::Fifo(10),
            "SCHED_DEADLINE" => Class::Deadline { budget_ns: 0, deadline_ns: 0, period_ns: 0 },
            _ => {
                let known =
                    ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_RR", "SCHED_FIFO", "SCHED_DEADLINE"];
                return Err(self.wrong(entry, unknown("policy", name, &known)));
            }
        })
    }

    /// The task group that a task or a phase names. An empty name means no group.
    fn group(&self, entries: &[&Entry]) -> Result<Option<String>, Mistake> {
        let Some(entry) = entries.iter().find(|entry| entry.key == "taskgroup") else { return Ok(None) };
        let name = self.text(entry)?;
        if !name.is_empty() && (!name.starts_with('/') || name.split('/').any(|part| part == "..")) {
            return Err(self.wrong(entry, "\"taskgroup\" must be a path that begins with a slash"));
        }
        Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
    }
}
