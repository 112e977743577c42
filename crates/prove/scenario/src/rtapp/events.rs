//! Makes steps of the events of a file of rt-app.

use super::Reader;
use crate::doc::{Entry, Node, Value};
use crate::mistake::{Mistake, unknown};
use crate::model::{Action, ScenarioTask};
use crate::program::{Access, Memory, Object, ObjectKind, Order, Step, TimerMode, TimerRef};

/// The words with which the keys of events begin. The rest of a key distinguishes several events of one
/// kind ("run0", "timerA"). A word that begins with another word stands before it ("runtime" before
/// "run").
pub(super) const WORDS: [&str; 20] = [
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer", "suspend",
    "resume", "memrun", "mem", "iorun", "yield", "barrier", "fork", "sem_post", "sem_wait",
];

/// The event word with which a key begins; `None` if there is no such word.
pub(super) fn word(key: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|word| key.starts_with(word))
}

/// The state of the reader of a task's events.
pub(super) struct Events<'a> {
    pub task: &'a str,
    /// The names that the `resume` events of the file name.
    pub resumed: &'a [String],
    /// The names of the task's own timers.
    pub timers: Vec<String>,
}

/// The names that the file's "resume" events resume.
pub(super) fn resumed(tasks: &Node) -> Vec<String> {
    let mut found = Vec::new();
    for entry in tasks.entries() {
        match (&entry.node.value, word(&entry.key)) {
            (Value::Text(name), Some("resume")) => found.push(name.clone()),
            _ => found.extend(resumed(&entry.node)),
        }
    }
    found
}

/// Gives each barrier the number of threads that meet there: each event that names the barrier adds the
/// number of threads of its task.
pub(super) fn count_parties(tasks: &[ScenarioTask], objects: &mut [Object]) {
    for task in tasks {
        if let Action::Steps(program) = &task.action {
            program.visit(&mut |step| {
                if let Step::Barrier(object) = step {
                    if let ObjectKind::Barrier(parties) = &mut objects[*object].kind {
                        *parties += task.count;
                    }
                }
            });
        }
    }
}

impl Reader<'_> {
    pub(super) fn event(&mut self, entry: &Entry, events: &mut Events<'_>) -> Result<Step, Mistake> {
        let inherit = self.global.inherit;
        let lock_kind = if inherit { ObjectKind::InheritingLock } else { ObjectKind::Lock };
        Ok(match word(&entry.key).unwrap_or_default() {
            "run" => Step::Run { ns: self.positive(entry)? * 1000 },
            "runtime" => Step::RunFor { ns: self.positive(entry)? * 1000 },
            "sleep" => Step::Sleep { ns: self.positive(entry)? * 1000 },
            "mem" => Step::Memory(Memory {
                size: self.global.buffer_bytes as usize,
                count: self.positive(entry)?,
                access: Access::Write,
            }),
            "memrun" => self.memrun(entry)?,
            "iorun" => {
                Step::WriteDevice { path: self.global.io_device.clone(), bytes: self.positive(entry)? }
            }
            "timer" => self.timer(entry, events)?,
            "lock" => Step::Lock(self.named(entry, "mutex", lock_kind)?),
            "unlock" => Step::Unlock(self.named(entry, "mutex", lock_kind)?),
            "signal" => Step::Signal(self.named(entry, "condition", ObjectKind::Condition)?),
            "broad" => Step::Broadcast(self.named(entry, "condition", ObjectKind::Condition)?),
            word @ ("wait" | "sync") => {
                let (condition, lock) = self.condition(entry, lock_kind)?;
                if word == "wait" {
                    Step::ConditionWait { condition, lock }
                } else {
                    Step::Sync { condition, lock }
                }
            }
            "barrier" => Step::Barrier(self.named(entry, "barrier", ObjectKind::Barrier(0))?),
            "suspend" => {
                // A `suspend` event waits under the name that it gives if a `resume` event gives the same
                // name. Otherwise the task waits under its own name, as in rt-app.
                let name = match &entry.node.value {
                    Value::Text(name) if events.resumed.contains(name) => name.clone(),
                    Value::Text(_) | Value::Null => events.task.to_owned(),
                    _ => return Err(self.wrong(entry, "\"suspend\" must be a text")),
                };
                Step::Suspend(self.object(format!("suspended {name}"), ObjectKind::Condition))
            }
            "resume" => Step::Broadcast(self.named(entry, "suspended", ObjectKind::Condition)?),
            "sem_post" => {
                Step::Wake { object: self.named(entry, "semaphore", ObjectKind::Counter)?, bytes: 1 }
            }
            "sem_wait" => {
                Step::Wait { object: self.named(entry, "semaphore", ObjectKind::Counter)?, bytes: 1 }
            }
            "fork" => {
                let name = self.text(entry)?;
                let Some(task) = self.names.iter().position(|known| known == name) else {
                    let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
                    return Err(self.wrong(entry, unknown("task", name, &names)));
                };
                Step::Fork { task }
            }
            _ => Step::Yield,
        })
    }

    fn named(&mut self, entry: &Entry, what: &str, kind: ObjectKind) -> Result<usize, Mistake> {
        let name = format!("{what} {}", self.text(entry)?);
        Ok(self.object(name, kind))
    }

    /// The keys of an event that is a JSON object. Fails if one of them is not in `known`.
    fn keys<'n>(&self, entry: &'n Entry, known: &[&str]) -> Result<&'n [Entry], Mistake> {
        let entries = self.table(&entry.node, &format!("\"{}\"", entry.key))?;
        match entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            Some(strange) => {
                Err(self.wrong(strange, unknown(&format!("key of \"{}\"", entry.key), &strange.key, known)))
            }
            None => Ok(entries),
        }
    }

    fn condition(&mut self, entry: &Entry, lock_kind: ObjectKind) -> Result<(usize, usize), Mistake> {
        let keys = self.keys(entry, &["ref", "mutex"])?;
        let find = |key: &str| {
            let found = keys.iter().find(|entry| entry.key == key);
            found.ok_or_else(|| self.wrong(entry, format!("\"{}\" needs \"ref\" and \"mutex\"", entry.key)))
        };
        let (condition, lock) = (find("ref")?, find("mutex")?);
        Ok((
            self.named(condition, "condition", ObjectKind::Condition)?,
            self.named(lock, "mutex", lock_kind)?,
        ))
    }

    fn timer(&mut self, entry: &Entry, events: &mut Events<'_>) -> Result<Step, Mistake> {
        let keys = self.keys(entry, &["ref", "period", "mode"])?;
        let find = |key: &str| keys.iter().find(|entry| entry.key == key);
        let period = find("period").ok_or_else(|| self.wrong(entry, "a timer needs \"period\", in us"))?;
        let period_ns = self.positive(period)? * 1000;
        let name = find("ref").map(|entry| self.text(entry)).transpose()?.unwrap_or("unknown");
        let mode = match find("mode").map(|entry| (entry, self.text(entry))) {
            None => TimerMode::Relative,
            Some((_, Ok("relative"))) => TimerMode::Relative,
            Some((_, Ok("absolute"))) => TimerMode::Absolute,
            Some((entry, mode)) => {
                return Err(self.wrong(entry, unknown("mode", mode?, &["relative", "absolute"])));
            }
        };
        let timer = if name.starts_with("unique") {
            let known = events.timers.iter().position(|timer| timer == name);
            TimerRef::Own(known.unwrap_or_else(|| {
                events.timers.push(name.to_owned());
                events.timers.len() - 1
            }))
        } else {
            TimerRef::Shared(self.object(format!("timer {name}"), ObjectKind::Timer))
        };
        Ok(Step::Timer { timer, period_ns, mode })
    }

    fn memrun(&self, entry: &Entry) -> Result<Step, Mistake> {
        let keys = self.keys(entry, &["type", "size", "count", "stride", "pattern", "ref"])?;
        let find = |key: &str| keys.iter().find(|entry| entry.key == key);
        if let Some(shared) = find("ref") {
            return Err(self.wrong(shared, "\"ref\" is not supported: buffers that threads share"));
        }
        let needed = |key: &str| {
            let found = find(key);
            found.ok_or_else(|| {
                self.wrong(entry, format!("\"{}\" needs \"type\", \"size\" and \"count\"", entry.key))
            })
        };
        let access = match self.text(needed("type")?)? {
            "read" => Access::Read,
            "write" => Access::Write,
            "chase" => Access::Chase {
                stride: find("stride").map(|entry| self.positive(entry)).transpose()?.unwrap_or(64) as usize,
                order: match find("pattern").map(|entry| self.text(entry)).transpose()? {
                    Some("sequential") => Order::Sequential,
                    _ => Order::Scattered,
                },
            },
            other => {
                return Err(self.wrong(needed("type")?, unknown("type", other, &["read", "write", "chase"])));
            }
        };
        let size = self.positive(needed("size")?)? as usize;
        let memory = Memory { size, count: self.positive(needed("count")?)?, access };
        memory.check().map_err(|text| self.wrong(entry, text))?;
        Ok(Step::Memory(memory))
    }
}
