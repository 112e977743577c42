//! The selection of tasks and of a part of the trace.

use spry_timeline::{TaskIndex, Timeline};
use spry_trace::event::Comm;
use spry_trace::{Tgid, Tid};

/// The tasks that are reported, and the part of the trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Only these tasks are victims and have rows; `None` for all.
    pub tasks: Option<TaskPattern>,
    /// The start of the part, ns since the start of the trace.
    pub from_ns: u64,
    /// The end of the part, ns since the start of the trace; `None` for the end of the trace.
    pub to_ns: Option<u64>,
}

impl Selection {
    /// Whether a task is selected.
    pub fn matches(&self, now: &Timeline, task: TaskIndex) -> bool {
        self.tasks.as_ref().is_none_or(|pattern| pattern.means(now, task))
    }
}

/// Tasks by number or name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskPattern {
    /// The thread with this number, or all threads of the process with it. The number counts outside any PID
    /// namespace, or in the recorder's.
    Number(u32),
    /// Names; `*` stands for any bytes and `?` for any one byte.
    Glob(String),
    /// Names that contain this text.
    Part(String),
}

impl TaskPattern {
    /// Reads a pattern from text: a number; a whole name after `name:`, which may be a number and may have
    /// `*` and `?`; a glob if it has `*` or `?`; otherwise a part of a name.
    pub fn parse(text: &str) -> TaskPattern {
        if let Some(name) = text.strip_prefix("name:") {
            TaskPattern::Glob(name.to_owned())
        } else if let Ok(number) = text.parse() {
            TaskPattern::Number(number)
        } else if text.contains(['*', '?']) {
            TaskPattern::Glob(text.to_owned())
        } else {
            TaskPattern::Part(text.to_owned())
        }
    }

    /// Whether the pattern fits a task.
    pub fn means(&self, now: &Timeline, task: TaskIndex) -> bool {
        let found = now.task(task);
        self.matches(found.tid(), now.tgid(task), found.comm())
            || now.inner(task).is_some_and(|inner| {
                matches!(self, TaskPattern::Number(_)) && self.matches(inner.tid, inner.tgid, found.comm())
            })
    }

    /// Whether the pattern fits a task with these numbers and this name.
    pub fn matches(&self, tid: Tid, tgid: Tgid, comm: Comm) -> bool {
        let name = comm.as_bytes();
        match self {
            TaskPattern::Number(number) => tid.0 == *number || tgid.0 == *number,
            TaskPattern::Glob(pattern) => glob(pattern.as_bytes(), name),
            TaskPattern::Part(part) => {
                part.is_empty() || name.windows(part.len()).any(|window| window == part.as_bytes())
            }
        }
    }
}

/// The process that the graph is searched from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Root {
    /// The process of this number.
    Tgid(Tgid),
    /// The process with a leader of exactly this name; of several, the process with the longest run time.
    Name(String),
}

impl Root {
    /// Reads a root from text: a number or a name; after `name:` a name that may be a number.
    pub fn parse(text: &str) -> Root {
        if let Some(name) = text.strip_prefix("name:") {
            return Root::Name(name.to_owned());
        }
        text.parse().map_or_else(|_| Root::Name(text.to_owned()), |number| Root::Tgid(Tgid(number)))
    }
}

/// Whether the whole name fits the pattern: greedy, falling back to the latest star.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((star_p, star_n)) => {
                    star = Some((star_p, star_n + 1));
                    p = star_p + 1;
                    n = star_n + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        TaskPattern::parse(pattern).matches(Tid(7), Tgid(5), Comm::new(name.as_bytes()))
    }

    #[test]
    fn a_pattern_is_a_number_a_glob_or_a_part_of_a_name() {
        assert!(fits("7", "x") && fits("5", "x") && !fits("6", "6"));
        assert!(fits("play", "mplayer") && !fits("plays", "mplayer"));
        assert!(fits("m*er", "mplayer") && fits("?player*", "mplayer") && !fits("m?er", "mplayer"));
        assert!(!fits("123", "123") && fits("name:123", "123") && !fits("name:123", "1234"));
        assert!(fits("name:12*", "1234") && fits("name:name:x", "name:x") && !fits("name:7", "x"));
        assert_eq!(Root::parse("name:7"), Root::Name("7".into()));
        assert!(fits("*a*a*", "banana") && !fits("*a*b", "banana") && fits("*", ""));
    }
}
