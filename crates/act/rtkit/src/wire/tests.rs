//! Tests messages that are written and read, and bytes that are no message.

use super::*;

fn call(member: &str, values: &Values) -> Vec<u8> {
    written(7, OutgoingMessage::ToBus { member }, values)
}

#[test]
fn a_message_is_read_as_it_was_written() {
    let bytes = call("RequestName", &Values::default().text("org.x").u32(4));
    let message = Message::read(&bytes).expect("a message");
    assert_eq!((message.kind, message.serial, message.is_awaited), (Kind::Call, 7, true));
    assert_eq!((message.member.as_str(), message.signature.as_str()), ("RequestName", "su"));
    let mut body = message.body();
    assert_eq!((body.text(), body.u32(), body.end()), (Ok("org.x"), Ok(4), Ok(())));
    let caller = Message { sender: ":1.5".to_owned(), serial: 9, ..message };
    let error =
        Message::read(&written(1, OutgoingMessage::Error { to: &caller, name: "a.B" }, &Values::default()));
    let error = error.expect("a message");
    assert_eq!((error.kind, error.answers, error.error.as_str()), (Kind::Error, 9, "a.B"));
}

#[test]
fn a_message_in_the_other_order_of_bytes_is_read() {
    // A return of the number 1000, as a bus on another machine writes it.
    let mut bytes = vec![b'B', 2, 1, 1, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 15];
    bytes.extend([5, 1, b'u', 0, 0, 0, 0, 2, 8, 1, b'g', 0, 1, b'u', 0, 0, 0, 0, 3, 0xe8]);
    let message = Message::read(&bytes).expect("a message");
    assert_eq!((message.answers, message.body().u32()), (2, Ok(1000)));
}

#[test]
fn bytes_that_were_spoilt_are_a_message_or_none() {
    let table = Values::default().table(&[("A", Number::Int32(-15)), ("B", Number::Int64(200_000))]);
    let given = [
        call("Hello", &Values::default()),
        call("RequestName", &Values::default().text("org.freedesktop.RealtimeKit1").u32(4)),
        call("x", &table),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize
    };
    let mut read = 0;
    for _ in 0..200_000 {
        let mut bytes = given[next() % given.len()].clone();
        for _ in 0..1 + next() % 4 {
            let at = next() % bytes.len();
            match next() % 4 {
                0 => bytes[at] = next() as u8,
                1 => bytes[at] ^= 1 << (next() % 8),
                2 => bytes[at] = 0xff,
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(message) = Message::read(&bytes) {
            read += 1;
            let mut body = message.body();
            while body.text().is_ok() {}
            while body.u64().is_ok() {}
        }
    }
    assert!(read > 1_000, "{read}");
}

#[test]
fn a_message_with_a_wrong_length_is_malformed() {
    let bytes = call("Hello", &Values::default());
    assert_eq!(Message::read(&bytes[..bytes.len() - 1]), Err(MalformedMessage));
    assert_eq!(Message::read(&[bytes.as_slice(), &[0]].concat()), Err(MalformedMessage));
    let mut long = bytes.clone();
    long[4..8].fill(0xff);
    assert_eq!(length(long.first_chunk().expect("16 bytes")), Err(MalformedMessage));
    assert_eq!(Message::read(&[]), Err(MalformedMessage));
}
