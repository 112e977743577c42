//! Reads any bytes as a trace of Spry's, perf's or trace-cmd's, and runs every analysis over its events: no
//! panic, no overflow, no unbounded memory. Run with `cargo +nightly fuzz run analyse`.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use spry_analysis::{Engine, Options, Selection, TraceTotals};
use spry_import::Import;
use spry_trace::{Header, Reader};

fn engine(header: &Header) -> Option<Engine> {
    Engine::new(header, Selection::default(), Options::default()).ok()
}

fn finish(engine: Engine, bytes: &[u8], end_ns: u64) {
    let bytes = bytes.len() as u64;
    engine.finish(TraceTotals { bytes, end_ns: Some(end_ns), ..TraceTotals::default() });
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut import) = Import::open(Cursor::new(bytes)) {
        let Some(mut engine) = engine(import.header()) else { return };
        while let Ok(Some(stamped)) = import.next_event() {
            engine.push(stamped);
        }
        finish(engine, bytes, import.totals().end_ns);
    } else if let Ok(mut reader) = Reader::new(bytes) {
        let Some(mut engine) = engine(reader.header()) else { return };
        while let Ok(Some(stamped)) = reader.next_event() {
            engine.push(stamped);
        }
        finish(engine, bytes, reader.totals().end_ns);
    }
});
