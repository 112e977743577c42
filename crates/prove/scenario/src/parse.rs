//! Reads a scenario that is written as TOML.

use std::path::Path;

use crate::doc::{self, Node, Value};
use crate::keys::Keys;
use crate::kinds;
use crate::mistake::{Mistake, unknown};
use crate::model::{
    Action, CacheWish, Class, KernelWish, MachineWish, Scenario, ScenarioTask, TopologyWish, XServer,
};
use crate::phases;
use crate::program::{Object, ObjectId, ObjectKind};
use crate::variables;

/// The state of the reader of tasks: the names of all tasks, and the shared objects read so far.
pub(crate) struct Context {
    /// The names of all tasks, in order.
    pub task_names: Vec<String>,
    /// The shared objects that tasks have named so far.
    pub objects: Vec<Object>,
}

impl Context {
    /// Finds the object of this name, or makes it if there is none. `Err` holds the kind of the existing
    /// object if it is of another kind.
    pub(crate) fn object(&mut self, name: &str, kind: ObjectKind) -> Result<ObjectId, ObjectKind> {
        match self.objects.iter().position(|object| object.name == name) {
            Some(at) if self.objects[at].kind == kind => Ok(at),
            Some(at) => Err(self.objects[at].kind),
            None => {
                self.objects.push(Object { name: name.to_owned(), kind });
                Ok(self.objects.len() - 1)
            }
        }
    }
}

impl Scenario {
    /// Reads a scenario's text. `file` is the name for messages; its ending selects JSON or TOML.
    ///
    /// # Errors
    /// If the text has a mistake.
    pub fn parse(text: &str, file: &str) -> Result<Self, Mistake> {
        Self::parse_with(text, file, &[])
    }

    /// Reads a scenario's text with some of its variables set. `cpus` can be set in every scenario: if the
    /// scenario has no variable of this name, the number of the machine's CPUs is set.
    ///
    /// # Errors
    /// If the text or the values of the variables have a mistake.
    pub fn parse_with(text: &str, file: &str, sets: &[(String, String)]) -> Result<Self, Mistake> {
        let (cpus, own): (Vec<_>, Vec<_>) = sets.iter().cloned().partition(|(name, _)| name == "cpus");
        let scenario = Self::parse_own(text, file, &own)?;
        let Some((_, wanted)) = cpus.last() else { return Ok(scenario) };
        if scenario.variables.iter().any(|variable| variable.name == "cpus") {
            return Self::parse_own(text, file, sets);
        }
        let cpus = match wanted.parse() {
            Ok(cpus @ 1..=1024) => Some(cpus),
            _ if wanted == "all" => None,
            _ => {
                let text = format!(
                    "cpus = {wanted}: it must be a number from 1 to 1024 (in the lab 16), \
                     or all (on the host)"
                );
                return Err(Mistake::new(file, 0, text));
            }
        };
        Ok(Self { machine: MachineWish { cpus, ..scenario.machine }, ..scenario })
    }

    fn parse_own(text: &str, file: &str, sets: &[(String, String)]) -> Result<Self, Mistake> {
        if file.ends_with(".json") {
            return crate::rtapp::parse(text, file, sets);
        }
        let mut root = doc::from_toml(text, file)?;
        let variables = variables::read(&root, file, sets)?;
        if let Value::Table(entries) = &mut root.value {
            for entry in entries.iter_mut().filter(|entry| entry.key != "variables") {
                variables::put_in(&mut entry.node, &variables, file)?;
            }
        }
        let mut keys = Keys::new(&root, file, "the scenario")?;
        keys.node("variables");
        let stem = Path::new(file).file_stem().map_or("scenario".into(), |stem| stem.to_string_lossy());
        let name = keys.text("name")?.unwrap_or_else(|| stem.into_owned());
        let about = keys.text("about")?.unwrap_or_default();
        let warmup_ns = keys.seconds_ns("warmup_s")?.unwrap_or(1_000_000_000);
        let duration_ns = keys.seconds_ns("duration_s")?.unwrap_or(10_000_000_000);
        if duration_ns == 0 {
            return Err(keys.mistake("duration_s", "\"duration_s\" must be more than 0"));
        }
        let measure = keys.texts("measure")?.unwrap_or_default();
        let machine = keys.node("machine").map(|node| machine(node, file)).transpose()?;
        let tasks = keys.node("task").ok_or_else(|| keys.mistake("", "the scenario has no [[task]]"))?;
        keys.finish()?;
        let mut context = Context { task_names: Vec::new(), objects: Vec::new() };
        let tasks = read_tasks(tasks, file, &mut context)?;
        let machine = machine.unwrap_or(MachineWish { cpus: Some(1), ..MachineWish::default() });
        check_display(&tasks, &machine, file)?;
        let tasks = tasks.into_iter().map(|(_, task)| task).collect();
        Ok(Self {
            name,
            about,
            warmup_ns,
            duration_ns,
            measure,
            variables,
            machine,
            tasks,
            objects: context.objects,
            notes: Vec::new(),
            file: file.to_owned(),
            text: text.to_owned(),
        })
    }

    /// The same scenario with variables set to other values.
    ///
    /// # Errors
    /// If the scenario does not have a variable, or the variable cannot have the value.
    pub fn with(&self, sets: &[(String, String)]) -> Result<Self, Mistake> {
        Self::parse_with(&self.text, &self.file, sets)
    }
}

/// Fails if a task draws on an X display and the scenario has no display.
fn check_display(tasks: &[(usize, ScenarioTask)], machine: &MachineWish, file: &str) -> Result<(), Mistake> {
    let needs = |task: &ScenarioTask| matches!(&task.action, Action::Kind(kind) if kind.needs_display());
    match tasks.iter().find(|(_, task)| needs(task)) {
        Some((line, task)) if machine.display.is_none() => Err(Mistake::new(
            file,
            *line,
            format!("task \"{}\" draws on a display: add display = \"1024x768\" to [machine]", task.name),
        )),
        _ => Ok(()),
    }
}

fn machine(node: &Node, file: &str) -> Result<MachineWish, Mistake> {
    let mut keys = Keys::new(node, file, "[machine]")?;
    let small = |keys: &mut Keys<'_>, key, min, max| {
        let found = keys.whole(key)?;
        match found {
            Some(value) if !(min..=max).contains(&value) => {
                Err(keys.mistake(key, format!("\"{key}\" must be from {min} to {max}, not {value}")))
            }
            _ => Ok(found.map(|value| value as u32)),
        }
    };
    let cpus = match keys.text("cpus")?.as_deref() {
        None => Some(1),
        Some("all") => None,
        Some(_) => small(&mut keys, "cpus", 1, 1024)?,
    };
    let display = keys.text("display")?;
    if let Some(size) = &display {
        let numbers = size.split_once('x').map(|(w, h)| (w.parse::<u32>(), h.parse::<u32>()));
        if !matches!(numbers, Some((Ok(1..=16384), Ok(1..=16384)))) {
            let text = format!("\"display\" must be a size such as \"1024x768\", not \"{size}\"");
            return Err(keys.mistake("display", text));
        }
    }
    let server = match keys.choice("server", &["xvfb", "xorg"])? {
        Some("xorg") => XServer::Xorg,
        _ => XServer::Xvfb,
    };
    let kernel = keys.node("kernel").map(|node| kernel(node, file)).transpose()?.unwrap_or_default();
    let topology = keys.node("topology").map(|node| topology(node, file)).transpose()?.unwrap_or_default();
    let machine = MachineWish {
        cpus,
        topology,
        display,
        server,
        programs: keys.texts("programs")?.unwrap_or_default(),
        packages: keys.texts("packages")?.unwrap_or_default(),
        shift: small(&mut keys, "shift", 0, 10)?,
        kernel,
        rr_quantum_us: keys
            .number_within("rr_quantum_ms", 0.05, 10_000.0)?
            .map(|ms| (ms * 1e3).round() as u32),
        ram_disk_mb: small(&mut keys, "ram_disk_mb", 1, 1 << 20)?,
    };
    keys.finish()?;
    Ok(machine)
}

fn topology(node: &Node, file: &str) -> Result<TopologyWish, Mistake> {
    let mut keys = Keys::new(node, file, "topology")?;
    let mut count = |key| match keys.whole(key)? {
        Some(value) if !(1..=16).contains(&value) => {
            Err(keys.mistake(key, format!("\"{key}\" must be from 1 to 16, not {value}")))
        }
        found => Ok(found.map_or(1, |value| value as u32)),
    };
    let (sockets, dies, threads) = (count("sockets")?, count("dies")?, count("threads")?);
    let cache = match keys.choice("cache", &["die", "core"])? {
        Some("core") => CacheWish::Core,
        _ => CacheWish::Die,
    };
    // CPUID reports the sizes of a cache in several forms. In each form a whole number of the cache's ways
    // must fit.
    let l1d = cache_size(&mut keys, "l1d", 8 << 10)?;
    let l2 = cache_size(&mut keys, "l2", 128 << 10)?;
    let l3 = cache_size(&mut keys, "l3", 512 << 10)?;
    keys.finish()?;
    Ok(TopologyWish { sockets, dies, threads, cache, l1d, l2, l3 })
}

/// Reads the size of a cache, which must be a multiple of `unit` bytes.
fn cache_size(keys: &mut Keys<'_>, key: &'static str, unit: u64) -> Result<Option<u64>, Mistake> {
    let size = keys.bytes(key)?;
    if let Some(size) = size.filter(|&size| size == 0 || size % unit != 0 || size > 1 << 30) {
        let unit = unit >> 10;
        return Err(
            keys.mistake(key, format!("\"{key}\" must be a multiple of {unit}KiB up to 1GiB, not {size} B"))
        );
    }
    Ok(size)
}

fn kernel(node: &Node, file: &str) -> Result<KernelWish, Mistake> {
    let mut keys = Keys::new(node, file, "kernel")?;
    let hz = keys.whole("hz")?;
    if let Some(hz) = hz.filter(|hz| !(10..=100_000).contains(hz)) {
        return Err(keys.mistake("hz", format!("\"hz\" must be from 10 to 100000, not {hz}")));
    }
    let preempt = keys.choice("preempt", &["none", "voluntary", "full", "lazy"])?;
    let wish = KernelWish {
        hz: hz.map(|hz| hz as u32),
        flavour: keys.text("flavour")?,
        cmdline: keys.text("cmdline")?,
        preempt: preempt.map(str::to_owned),
    };
    keys.finish()?;
    Ok(wish)
}

fn read_tasks(node: &Node, file: &str, context: &mut Context) -> Result<Vec<(usize, ScenarioTask)>, Mistake> {
    let Value::List(items) = &node.value else {
        return Err(Mistake::new(file, node.line, "tasks are written as [[task]], with two brackets"));
    };
    for item in items {
        let mut keys = Keys::new(item, file, "a task")?;
        let name = keys.text("name")?.ok_or_else(|| keys.missing("name"))?;
        if context.task_names.contains(&name) {
            return Err(keys.mistake("name", format!("there is another task \"{name}\"")));
        }
        context.task_names.push(name);
    }
    items.iter().map(|item| Ok((item.line, task(item, file, context)?))).collect()
}

fn task(node: &Node, file: &str, context: &mut Context) -> Result<ScenarioTask, Mistake> {
    let mut keys = Keys::new(node, file, "a task")?;
    let name = keys.text("name")?.unwrap_or_default();
    let count = keys.whole("count")?.unwrap_or(1);
    if count > 10_000 {
        return Err(keys.mistake("count", format!("\"count\" must be from 0 to 10000, not {count}")));
    }
    let class = class(&mut keys)?;
    let affinity = keys.wholes("affinity")?.unwrap_or_default();
    let start_ns = keys.duration_ns("start")?.unwrap_or(0);
    let process = keys.text("process")?;
    let group = keys.text("group")?;
    let action = if let Some(kind) = keys.text("kind")? {
        if node.get("phases").is_some() {
            return Err(keys.mistake("phases", "a task has either a kind or phases, not both"));
        }
        let Some(found) = kinds::ALL.iter().find(|known| known.name == kind) else {
            let names: Vec<&str> = kinds::ALL.iter().map(|kind| kind.name).collect();
            return Err(keys.mistake("kind", unknown("kind", &kind, &names)));
        };
        Action::Kind(found.parse(&mut keys)?)
    } else {
        Action::Steps(phases::program(&mut keys, context)?)
    };
    keys.finish()?;
    let affinity = affinity.iter().map(|&cpu| cpu as u32).collect();
    Ok(ScenarioTask { name, count: count as u32, class, affinity, group, start_ns, process, action })
}

/// Reads the class with its parameters; `None` if no class is named.
fn class(keys: &mut Keys<'_>) -> Result<Option<Class>, Mistake> {
    let name = keys.choice("class", &["other", "batch", "idle", "fifo", "rr", "deadline"])?;
    let nice = keys.signed("nice")?;
    let priority = keys.whole("priority")?;
    let slice_ns = keys.duration_ns("slice")?;
    let reservation = keys.node("reservation");
    let only_for = |given: bool, key: &str, classes: &[&str]| {
        let named = name.unwrap_or("other");
        if given && !classes.contains(&named) {
            let text = format!("\"{key}\" is for class {}, not {named}", classes.join(" and "));
            return Err(keys.mistake(key, text));
        }
        Ok(())
    };
    only_for(nice.is_some(), "nice", &["other", "batch"])?;
    only_for(priority.is_some(), "priority", &["fifo", "rr"])?;
    only_for(slice_ns.is_some(), "slice", &["other"])?;
    only_for(reservation.is_some(), "reservation", &["deadline"])?;
    if let Some(nice) = nice.filter(|nice| !(-20..=19).contains(nice)) {
        return Err(keys.mistake("nice", format!("\"nice\" must be from -20 to 19, not {nice}")));
    }
    if let Some(priority) = priority.filter(|priority| !(1..=99).contains(priority)) {
        return Err(keys.mistake("priority", format!("\"priority\" must be from 1 to 99, not {priority}")));
    }
    let (nice_or_0, priority) = (nice.unwrap_or(0) as i32, priority.unwrap_or(10) as u32);
    Ok(match name {
        None if nice.is_none() && slice_ns.is_none() => None,
        None | Some("other") => Some(Class::Other { nice: nice_or_0, slice_ns: slice_ns.unwrap_or(0) }),
        Some("batch") => Some(Class::Batch { nice: nice_or_0 }),
        Some("idle") => Some(Class::Idle),
        Some("fifo") => Some(Class::Fifo(priority)),
        Some("rr") => Some(Class::RoundRobin(priority)),
        Some(_) => {
            let node = reservation.ok_or_else(|| {
                keys.mistake(
                    "class",
                    "class deadline needs reservation = { budget = \"4ms\", period = \"16ms\" }",
                )
            })?;
            Some(deadline(node, keys.file())?)
        }
    })
}

fn deadline(node: &Node, file: &str) -> Result<Class, Mistake> {
    let mut keys = Keys::new(node, file, "a reservation")?;
    let budget_ns = keys.duration_ns("budget")?.ok_or_else(|| keys.missing("budget"))?;
    let period_ns = keys.duration_ns("period")?.ok_or_else(|| keys.missing("period"))?;
    let deadline_ns = keys.duration_ns("deadline")?.unwrap_or(period_ns);
    if budget_ns == 0 || budget_ns > deadline_ns || deadline_ns > period_ns {
        return Err(keys.mistake("budget", "a reservation wants 0 < budget <= deadline <= period"));
    }
    keys.finish()?;
    Ok(Class::Deadline { budget_ns, deadline_ns, period_ns })
}
