//! Reads any bytes as a trace: no panic, no unbounded memory. Run with `cargo +nightly fuzz run read`.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use spry_trace::Reader;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut reader) = Reader::new(bytes) {
        while let Ok(Some(_)) = reader.next_event() {}
    }
    if let Ok(mut reader) = Reader::starting_at(Cursor::new(bytes), 1 << 33) {
        while let Ok(Some(_)) = reader.next_event() {}
    }
});
