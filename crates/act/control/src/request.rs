//! The questions to the daemon, and the forms of its answers.

use serde::{Deserialize, Serialize};
use spry_reservations::{Covers, OnExhaustion, Terms};

use crate::{Explanation, OpenedReservation, QuantumClass, QuantumUs, Reservations, Status, Tuning};

/// A question to the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// Ask which processes are in use, and for the state of the daemon.
    Status,
    /// Ask why a process is in use, or why not.
    Explain {
        /// The process to explain.
        tgid: u32,
    },
    /// Put a process into a class by hand.
    Set {
        /// The process to put into a class.
        tgid: u32,
        /// The class that the process is to have.
        class: HandClass,
    },
    /// Give everything back to the kernel's scheduler, and end the daemon.
    Stop,
    /// Send a status each second, until the connection is closed.
    Watch,
    /// Reserve CPU time for a thread, or for all threads of a process. If the same user has a reservation
    /// for exactly these threads already, the reservation gets the new terms.
    Reserve {
        /// The threads for which time is reserved.
        covers: Covers,
        /// How much CPU time, and how often.
        #[serde(flatten)]
        terms: Terms,
        /// The only CPU on which the time may be reserved; without it, any CPU.
        #[serde(default)]
        cpu: Option<u32>,
    },
    /// Reserve as much CPU time as keeps the pipes of a task half full.
    RealRate {
        /// The threads for which time is reserved.
        covers: Covers,
        /// What a task does when its budget is used up.
        #[serde(default)]
        on_exhaustion: OnExhaustion,
        /// The task's descriptor of the pipe; without it, the pipes at standard input and output count.
        #[serde(default)]
        pipe: Option<u32>,
        /// The only CPU on which the time may be reserved; without it, any CPU.
        #[serde(default)]
        cpu: Option<u32>,
    },
    /// End a reservation.
    Release {
        /// The reservation to end.
        #[serde(flatten)]
        which: ReservationChoice,
    },
    /// Name a shared server: it gets the rank of the reserved tasks that ask it for service. If the server
    /// was named already, it gets the new bound.
    Serve {
        /// The server's threads.
        covers: Covers,
        /// The most CPU time that the server may take by this rank in a period, ns. The period is the
        /// shortest of its clients'. Without a bound, it is measured.
        #[serde(default)]
        bound_ns: Option<u64>,
    },
    /// End the rank of a shared server that was named.
    ServeNoMore {
        /// The tid or tgid by which the server was named.
        number: u32,
    },
    /// Ask which reservations there are, and how much CPU time their tasks got.
    Reservations,
    /// Set the tick and the quantum for tasks that are not in use; without `tuning`, return to the
    /// scheduler's own.
    Tune {
        /// The tick and the quantum.
        #[serde(default)]
        tuning: Option<Tuning>,
    },
    /// Set the quantum of a class; without `quantum_us`, return to the scheduler's own.
    TuneClass {
        /// The class that gets the quantum.
        class: QuantumClass,
        /// The quantum, us, 50 to 100000.
        #[serde(default)]
        quantum_us: Option<QuantumUs>,
    },
}

/// Which reservation is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationChoice {
    /// The reservation in a slot.
    Slot(u32),
    /// The reservation of a thread, or of a process by its number.
    Tid(u32),
}

/// The classes that a process can be put into by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandClass {
    /// The process is treated as in use, whatever the devices report.
    Interactive,
    /// The process is treated like most processes, even if it is in use.
    Other,
    /// The process gets only CPU time that no other task needs.
    Idle,
    /// The process gets the class that the policy gives it.
    Auto,
}

/// An answer to a question, or one of several answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The answer to `status` and `watch`.
    Status(Box<Status>),
    /// The answer to `explain`.
    Explanation(Box<Explanation>),
    /// The answer to `reserve` and `real_rate`.
    Opened(OpenedReservation),
    /// The answer to `reservations`.
    Reservations(Reservations),
    /// The answer to `set`, `release`, `serve`, `serve_no_more`, `tune`, `tune_class` and `stop`.
    Done(Done),
    /// The answer if the daemon cannot carry out the request.
    Error(Refusal),
}

/// The answer that a request was carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Done {
    /// A description of the change, one line.
    pub text: String,
}

/// The answer that a request was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of the reason.
    pub kind: RefusalKind,
    /// The reason, and what the user can do about it, one line.
    pub text: String,
}

/// The reasons for which the daemon refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The caller is not allowed to do it.
    Denied,
    /// There is no such process.
    NoProcess,
    /// The question was not understood.
    Malformed,
    /// The daemon cannot do it in this mode, or on this machine.
    Unable,
    /// The caller has sent too many questions in this second.
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

    #[test]
    fn only_two_classes_have_a_quantum_to_ask_for() {
        let asked = |text: &str| serde_json::from_str::<Request>(text).ok();
        let idle = QuantumClass::Idle;
        let quantum_us = QuantumUs::try_from(500).ok();
        assert_eq!(
            asked(r#"{"ask":"tune_class","class":"idle","quantum_us":500}"#),
            Some(Request::TuneClass { class: idle, quantum_us })
        );
        let own = Some(Request::TuneClass { class: idle, quantum_us: None });
        assert_eq!(asked(r#"{"ask":"tune_class","class":"idle"}"#), own);
        for class in ["reserved", "daemon", "kthread", "other", "rr", ""] {
            let text = format!(r#"{{"ask":"tune_class","class":"{class}","quantum_us":500}}"#);
            assert_eq!(asked(&text), None, "{class}");
        }
        for us in ["0", "49", "100001", "-1", "1e9", "\"500\""] {
            let text = format!(r#"{{"ask":"tune_class","class":"idle","quantum_us":{us}}}"#);
            assert_eq!(asked(&text), None, "{us}");
        }
    }

    #[test]
    fn a_request_for_a_reservation_may_leave_out_defaults() {
        let terms = Terms { budget_ns: 3_276_800, period_ns: 8_192_000, on_exhaustion: OnExhaustion::Wait };
        let request = Request::Reserve { covers: Covers::Thread { tid: 7 }, terms, cpu: None };
        let line = r#"{"ask":"reserve","covers":{"thread":{"tid":7}},"budget_ns":3276800,"period_ns":8192000,"on_exhaustion":"wait","cpu":null}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), line);
        let short = line.replace(r#","on_exhaustion":"wait","cpu":null"#, "");
        assert_eq!(serde_json::from_str::<Request>(&short).unwrap(), request);
        assert!(serde_json::from_str::<Request>(&short.replace("3276800", "-1")).is_err());
        let release = Request::Release { which: ReservationChoice::Slot(3) };
        assert_eq!(serde_json::to_string(&release).unwrap(), r#"{"ask":"release","slot":3}"#);
        assert_eq!(serde_json::from_str::<Request>(r#"{"ask":"release","slot":3}"#).unwrap(), release);
    }

    /// A generator of random numbers, which are the same in each run.
    fn noise() -> impl FnMut() -> usize {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize
        }
    }

    #[test]
    fn a_line_that_was_spoilt_is_a_question_or_none() {
        let lines = [
            r#"{"ask":"status"}"#,
            r#"{"ask":"explain","tgid":4711}"#,
            r#"{"ask":"set","tgid":7,"class":"idle"}"#,
            r#"{"ask":"reserve","covers":{"group":{"tgid":7}},"budget_ns":1,"period_ns":2,"cpu":3}"#,
            r#"{"ask":"release","tid":7}"#,
            r#"{"ask":"tune_class","class":"idle","quantum_us":500}"#,
            r#"{"ask":"serve","covers":{"thread":{"tid":7}},"bound_ns":1}"#,
            r#"{"ask":"set","tgid":[[[{"a":1e999}]]],"class":"\u0000"}"#,
        ];
        let parts = ["[", "{", "\"", "\\u", "1e999", "-", "\"ask\":", "null", ",", "\u{0}", "\u{7f}", "é"];
        let (mut next, mut questions) = (noise(), 0);
        for _ in 0..50_000 {
            let mut line = lines[next() % lines.len()].as_bytes().to_vec();
            for _ in 0..next() % 4 {
                let at = next() % (line.len() + 1);
                let part = parts[next() % parts.len()].repeat(1 + next() % 3);
                match next() % 3 {
                    0 => line.truncate(at),
                    1 => line.splice(at..at, part.bytes()).for_each(drop),
                    _ => line.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (part.len() % 8)),
                }
            }
            if let Ok(request) = serde_json::from_slice::<Request>(&line) {
                questions += 1;
                let again = serde_json::to_vec(&request).unwrap();
                assert_eq!(serde_json::from_slice::<Request>(&again).unwrap(), request);
            }
        }
        assert!(questions > 1_000, "{questions}");
        // The question is nested as deeply as the longest line can be.
        assert!(serde_json::from_slice::<Request>(&[b'['; crate::REQUEST_MAX]).is_err());
        let deep = format!(r#"{{"ask":"status","x":{}"#, "[".repeat(crate::REQUEST_MAX));
        assert!(serde_json::from_str::<Request>(&deep).is_err());
    }
}
