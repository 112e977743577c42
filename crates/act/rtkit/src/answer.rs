//! The interface org.freedesktop.RealtimeKit1: reads calls, and answers calls that need no daemon.

use spry_control::rtkit::{FrontRequest, NICE_MIN, PRIORITY_MAX, RequestKind};

use crate::bus::Caller;
use crate::wire::{MalformedMessage, Message, Number, Values};

/// The name on the bus, which is also the interface's name.
pub const NAME: &str = "org.freedesktop.RealtimeKit1";
const PATH: &str = "/org/freedesktop/RealtimeKit1";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// The longest time that a client's real-time threads may run without a pause, us, as in rtkit. Clients
/// set their own limit by it; Spry does not require one.
const RTTIME_MAX_US: i64 = 200_000;
/// The highest real-time priority of the kernel.
const KERNEL_PRIORITY_MAX: u32 = 99;

const XML: &str = include_str!("interface.xml");

const TABLE: [(&str, Number); 3] = [
    ("RTTimeUSecMax", Number::Int64(RTTIME_MAX_US)),
    ("MaxRealtimePriority", Number::Int32(PRIORITY_MAX)),
    ("MinNiceLevel", Number::Int32(NICE_MIN)),
];

/// An error, by its name on the bus without the prefix `org.freedesktop.DBus.Error.`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub name: &'static str,
    pub text: String,
}

/// The kinds of calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// A call that is answered without the daemon.
    Answered(Values),
    /// A request for a thread: the process (the caller's if `None`), the thread, and the nice value.
    Thread { what: RequestKind, process: Option<u32>, tid: u32, nice: i32 },
    /// The end of all that earlier requests changed. Only root may ask for it.
    Reset,
}

/// The error that the caller may not make this request.
pub fn denied(text: &str) -> Failure {
    failure("AccessDenied", text)
}

/// The error that a request cannot be carried out.
pub fn failed(text: &str) -> Failure {
    failure("Failed", text)
}

fn failure(name: &'static str, text: &str) -> Failure {
    Failure { name, text: text.to_owned() }
}

impl From<MalformedMessage> for Failure {
    fn from(_: MalformedMessage) -> Failure {
        failure("InvalidArgs", "the arguments are not those of this method")
    }
}

/// Reads a call.
///
/// # Errors
/// If the object, the method or the property is unknown, or if the arguments are invalid.
pub fn call(message: &Message) -> Result<Call, Failure> {
    let Message { interface, member, .. } = message;
    if message.path != PATH && interface != "org.freedesktop.DBus.Peer" {
        return Err(failure("UnknownObject", "there is /org/freedesktop/RealtimeKit1 alone"));
    }
    match (interface.as_str(), member.as_str()) {
        ("org.freedesktop.DBus.Introspectable", "Introspect") => {
            with(message, "").map(|()| Call::Answered(Values::default().text(XML)))
        }
        ("org.freedesktop.DBus.Peer", "Ping") => Ok(Call::Answered(Values::default())),
        (PROPERTIES, "Get") => property(message),
        (PROPERTIES, "GetAll") => {
            with(message, "s").map(|()| Call::Answered(Values::default().table(&TABLE)))
        }
        (NAME | "", _) => method(message),
        _ => Err(failure("UnknownMethod", "there is no such method")),
    }
}

/// Checks that a call's arguments have this signature.
fn with(message: &Message, signature: &str) -> Result<(), Failure> {
    if message.signature == signature { Ok(()) } else { Err(MalformedMessage.into()) }
}

fn property(message: &Message) -> Result<Call, Failure> {
    with(message, "ss")?;
    let mut body = message.body();
    let (interface, name) = (body.text()?, body.text()?);
    body.end()?;
    let found = TABLE.iter().find(|(known, _)| *known == name).filter(|_| interface == NAME);
    let &(_, number) = found.ok_or_else(|| failure("UnknownProperty", "there is no such property"))?;
    Ok(Call::Answered(Values::default().variant(number)))
}

fn method(message: &Message) -> Result<Call, Failure> {
    let (what, takes_process) = match message.member.as_str() {
        "MakeThreadRealtime" => (RequestKind::Realtime, false),
        "MakeThreadRealtimeWithPID" => (RequestKind::Realtime, true),
        "MakeThreadHighPriority" => (RequestKind::HighPriority, false),
        "MakeThreadHighPriorityWithPID" => (RequestKind::HighPriority, true),
        "ResetKnown" | "ResetAll" => return with(message, "").map(|()| Call::Reset),
        "Exit" => return Err(failure("NotSupported", "the scheduler keeps this: `spry sched stop` ends it")),
        _ => return Err(failure("UnknownMethod", "there is no such method")),
    };
    with(
        message,
        match (what, takes_process) {
            (RequestKind::HighPriority, false) => "ti",
            (RequestKind::HighPriority, true) => "tti",
            (_, false) => "tu",
            (_, true) => "ttu",
        },
    )?;
    let mut body = message.body();
    let mut number = || -> Result<u32, Failure> {
        u32::try_from(body.u64()?).map_err(|_| failed("there is no process or thread of that number"))
    };
    let process = if takes_process { Some(number()?) } else { None };
    let tid = number()?;
    let nice = match what {
        RequestKind::HighPriority => nice(body.i32()?)?,
        RequestKind::Realtime | RequestKind::Reset | RequestKind::End => priority(body.u32()?)?,
    };
    body.end()?;
    Ok(Call::Thread { what, process, tid, nice })
}

/// Checks a nice value as the kernel and rtkit do.
fn nice(asked: i32) -> Result<i32, Failure> {
    match asked {
        ..-20 | 20.. => Err(failed("a nice value is -20 to 19")),
        _ if asked < NICE_MIN => Err(denied("the nice value is below MinNiceLevel")),
        _ => Ok(asked),
    }
}

/// Checks a priority as the kernel and rtkit do. Returns 0, since a reservation has no priority.
fn priority(asked: u32) -> Result<i32, Failure> {
    match asked {
        0 => Err(failed("a priority is 1 to 99")),
        _ if asked > KERNEL_PRIORITY_MAX => Err(failed("a priority is 1 to 99")),
        _ if asked > PRIORITY_MAX.unsigned_abs() => Err(denied("the priority is above MaxRealtimePriority")),
        _ => Ok(0),
    }
}

/// The request to the daemon for a call; `None` if the call is answered without the daemon.
///
/// # Errors
/// If the caller may not make this request.
pub fn asked(call: &Call, caller: Caller) -> Result<Option<FrontRequest>, Failure> {
    match *call {
        Call::Answered(_) => Ok(None),
        Call::Reset if caller.uid != 0 => Err(denied("only root ends what others asked for")),
        Call::Reset => Ok(Some(FrontRequest { what: RequestKind::Reset, uid: 0, tgid: 0, tid: 0, nice: 0 })),
        Call::Thread { what, process, tid, nice } => {
            let tgid = process.unwrap_or(caller.tgid);
            let tid = if tid == 0 { tgid } else { tid };
            Ok(Some(FrontRequest { what, uid: caller.uid, tgid, tid, nice }))
        }
    }
}

#[cfg(test)]
mod tests;
