//! The messages of the crew to the process that started it. Each is a line of JSON.

use serde::{Deserialize, Serialize};

/// The progress of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum State {
    /// The load prepares the files and the memory on which it works.
    Preparing,
    /// The load puts load on the machine.
    Running,
    /// The load has ended by itself; the text has the reason.
    Ended(String),
    /// The load was ended on request.
    Stopped,
}

/// A message. Loads are numbered from 0 in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The namespaces have been made.
    Confined,
    /// The namespaces could not be made; the text has the reason.
    Failed(String),
    /// A load has reached a state.
    State {
        /// The load's number.
        load: usize,
        /// The state that the load has reached.
        state: State,
    },
    /// The number of operations that a load has done in total.
    Count {
        /// The load's number.
        load: usize,
        /// How many operations it has done.
        operations: u64,
    },
    /// The greatest amounts that all loads have taken together.
    Taken {
        /// The memory that the loads took, bytes.
        memory_bytes: u64,
        /// The disk space that the loads took, bytes.
        disk_bytes: u64,
    },
    /// The crew has no more messages.
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
