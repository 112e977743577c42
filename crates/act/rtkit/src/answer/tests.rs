//! Tests valid calls and invalid calls.

use super::*;
use crate::wire::{OutgoingMessage, written};

const CALLER: Caller = Caller { uid: 1000, tgid: 77 };

/// A call, as the bus delivers it.
fn sent(interface: &str, member: &str, values: &Values) -> Message {
    let bytes = written(1, OutgoingMessage::ToBus { member }, values);
    let mut message = Message::read(&bytes).expect("a message");
    (message.path, message.interface) = (PATH.to_owned(), interface.to_owned());
    message
}

/// A call of one of the interface's methods with numbers of 64 bits, then one of 32.
fn thread(member: &str, signature: &str, numbers: &[u64], value: u32) -> Message {
    let words = numbers.iter().flat_map(|number| [*number as u32, (*number >> 32) as u32]);
    let values = words.chain([value]).fold(Values::default(), Values::u32);
    let mut message = sent(NAME, member, &values);
    message.signature = signature.to_owned();
    message
}

fn name(message: &Message) -> &'static str {
    call(message).expect_err("it is refused").name
}

#[test]
fn a_thread_s_request_has_the_bus_s_user_and_process() {
    let read = call(&thread("MakeThreadRealtime", "tu", &[78], 10)).expect("a call");
    let expected = FrontRequest { what: RequestKind::Realtime, uid: 1000, tgid: 77, tid: 78, nice: 0 };
    assert_eq!(asked(&read, CALLER), Ok(Some(expected)));
    let read = call(&thread("MakeThreadHighPriorityWithPID", "tti", &[90, 0], -11_i32 as u32));
    let expected = FrontRequest { what: RequestKind::HighPriority, uid: 1000, tgid: 90, tid: 90, nice: -11 };
    assert_eq!(asked(&read.expect("a call"), CALLER), Ok(Some(expected)));
}

#[test]
fn numbers_beyond_the_limits_are_refused_as_rtkit_refuses_them() {
    assert_eq!(name(&thread("MakeThreadRealtime", "tu", &[78], 21)), "AccessDenied");
    assert_eq!(name(&thread("MakeThreadRealtime", "tu", &[78], 0)), "Failed");
    assert_eq!(name(&thread("MakeThreadRealtime", "tu", &[78], 100)), "Failed");
    assert_eq!(name(&thread("MakeThreadHighPriority", "ti", &[78], -16_i32 as u32)), "AccessDenied");
    assert_eq!(name(&thread("MakeThreadHighPriority", "ti", &[78], 20)), "Failed");
    assert_eq!(name(&thread("MakeThreadRealtime", "tu", &[1 << 32], 1)), "Failed");
}

#[test]
fn arguments_of_other_types_are_refused() {
    assert_eq!(name(&thread("MakeThreadRealtime", "ti", &[78], 1)), "InvalidArgs");
    assert_eq!(name(&thread("MakeThreadRealtimeWithPID", "tu", &[78], 1)), "InvalidArgs");
    // The arguments do not match the signature.
    assert_eq!(name(&thread("MakeThreadRealtime", "tu", &[], 1)), "InvalidArgs");
    assert_eq!(name(&thread("MakeThreadRealtime", "tu", &[1, 2], 1)), "InvalidArgs");
    assert_eq!(name(&sent(NAME, "MakeThreadRealtime", &Values::default())), "InvalidArgs");
    assert_eq!(name(&sent(PROPERTIES, "Get", &Values::default().text(NAME))), "InvalidArgs");
    assert_eq!(name(&sent(NAME, "Sing", &Values::default())), "UnknownMethod");
    assert_eq!(name(&sent("a.b", "MakeThreadRealtime", &Values::default())), "UnknownMethod");
    let mut elsewhere = sent(NAME, "ResetAll", &Values::default());
    elsewhere.path = "/".to_owned();
    assert_eq!(name(&elsewhere), "UnknownObject");
}

#[test]
fn properties_are_rtkit_s() {
    let get = |name| call(&sent(PROPERTIES, "Get", &Values::default().text(NAME).text(name)));
    for (name, number) in TABLE {
        assert_eq!(get(name), Ok(Call::Answered(Values::default().variant(number))));
    }
    assert_eq!(get("Speed").expect_err("it is refused").name, "UnknownProperty");
}

#[test]
fn only_root_resets_and_exit_ends_nothing() {
    let reset = call(&sent(NAME, "ResetKnown", &Values::default())).expect("a call");
    assert_eq!(asked(&reset, CALLER).expect_err("it is refused").name, "AccessDenied");
    let root = asked(&reset, Caller { uid: 0, tgid: 1 }).expect("root may");
    assert_eq!(root.map(|asked| asked.what), Some(RequestKind::Reset));
    assert_eq!(name(&sent(NAME, "Exit", &Values::default())), "NotSupported");
}
