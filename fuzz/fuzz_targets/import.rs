//! Reads any bytes as perf's or trace-cmd's file: no panic, no unbounded memory. Run with `cargo +nightly
//! fuzz run import`.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use spry_import::Import;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut import) = Import::open(Cursor::new(bytes)) {
        while let Ok(Some(_)) = import.next_event() {}
    }
});
