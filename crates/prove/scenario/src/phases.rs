//! Reads the phases of a task of a TOML scenario.

use crate::doc::{Node, Value};
use crate::keys::Keys;
use crate::mistake::{Mistake, unknown};
use crate::parse::Context;
use crate::program::{Access, Memory, ObjectKind, Order, Program, Step};

/// Every word with which a phase can begin.
const PHASES: [&str; 22] = [
    "run",
    "run_for",
    "sleep",
    "alarm",
    "sleep_until",
    "wait",
    "wake",
    "lock",
    "unlock",
    "fork",
    "exec",
    "write",
    "read",
    "sync",
    "memory",
    "frame",
    "key",
    "echo",
    "yield",
    "mark",
    "repeat",
    "barrier",
];

/// Reads the phases of a task, and its `loop`, as a program of steps.
pub(crate) fn program(keys: &mut Keys<'_>, context: &mut Context) -> Result<Program, Mistake> {
    let phases = keys.node("phases").ok_or_else(|| keys.mistake("", "a task needs a kind or phases"))?;
    let times = match keys.text("loop")?.as_deref() {
        None => Some(1),
        Some("forever") => None,
        Some(_) => match keys.signed("loop") {
            Ok(Some(times)) if times > 0 => Some(times as u64),
            _ => return Err(keys.mistake("loop", "\"loop\" must be \"forever\" or a number, 1 or more")),
        },
    };
    let steps = steps(phases, keys.file(), context)?;
    let program = Program { steps, times };
    if times.is_none() && !takes_time(&program) {
        let text = "this loop would never block nor compute: add a run, sleep, alarm or wait";
        return Err(Mistake::new(keys.file(), phases.line, text));
    }
    Ok(program)
}

/// Whether one pass through a program takes time. An endless loop must take time.
fn takes_time(program: &Program) -> bool {
    let mut found = false;
    program.visit(&mut |step| {
        found |= match step {
            Step::Run { ns } | Step::RunFor { ns } | Step::Sleep { ns } => *ns > 0,
            Step::Lock(_) | Step::Unlock(_) | Step::Mark(_) | Step::Key { .. } | Step::Echo { .. } => false,
            _ => true,
        };
    });
    found
}

fn steps(node: &Node, file: &str, context: &mut Context) -> Result<Vec<Step>, Mistake> {
    let Value::List(items) = &node.value else {
        return Err(Mistake::new(file, node.line, "\"phases\" must be a list such as [{ run = \"2ms\" }]"));
    };
    items.iter().map(|item| step(item, file, context)).collect()
}

fn step(node: &Node, file: &str, context: &mut Context) -> Result<Step, Mistake> {
    let mut keys = Keys::new(node, file, "a phase")?;
    let named: Vec<&str> =
        node.entries().iter().map(|entry| entry.key.as_str()).filter(|key| PHASES.contains(key)).collect();
    let Some(&name) = named.first() else {
        let text = match node.entries().first() {
            Some(entry) => unknown("phase", &entry.key, &PHASES),
            None => format!("an empty phase; a phase is one of {}", PHASES.join(", ")),
        };
        return Err(Mistake::new(file, node.line, text));
    };
    if let [first, second, ..] = named[..] {
        let text = format!("\"{first}\" and \"{second}\" are two phases: write {{ .. }}, {{ .. }}");
        return Err(Mistake::new(file, node.line, text));
    }
    let step = match name {
        "run" | "run_for" | "sleep" | "alarm" | "sleep_until" | "frame" => timed(name, &mut keys)?,
        "write" | "read" | "sync" | "memory" => storage(name, &mut keys)?,
        "wait" | "wake" | "lock" | "unlock" | "key" | "echo" | "barrier" => shared(name, &mut keys, context)?,
        _ => other(name, &mut keys, context)?,
    };
    keys.finish()?;
    Ok(step)
}

fn timed(name: &str, keys: &mut Keys<'_>) -> Result<Step, Mistake> {
    Ok(match name {
        "run" => Step::Run { ns: keys.duration_ns("run")?.unwrap_or(0) },
        "run_for" => Step::RunFor { ns: keys.duration_ns("run_for")?.unwrap_or(0) },
        "sleep" => Step::Sleep { ns: keys.duration_ns("sleep")?.unwrap_or(0) },
        "sleep_until" => Step::SleepUntil { ns: keys.duration_ns("sleep_until")?.unwrap_or(0) },
        "alarm" => {
            let period_ns = keys.duration_ns("alarm")?.unwrap_or(0);
            if period_ns == 0 {
                return Err(keys.mistake("alarm", "\"alarm\" must be a period of more than 0"));
            }
            match keys.choice("from", &["start", "now"])? {
                Some("now") => Step::Sleep { ns: period_ns },
                _ => Step::Alarm { period_ns },
            }
        }
        _ => {
            let period_ns = keys.duration_ns("frame")?.unwrap_or(0);
            if period_ns == 0 {
                return Err(keys.mistake("frame", "\"frame\" must be the time of a frame, such as \"1s/25\""));
            }
            Step::Frame { period_ns }
        }
    })
}

fn storage(name: &str, keys: &mut Keys<'_>) -> Result<Step, Mistake> {
    if name == "memory" {
        return memory(keys);
    }
    let key = match name {
        "write" => "write",
        "read" => "read",
        _ => "sync",
    };
    let file = keys.text(key)?.unwrap_or_default();
    if file.is_empty() || file.contains('/') {
        let text =
            format!("\"{key}\" names a file of the scratch directory, without slashes, not \"{file}\"");
        return Err(keys.mistake(key, text));
    }
    if key == "sync" {
        return Ok(Step::SyncFile { file });
    }
    let bytes = keys.bytes("bytes")?.ok_or_else(|| keys.missing("bytes"))?;
    Ok(if key == "write" { Step::WriteFile { file, bytes } } else { Step::ReadFile { file, bytes } })
}

fn memory(keys: &mut Keys<'_>) -> Result<Step, Mistake> {
    let access = keys.choice("memory", &["read", "write", "chase"])?.unwrap_or("write");
    let size = keys.bytes("size")?.unwrap_or(4 << 20) as usize;
    let count = keys.whole("count")?.ok_or_else(|| keys.missing("count"))?;
    let access = match access {
        "read" => Access::Read,
        "write" => Access::Write,
        _ => Access::Chase {
            stride: keys.bytes("stride")?.unwrap_or(64) as usize,
            order: match keys.choice("order", &["scattered", "sequential"])? {
                Some("sequential") => Order::Sequential,
                _ => Order::Scattered,
            },
        },
    };
    let memory = Memory { size, count, access };
    memory.check().map_err(|text| keys.mistake("size", text))?;
    Ok(Step::Memory(memory))
}

impl Memory {
    /// Checks that the sizes of a step's memory fit together. The error describes the misfit.
    pub(crate) fn check(&self) -> Result<(), String> {
        let word = size_of::<usize>();
        match self.access {
            _ if self.size == 0 || self.size > 1 << 36 => Err("a buffer has from 1 byte to 64 GiB".into()),
            Access::Chase { stride, .. } if stride < word || stride % word != 0 || stride > self.size => {
                Err(format!("a stride is a multiple of {word} bytes and at most the buffer's size"))
            }
            _ => Ok(()),
        }
    }
}

fn shared(name: &str, keys: &mut Keys<'_>, context: &mut Context) -> Result<Step, Mistake> {
    let key = ["wait", "wake", "lock", "unlock", "key", "echo", "barrier"]
        .into_iter()
        .find(|&key| key == name)
        .unwrap_or("wait");
    let object = keys.text(key)?.unwrap_or_default();
    let kind = match key {
        "wait" | "wake" | "key" | "echo" => match keys.choice("via", &["pipe", "futex", "socket"])? {
            Some("futex") if matches!(key, "wait" | "wake") => ObjectKind::Counter,
            Some("futex") => return Err(keys.mistake("via", "a key goes through a pipe or a socket")),
            Some("socket") => ObjectKind::Socket,
            _ => ObjectKind::Pipe,
        },
        "lock" | "unlock" if keys.flag("inherit")? == Some(true) => ObjectKind::InheritingLock,
        "lock" | "unlock" => ObjectKind::Lock,
        _ => {
            let parties = keys.whole("parties")?.ok_or_else(|| keys.missing("parties"))?;
            ObjectKind::Barrier(parties.clamp(1, u32::MAX.into()) as u32)
        }
    };
    let found = context.object(&object, kind).map_err(|is| {
        keys.mistake(key, format!("\"{object}\" is used as {kind} here and as {is} elsewhere"))
    })?;
    Ok(match key {
        "wait" => Step::Wait { object: found, bytes: carried_bytes(keys)? },
        "wake" => Step::Wake { object: found, bytes: carried_bytes(keys)? },
        "lock" => Step::Lock(found),
        "unlock" => Step::Unlock(found),
        "key" => Step::Key { object: found },
        "echo" => Step::Echo { object: found },
        _ => Step::Barrier(found),
    })
}

/// Reads how many bytes go through a pipe or socket at once.
fn carried_bytes(keys: &mut Keys<'_>) -> Result<u32, Mistake> {
    let bytes = keys.bytes("bytes")?.unwrap_or(1);
    if !(1..=1 << 20).contains(&bytes) {
        return Err(keys.mistake("bytes", "\"bytes\" must be from 1 to 1 MiB"));
    }
    Ok(bytes as u32)
}

fn other(name: &str, keys: &mut Keys<'_>, context: &mut Context) -> Result<Step, Mistake> {
    Ok(match name {
        "fork" => {
            let task = keys.text("fork")?.unwrap_or_default();
            let Some(task) = context.task_names.iter().position(|name| *name == task) else {
                let names: Vec<&str> = context.task_names.iter().map(String::as_str).collect();
                return Err(keys.mistake("fork", unknown("task", &task, &names)));
            };
            Step::Fork { task }
        }
        "exec" => {
            let argv = keys.texts("exec")?.unwrap_or_default();
            if argv.first().is_none_or(String::is_empty) {
                return Err(keys.mistake("exec", "\"exec\" must be a program and its arguments, as a list"));
            }
            Step::Exec { argv }
        }
        "yield" => {
            keys.flag("yield")?;
            Step::Yield
        }
        "mark" => Step::Mark(keys.text("mark")?.unwrap_or_default()),
        _ => {
            let times = keys.whole("repeat")?;
            let inner = keys.node("phases").ok_or_else(|| keys.missing("phases"))?;
            Step::Repeat(Program { steps: steps(inner, keys.file(), context)?, times })
        }
    })
}

impl std::fmt::Display for ObjectKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Counter => "a futex",
            Self::Lock => "a lock",
            Self::InheritingLock => "a lock with inheritance",
            Self::Condition => "a condition",
            Self::Barrier(_) => "a barrier",
            Self::Timer => "a timer",
        })
    }
}
