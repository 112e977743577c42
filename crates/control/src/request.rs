//! Questions, and the forms of answers.

use serde::{Deserialize, Serialize};

use crate::{Explanation, Status};

/// A question to the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// Who is in use, and how the daemon is.
    Status,
    /// Why a process is in use, or why not.
    Explain {
        /// Which.
        tgid: u32,
    },
    /// Put a process into a class by hand.
    Set {
        /// Which.
        tgid: u32,
        /// Where to.
        class: HandClass,
    },
    /// Give everything back to the kernel's scheduler, and end.
    Stop,
    /// A status each second, until the connection is closed.
    Watch,
}

/// What a process can be told to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandClass {
    /// In use, whatever the devices say.
    Interactive,
    /// Like most, even if it is in use.
    Other,
    /// Only what nobody else wants.
    Idle,
    /// As the policy says, again.
    Auto,
}

/// An answer, or one of several.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To `status` and `watch`.
    Status(Box<Status>),
    /// To `explain`.
    Explanation(Box<Explanation>),
    /// To `set` and `stop`.
    Done(Done),
    /// To what cannot be.
    Error(Refusal),
}

/// That something was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Done {
    /// What, in one line.
    pub text: String,
}

/// That something cannot be done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Which kind of reason.
    pub kind: RefusalKind,
    /// Why, and what to do about it, in one line.
    pub text: String,
}

/// Kinds of reasons to refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The caller may not.
    Denied,
    /// There is no such process.
    NoProcess,
    /// It was not understood.
    Malformed,
    /// Not in this mode, or not on this machine.
    Unable,
    /// Too much was asked lately.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_short_lines_of_json() {
        let line = |request| serde_json::to_string(&request).unwrap();
        assert_eq!(line(Request::Status), r#"{"ask":"status"}"#);
        assert_eq!(
            line(Request::Set { tgid: 7, class: HandClass::Idle }),
            r#"{"ask":"set","tgid":7,"class":"idle"}"#
        );
        let asked: Request = serde_json::from_str(r#"{"ask":"explain","tgid":4711,"later":1}"#).unwrap();
        assert_eq!(asked, Request::Explain { tgid: 4711 });
        assert!(serde_json::from_str::<Request>(r#"{"ask":"reboot"}"#).is_err());
    }
}
