//! What the crew tells whoever started it: a line of JSON each.

use serde::{Deserialize, Serialize};

/// How far a load has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum State {
    /// It makes what it works on.
    Preparing,
    /// It loads the machine.
    Running,
    /// It has ended by itself, and why.
    Ended(String),
    /// It was told to end.
    Stopped,
}

/// A message. Loads are numbered in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The namespaces are there.
    Confined,
    /// They could not be had.
    Failed(String),
    /// A load has come so far.
    State {
        /// Which.
        load: usize,
        /// How far.
        state: State,
    },
    /// What a load has done in all.
    Count {
        /// Which.
        load: usize,
        /// How often.
        operations: u64,
    },
    /// The most that all have taken together, bytes.
    Taken {
        /// Of memory.
        memory_bytes: u64,
        /// Of disk space.
        disk_bytes: u64,
    },
    /// Everything has been said.
    Done,
}

impl Message {
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let state = |state| Message::State { load: 2, state };
        for message in [
            Message::Confined,
            state(State::Running),
            state(State::Ended("said \"no\"\nand more".to_owned())),
            Message::Count { load: 0, operations: u64::MAX },
        ] {
            let line = message.line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(serde_json::from_str::<Message>(&line).expect("it can be read"), message);
        }
    }
}
